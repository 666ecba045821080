package worker_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
)

// bubble runs a test of one fleet in fake time.
func bubble(t *testing.T, shards int, config func(*worker.Config), test func(*testing.T, *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, shards, config)
		test(t, f)
		f.stopAll()
	})
}

func (f *fleet) allDelivered() bool { return f.distinct() == f.total() }

func (f *fleet) shard(id core.ShardID) (core.Lease, bool) {
	for _, l := range f.table.Rows() {
		if l.Key.Shard == id {
			return l, true
		}
	}
	return core.Lease{}, false
}

func (f *fleet) state(m *member, id core.ShardID) worker.ShardStatus {
	for _, s := range m.Status().Shards {
		if s.Key.Shard == id {
			return s
		}
	}
	return worker.ShardStatus{}
}

// onKey makes the handler of every worker do something when it meets a key, before the ledger is written.
func onKey(key string, do func(ctx context.Context, b *core.Batch) error) func(*worker.Config) {
	return func(c *worker.Config) {
		record := c.Process
		c.Process = func(ctx context.Context, b *core.Batch) error {
			if slices.ContainsFunc(b.Records, func(r core.Record) bool { return r.Key == key }) {
				if err := do(ctx, b); err != nil {
					return err
				}
			}
			return record(ctx, b)
		}
	}
}

// An error never skips records: the batch comes again until it goes through, and other shards go on meanwhile.
func TestHandlerErrorIsRetriedForEver(t *testing.T) {
	var sick atomic.Bool
	sick.Store(true)
	var tries atomic.Int64
	bubble(t, 4, onKey("k0", func(context.Context, *core.Batch) error {
		if sick.Load() {
			tries.Add(1)
			return errors.New("sink is down")
		}
		return nil
	}), func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.put(400, 40)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := tries.Load(); n < 5 || n > 60 {
			t.Errorf("%d tries in 5 minutes; the back-off doubles up to 30 s", n)
		}
		var failing int
		for _, s := range a.Status().Shards {
			if s.State == worker.Retrying && s.Err != nil && s.Failures > 3 {
				failing++
			}
		}
		if failing != 1 {
			t.Errorf("%d shards show as retrying, want the one with k0: %+v", failing, a.Status().Shards)
		}
		if got := f.distinct(); got < 250 {
			t.Errorf("only %d of 400 delivered: one shard's trouble stops others", got)
		}
		sick.Store(false)
		f.await("delivered", time.Minute, f.allDelivered)
		f.check()
	})
}

func TestHandlerPanicIsAnErrorOfItsShard(t *testing.T) {
	var once atomic.Bool
	bubble(t, 2, onKey("k1", func(context.Context, *core.Batch) error {
		if once.CompareAndSwap(false, true) {
			panic("on purpose")
		}
		return nil
	}), func(t *testing.T, f *fleet) {
		f.start("a")
		f.put(40, 4)
		f.await("delivered", time.Minute, f.allDelivered)
		f.check()
		var found bool
		for _, e := range f.events {
			if p, ok := errors.AsType[*worker.PanicError](e.Err); ok && e.Kind == worker.HandlerError && len(p.Stack) > 0 {
				found = true
			}
		}
		if !found {
			t.Error("no event tells of the panic with its stack")
		}
	})
}

// A handler that blocks costs its own shard only: the lease is renewed, no other worker gets it, and when the worker is to stop, Run returns at the
// deadline and names the shard.
func TestHandlerThatBlocksForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := newFleet(t, 4, onKey("k0", func(context.Context, *core.Batch) error { <-release; return nil }))
		a := f.start("a")
		b := f.start("b")
		f.await("even", time.Minute, func() bool { o := f.owners(); return o["a"] == 2 && o["b"] == 2 })
		f.put(400, 40)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := f.count(worker.LeaseLost, ""); n != 0 {
			t.Errorf("%d leases lost while a handler blocked", n)
		}
		start := time.Now()
		a.stop()
		b.stop()
		<-a.done
		<-b.done
		if d := time.Since(start); d > 31*time.Second {
			t.Errorf("Run returned %v after the stop; ShutdownTimeout is 30 s", d)
		}
		abandoned, ok := errors.AsType[*worker.AbandonedError](errors.Join(a.err, b.err))
		if !ok || len(abandoned.Shards) != 1 {
			t.Errorf("Run says %v and %v, want one abandoned shard", a.err, b.err)
		}
		close(release)
	})
}

