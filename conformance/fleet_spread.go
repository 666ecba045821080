package conformance

import (
	"maps"

	"github.com/shardwarden/shardwarden/core"
)

// spreadRules are about who has how much.
func spreadRules() []rule[makeFleet] {
	return []rule[makeFleet]{
		fleetRule("G13_takes-all-there-is-at-once", "a worker alone has every lease a moment after it exists", rampUp),
		fleetRule("G16_even-and-then-still", "three workers come to an even spread in a few rounds, and then no lease moves", settled),
	}
}

func rampUp(f *fleet) {
	n := 8
	if f.fake {
		n = 16
	}
	shards := f.shards(n)
	f.start("a")
	f.await("every open shard has a lease", 2*f.long(), func() bool {
		n := 0
		for _, l := range f.rows() {
			if !l.Ended() {
				n++
			}
		}
		return n >= len(shards) && n == f.ownersSum()
	})
	f.await("the worker has them all", f.d/2, func() bool { return f.owners()["a"] == len(shards) })
	f.fill(1, shards...)
	f.delivered(f.long())
}

func (f *fleet) ownersSum() (n int) {
	for _, c := range f.owners() {
		n += c
	}
	return n
}

func settled(f *fleet) {
	shards := f.shards(7) // so that one has a lease more than the others
	f.start("a")
	f.await("one holds all", f.long(), func() bool { return f.owners()["a"] == len(shards) })
	f.start("b")
	f.start("c")
	f.even(len(shards), "a", "b", "c")
	who := func() map[core.LeaseKey]core.WorkerID {
		out := map[core.LeaseKey]core.WorkerID{}
		for _, l := range f.rows() {
			if !l.Ended() {
				out[l.Key] = l.Owner
			}
		}
		return out
	}
	before := who()
	f.during(4*f.d, "no lease moves", func() bool { return maps.Equal(before, who()) })
	f.fill(2, shards...)
	f.delivered(f.long())
	f.calm("leases were handed over")
}
