package conformance

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
)

// livenessRules are about who may process, and until when: design, rules 1 and 2.
func livenessRules() []rule[makeFleet] {
	return []rule[makeFleet]{
		fleetRule("R1_G24_others-expire-by-own-clock", "another's lease is dead once its counter stood still for a lease duration of one's own clock, from the end of the listing that first showed it; wrong clocks change nothing", ownClock),
		fleetRule("R2_stops-before-others-take", "a worker cut off from the table hands out nothing once it did not renew for three quarters of a lease duration, before anybody takes", func(f *fleet) { silenced(f, linkFault{kind: callCut}) }),
		fleetRule("R2_G12_throttled-worker-stops-in-time", "a worker whose renewals are throttled stops reading before its leases expire, not after", func(f *fleet) { silenced(f, linkFault{kind: callFails, err: core.ErrThrottled}) }),
		fleetRule("R2_R3_unanswered-write-counts-from-its-start", "a write that is known to have gone through only because the row says so gives the right to process from the start of its first attempt", unanswered),
		fleetRule("R2_R13_G8_handler-may-block", "a handler that blocks for ten lease durations keeps its lease, gets no second consumer, and stops no other shard", blockedHandler),
		fleetRule("R2_outage-for-all", "when nobody reaches the table for a while, reading stops, and goes on afterwards", outage),
	}
}

// ownClock: b's clocks run 1 % fast, and its answers are slow. a's wall clock is an hour behind, b's an hour ahead.
func ownClock(f *fleet) {
	shards := f.shards(2)
	a := f.start("a", func(m *member, _ *worker.Config) { m.src.skew = -time.Hour })
	f.fill(3, shards...)
	f.delivered(f.long())
	fast := f.d * 99 / 100
	b := f.start("b", func(m *member, c *worker.Config) {
		m.src.skew = time.Hour
		c.LeaseDuration = fast
	})
	swift := b.store.breaks(linkFault{kind: answerSlow, match: isOp(opList), delay: f.d / 10})
	f.even(len(shards), "a", "b")
	cut := f.of("a")
	a.store.cut()
	stop := f.trickle(shards...)
	f.wait(f.d / 2)
	swift() // the last counters have been shown by slow answers; no later one hides from when b counts
	took := f.await("the leases of the worker that was cut off move", 3*f.d, func() bool { return f.owners()["b"] == len(shards) })
	stop()
	f.delivered(f.long())
	for _, id := range cut {
		all := b.store.writes(id, func(w linkWrite) bool { return takes("b")(w.linkCall) })
		if len(all) == 0 {
			f.errorf("shard %s moved without a take", id)
			continue
		}
		w := all[len(all)-1]
		shown := b.store.shownBefore(w)
		if age := w.start.Sub(shown); shown.IsZero() || age < fast {
			f.errorf("shard %s was taken %v after the end of the listing that first showed its counter %d; a lease lasts %v", id, age, w.seen.Counter, fast)
		}
	}
	if most := f.d*13/10 + f.d/2; took > most {
		f.errorf("the leases moved %v after the cut, expected %v at most", took, most)
	}
}

// silenced: what is wrong begins while records trickle in.
func silenced(f *fleet, x linkFault) {
	shards := f.shards(2)
	a := f.start("a")
	f.fill(2, shards...)
	f.delivered(f.long())
	b := f.start("b")
	f.even(len(shards), "a", "b")
	stop := f.trickle(shards...)
	f.await("records trickle", f.long(), func() bool { return f.ledger.missing() == "" || f.ledger.given(shards[0]) > 4 })
	mine := f.of("a")
	heal := a.store.breaks(x)
	f.await("the other worker reads its shards", 3*f.d, func() bool {
		for _, id := range mine {
			if first, _ := f.ledger.to(id, b); first.IsZero() {
				return false
			}
		}
		return true
	})
	// Its own clock: the right lasts from the start of the last write that went through. What is above that is what a busy machine may add.
	trust, slack := f.d*3/4, f.d/8
	for _, id := range mine {
		good := a.store.writes(id, isWrite)
		_, last := f.ledger.to(id, a)
		first, _ := f.ledger.to(id, b)
		if len(good) == 0 || last.IsZero() {
			f.errorf("shard %s was never renewed, or never read, by its first worker", id)
			continue
		}
		if d := last.Sub(good[len(good)-1].start); d > trust+slack {
			f.errorf("shard %s was handed out %v after the start of the last write that went through; the right lasts %v", id, d, trust)
		}
		if !first.After(last) {
			f.errorf("shard %s was read by the other worker %v before the first one stopped", id, last.Sub(first))
		}
	}
	heal()
	stop()
	f.delivered(f.long())
	f.alive(a, b)
}

