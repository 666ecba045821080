package dynamo

import (
	"context"
	"io/fs"

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