func TestDeadLetterTakesWhatIsGivenUp(t *testing.T) {
	var mu sync.Mutex
	var dead []core.Record
	bubble(t, 1, func(c *worker.Config) {
		onKey("poison", func(context.Context, *core.Batch) error { return errors.New("cannot digest") })(c)
		c.OnError = worker.ErrorPolicy{GiveUpAfter: 3, Bisect: true, DeadLetter: func(_ context.Context, b *core.Batch, cause error) error {
			mu.Lock()
			defer mu.Unlock()
			dead = append(dead, b.Records...)
			return nil
		}}
	}, func(t *testing.T, f *fleet) {
		f.put(20, 5)
		f.stream.Put("poison", []byte("x"))
		f.put(20, 5)
		f.start("a")
		f.await("delivered", time.Minute, f.allDelivered)
		f.check()
		if len(dead) != 1 || dead[0].Key != "poison" {
			t.Errorf("dead letters %v: bisection isolates the one record", dead)
		}
	})
}

func TestHaltStopsTheShardVisibly(t *testing.T) {
	bubble(t, 2, func(c *worker.Config) {
		onKey("poison", func(context.Context, *core.Batch) error { return errors.New("cannot digest") })(c)
		c.OnError = worker.ErrorPolicy{GiveUpAfter: 2, Halt: true}
	}, func(t *testing.T, f *fleet) {
		a := f.start("a")
		shard, _ := f.stream.Put("poison", []byte("x"))
		f.await("halted", time.Minute, func() bool { return f.state(a, shard).State == worker.Halted })
		time.Sleep(time.Minute)
		l, _ := f.shard(shard)
		if l.Owner != "a" || l.Checkpoint.Anchor != core.Horizon {
			t.Errorf("owner %q, checkpoint %s: the lease is kept, and nothing is skipped", l.Owner, l.Checkpoint)
		}
		if n := f.count(worker.ShardHalted, "a"); n != 1 {
			t.Errorf("%d events of the halt, want one", n)
		}
	})
}

func TestDoneAndRestart(t *testing.T) {
	var made atomic.Int64
	bubble(t, 1, func(c *worker.Config) {
		record := c.Process
		c.Process = nil
		c.Factory = func(_ context.Context, s core.Session) (core.Processor, error) {
			n := made.Add(1)
			return core.ProcessorFunc(func(ctx context.Context, b *core.Batch) error {
				if err := record(ctx, b); err != nil {
					return err
				}
				if n == 1 {
					return core.ErrRestart
				}
				if slices.ContainsFunc(b.Records, func(r core.Record) bool { return r.Key == "enough" }) {
					return core.ErrDone
				}
				return nil
			}), nil
		}
	}, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.put(10, 2)
		f.await("a second processor", time.Minute, func() bool { return made.Load() == 2 && f.allDelivered() })
		if f.duplicates() != 10 {
			t.Errorf("%d duplicates: the batch that asked for the restart was not acknowledged", f.duplicates())
		}
		shard, _ := f.stream.Put("enough", nil)
		f.await("done", time.Minute, func() bool { return f.state(a, shard).State == worker.Halted })
		n := len(f.delivered)
		f.put(10, 2)
		time.Sleep(time.Minute)
		if len(f.delivered) != n {
			t.Error("records were delivered after ErrDone")
		}
		f.n = map[string]int{}
	})
}

