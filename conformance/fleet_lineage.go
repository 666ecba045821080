package conformance

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/shardwarden/shardwarden/core"
)

// lineageRules are about which shard may begin: design, rule 5. That no child comes before its parents is judged by the ledger, everywhere.
func lineageRules() []rule[makeFleet] {
	return []rule[makeFleet]{
		fleetRule("R5_G4_merged-child-waits-for-both", "the child of a merge begins when both parents are finished, in whichever order", mergedChild),
		fleetRule("R5_G3_every-listing-order", "a tree of shards is read parents first from a cold start, whatever the order of listings and whichever of them fail", coldStart),
		fleetRule("R5_G3_parent-without-a-lease", "a parent that is listed and has no lease gets one and is read before its child: not seen is not finished", orphan),
		fleetRule("R5_split-before-a-latest-start", "the shards that are open at the start are read though their parents never are", splitBeforeLatest),
		fleetRule("G5_closed-shard-with-backlog", "what a shard held when it was split while nobody ran is read", backlog),
		fleetRule("G6_children-begin-at-their-beginning", "the children of a shard that is read from LATEST are read from their beginning", childrenFromBeginning),
	}
}

func mergedChild(f *fleet) {
	x, y := f.pair()
	f.start("a")
	f.start("b")
	for _, first := range []bool{true, false} {
		late, soon := x, y
		if !first {
			late, soon = y, x
		}
		g := f.gate()
		f.onBatch(func(_ context.Context, _ *member, b *core.Batch) error {
			if b.Shard == late && len(b.Records) > 0 {
				g.wait()
			}
			return nil
		})
		f.fill(2, x, y)
		child := f.merge(x, y)
		f.fill(2, child.ID)
		f.await("one parent is finished", f.long(), func() bool { l, ok := f.row(soon); return g.in.Load() > 0 && (!ok || l.Ended()) })
		f.during(2*f.d, "the child waits", func() bool { return f.ledger.given(child.ID) == 0 })
		g.pass()
		f.delivered(f.long())
		if first {
			if _, ok := f.h.(Splitter); !ok {
				return
			}
			c := f.split(child.ID)
			x, y = c[0].ID, c[1].ID
		}
	}
	f.calm("no lease was lost")
}

func coldStart(f *fleet) {
	need[Splitter](f.checker, f.h, "Split")
	root := f.first().ID
	f.fill(3, root)
	level := []core.ShardID{root}
	all := []core.ShardID{root}
	for range 2 {
		var next []core.ShardID
		for _, id := range level {
			c := names(f.split(id))
			f.fill(2, c...)
			next = append(next, c...)
		}
		level = next
		all = append(all, next...)
	}
	for i, id := range []string{"a", "b"} {
		m := f.start(id)
		m.src.mu.Lock()
		m.src.dice = rand.New(rand.NewPCG(uint64(i), 1))
		m.src.mu.Unlock()
		m.src.breaks(tapFault{kind: shardsPart, shards: true, times: 2})
	}
	f.delivered(2 * f.long())
	for _, id := range all {
		if f.ledger.given(id) == 0 {
			f.errorf("shard %s was not read", id)
		}
	}
	f.calm("no lease was lost")
}

func orphan(f *fleet) {
	parent := f.first()
	f.fill(3, parent.ID)
	children := f.split(parent.ID)
	f.fill(2, names(children)...)
	for _, c := range children {
		key := core.LeaseKey{Stream: f.info.ID, Shard: c.ID}
		if _, err := f.watch.Create(f.ctx, core.Lease{Key: key, Checkpoint: core.FromHorizon, Parents: c.Parents, Range: c.Range}); err != nil {
			f.fatalf("Create(%s): %v", key, err)
		}
	}
	f.start("a")
	f.delivered(f.long())
	if _, ok := f.row(parent.ID); !ok && f.ledger.given(parent.ID) == 0 {
		f.errorf("the parent got no lease")
	}
}

// latest lets the stream begin at its end, where source and store together can.
func (f *fleet) latest() {
	_, resolves := f.a.(core.Resolver)
	if h, ok := f.watch.(core.StartHolder); !resolves && (f.info.Lacks.StartTime || ok && !h.HoldsStart()) {
		f.skip("ability Resolver of the source: without it nothing begins at Latest here")
	}
	f.now()
	f.from = core.FromLatest
}

func splitBeforeLatest(f *fleet) {
	need[Splitter](f.checker, f.h, "Split")
	parent := f.first()
	old := f.stream.put(parent.ID, 2) // not of the ledger: nobody is to get them
	children := names(f.stream.split(parent.ID))
	f.latest()
	f.start("a")
	f.await("the open shards are held", f.long(), func() bool {
		mine := f.of("a")
		return slices.Contains(mine, children[0]) && slices.Contains(mine, children[1])
	})
	f.now()
	f.fill(2, children...)
	f.delivered(f.long())
	if _, ok := f.row(parent.ID); ok {
		f.errorf("shard %s ended before the start, and has a lease: its %d records are not wanted", parent.ID, len(old))
	}
}

func backlog(f *fleet) {
	shard := f.first().ID
	f.start("a")
	f.fill(2, shard)
	f.delivered(f.long())
	a := f.members[0]
	a.stop()
	f.stopped(a)
	f.fill(5, shard)
	f.fill(2, names(f.split(shard))...)
	f.start("b")
	f.delivered(f.long())
	f.calm("the first worker stopped cleanly")
}

func childrenFromBeginning(f *fleet) {
	shard := f.first().ID
	f.latest()
	var held atomic.Bool
	g := f.gate()
	f.onBatch(func(_ context.Context, _ *member, b *core.Batch) error {
		if b.Shard == shard && held.Load() && len(b.Records) > 0 {
			g.wait()
		}
		return nil
	})
	a := f.start("a")
	f.await("the shard is held", f.long(), func() bool { return slices.Contains(f.of("a"), shard) })
	f.now()
	f.fill(2, shard)
	f.delivered(f.long())
	held.Store(true)
	f.fill(1, shard)
	f.await("the handler has the last of the parent", f.long(), func() bool { return g.in.Load() > 0 })
	children := names(f.split(shard))
	f.fill(3, children...)
	f.wait(f.d / 4) // so that "now" lies behind them
	g.pass()
	f.delivered(f.long())
	f.alive(a)
}
