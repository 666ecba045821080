package ots_test

import (
	"fmt"
	"testing"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/tablestore"
)

// A renewal with a checkpoint, the emulator included.
func BenchmarkRenew(b *testing.B) {
	_, st := serve(b, emulator.Config{})
	l := lease("s1")
	l.Owner, l.Run = "w", "w:1"
	l, err := st.Create(b.Context(), l)
	must(b, err)
	w := core.Renew(new(12.5))
	b.ReportAllocs()
	for b.Loop() {
		w.Set.Checkpoint = new(core.Position{Token: "it-1", Sub: uint64(l.Counter) % 7})
		if l, err = st.Update(b.Context(), l, w.Same, w.Set); err != nil {
			b.Fatal(err)
		}
	}
}

// A look at a table of 1,000 leases, the emulator included.
func BenchmarkLook(b *testing.B) {
	_, st := serve(b, emulator.Config{})
	for i := range 1000 {
		l := lease(core.ShardID(fmt.Sprintf("shard-%06d", i)))
		l.Owner, l.Run, l.Checkpoint, l.Ready = "w", "w:1", core.Position{Token: "it-1", Sub: 3}, true
		_, err := st.Create(b.Context(), l)
		must(b, err)
	}
	b.ReportAllocs()
	for b.Loop() {
		sight, err := st.Look(b.Context(), stream)
		if err != nil || len(sight.Leases) != 1000 {
			b.Fatalf("%d leases, %v", len(sight.Leases), err)
		}
	}
}