// Manual mode: nothing is stored but what the handler stores, and a new owner resumes there, inside a batch.
func TestManualCheckpoints(t *testing.T) {
	bubble(t, 1, func(c *worker.Config) {
		record := c.Process
		c.Checkpoints = worker.Manual
		c.Process = func(ctx context.Context, b *core.Batch) error {
			if err := record(ctx, b); err != nil {
				return err
			}
			if len(b.Records) > 3 {
				return b.CheckpointAfter(ctx, 2)
			}
			return nil
		}
	}, func(t *testing.T, f *fleet) {
		f.put(10, 1)
		a := f.start("a")
		f.await("delivered", time.Minute, f.allDelivered)
		time.Sleep(30 * time.Second)
		a.stop()
		<-a.done
		f.mu.Lock()
		f.delivered = nil
		f.mu.Unlock()
		f.start("b")
		f.await("resumed", time.Minute, func() bool { return len(f.delivered) >= 7 })
		if first := f.delivered[0].val; first != "4" {
			t.Errorf("the new owner begins at record %s, want 4", first)
		}
	})
}

// A prepared checkpoint survives its owner and is found by the next; committing makes it the checkpoint.
func TestPreparedCheckpoint(t *testing.T) {
	type found struct {
		p  core.Pending
		ok bool
	}
	var mu sync.Mutex
	var seen []found
	bubble(t, 1, func(c *worker.Config) {
		c.Checkpoints, c.Process = worker.Manual, nil
		c.Factory = func(_ context.Context, s core.Session) (core.Processor, error) {
			p, ok := s.Pending()
			mu.Lock()
			seen = append(seen, found{p, ok})
			first := len(seen) == 1
			mu.Unlock()
			return core.ProcessorFunc(func(ctx context.Context, b *core.Batch) error {
				if len(b.Records) == 0 {
					return nil
				}
				prep, err := s.Prepare(ctx, b.Next(), []byte("half done"))
				if err != nil || first {
					return err
				}
				return prep.Commit(ctx)
			}), nil
		}
	}, func(t *testing.T, f *fleet) {
		f.put(5, 1)
		a := f.start("a")
		f.await("prepared", time.Minute, func() bool { l := f.table.Rows(); return len(l) == 1 && l[0].Pending != nil })
		a.stop()
		<-a.done
		f.start("b")
		f.await("committed", time.Minute, func() bool { return f.table.Rows()[0].Checkpoint.Anchor == core.AfterToken })
		if r := f.table.Rows()[0]; r.Pending != nil {
			t.Errorf("pending %+v is still there after the commit", r.Pending)
		}
		if len(seen) != 2 || seen[0].ok || !seen[1].ok || string(seen[1].p.State) != "half done" {
			t.Errorf("pending as found: %+v", seen)
		}
	})
}

// A prepared checkpoint makes no sense while the engine stores checkpoints by itself.
func TestPrepareIsRefusedInAutomaticMode(t *testing.T) {
	var got atomic.Pointer[error]
	bubble(t, 1, func(c *worker.Config) {
		c.Process = nil
		c.Factory = func(_ context.Context, s core.Session) (core.Processor, error) {
			return core.ProcessorFunc(func(ctx context.Context, b *core.Batch) error {
				_, err := s.Prepare(ctx, b.Next(), nil)
				got.Store(&err)
				return nil
			}), nil
		}
	}, func(t *testing.T, f *fleet) {
		f.put(1, 1)
		f.start("a")
		f.await("handled", time.Minute, func() bool { return got.Load() != nil })
		if !errors.Is(*got.Load(), core.ErrInvalid) {
			t.Errorf("Prepare: %v, want ErrInvalid", *got.Load())
		}
	})
}

