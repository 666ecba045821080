package conformance

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
)

// checkpointRules are about what is stored: design, rule 7. That checkpoints never go back and never run ahead is judged all the while, everywhere.
func checkpointRules() []rule[makeFleet] {
	return []rule[makeFleet]{
		fleetRule("R7_checkpoint-follows-what-is-done", "while a handler fails, the checkpoint stays before what it fails on; a new owner begins there", followsDone),
		fleetRule("R7_G19_checkpoints-never-go-back", "a checkpoint before the one that is stored is refused where the source can tell, and changes nothing", neverBack),
		fleetRule("R7_G1_G18_zombie-changes-nothing", "the context of a lost shard ends with its cause, and a checkpoint of its former owner fails with ErrLeaseLost and changes nothing", zombie),
		fleetRule("R7_G1_late-checkpoint-changes-nothing", "a checkpoint that arrives when the lease has gone to another changes nothing", lateCheckpoint),
	}
}

func followsDone(f *fleet) {
	shard := f.first().ID
	a := f.start("a")
	f.fill(3, shard)
	f.delivered(f.long())
	var tries atomic.Int32
	f.onBatch(func(_ context.Context, m *member, b *core.Batch) error {
		if m == a && b.Shard == shard && len(b.Records) > 0 {
			tries.Add(1)
			return errors.New("the sink is down")
		}
		return nil
	})
	f.fill(3, shard)
	f.await("the handler has failed a few times", f.long(), func() bool { return tries.Load() > 3 })
	f.during(f.d, "the checkpoint stays", func() bool {
		l, ok := f.row(shard)
		n, known := f.ledger.at(shard, l.Checkpoint)
		return ok && (!known || n <= 3)
	})
	a.stop()
	f.stopped(a)
	f.start("b")
	f.delivered(f.long())
}

func neverBack(f *fleet) {
	if _, ok := f.a.(core.PositionOrder); !ok {
		f.skip("ability PositionOrder of the source")
	}
	if f.info.Lacks.RecordPositions {
		f.skip("positions of records of the source")
	}
	shard := f.first().ID
	f.fill(5, shard)
	var went, refused, last atomic.Int32
	f.onBatch(func(ctx context.Context, _ *member, b *core.Batch) error {
		n := len(b.Records)
		if n < 2 {
			return b.Checkpoint(ctx)
		}
		if err := b.Checkpoint(ctx); err != nil {
			return err
		}
		last.Store(int32(n))
		if err := b.CheckpointAfter(ctx, 0); err != nil {
			refused.Add(1)
		} else {
			went.Add(1)
		}
		return nil
	})
	f.start("a", func(_ *member, c *worker.Config) { c.Checkpoints = worker.Manual })
	f.delivered(f.long())
	if last.Load() == 0 {
		f.skip("pages of more than one record")
	}
	if went.Load() != 0 {
		f.errorf("a checkpoint behind the first record went through, after one behind the last")
	}
	l, _ := f.row(shard)
	if n, known := f.ledger.at(shard, l.Checkpoint); !known || n != 5 {
		f.errorf("the row holds %s, which is behind record %d; it was checkpointed behind record 5", place(l.Checkpoint), n)
	}
}

func zombie(f *fleet) {
	shard := f.first().ID
	f.ledger.loose = true
	g := f.gate()
	var a *member
	lost := make(chan *core.Batch, 1)
	var ctxOf atomic.Pointer[context.Context]
	f.onBatch(func(ctx context.Context, m *member, b *core.Batch) error {
		if m.ID() == "a" && b.Shard == shard && len(b.Records) > 0 && g.in.Load() == 0 {
			ctxOf.Store(&ctx)
			lost <- b
			g.wait()
			return nil
		}
		if len(b.Records) == 0 {
			return nil
		}
		return b.Checkpoint(ctx)
	})
	a = f.start("a", func(_ *member, c *worker.Config) { c.Checkpoints = worker.Manual })
	f.await("the shard is held", f.long(), func() bool { l, _ := f.row(shard); return l.Owner == "a" })
	f.fill(3, shard)
	f.await("the handler has a batch", f.long(), func() bool { return g.in.Load() > 0 })
	heal := a.store.cut()
	b := f.start("b", func(_ *member, c *worker.Config) { c.Checkpoints = worker.Manual })
	f.await("another worker reads the shard", 3*f.d, func() bool { _, last := f.ledger.to(shard, b); return !last.IsZero() })
	f.fill(3, shard)
	f.await("and checkpoints", f.long(), func() bool {
		l, _ := f.row(shard)
		n, known := f.ledger.at(shard, l.Checkpoint)
		return known && n == 6
	})
	heal()
	ctx := *ctxOf.Load()
	if cause := context.Cause(ctx); ctx.Err() == nil || !errors.Is(cause, core.ErrLeaseLost) {
		f.errorf("the context of the lost shard has the cause %v, want ErrLeaseLost", cause)
	}
	batch := <-lost
	if err := batch.Checkpoint(f.ctx); !errors.Is(err, core.ErrLeaseLost) {
		f.errorf("a checkpoint of the former owner: %v, want ErrLeaseLost", err)
	}
	l, _ := f.row(shard)
	if n, known := f.ledger.at(shard, l.Checkpoint); !known || n != 6 || l.Owner != "b" {
		f.errorf("after the former owner's checkpoint the row is %s", show(l))
	}
	g.pass()
	f.fill(1, shard)
	f.delivered(f.long())
	f.alive(a, b)
}

func lateCheckpoint(f *fleet) {
	shard := f.first().ID
	a := f.start("a")
	f.fill(2, shard)
	f.delivered(f.long())
	f.await("the checkpoint is stored", f.long(), func() bool {
		l, _ := f.row(shard)
		n, known := f.ledger.at(shard, l.Checkpoint)
		return known && n == 2
	})
	// The next checkpoint is on its way for two lease durations and a half, and nothing else of this worker arrives meanwhile.
	var struck atomic.Bool
	a.store.breaks(linkFault{
		kind: callLate, delay: f.d * 5 / 2, times: 1, match: func(c linkCall) bool { return c.op == opUpdate && c.set.Checkpoint != nil && c.seen.Key.Shard == shard },
		before: func(linkCall) { struck.Store(true) },
	})
	f.fill(1, shard)
	f.await("a checkpoint is on its way", f.long(), struck.Load)
	heal := a.store.cut()
	b := f.start("b")
	f.fill(3, shard)
	f.await("another worker reads the shard, and checkpoints", 3*f.d, func() bool {
		l, _ := f.row(shard)
		n, known := f.ledger.at(shard, l.Checkpoint)
		return l.Owner == "b" && known && n == 6
	})
	if !f.within("the late checkpoint", a.store.wg.Wait) {
		return
	}
	l, _ := f.row(shard)
	if n, known := f.ledger.at(shard, l.Checkpoint); !known || n != 6 || l.Owner != "b" {
		f.errorf("after the late checkpoint the row is %s, behind record %d", show(l), n)
	}
	f.during(f.d/2, "the new owner keeps the lease", func() bool { l, _ := f.row(shard); return l.Owner == "b" })
	heal()
	f.delivered(f.long())
	f.alive(b)
}
