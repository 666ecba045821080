package memory_test

import (
	"context"
	"fmt"

	"github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
)

// A shard is split while it is read: its reader gets what it still holds, then its end and the shards that go on.
func Example() {
	ctx := context.Background()
	orders := memory.New("orders", 1)
	shard, _ := orders.Put("customer 7", []byte("tea"))
	orders.Put("customer 8", []byte("milk"))
	if _, _, err := orders.Split(shard); err != nil {
		fmt.Println(err)
	}

	r, err := orders.Open(ctx, core.Shard{ID: shard}, core.FromHorizon)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	page, err := r.Next(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, rec := range page.Records {
		fmt.Printf("%s: %s\n", rec.Key, rec.Data)
	}
	if page.End {
		for _, c := range page.Children {
			fmt.Println("goes on in", c.ID)
		}
	}
	// Output:
	// customer 7: tea
	// customer 8: milk
	// goes on in shardId-000000000001
	// goes on in shardId-000000000002
}

// Whatever goes wrong on the way, a reader stands where it stood.
func ExampleStream_Break() {
	ctx := context.Background()
	orders := memory.New("orders", 1)
	shard, _ := orders.Put("customer 7", []byte("tea"))
	orders.Break(memory.Fault{Ops: []memory.Op{memory.Next}, Err: core.ErrThrottled, Times: 1})

	r, _ := orders.Open(ctx, core.Shard{ID: shard}, core.FromHorizon)
	defer r.Close()
	_, err := r.Next(ctx)
	fmt.Println(err != nil)
	page, _ := r.Next(ctx)
	fmt.Printf("%s\n", page.Records[0].Data)
	// Output:
	// true
	// tea
}
