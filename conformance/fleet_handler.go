package conformance

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/shardwarden/shardwarden/core"
)

// handlerRules are about user code that fails: design, rule 13.
func handlerRules() []rule[makeFleet] {
	return []rule[makeFleet]{
		fleetRule("R13_G25_panic-stays-in-its-shard", "a handler that panics or fails holds its own shard, which is tried again until it goes through, and no other", panics),
	}
}

func panics(f *fleet) {
	shards := f.shards(2)
	sick := shards[0]
	var calls atomic.Int32
	f.onBatch(func(_ context.Context, _ *member, b *core.Batch) error {
		if b.Shard != sick || len(b.Records) == 0 {
			return nil
		}
		switch n := calls.Add(1); {
		case n > 6:
			return nil
		case n%2 == 0:
			return errors.New("the sink is down")
		}
		panic("a handler that is wrong")
	})
	a := f.start("a")
	f.await("held", f.long(), func() bool { return f.owners()["a"] == len(shards) })
	f.fill(1, shards...)
	f.await("the other shard is read", f.long(), func() bool { done, put := f.ledger.done(shards[1]); return done == put })
	f.ledger.measure()
	stop := f.trickle(shards[1])
	f.fill(2, sick)
	f.wait(f.d)
	if gap := f.ledger.gap(shards[1]); gap > f.d/2+f.d/4 {
		f.errorf("shard %s, whose handler does well, was read with a gap of %v", shards[1], gap)
	}
	stop()
	f.delivered(f.long())
	if calls.Load() < 7 {
		f.errorf("the handler was called %d times; it went through the seventh time", calls.Load())
	}
	f.alive(a)
}
