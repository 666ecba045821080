package conformance_test

import (
	"testing"
	"time"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/conformance"
	"github.com/shardwarden/shardwarden/core"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

func TestFleetInMemory(t *testing.T) {
	for name, c := range map[string]struct {
		source []source.Option
		store  []store.Option
	}{
		"whole": {nil, []store.Option{store.Pages(3)}},
		"bare": {
			[]source.Option{source.PageRecords(2), source.Strict(), source.Lacking(core.SourceLacks{HashRanges: true, ChildrenAtEnd: true, Lag: true})},
			[]store.Option{store.Pages(3), store.Shuffled(3), store.WithoutConflictRows(), store.WithoutReturnedRows(), store.WithoutStarts()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			conformance.TestFleet(t, makeMemoryStream(c.source...), makeMemoryTable(c.store...), conformance.FakeTime())
			t.Logf("in %v", time.Since(began))
		})
	}
}
