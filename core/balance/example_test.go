package balance_test

import (
	"fmt"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/balance"
)

// A third worker joins two that hold four leases each, and a fourth has just died with one.
func Example() {
	key := func(i int) core.LeaseKey {
		return core.LeaseKey{Stream: "orders", Shard: core.ShardID(fmt.Sprintf("shard-%d", i))}
	}
	in := balance.Input{Workers: []balance.Worker{{ID: "ann"}, {ID: "ben"}, {ID: "cleo"}}}
	for i := range 8 {
		owner := core.WorkerID("ann")
		if i%2 == 1 {
			owner = "ben"
		}
		in.Leases = append(in.Leases, balance.Lease{Key: key(i), Owner: owner, Movable: true})
	}
	in.Leases = append(in.Leases, balance.Lease{Key: key(8), Owner: "dave", Free: true})

	// Every worker makes the same plan and carries out its own part.
	mine := balance.Make(in).For("cleo")
	fmt.Println("takes", len(mine.Take), "from", mine.Take[0].From)
	fmt.Println("asks for", len(mine.Ask))
	fmt.Println("ben's part:", len(balance.Make(in).For("ben").Take))
	// Output:
	// takes 1 from dave
	// asks for 2
	// ben's part: 0
}

// A worker that stops hands its leases to those that hold the least.
func ExampleSpread() {
	in := balance.Input{Workers: []balance.Worker{{ID: "ann"}, {ID: "ben"}, {ID: "cleo", Cap: 1}}}
	var mine []core.LeaseKey
	for _, id := range []core.ShardID{"1", "2", "3", "4"} {
		k := core.LeaseKey{Stream: "orders", Shard: id}
		mine = append(mine, k)
		in.Leases = append(in.Leases, balance.Lease{Key: k, Owner: "ann"})
	}
	to := map[core.WorkerID]int{}
	for _, w := range balance.Spread(in, "ann", mine) {
		to[w]++
	}
	fmt.Println("ben", to["ben"], "cleo", to["cleo"])
	// Output: ben 3 cleo 1
}
