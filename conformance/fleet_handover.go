package conformance

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
)

// handOverRules are about leases that go from one live worker to another: design, rule 8.
func handOverRules() []rule[makeFleet] {
	return []rule[makeFleet]{
		fleetRule("R8_G17_hand-over-under-load", "a worker that joins gets its share without a record lost or given twice, and the shards that stay are read on without a gap", joining),
		fleetRule("R8_lost-hand-over", "a hand-over whose answer is lost, or that arrives late, is never followed by work under the lease", lostHandOver),
		fleetRule("R8_slow-handler-declines", "a handler that does not return in time keeps its lease: the one who asks is declined, and gets it later", declined),
		fleetRule("G2_ask-and-checkpoint-survive", "a request and a checkpoint that cross each other both stand", crossed),
		fleetRule("R8_G15_asker-dies", "a lease that was asked for by a worker that is cut off is read on", func(f *fleet) { brokenHandOver(f, asks, true, true) }),
		fleetRule("R8_G15_owner-dies-before-it-hands-over", "an owner that is cut off when it is about to hand over leaves a lease that is read on", func(f *fleet) { brokenHandOver(f, handsOver, false, false) }),
		fleetRule("R8_G15_owner-dies-after-it-handed-over", "an owner that is cut off before it heard that it handed over leaves a lease that is read on", func(f *fleet) { brokenHandOver(f, handsOver, false, true) }),
		fleetRule("R8_G15_new-owner-dies", "a new owner that is cut off before it accepts leaves a lease that is read on", func(f *fleet) { brokenHandOver(f, accepts, true, false) }),
	}
}

func joining(f *fleet) {
	shards := f.shards(4)
	a := f.start("a")
	f.fill(2, shards...)
	f.delivered(f.long())
	f.await("one holds all", f.long(), func() bool { return f.owners()["a"] == len(shards) })
	stop := f.trickle(shards...)
	f.ledger.measure()
	b := f.start("b")
	took := f.even(len(shards), "a", "b")
	if took > 2*f.d {
		f.errorf("%d shards are even %v after the worker joined, expected %v at most", len(shards), took, 2*f.d)
	}
	f.wait(f.d)
	for _, id := range f.of("a") {
		if gap := f.ledger.gap(id); gap > f.d {
			f.errorf("shard %s did not move, and was read with a gap of %v", id, gap)
		}
	}
	stop()
	f.delivered(f.long())
	f.calm("leases were handed over")
	f.alive(a, b)
}

func lostHandOver(f *fleet) {
	shards := f.shards(4)
	a := f.start("a")
	f.fill(2, shards...)
	f.delivered(f.long())
	f.await("one holds all", f.long(), func() bool { return f.owners()["a"] == len(shards) })
	a.store.breaks(linkFault{kind: callLate, match: handsOver, delay: f.d / 8, times: 1})
	a.store.breaks(linkFault{kind: answerLost, match: handsOver, times: 3})
	stop := f.trickle(shards...)
	b := f.start("b")
	f.even(len(shards), "a", "b")
	stop()
	f.delivered(f.long())
	f.calm("leases were handed over, and answers lost")
	f.alive(a, b)
}

func declined(f *fleet) {
	shards := f.shards(2)
	g := f.gate()
	var slow atomic.Bool
	f.onBatch(func(_ context.Context, m *member, b *core.Batch) error {
		if slow.Load() && m.ID() == "a" && len(b.Records) > 0 {
			g.wait()
		}
		return nil
	})
	a := f.start("a", func(_ *member, c *worker.Config) { c.HandlerStopTimeout = f.d / 2 })
	f.fill(1, shards...)
	f.delivered(f.long())
	f.await("one holds all", f.long(), func() bool { return f.owners()["a"] == len(shards) })
	slow.Store(true)
	f.fill(1, shards...)
	f.await("its handlers are busy", f.long(), func() bool { return int(g.in.Load()) == len(shards) })
	b := f.start("b")
	f.await("the one who asks is declined", f.long(), func() bool {
		return len(a.store.writes("", func(w linkWrite) bool { return declines(w.linkCall) })) > 0
	})
	f.during(f.d, "nobody takes from an owner that lives", func() bool { return f.owners()["a"] == len(shards) })
	slow.Store(false)
	g.pass()
	f.even(len(shards), "a", "b")
	f.fill(2, shards...)
	f.delivered(f.long())
	f.calm("leases were handed over, late")
	f.alive(a, b)
}

