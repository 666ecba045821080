package memory_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/leasestore/memory"
)

// One worker takes a lease; the answer to its first renewal is lost on the way, so it reads the row to know what became of it.
func Example() {
	ctx := context.Background()
	table := memory.New()
	a := table.Handle("worker a")
	key := core.LeaseKey{Stream: "orders", Shard: "1"}

	lease, _ := table.Create(ctx, core.Lease{Key: key, Checkpoint: core.FromHorizon})
	take := core.Take(&lease, "a", core.NewRun("a", "1"))
	lease, _ = a.Update(ctx, lease, take.Same, take.Set)
	fmt.Println("taken by", lease.Owner, "at counter", lease.Counter)

	a.Break(memory.Fault{Kind: memory.Lose, Ops: []memory.Op{memory.Update}, Times: 1})
	renew := core.Renew(nil)
	_, err := a.Update(ctx, lease, renew.Same, renew.Set)
	fmt.Println("answer lost:", errors.Is(err, core.ErrUnavailable))
	lease, _ = a.Get(ctx, key)
	fmt.Println("but renewed: counter", lease.Counter)
	// Output:
	// taken by a at counter 1
	// answer lost: true
	// but renewed: counter 2
}

func ExampleStore_OnWrite() {
	ctx := context.Background()
	table := memory.New()
	table.OnWrite(func(before, after *core.Lease, by string) {
		if before == nil {
			fmt.Printf("%s made shard %s\n", by, after.Key.Shard)
		}
	})
	_, _ = table.Handle("worker a").Create(ctx, core.Lease{Key: core.LeaseKey{Stream: "orders", Shard: "1"}, Checkpoint: core.FromHorizon})
	// Output: worker a made shard 1
}
