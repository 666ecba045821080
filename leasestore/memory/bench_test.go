package memory_test

import (
	"fmt"
	"testing"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/leasestore/memory"
)

func tableOf(b *testing.B, n int) (*memory.Store, []core.Lease) {
	s := memory.New()
	rows := make([]core.Lease, n)
	for i := range rows {
		l, err := s.Create(b.Context(), core.Lease{Key: key(fmt.Sprintf("shardId-%012d", i)), Owner: "A", Checkpoint: core.FromHorizon, Range: new(core.HashRange)})
		if err != nil {
			b.Fatal(err)
		}
		rows[i] = l
	}
	return s, rows
}

// A renewal in a table of 10,000 leases.
func BenchmarkUpdate(b *testing.B) {
	s, rows := tableOf(b, 10_000)
	w := core.Renew(nil)
	b.ReportAllocs()
	for i := 0; b.Loop(); i = (i + 1) % len(rows) {
		var err error
		if rows[i], err = s.Update(b.Context(), rows[i], w.Same, w.Set); err != nil {
			b.Fatal(err)
		}
	}
}

// A look at a table of 10,000 leases.
func BenchmarkLook(b *testing.B) {
	s, _ := tableOf(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		if sight, err := s.Look(b.Context()); err != nil || len(sight.Leases) != 10_000 {
			b.Fatal(err)
		}
	}
}