func crossed(f *fleet) {
	shards := f.shards(2)
	a := f.start("a")
	f.fill(2, shards...)
	f.delivered(f.long())
	f.await("one holds all", f.long(), func() bool { return f.owners()["a"] == len(shards) })
	stop := f.trickle(shards...)
	var looked atomic.Bool
	b := f.start("b", func(m *member, _ *worker.Config) {
		m.store.breaks(linkFault{
			kind: callSeen, match: asks,
			before: func(c linkCall) { // the owner stores a checkpoint between the reading of the row and the request
				for until := time.Now().Add(f.d / 8); time.Now().Before(until) && f.ctx.Err() == nil; {
					if l, err := f.watch.Get(f.ctx, c.seen.Key); err != nil || l.Counter != c.seen.Counter {
						return
					}
					f.pause(20)
				}
			},
			after: func(c linkCall, row core.Lease, err error) {
				if err != nil {
					return
				}
				if n, known := f.ledger.at(row.Key.Shard, row.Checkpoint); known {
					was, _ := f.ledger.at(row.Key.Shard, c.seen.Checkpoint)
					if n < was {
						f.errorf("shard %s: the request took the checkpoint back from record %d to %d", row.Key.Shard, was, n)
					}
				}
				if row.Next != "b" {
					f.errorf("shard %s: after the request the row is %s", row.Key.Shard, show(row))
				}
				looked.Store(true)
			},
		})
	})
	f.even(len(shards), "a", "b")
	stop()
	f.delivered(f.long())
	if !looked.Load() {
		f.errorf("no request went through")
	}
	f.calm("a lease was handed over")
	f.alive(a, b)
}

// brokenHandOver: at the step that is told by match, the worker that takes it is cut off, before or after the write arrived, and stays away.
func brokenHandOver(f *fleet, match func(linkCall) bool, joins, arrives bool) {
	shards := f.shards(2)
	a := f.start("a")
	f.fill(2, shards...)
	f.delivered(f.long())
	f.await("one holds all", f.long(), func() bool { return f.owners()["a"] == len(shards) })
	var once sync.Once
	var struck atomic.Bool
	arm := func(m *member) {
		cut := func() { once.Do(func() { struck.Store(true); m.store.cut() }) }
		x := linkFault{kind: callSeen, match: match, before: func(linkCall) { cut() }}
		if arrives {
			x.kind, x.before, x.after = answerLost, nil, func(linkCall, core.Lease, error) { cut() }
		}
		m.store.breaks(x)
	}
	if !joins {
		arm(a)
	}
	stop := f.trickle(shards...)
	b := f.start("b", func(m *member, _ *worker.Config) {
		if joins {
			arm(m)
		}
	})
	f.await("the hand-over comes to the step where it breaks", f.long(), struck.Load)
	f.wait(f.d / 4)
	stop()
	left := b
	if joins {
		left = a
	}
	f.await("the lease is with the worker that is left", 4*f.d, func() bool { return f.owners()[left.ID()] == len(shards) })
	f.fill(2, shards...)
	f.delivered(3 * f.d)
	f.await("no row asks for a worker that is gone", 3*f.d, func() bool {
		for _, l := range f.rows() {
			if !l.Ended() && l.Next != core.Nobody {
				return false
			}
		}
		return true
	})
	f.alive(left)
}
