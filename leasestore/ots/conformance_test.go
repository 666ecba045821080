package ots_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/shardwarden/shardwarden/conformance"
	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/tablestore"
	"github.com/shardwarden/shardwarden/leasestore/ots"
)

// bench drives a status table of the emulator for the conformance suite.
type bench struct {
	*service
	opts []ots.Option
}

func (b *bench) Store() core.LeaseStore { return b.store(b.opts...) }

// PageBytes is what the emulator is told to give at a time, so that the suite need not make 4 MiB of rows.
func (b *bench) PageBytes() int { return pageBytes }

const pageBytes = 1 << 20

func (b *bench) PutAttribute(_ context.Context, key core.LeaseKey, value string) error {
	return b.set(key, ots.Columns{"GoExtra": value})
}

func (b *bench) Attribute(_ context.Context, key core.LeaseKey) (string, error) {
	row, err := b.row(key)
	text, _ := row["GoExtra"].(string)
	return text, err
}

func (b *bench) Spoil(_ context.Context, key core.LeaseKey) error {
	return b.set(key, ots.Columns{"LeaseCounter": "seven"})
}

// PutStranger puts rows of DataX.
func (b *bench) PutStranger(context.Context) error {
	return errors.Join(
		b.put(rowKey("123456789012:conformance:1700000000", "CheckpointForDataxReader", "   1700000000000\tshard"), ots.Columns{"Checkpoint": "it", "Version": int64(1), "SkipCount": int64(0), "SendRecordCount": int64(9)}),
		b.put(rowKey("123456789012:conformance:1700000000", "ShardTimeCheckpointForDataxReader", "shard\t   1700000000000"), ots.Columns{"Checkpoint": "it"}),
	)
}

func (b *bench) Break(_ context.Context, f conformance.Fault) (func(), error) {
	kinds := map[conformance.Fault][]emulator.Fault{
		conformance.Unavailable: {{Kind: emulator.DropRequest}},
		conformance.Throttled:   {{Kind: emulator.Fail, Code: "OTSServerBusy"}},
		conformance.Denied:      {{Kind: emulator.Fail, Code: "OTSNoPermissionAccess"}},
		conformance.PartList:    {{Kind: emulator.PartialPage, Operation: "GetRange", Records: 40}},
		conformance.LostAnswer: {
			{Kind: emulator.DropAnswer, Operation: "PutRow"}, {Kind: emulator.DropAnswer, Operation: "UpdateRow"}, {Kind: emulator.DropAnswer, Operation: "DeleteRow"},
			{Kind: emulator.DropAnswer, Operation: "BatchWriteRow"},
		},
	}
	for _, k := range kinds[f] {
		if err := b.SetFault(k); err != nil {
			return nil, err
		}
	}
	shut := make(chan struct{})
	b.gate.mu.Lock()
	defer b.gate.mu.Unlock()
	switch {
	case f == conformance.Silent:
		b.gate.shut = shut
	case f == conformance.PartList:
		b.gate.ranges = 1
	case kinds[f] == nil:
		return nil, fmt.Errorf("fault %q: %w", f, errors.ErrUnsupported)
	}
	return func() {
		b.ClearFaults()
		b.gate.mu.Lock()
		b.gate.shut, b.gate.ranges = nil, -1
		b.gate.mu.Unlock()
		close(shut)
	}, nil
}

func newBench(opts ...ots.Option) conformance.MakeStore {
	return func(context.Context) (conformance.StoreHarness, error) {
		return &bench{newService(emulator.Config{PageBytes: pageBytes, PageRows: 100}), opts}, nil
	}
}

func TestConformance(t *testing.T) {
	conformance.TestStore(t, newBench(), conformance.FakeTime())
}
