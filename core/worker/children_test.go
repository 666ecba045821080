package worker_test

import (
	"testing"
	"testing/synctest"
	"time"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
)

// A listing that is older than the end of a shard tells nothing about its children: END waits for one that knows them (rule 6).
func TestChildrenFromAStaleListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, nil)
		early := false
		f.table.OnWrite(func(before, after *core.Lease, _ string) {
			if before != nil && after != nil && after.Ended() && len(after.Children) != 2 {
				early = true
			}
		})
		a := f.start("a")
		f.await("held", time.Minute, func() bool { return f.owners()["a"] == 1 })
		time.Sleep(time.Minute)
		heal := a.src.Break(source.Fault{Kind: source.Stale, Ops: []source.Op{source.Shards}, Delay: 30 * time.Second})
		a.src.Break(source.Fault{Kind: source.Orphans}) // the last page names no children
		time.Sleep(3 * time.Second)                     // the read under way does not know that yet
		f.split(f.open()[0])
		f.put(20, 5)
		time.Sleep(10 * time.Second)
		heal()
		f.await("delivered", time.Minute, f.allDelivered)
		if early {
			t.Error("END was stored on the word of a listing from before the split")
		}
		f.check()
	})
}