// Keys side by side: as many at a time as asked for, each key in order, all of a batch before the checkpoint.
func TestKeyConcurrency(t *testing.T) {
	var now, most atomic.Int64
	bubble(t, 1, func(c *worker.Config) {
		record := c.Process
		c.KeyConcurrency = 4
		c.Process = func(ctx context.Context, b *core.Batch) error {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(time.Second)
			return record(ctx, b)
		}
	}, func(t *testing.T, f *fleet) {
		f.put(200, 40)
		f.start("a")
		f.await("delivered", time.Minute, f.allDelivered)
		f.check()
		if most.Load() < 3 || most.Load() > 4 {
			t.Errorf("%d handlers at a time, want 4", most.Load())
		}
	})
}

// With keys side by side the checkpoint is the low-water mark: while one key's records are not done, it stays before the batch (field case F45).
func TestKeyConcurrencyStoresTheLowWaterMark(t *testing.T) {
	var slow atomic.Bool
	slow.Store(true)
	bubble(t, 1, func(c *worker.Config) {
		onKey("k0", func(ctx context.Context, _ *core.Batch) error {
			for slow.Load() && ctx.Err() == nil {
				time.Sleep(time.Second)
			}
			return ctx.Err()
		})(c)
		c.KeyConcurrency = 8
	}, func(t *testing.T, f *fleet) {
		f.put(200, 40)
		f.start("a")
		f.await("other lanes done", time.Minute, func() bool { return f.distinct() > 100 })
		time.Sleep(30 * time.Second) // several renewals
		if l := f.table.Rows()[0]; !l.Checkpoint.IsStart() {
			t.Errorf("checkpoint %s though k0 is not done", l.Checkpoint)
		}
		slow.Store(false)
		f.await("delivered", time.Minute, f.allDelivered)
		f.await("stored", 10*time.Second, func() bool { return !f.table.Rows()[0].Checkpoint.IsStart() })
		f.check()
	})
}

func TestMaxShardsAtOnce(t *testing.T) {
	var now, most atomic.Int64
	bubble(t, 8, func(c *worker.Config) {
		record := c.Process
		c.MaxShardsAtOnce = 2
		c.Process = func(ctx context.Context, b *core.Batch) error {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(time.Second)
			return record(ctx, b)
		}
	}, func(t *testing.T, f *fleet) {
		f.put(200, 40)
		f.start("a")
		f.await("delivered", 2*time.Minute, f.allDelivered)
		if most.Load() != 2 {
			t.Errorf("%d handlers at a time, want 2", most.Load())
		}
	})
}

// MaxLeases: what nobody may hold is reported, and the rest is read.
func TestMaxLeases(t *testing.T) {
	bubble(t, 7, func(c *worker.Config) { c.MaxLeases = 3 }, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.start("b")
		f.await("six of seven", time.Minute, func() bool { o := f.owners(); return o["a"] == 3 && o["b"] == 3 && o[core.Nobody] == 1 })
		f.await("reported", 10*time.Second, func() bool { return len(a.Status().Unserved) == 1 && f.count(worker.Unserved, "a") == 1 })
		time.Sleep(30 * time.Second)
		if n := f.count(worker.Unserved, "a"); n != 1 {
			t.Errorf("said %d times in 30 s; at most once a minute", n)
		}
	})
}

func TestDeliverEmpty(t *testing.T) {
	var empty atomic.Int64
	bubble(t, 1, func(c *worker.Config) {
		c.DeliverEmpty = true
		c.Process = func(_ context.Context, b *core.Batch) error {
			if len(b.Records) == 0 {
				empty.Add(1)
			}
			return nil
		}
	}, func(t *testing.T, f *fleet) {
		f.start("a")
		f.await("an empty batch", time.Minute, func() bool { return empty.Load() > 3 })
	})
}

