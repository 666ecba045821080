package conformance

import (
	"context"
	"errors"
	"slices"

	"github.com/shardwarden/shardwarden/core"
)

// givenRules are about rows that name a worker which did not take them: design, rules 4 and 9.
func givenRules() []rule[makeFleet] {
	return []rule[makeFleet]{
		fleetRule("R4_R9_given-lease-is-accepted-first", "a lease that a row gives to a worker is found, and written to, before its first record is read", given),
		fleetRule("R4_begins-at-the-row-after-the-take", "a new owner begins where the row stands after its take, whatever an older listing said", staleTake),
		fleetRule("R9_G10_restart-under-one-id", "a worker that comes back under the id it had waits for its former run to expire, and then reads", restarted),
		fleetRule("G9_one-consumer-in-a-process", "a lease that asks for its own owner, or is deleted and made anew while a handler runs, gets no second handler", oneConsumer),
	}
}

func given(f *fleet) {
	shards := f.shards(1)
	a := f.start("a")
	f.fill(2, shards...)
	f.delivered(f.long())
	a.stop()
	f.stopped(a)
	for _, id := range shards {
		l, ok := f.row(id)
		if !ok {
			f.fatalf("shard %s has no lease", id)
		}
		w := core.HandOver("b")
		if _, err := f.watch.Update(f.ctx, l, w.Same, w.Set); err != nil {
			f.fatalf("give shard %s to a worker: %v", id, err)
		}
	}
	f.fill(2, shards...)
	b := f.start("b")
	b.store.breaks(linkFault{kind: answerSlow, match: accepts, delay: f.d / 10})
	if took := f.delivered(f.long()); took > f.d/2+f.d/4 {
		f.errorf("what was given was read after %v; it need not expire first", took)
	}
	for _, id := range shards {
		first, _ := f.ledger.to(id, b)
		all := b.store.writes(id, isWrite)
		if len(all) == 0 || all[0].set.Run == "" || all[0].end.After(first) {
			f.errorf("shard %s was read before its new owner had written to the row", id)
		}
	}
	f.calm("leases were given up cleanly")
}

func staleTake(f *fleet) {
	shards := f.shards(1)
	a := f.start("a")
	f.fill(2, shards...)
	f.delivered(f.long())
	a.stop()
	f.stopped(a)
	b := f.start("b")
	f.await("another has it", f.long(), func() bool { return f.owners()["b"] == len(shards) })
	b.stop()
	f.stopped(b)
	c := f.start("c")
	f.await("another has it", f.long(), func() bool { return f.owners()["c"] == len(shards) })
	heal := c.store.breaks(linkFault{kind: listStale})
	f.fill(3, shards...)
	f.delivered(f.long())
	f.wait(f.d / 2) // c stores how far it came while it sees its own rows as they were
	heal()
	c.stop()
	f.stopped(c)
	d := f.start("d")
	heal = d.store.breaks(linkFault{kind: listStale})
	f.wait(f.d / 2)
	heal()
	f.fill(1, shards...)
	f.delivered(f.long())
	f.calm("every lease was given up cleanly")
}

func restarted(f *fleet) {
	shards := f.shards(2)
	a := f.start("same")
	f.fill(2, shards...)
	f.delivered(f.long())
	a.store.cut() // the crash: of what it was, nothing reaches the table any more
	f.fill(2, shards...)
	b := f.start("same")
	stop := f.trickle(shards...)
	f.await("the worker that came back reads", 3*f.d, func() bool {
		return !slices.ContainsFunc(shards, func(id core.ShardID) bool { first, _ := f.ledger.to(id, b); return first.IsZero() })
	})
	stop()
	f.delivered(f.long())
	for _, id := range shards {
		_, last := f.ledger.to(id, a)
		if first, _ := f.ledger.to(id, b); !first.After(last) {
			f.errorf("shard %s was read by both runs of one id", id)
		}
	}
	f.alive(b)
}

func oneConsumer(f *fleet) {
	shard := f.first().ID
	g := f.gate()
	a := f.start("a")
	f.fill(1, shard)
	f.delivered(f.long())
	l, _ := f.row(shard)
	w := core.Ask("a")
	if _, err := f.watch.Update(f.ctx, l, w.Same, w.Set); err != nil && !errors.Is(err, core.ErrInvalid) { // a store may refuse such a row
		f.fatalf("ask a worker for itself: %v", err)
	}
	f.fill(2, shard)
	f.delivered(f.long())
	f.onBatch(func(_ context.Context, _ *member, b *core.Batch) error {
		if b.Shard == shard && len(b.Records) > 0 {
			g.wait()
		}
		return nil
	})
	f.fill(1, shard)
	f.await("the handler is busy", f.long(), func() bool { return g.in.Load() > 0 })
	l, _ = f.row(shard)
	if err := f.watch.Delete(f.ctx, l, 0); err != nil {
		f.fatalf("Delete: %v", err)
	}
	f.await("the lease is made anew", 2*f.long(), func() bool { _, ok := f.row(shard); return ok })
	f.during(2*f.d, "no second handler begins", func() bool { return g.in.Load() == 1 })
	f.ledger.forget(shard)
	g.pass()
	f.fill(1, shard)
	f.delivered(f.long())
	f.alive(a)
}
