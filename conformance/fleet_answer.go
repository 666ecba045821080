package conformance

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
)

// answerRules are about writes whose fate is not known, and about errors that pass: design, rule 3.
func answerRules() []rule[makeFleet] {
	return []rule[makeFleet]{
		fleetRule("R3_lost-answers-lose-no-lease", "a write that went through and whose answer was lost costs neither the lease nor a record", lostAnswers),
		fleetRule("R3_late-writes-lose-nothing", "a write that arrives after it was given up for lost, even after the worker's next, harms nothing", lateWrites),
		fleetRule("R3_G11_G23_errors-that-pass", "errors of the table for less than a lease duration, wrapped as adapters wrap them, cost no lease and end no worker", passingErrors),
		fleetRule("G23_errors-of-the-adapters", "the errors of the adapters themselves, while their services are broken, end no worker and lose nothing", adapterErrors),
		fleetRule("R3_one-take-wins", "of two workers that take a free lease at the same time one gets it", oneTakeWins),
		fleetRule("R3_twins-of-one-id", "of two workers with one id neither ends, and no shard is read by both", twins),
		fleetRule("presence-is-optional", "a fleet spreads leases and loses nothing over a store that has the six methods and no more", plainStore),
	}
}

func lostAnswers(f *fleet) {
	shards := f.shards(2)
	a := f.start("a")
	f.fill(2, shards...)
	f.delivered(f.long())
	a.store.breaks(linkFault{kind: answerLost, match: isOp(opUpdate), every: 3})
	stop := f.trickle(shards...)
	f.during(5*f.d, "the worker keeps its leases", func() bool { return f.owners()["a"] == len(shards) })
	stop()
	f.delivered(f.long())
	f.calm("answers were lost, and no lease")
	if n := f.ledger.moves(); n != 0 {
		f.errorf("%d leases were taken anew", n)
	}
	f.alive(a)
}

func lateWrites(f *fleet) {
	shards := f.shards(2)
	a, b := f.start("a"), f.start("b")
	f.even(len(shards), "a", "b")
	heal := a.store.breaks(linkFault{kind: callLate, match: isOp(opUpdate), every: 3, delay: f.d / 4})
	stop := f.trickle(shards...)
	f.wait(4 * f.d)
	heal()
	stop()
	f.delivered(f.long())
	f.even(len(shards), "a", "b")
	f.alive(a, b)
}

func passingErrors(f *fleet) {
	shards := f.shards(2)
	a, b := f.start("a"), f.start("b")
	f.even(len(shards), "a", "b")
	f.fill(2, shards...)
	f.delivered(f.long())
	moves := f.ledger.moves()
	stop := f.trickle(shards...)
	for _, kind := range []error{core.ErrUnavailable, core.ErrThrottled} {
		heal := a.store.breaks(linkFault{kind: callFails, err: kind})
		f.wait(f.d / 4)
		heal()
		f.wait(f.d)
	}
	stop()
	f.delivered(f.long())
	f.calm("errors of a quarter of a lease duration cost nothing")
	if n := f.ledger.moves() - moves; n != 0 {
		f.errorf("%d leases moved over errors of a quarter of a lease duration", n)
	}
	f.alive(a, b)
}

func adapterErrors(f *fleet) {
	var breakers []Breaker
	for _, h := range []any{f.table, f.h} {
		if b, ok := h.(Breaker); ok {
			breakers = append(breakers, b)
		}
	}
	if len(breakers) == 0 {
		f.skip("verb Break")
	}
	shards := f.shards(1)
	a := f.start("a")
	f.fill(2, shards...)
	f.delivered(f.long())
	broke := false
	for _, x := range breakers {
		for _, kind := range []Fault{Unavailable, Throttled, Silent, PartList, LostAnswer} {
			heal, err := x.Break(f.ctx, kind)
			if errors.Is(err, errors.ErrUnsupported) {
				continue
			}
			if err != nil {
				f.fatalf("Break(%s): %v", kind, err)
			}
			broke = true
			f.wait(f.d / 4)
			heal()
			f.fill(2, shards...)
			f.delivered(f.long())
		}
	}
	if !broke {
		f.skip("verb Break, with any fault that passes")
	}
	f.alive(a)
}

func oneTakeWins(f *fleet) {
	shards := f.shards(2)
	a := f.start("a")
	f.fill(2, shards...)
	f.delivered(f.long())
	a.stop()
	f.stopped(a)
	f.fill(3, shards...)
	// Just before the take of b arrives, another takes: c, which is never heard of again.
	id := shards[0]
	var at atomic.Pointer[time.Time]
	b := f.start("b", func(m *member, _ *worker.Config) {
		m.store.breaks(linkFault{
			kind: callSeen, times: 1, match: func(c linkCall) bool { return takes("b")(c) && c.seen.Key.Shard == id },
			before: func(c linkCall) {
				row, err := f.watch.Get(f.ctx, c.seen.Key)
				if err != nil {
					f.errorf("Get(%s): %v", c.seen.Key, err)
					return
				}
				w := core.Take(&row, "c", "c:1")
				if _, err := f.watch.Update(f.ctx, row, w.Same, w.Set); err != nil {
					f.errorf("take shard %s: %v", id, err)
				}
				at.Store(new(time.Now()))
			},
			after: func(c linkCall, row core.Lease, err error) {
				if !errors.Is(err, core.ErrConflict) {
					f.errorf("the second take of shard %s: %v, want ErrConflict", id, err)
				}
			},
		})
	})
	f.delivered(f.long())
	first, _ := f.ledger.to(id, b)
	if began := at.Load(); began == nil {
		f.errorf("shard %s was never taken", id)
	} else if d := first.Sub(*began); d < f.d {
		f.errorf("shard %s was read %v after another took it; its lease lasts %v", id, d, f.d)
	}
	f.calm("every lease was given up cleanly, or never read")
	f.alive(b)
}

func twins(f *fleet) {
	shards := f.shards(2)
	a := f.start("twin")
	f.fill(2, shards...)
	f.delivered(f.long())
	b := f.start("twin")
	stop := f.trickle(shards...)
	f.wait(4 * f.d)
	stop()
	f.delivered(f.long())
	f.calm("a worker found a twin, and no lease moved")
	for _, id := range shards {
		if _, last := f.ledger.to(id, b); !last.IsZero() {
			f.errorf("shard %s is read by both twins", id)
		}
	}
	f.alive(a, b)
}

func plainStore(f *fleet) {
	shards := f.shards(2)
	plain := func(m *member, c *worker.Config) { c.Store = m.store.plain() }
	a := f.start("a", plain)
	f.fill(2, shards...)
	f.delivered(f.long())
	b := f.start("b", plain)
	f.even(len(shards), "a", "b") // nobody sees b before it owns something: it asks all the same
	f.fill(2, shards...)
	f.delivered(f.long())
	a.stop()
	f.stopped(a)
	f.await("the leases that were let go are taken", f.d, func() bool { return f.owners()["b"] == len(shards) })
	f.fill(2, shards...)
	f.delivered(f.long())
	f.calm("leases were let go by a worker that stopped")
	f.alive(b)
}
