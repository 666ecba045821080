package dynamo

import (
	"context"
	"io/fs"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/internal/cpuload"
)

// For tests from outside.
var (
	DecodeLease = func(row Attributes) (core.Lease, error) { return decodeLease(row, false) }
	EncodeLease = encodeLease
	KindOf      = kindOf
)

// Measure lets a store measure another machine.
func Measure(s *Store, machine fs.FS) { s.meter = cpuload.NewOf(machine) }

// ScanTable is all rows of a table.
func (s *Store) ScanTable(ctx context.Context, table string) ([]Attributes, error) {
	return s.scanTable(ctx, table)
}

// ReadAsAnything reads a row as each kind there is.
func ReadAsAnything(row Attributes) (core.Lock, error) {
	_, _ = decodeLease(row, true)
	for _, key := range []string{attrKey, attrMetricKey} {
		workerMetrics("t", row, key)
	}
	m := newMarks()
	m.lease(row)
	changes(keyVersion, attrVersion, row)
	f := findings{coordinator: present, side: coordinatorRows{keyVersion: row, keyTables: row, keyLeader: row}, marks: m}
	for k := Native; k <= KCL3Single; k++ {
		_, _ = f.judge(k, "t", kcl3)
	}
	(&state{keyAttr: attrKey, key: keyVersion, attr: attrVersion, seen: row}).next(string(version2), time.Unix(1, 0))
	return decodeLock(row)
}