// unanswered: the answer of a renewal is lost after a while; the next attempt finds that it went through; then nothing arrives any more.
func unanswered(f *fleet) {
	shard := f.first().ID
	a := f.start("a")
	f.fill(2, shard)
	f.delivered(f.long())
	b := f.start("b")
	stop := f.trickle(shard)
	bumps := func(c linkCall) bool { return c.op == opUpdate && c.set.Bump && c.seen.Key.Shard == shard }
	var sent atomic.Pointer[time.Time]
	var known atomic.Bool
	a.store.breaks(linkFault{kind: answerLost, delay: f.d / 8, times: 1, match: bumps, before: func(linkCall) { sent.Store(new(time.Now())) }})
	a.store.breaks(linkFault{kind: callSeen, match: bumps, after: func(_ linkCall, _ core.Lease, err error) {
		if errors.Is(err, core.ErrConflict) && known.CompareAndSwap(false, true) {
			a.store.breaks(linkFault{kind: callCut, match: func(c linkCall) bool { return c.op != opGet }}) // a store may give no row with a conflict
		}
	}})
	f.await("the other worker reads the shard", 4*f.d, func() bool { first, _ := f.ledger.to(shard, b); return !first.IsZero() })
	stop()
	if !known.Load() {
		f.fatalf("no attempt after the lost answer was refused")
	}
	slack := f.d / 20
	if !f.fake {
		slack = f.d / 8 // what a busy machine may add
	}
	_, last := f.ledger.to(shard, a)
	if d, trust := last.Sub(*sent.Load()), f.d*3/4; d > trust+slack {
		f.errorf("shard %s was handed out %v after the start of the write that renewed it last; the right lasts %v", shard, d, trust)
	}
	f.delivered(f.long())
	f.alive(a, b)
}

func blockedHandler(f *fleet) {
	shards := f.shards(2)
	g := f.gate()
	f.onBatch(func(_ context.Context, _ *member, b *core.Batch) error {
		if b.Shard == shards[0] && len(b.Records) > 0 {
			g.wait()
		}
		return nil
	})
	a, b := f.start("a"), f.start("b")
	f.even(len(shards), "a", "b")
	stop := f.trickle(shards...)
	f.await("the handler blocks", f.long(), func() bool { return g.in.Load() > 0 })
	before, _ := f.row(shards[0])
	f.ledger.measure()
	f.during(10*f.d, "the lease of the shard whose handler blocks stays where it is", func() bool {
		l, ok := f.row(shards[0])
		return ok && l.Owner == before.Owner && l.Run == before.Run
	})
	if gap := f.ledger.gap(shards[1]); gap > f.d {
		f.errorf("shard %s, whose handler does not block, was read with a gap of %v", shards[1], gap)
	}
	stop()
	g.pass()
	f.delivered(f.long())
	f.calm("a handler was slow, and that is all")
	f.alive(a, b)
}

func outage(f *fleet) {
	shards := f.shards(2)
	a, b := f.start("a"), f.start("b")
	f.even(len(shards), "a", "b")
	f.fill(3, shards...)
	f.delivered(f.long())
	heals := []func(){a.store.cut(), b.store.cut()}
	f.wait(f.d * 5 / 2)
	f.fill(3, shards...)
	f.wait(f.d / 4)
	if f.ledger.missing() == "" {
		f.errorf("records were handed out though no lease has been renewed for %v", f.d*5/2)
	}
	for _, heal := range heals {
		heal()
	}
	f.delivered(2 * f.d)
	f.alive(a, b)
}
