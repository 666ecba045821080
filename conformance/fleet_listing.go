package conformance

import (
	"errors"
	"fmt"

	"github.com/shardwarden/shardwarden/core"
)

// listingRules are about listings that are not whole: design, rule 12.
func listingRules() []rule[makeFleet] {
	return []rule[makeFleet]{
		fleetRule("R12_part-of-the-table-is-an-error", "nothing is created, deleted, taken or given up on the word of a listing of the table that failed half-way", partOfTable),
		fleetRule("R12_part-of-the-shards-is-an-error", "nothing is deleted or left out on the word of a listing of shards that failed half-way", partOfShards),
		fleetRule("R12_G22_table-of-many-pages", "a fleet finds its leases in a table of several pages, and leaves those of other streams alone", manyPages),
	}
}

func partOfTable(f *fleet) {
	shards := f.shards(2)
	a := f.start("a")
	f.fill(2, shards...)
	f.delivered(f.long())
	f.await("the table is still", f.long(), func() bool { return f.owners()["a"] == len(shards) })
	kept := func(w linkWrite) bool { return w.op == opCreate || w.op == opDelete && !w.seen.Ended() }
	before := len(a.store.writes("", kept))
	heal := a.store.breaks(linkFault{kind: listPart})
	stop := f.trickle(shards...)
	f.during(3*f.d, "the leases stay", func() bool { return f.owners()["a"] == len(shards) })
	stop()
	heal()
	f.delivered(f.long())
	if n := len(a.store.writes("", kept)) - before; n != 0 {
		f.errorf("%d leases were created or deleted", n)
	}
	f.calm("listings failed, and that is all")
	f.alive(a)
}

func partOfShards(f *fleet) {
	need[Splitter](f.checker, f.h, "Split")
	shards := f.shards(2)
	a := f.start("a")
	f.fill(2, shards...)
	f.delivered(f.long())
	heal := a.src.breaks(tapFault{kind: shardsPart, shards: true})
	children := names(f.split(shards[0]))
	f.fill(2, children...)
	f.during(4*f.d, "no lease of a shard that is read goes", func() bool { return f.owners()["a"] >= len(shards)-1 })
	deleted := a.store.writes("", isOpWrite(opDelete))
	for _, w := range deleted {
		f.errorf("the lease of shard %s was deleted while no listing was whole", w.seen.Key.Shard)
	}
	heal()
	f.fill(1, append(children, shards[1])...)
	f.delivered(2 * f.long())
	f.calm("listings failed, and that is all")
	f.alive(a)
}

func isOpWrite(op linkOp) func(linkWrite) bool { return func(w linkWrite) bool { return w.op == op } }

func manyPages(f *fleet) {
	bytes := need[PageLimiter](f.checker, f.table, "PageBytes").PageBytes()
	const state = 32 << 10
	f.rows() // a store that holds one stream knows now which
	other := core.StreamID("123456789012:another:1700000000")
	n := bytes/min(state, bytes) + 3
	var keys []core.LeaseKey
	for i := range n {
		at := core.Position{Token: sequence(i)}
		l := core.Lease{
			Key: core.LeaseKey{Stream: other, Shard: core.ShardID(fmt.Sprintf("a-former-%012d", i))}, Checkpoint: at,
			Pending: &core.Pending{At: at, State: make([]byte, min(state, bytes))},
		}
		_, err := f.watch.Create(f.ctx, l)
		if errors.Is(err, core.ErrInvalid) { // it holds one stream: then these are shards of that, finished long ago
			other, l.Key.Stream, l.Checkpoint = f.info.ID, f.info.ID, core.AtShardEnd
			_, err = f.watch.Create(f.ctx, l)
		}
		if err != nil {
			f.fatalf("Create(%s): %v", show(l), err)
		}
		keys = append(keys, l.Key)
	}
	shards := f.shards(2)
	a, b := f.start("a"), f.start("b")
	f.even(len(shards), "a", "b")
	f.fill(3, shards...)
	f.delivered(f.long())
	f.calm("no lease was lost")
	for _, k := range keys {
		if k.Stream == f.info.ID {
			continue // these may be cleaned up
		}
		if l, err := f.watch.Get(f.ctx, k); err != nil || l.Counter != 0 || l.Owner != core.Nobody {
			f.errorf("a lease of another stream: %s, %v", show(l), err)
		}
	}
	f.alive(a, b)
}