// The pulled form: asking for the next batch acknowledges the last; an error begins again behind the last acknowledged.
func TestPulledForm(t *testing.T) {
	var runs atomic.Int64
	bubble(t, 2, func(c *worker.Config) {
		record := c.Process
		c.Process = nil
		c.Shard = func(ctx context.Context, s core.PullSession) error {
			n := runs.Add(1)
			for b, err := range s.Batches(ctx) {
				if err != nil {
					return err
				}
				if err := record(ctx, b); err != nil {
					return err
				}
				if n == 1 {
					return errors.New("first run fails")
				}
			}
			return context.Cause(ctx)
		}
	}, func(t *testing.T, f *fleet) {
		f.put(100, 10)
		f.start("a")
		f.await("delivered", time.Minute, f.allDelivered)
		open := f.open()
		f.split(open[0])
		f.put(100, 10)
		f.await("delivered", time.Minute, f.allDelivered)
		f.await("parent ended", time.Minute, func() bool { l, _ := f.shard(open[0]); return l.Ended() })
		f.start("b")
		f.await("spread", time.Minute, func() bool { o := f.owners(); return o["a"] > 0 && o["b"] > 0 && o["a"]+o["b"] == 3 })
		f.put(100, 10)
		f.await("delivered", time.Minute, f.allDelivered)
		f.check()
	})
}

// End of a shard in manual mode: END waits for ShardEnded, or for the last record's checkpoint; the shard shows as ended and unacknowledged.
func TestEndInManualModeWaitsForTheUser(t *testing.T) {
	var last atomic.Pointer[core.Batch]
	bubble(t, 1, func(c *worker.Config) {
		record := c.Process
		c.Checkpoints = worker.Manual
		c.Process = func(ctx context.Context, b *core.Batch) error {
			last.Store(b)
			return record(ctx, b)
		}
	}, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.put(10, 2)
		f.await("delivered", time.Minute, f.allDelivered)
		parent := f.open()[0]
		f.split(parent)
		f.await("ending", time.Minute, func() bool { return f.state(a, parent).State == worker.Ending })
		time.Sleep(time.Minute)
		if l, _ := f.shard(parent); l.Ended() {
			t.Fatal("END was stored though nothing was checkpointed")
		}
		if s := f.state(a, parent); s.Why == "" {
			t.Error("Status does not say what the shard waits for")
		}
		if err := last.Load().Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.await("ended", time.Minute, func() bool { l, _ := f.shard(parent); return l.Ended() })
	})
}

// A checkpoint that goes back, lies ahead of what was delivered, or is no place behind a record is refused.
func TestCheckpointsThatAreRefused(t *testing.T) {
	var errs sync.Map
	var s atomic.Pointer[core.Session]
	bubble(t, 1, func(c *worker.Config) {
		c.Checkpoints, c.Process = worker.Manual, nil
		c.Factory = func(_ context.Context, sess core.Session) (core.Processor, error) {
			s.Store(&sess)
			return core.ProcessorFunc(func(ctx context.Context, b *core.Batch) error {
				if len(b.Records) < 5 {
					return nil
				}
				errs.Store("first", b.CheckpointAfter(ctx, 3))
				errs.Store("back", b.CheckpointAfter(ctx, 1))
				ahead := b.After(4)
				ahead.Token = "9" + ahead.Token[1:]
				errs.Store("ahead", sess.Checkpoint(ctx, ahead))
				errs.Store("end", sess.Checkpoint(ctx, core.AtShardEnd))
				errs.Store("zero", sess.Checkpoint(ctx, core.Position{}))
				return nil
			}), nil
		}
	}, func(t *testing.T, f *fleet) {
		f.put(5, 1)
		a := f.start("a")
		f.await("handled", time.Minute, func() bool { _, ok := errs.Load("zero"); return ok })
		for name, wantErr := range map[string]bool{"first": false, "back": true, "ahead": true, "end": true, "zero": true} {
			v, _ := errs.Load(name)
			err, _ := v.(error)
			if wantErr != errors.Is(err, core.ErrInvalid) || !wantErr && err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		a.stop()
		<-a.done
		if err := (*s.Load()).Checkpoint(t.Context(), core.Position{Token: "1"}); err == nil {
			t.Error("a checkpoint after the end went through")
		}
	})
}
