package conformance

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
)

// shardEndRules are about what is owed at the end of a shard: design, rule 6.
func shardEndRules() []rule[makeFleet] {
	return []rule[makeFleet]{
		fleetRule("R6_end-in-order", "leases for the children, then the children on the parent's row, then its end", endInOrder),
		fleetRule("R6_each-step-again", "each step at the end of a shard may fail, or lose its answer, and is done again", endAgain),
		fleetRule("R6_crash-before-the-end", "a worker that is cut off just before it stores the end leaves nothing undone, and nothing twice in the table", endCrash),
		fleetRule("R6_G20_end-is-stored", "the end of a shard is stored behind a checkpoint of its last record, and for an empty shard too", endStored),
		fleetRule("R5_R6_G7_finished-rows", "a finished row goes only when its children may do without it; after that they move on, and nothing is read again", finishedRows),
	}
}

func endInOrder(f *fleet) {
	need[Splitter](f.checker, f.h, "Split")
	parent := f.first().ID
	a := f.start("a")
	f.fill(3, parent)
	f.delivered(f.long())
	var looked atomic.Bool
	a.store.breaks(linkFault{kind: callSeen, match: func(c linkCall) bool { return ends(c) && c.seen.Key.Shard == parent }, before: func(c linkCall) {
		looked.Store(true)
		row, err := f.watch.Get(f.ctx, c.seen.Key)
		if err != nil {
			f.errorf("Get(%s): %v", c.seen.Key, err)
			return
		}
		if len(row.Children) != 2 {
			f.errorf("the end of shard %s is about to be stored, and its row names the children %v", parent, row.Children)
		}
		for _, id := range row.Children {
			if _, err := f.watch.Get(f.ctx, core.LeaseKey{Stream: f.info.ID, Shard: id}); err != nil {
				f.errorf("the end of shard %s is about to be stored, and the lease of child %s: %v", parent, id, err)
			}
		}
	}})
	children := names(f.split(parent))
	f.fill(2, children...)
	f.delivered(f.long())
	if !looked.Load() {
		f.errorf("the end of shard %s was never stored", parent)
	}
}

func endAgain(f *fleet) {
	need[Splitter](f.checker, f.h, "Split")
	parent := f.first().ID
	a := f.start("a")
	f.fill(3, parent)
	f.delivered(f.long())
	for _, is := range []func(linkCall) bool{isOp(opCreate), addsChildren, ends} {
		a.store.breaks(linkFault{kind: callFails, match: is, times: 1})
		a.store.breaks(linkFault{kind: answerLost, match: is, times: 1})
	}
	children := names(f.split(parent))
	f.fill(2, children...)
	f.delivered(f.long())
	f.await("the end is stored", f.long(), func() bool { l, ok := f.row(parent); return !ok || l.Ended() })
	f.calm("no lease was lost")
	f.alive(a)
}

func endCrash(f *fleet) {
	need[Splitter](f.checker, f.h, "Split")
	shards := f.shards(1)
	a := f.start("a")
	f.fill(3, shards...)
	f.delivered(f.long())
	parent := shards[0]
	var once sync.Once
	a.store.breaks(linkFault{kind: callSeen, match: ends, before: func(linkCall) { once.Do(func() { a.store.cut() }) }})
	b := f.start("b")
	children := names(f.split(parent))
	f.fill(2, children...)
	f.delivered(f.long())
	f.await("the end is stored", f.long(), func() bool { l, ok := f.row(parent); return !ok || l.Ended() })
	seen := map[core.ShardID]int{}
	for _, l := range f.rows() {
		seen[l.Key.Shard]++
	}
	for id, n := range seen {
		if n > 1 {
			f.errorf("shard %s has %d leases", id, n)
		}
	}
	f.alive(b)
}

func endStored(f *fleet) {
	need[Splitter](f.checker, f.h, "Split")
	parent := f.first().ID
	f.onBatch(func(ctx context.Context, _ *member, b *core.Batch) error { return b.Checkpoint(ctx) })
	a := f.start("a", func(_ *member, c *worker.Config) { c.Checkpoints = worker.Manual })
	f.fill(4, parent)
	f.delivered(f.long())
	f.await("the last record is checkpointed", f.long(), func() bool {
		l, ok := f.row(parent)
		n, known := f.ledger.at(parent, l.Checkpoint)
		return ok && known && n == 4
	})
	ended := func(id core.ShardID) func() bool {
		var was bool // its row may be cleaned up
		return func() bool {
			l, ok := f.row(id)
			was = was || ok && l.Ended()
			return was
		}
	}
	done := ended(parent)
	children := names(f.split(parent))
	f.await("the end of the shard is stored", f.long(), done)
	empty := ended(children[0])
	f.split(children[0])
	f.await("the end of an empty shard is stored", f.long(), empty)
	f.alive(a)
}

func finishedRows(f *fleet) {
	need[Splitter](f.checker, f.h, "Split")
	parent := f.first().ID
	a := f.start("a")
	f.fill(3, parent)
	f.delivered(f.long())
	children := names(f.split(parent))
	f.await("the finished row is deleted", f.long(), func() bool {
		_, ok := f.row(parent)
		return !ok && slices.Contains(f.of("a"), children[0])
	})
	a.stop()
	f.stopped(a)
	b := f.start("b")
	f.fill(2, children...)
	f.delivered(f.long())
	f.during(2*f.d, "what was read to its end gets no lease again", func() bool { l, ok := f.row(parent); return !ok || l.Ended() })
	f.calm("every lease was given up cleanly")
	f.alive(b)
}
