package lineage_test

import (
	"fmt"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/lineage"
)

// An application begins at LATEST on a stream that was split before. Then a shard is split again, is read to its end, and its children
// follow.
func Example() {
	start := core.Position{Anchor: core.Latest, Time: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	in := lineage.Input{
		Stream: "orders",
		Shards: []core.Shard{
			{ID: "p1", Closed: true},
			{ID: "p2", Parents: []core.ShardID{"p1"}},
			{ID: "p3", Parents: []core.ShardID{"p1"}},
		},
		Listed: true, Start: start, OpenAtStart: []core.ShardID{"p2", "p3"},
	}
	leases, _ := lineage.Create(in)
	for _, l := range leases {
		fmt.Println("create", l.Key.Shard, "at", l.Checkpoint)
	}

	// p2 is split while it is read. Its children wait for it, and begin at their beginning.
	in.Shards[1].Closed = true
	in.Shards = append(in.Shards, core.Shard{ID: "p4", Parents: []core.ShardID{"p2"}}, core.Shard{ID: "p5", Parents: []core.ShardID{"p2"}})
	in.Leases = leases
	in.Leases = append(in.Leases, lineage.ChildLeases(in, "p2", in.Shards[3:])...)
	ok, why := lineage.MayStart(in, "p4")
	fmt.Println("p4", ok, why)

	in.Leases[0].Checkpoint = core.AtShardEnd
	ok, _ = lineage.MayStart(in, "p4")
	fmt.Println("p4", ok, "at", in.Leases[2].Checkpoint)

	// p2's row stays until somebody has taken both.
	finished, _ := lineage.Delete(in, lineage.DeleteOptions{})
	fmt.Println("delete", finished)
	in.Leases[2].Ready, in.Leases[3].Ready = true, true
	finished, _ = lineage.Delete(in, lineage.DeleteOptions{})
	fmt.Println("delete", finished)
	// Output:
	// create p2 at LATEST
	// create p3 at LATEST
	// p4 false waits for p2 (not ended)
	// p4 true at TRIM_HORIZON
	// delete []
	// delete [orders/p2]
}
