package conformance

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// readingRules are about readers that stall or fail: design, rule 11.
func readingRules() []rule[makeFleet] {
	return []rule[makeFleet]{
		fleetRule("R11_reading-that-stalls-begins-anew", "a read that never comes back is given up and begun anew", stalled),
		fleetRule("R11_stalled-shard-goes-to-another", "a shard whose reads never come back at one worker is given to another", stalledWorker),
		fleetRule("G21_page-that-cannot-be-read", "a page that cannot be decoded is asked for again, never left out", undecodable),
		fleetRule("G27_handler-slower-than-iterators", "a handler that takes longer than iterators live loses nothing and gets nothing twice", slowerThanIterators),
	}
}

func stalled(f *fleet) {
	shard := f.first().ID
	a := f.start("a")
	f.fill(2, shard)
	f.delivered(f.long())
	a.src.breaks(tapFault{kind: readHangs, next: true, shard: shard, times: 1})
	f.fill(1, shard) // a read under way may still bring this one
	f.wait(f.d / 2)
	f.fill(1, shard)
	f.delivered(f.long())
	f.calm("reading was begun anew")
	f.alive(a)
}

func stalledWorker(f *fleet) {
	shards := f.shards(2)
	all := map[core.WorkerID]*member{"a": f.start("a"), "b": f.start("b")}
	f.even(len(shards), "a", "b")
	f.fill(2, shards...)
	f.delivered(f.long())
	l, _ := f.row(shards[0])
	sick := all[l.Owner]
	sick.src.breaks(tapFault{kind: readHangs, next: true, open: true, shard: shards[0]})
	f.fill(1, shards[0])
	f.wait(f.d / 2)
	f.fill(1, shards[0])
	f.delivered(2 * f.long())
	f.calm("the shard was given up cleanly")
	f.alive(all["a"], all["b"])
}

func undecodable(f *fleet) {
	shard := f.first().ID
	a := f.start("a")
	f.fill(2, shard)
	f.delivered(f.long())
	heal := a.src.breaks(tapFault{kind: readFails, next: true, shard: shard, err: fmt.Errorf("a page is damaged: %w", core.ErrInvalid)})
	f.fill(5, shard)
	f.wait(f.d)
	heal()
	f.fill(2, shard)
	f.delivered(2 * f.long())
	f.calm("pages that failed were asked for again")
	f.alive(a)
}

// iteratorLife is longer than that of any iterator: Kinesis keeps them for 5 minutes.
const iteratorLife = 6 * time.Minute

func slowerThanIterators(f *fleet) {
	if !f.fake {
		need[Advancer](f.checker, f.h, "Advance")
	}
	shard := f.first().ID
	g := f.gate()
	var held atomic.Bool
	f.onBatch(func(_ context.Context, _ *member, b *core.Batch) error {
		if held.Load() && len(b.Records) > 0 {
			g.wait()
		}
		return nil
	})
	a := f.start("a")
	f.fill(2, shard)
	f.delivered(f.long())
	held.Store(true)
	f.fill(2, shard)
	f.await("the handler is busy", f.long(), func() bool { return g.in.Load() > 0 })
	f.fill(3, shard)
	f.advance(iteratorLife)
	f.fill(3, shard)
	g.pass()
	f.delivered(f.long())
	f.calm("a handler was slow, and that is all")
	f.alive(a)
}
