package worker_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

// A write that was applied and whose answer was lost is no lost lease (field case F20).
func TestLostAnswersLoseNoLease(t *testing.T) {
	bubble(t, 4, nil, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.await("all held", time.Minute, func() bool { return f.owners()["a"] == 4 })
		a.store.Break(store.Fault{Kind: store.Lose, Ops: []store.Op{store.Update}, Odds: 0.15, Seed: 5})
		for range 60 {
			f.put(20, 7)
			time.Sleep(10 * time.Second)
		}
		f.await("delivered", time.Minute, f.allDelivered)
		f.check()
		if n := f.count(worker.LeaseLost, "a") + f.duplicates(); n != 0 {
			for _, e := range f.events {
				if e.Kind == worker.LeaseLost {
					t.Logf("%v %s %s counter %d: %v %s", e.Time, e.Kind, e.Key.Shard, e.Counter, e.Err, e.Text)
				}
			}
			t.Errorf("%d leases lost, %d records repeated in 10 minutes of lost answers", f.count(worker.LeaseLost, "a"), f.duplicates())
		}
	})
}

// A worker whose table is cut off stops by its own clock before anybody else may take its leases (rules 1 and 2), and does not deliver again
// until a write of it goes through.
func TestFencedBeforeOthersTake(t *testing.T) {
	bubble(t, 2, nil, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.await("all held", time.Minute, func() bool { return f.owners()["a"] == 2 })
		f.start("b")
		f.await("even", time.Minute, func() bool { return f.owners()["b"] == 1 })
		heal := a.store.Break(store.Fault{Hang: true})
		cut := time.Now()
		stop := make(chan struct{})
		go func() { // a steady trickle: a delivery by a shows how long it trusts its lease
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					f.put(4, 12)
				}
			}
		}()
		f.await("b holds both", time.Minute, func() bool { return f.owners()["b"] == 2 })
		taken := time.Now()
		close(stop)
		f.mu.Lock()
		var last time.Time
		for _, d := range f.delivered {
			if d.by == "a" {
				last = d.at
			}
		}
		f.mu.Unlock()
		if d := last.Sub(cut); d > 7500*time.Millisecond {
			t.Errorf("a delivered until %v after the cut; it trusts a lease for 7.5 s", d)
		}
		if d := taken.Sub(last); d < 2*time.Second {
			t.Errorf("only %v between a's last delivery and the take", d)
		}
		if d := taken.Sub(cut); d > 13*time.Second {
			t.Errorf("taken %v after the cut, at most 13 s", d)
		}
		heal()
		f.await("delivered", time.Minute, f.allDelivered)
		f.checkEpochs()
	})
}

// A short outage costs nothing but time: leases that nobody took are read on by who held them (field case F14).
func TestOutageOfTheTableForAll(t *testing.T) {
	bubble(t, 5, nil, func(t *testing.T, f *fleet) {
		a, b := f.start("a"), f.start("b")
		f.put(50, 10)
		f.await("delivered", time.Minute, f.allDelivered)
		ha, hb := a.store.Break(store.Fault{Hang: true}), b.store.Break(store.Fault{Hang: true})
		time.Sleep(25 * time.Second)
		f.put(50, 10)
		ha()
		hb()
		took := f.await("delivered", time.Minute, f.allDelivered)
		if took > 13*time.Second {
			t.Errorf("whole again %v after the outage", took)
		}
		f.check()
		f.checkEpochs()
	})
}

// The release of a worker that was thought dead touches nothing (field case F21).
func TestLateReleaseTouchesNothing(t *testing.T) {
	bubble(t, 1, nil, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.await("held", time.Minute, func() bool { return f.owners()["a"] == 1 })
		heal := a.store.Break(store.Fault{Hang: true})
		f.start("b")
		f.await("taken", time.Minute, func() bool { return f.owners()["b"] == 1 })
		a.stop()
		time.Sleep(time.Second)
		heal()
		<-a.done
		time.Sleep(20 * time.Second)
		if o := f.owners(); o["b"] != 1 || f.count(worker.LeaseLost, "b") != 0 {
			t.Errorf("owners %v, b lost %d", o, f.count(worker.LeaseLost, "b"))
		}
	})
}

// Two workers of one id: both notice and say so, no shard is read twice, and neither ends.
func TestTwins(t *testing.T) {
	bubble(t, 4, nil, func(t *testing.T, f *fleet) {
		a := f.start("same")
		f.await("held", time.Minute, func() bool { return f.owners()["same"] == 4 })
		b := f.start("same")
		f.await("both say so", time.Minute, func() bool { return a.Status().Twin && b.Status().Twin })
		f.put(100, 10)
		f.await("delivered", time.Minute, f.allDelivered)
		f.check()
		time.Sleep(time.Minute)
		if n := f.count(worker.LeaseLost, "") + f.count(worker.LeaseAccepted, ""); n != 0 || f.duplicates() != 0 {
			t.Errorf("%d leases went from twin to twin, %d duplicates", n, f.duplicates())
		}
		for _, m := range []*member{a, b} {
			select {
			case <-m.done:
				t.Errorf("a twin ended: %v", m.err)
			default:
			}
		}
	})
}

// A worker that is restarted with the id it had does not read before its former run is known to be gone, and then reads everything (G10).
func TestFixedIDAfterACrash(t *testing.T) {
	bubble(t, 4, nil, func(t *testing.T, f *fleet) {
		a := f.start("same")
		f.put(100, 10)
		f.await("delivered", time.Minute, f.allDelivered)
		a.store.Break(store.Fault{Hang: true}) // the crash
		a.src.Break(source.Fault{Hang: true})
		time.Sleep(3 * time.Second) // the read under way ends
		f.put(100, 10)
		f.start("same")
		took := f.await("delivered", time.Minute, f.allDelivered)
		if took > 13*time.Second || took < 9*time.Second {
			t.Errorf("took %v: not before the former run is known to be gone, and soon after that", took)
		}
		f.checkEpochs()
	})
}

// foreign writes a lease as the Java KCL would: an owner without a run, and renews it until stop is closed.
func foreign(t *testing.T, f *fleet, shard core.ShardID, stop <-chan struct{}) {
	t.Helper()
	l, err := f.table.Create(t.Context(), core.Lease{Key: core.LeaseKey{Stream: id(t, f), Shard: shard}, Owner: "java-1", Counter: 3, Checkpoint: core.FromHorizon})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		tick := time.NewTicker(3300 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				w := core.Renew(nil)
				if l, err = f.table.Update(context.WithoutCancel(t.Context()), l, w.Same, w.Set); err != nil {
					return
				}
			}
		}
	}()
}

func id(t *testing.T, f *fleet) core.StreamID {
	info, err := f.stream.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.ID
}

// A table that a worker of another library keeps alive is not touched: the worker ends and names it.
func TestForeignWorkerIsNotDisturbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, nil)
		stop := make(chan struct{})
		defer close(stop)
		foreign(t, f, f.open()[0], stop)
		a := f.start("a")
		<-a.done
		if !errors.Is(a.err, core.ErrForeignWorker) || !containsText(a.err, "java-1") {
			t.Errorf("Run: %v, want ErrForeignWorker that names java-1", a.err)
		}
		if o := f.owners(); o["java-1"] != 1 || o["a"] != 0 {
			t.Errorf("owners %v: nothing may be taken beside it", o)
		}
	})
}

// A table that such a worker has left is taken over.
func TestForeignWorkerThatLeft(t *testing.T) {
	bubble(t, 2, nil, func(t *testing.T, f *fleet) {
		stop := make(chan struct{})
		close(stop)
		foreign(t, f, f.open()[0], stop)
		f.put(50, 10)
		f.start("a")
		f.await("taken over", time.Minute, func() bool { return f.owners()["a"] == 2 && f.allDelivered() })
	})
}

func containsText(err error, s string) bool {
	return err != nil && len(s) > 0 && slices.ContainsFunc([]string{err.Error()}, func(e string) bool {
		for i := 0; i+len(s) <= len(e); i++ {
			if e[i:i+len(s)] == s {
				return true
			}
		}
		return false
	})
}

// LATEST is one instant, fixed by the first worker that finds no leases: what arrives between it and the first read is read, also after a split and
// by another worker.
func TestLatestIsOneInstant(t *testing.T) {
	latest := func(f *fleet) func(*worker.Config) {
		return func(c *worker.Config) {
			all, _ := c.Streams.Streams(context.Background())
			c.Streams = worker.One(all[0].Source, core.FromLatest)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, nil)
		f.config = latest(f)
		f.put(40, 10)
		f.n = map[string]int{} // before the start: not wanted
		time.Sleep(time.Second)
		a := f.start("a")
		a.src.Break(source.Fault{Ops: []source.Op{source.Open}}) // leases are created, nothing can be read
		f.await("leases", time.Minute, func() bool { return f.owners()["a"] == 2 })
		parent := f.open()[0]
		f.stream.Put("early", []byte("1"))
		f.split(parent)
		f.stream.Put("early", []byte("2"))
		time.Sleep(time.Minute)
		a.stop()
		<-a.done
		f.start("b")
		f.stream.Put("early", []byte("3"))
		f.await("all that came after the start", time.Minute, func() bool { return f.distinct() == 3 })
		f.stopAll()
		for i, d := range f.delivered {
			if d.key != "early" || int(d.val[0]-'0') != i+1 {
				t.Errorf("delivery %d is %s/%s", i, d.key, d.val)
			}
		}
	})
}

// A stream that was split before a LATEST start: the open children are read though their parents never are (rule 5).
func TestLatestAfterASplit(t *testing.T) {
	bubble(t, 1, func(c *worker.Config) {
		all, _ := c.Streams.Streams(context.Background())
		c.Streams = worker.One(all[0].Source, core.FromLatest)
	}, func(t *testing.T, f *fleet) {
		f.stream.Put("old", nil)
		f.split(f.open()[0])
		time.Sleep(time.Second)
		f.start("a")
		f.await("held", time.Minute, func() bool { return f.owners()["a"] == 2 })
		f.put(20, 5)
		f.await("delivered", time.Minute, f.allDelivered)
		f.check()
		if len(f.table.Rows()) != 2 {
			t.Errorf("%d leases: what ended before the start gets none", len(f.table.Rows()))
		}
	})
}

// A start in the future waits, visibly.
func TestStartInTheFuture(t *testing.T) {
	bubble(t, 2, func(c *worker.Config) {
		all, _ := c.Streams.Streams(context.Background())
		c.Streams = worker.One(all[0].Source, core.From(time.Now().Add(5*time.Minute)))
	}, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.await("said", time.Minute, func() bool { return a.Status().Waiting != "" })
		f.stream.Put("early", nil)
		time.Sleep(4 * time.Minute)
		if n := len(f.table.Rows()); n != 0 {
			t.Fatalf("%d leases before the start", n)
		}
		f.await("begun", 2*time.Minute, func() bool { return f.owners()["a"] == 2 })
		f.put(20, 5)
		f.await("delivered", time.Minute, f.allDelivered)
		if f.distinct() != 20 {
			t.Errorf("%d records: what came before the start is not wanted", f.distinct())
		}
	})
}

// A row that cannot be read is reported and left alone, its children wait, and the others go on.
func TestMalformedRow(t *testing.T) {
	bubble(t, 3, nil, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.await("held", time.Minute, func() bool { return f.owners()["a"] == 3 })
		a.stop()
		<-a.done
		bad := f.open()[0]
		f.table.Spoil(core.LeaseKey{Stream: id(t, f), Shard: bad}, errors.New("leaseCounter is \"x\", want a number"))
		b := f.start("b")
		f.put(30, 10)
		f.await("others held", time.Minute, func() bool { return f.owners()["b"] == 2 })
		f.await("reported", time.Minute, func() bool { return f.count(worker.BadRow, "b") > 0 && f.state(b, bad).State == worker.Unreadable })
		f.n = map[string]int{}
	})
}

// An operator deletes a row while it is held: the shard stops, the row is made again, and reading goes on (F16).
func TestDeletedRowIsMadeAgain(t *testing.T) {
	bubble(t, 2, nil, func(t *testing.T, f *fleet) {
		f.start("a")
		f.put(20, 5)
		f.await("delivered", time.Minute, f.allDelivered)
		l, _ := f.shard(f.open()[0])
		if err := f.table.Delete(t.Context(), l, 0); err != nil {
			t.Fatal(err)
		}
		f.await("lost", 5*time.Second, func() bool { return f.count(worker.LeaseLost, "a") == 1 }) // by the next renewal, not by time
		f.put(20, 5)
		f.await("made again and read", 2*time.Minute, func() bool { return f.owners()["a"] == 2 && f.allDelivered() })
	})
}

// A shard that gives no sign of life is noticed, begun again, and after that given to another worker (rule 11).
func TestStalledShard(t *testing.T) {
	bubble(t, 1, nil, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.start("b")
		f.await("held", time.Minute, func() bool { return f.owners()["a"]+f.owners()["b"] == 1 })
		if f.owners()["a"] == 0 {
			a = f.members[1]
		}
		f.put(10, 2)
		f.await("delivered", time.Minute, f.allDelivered)
		synctest.Wait() // it waits in Next
		heal := a.src.Break(source.Fault{Ops: []source.Op{source.Next}, Hang: true, Times: 1})
		f.put(1, 1) // the Next under way brings it; the one after it hangs
		f.await("delivered", time.Minute, f.allDelivered)
		f.put(10, 2)
		took := f.await("begun again", 3*time.Minute, f.allDelivered)
		if took < 50*time.Second || f.count(worker.ShardStalled, a.ID()) != 1 {
			t.Errorf("after %v, %d stalls; StallAfter is a minute", took, f.count(worker.ShardStalled, a.ID()))
		}
		heal()
		a.src.Break(source.Fault{Ops: []source.Op{source.Next, source.Open}, Hang: true})
		f.put(10, 2)
		f.await("delivered", time.Minute, f.allDelivered)
		f.put(10, 2)
		f.await("read by the other", 5*time.Minute, f.allDelivered)
		f.check()
	})
}

// A handler that does not return in time keeps its shard: the worker that asks is declined, and nothing is delivered twice.
func TestHandOverIsDeclined(t *testing.T) {
	var slow atomic.Bool
	bubble(t, 2, func(c *worker.Config) {
		record := c.Process
		c.HandlerStopTimeout = 5 * time.Second
		c.Process = func(ctx context.Context, b *core.Batch) error {
			if err := record(ctx, b); err != nil {
				return err
			}
			if slow.Load() {
				time.Sleep(40 * time.Second)
			}
			return nil
		}
	}, func(t *testing.T, f *fleet) {
		f.start("a")
		f.await("held", time.Minute, func() bool { return f.owners()["a"] == 2 })
		slow.Store(true)
		f.put(100, 50)
		f.await("in the handler", time.Minute, func() bool { return f.distinct() > 0 })
		f.start("b")
		f.await("declined", time.Minute, func() bool { return f.count(worker.LeaseDeclined, "a") > 0 })
		slow.Store(false)
		f.await("even in the end", 3*time.Minute, func() bool { o := f.owners(); return o["a"] == 1 && o["b"] == 1 })
		f.put(100, 50)
		f.await("delivered", time.Minute, f.allDelivered)
		f.check()
		if f.duplicates() != 0 {
			t.Errorf("%d duplicates", f.duplicates())
		}
	})
}

// Finished leases go once nothing depends on them, and not before; KeepFinished keeps them.
func TestCleanUp(t *testing.T) {
	for _, keep := range []bool{false, true} {
		bubble(t, 1, func(c *worker.Config) { c.KeepFinished = keep }, func(t *testing.T, f *fleet) {
			f.start("a")
			f.put(20, 5)
			parent := f.open()[0]
			f.split(parent)
			f.await("ended", time.Minute, func() bool { l, ok := f.shard(parent); return ok && l.Ended() })
			time.Sleep(4 * time.Minute)
			if _, ok := f.shard(parent); !ok {
				t.Fatal("deleted within CleanupFinished")
			}
			time.Sleep(10 * time.Minute)
			if _, ok := f.shard(parent); ok != keep {
				t.Errorf("KeepFinished %v: after 14 minutes the lease is there: %v", keep, ok)
			}
			f.put(20, 5)
			f.await("delivered", time.Minute, f.allDelivered)
			f.check()
		})
	}
}

// One worker lists shards for all, and listing costs a call a minute.
func TestOneWorkerLists(t *testing.T) {
	bubble(t, 6, nil, func(t *testing.T, f *fleet) {
		for _, id := range []string{"a", "b", "c"} {
			f.start(id)
		}
		f.await("even", time.Minute, func() bool { o := f.owners(); return o["a"] == 2 && o["b"] == 2 && o["c"] == 2 })
		before := map[core.WorkerID]int{}
		for _, m := range f.members {
			before[m.ID()] = m.src.Calls()[source.Shards]
		}
		time.Sleep(10 * time.Minute)
		for _, m := range f.members {
			n := m.src.Calls()[source.Shards] - before[m.ID()]
			if m.ID() == "a" && (n < 9 || n > 11) || m.ID() != "a" && n != 0 {
				t.Errorf("%s listed %d times in 10 minutes", m.ID(), n)
			}
		}
	})
}

// 64 leases, two workers, checkpoints each 5 s: checkpoints ride on renewals, and the table is called no more than 1,050 times a minute (B3).
func TestCallsAMinute(t *testing.T) {
	bubble(t, 64, nil, func(t *testing.T, f *fleet) {
		f.start("a")
		f.start("b")
		f.await("even", time.Minute, func() bool { o := f.owners(); return o["a"] == 32 && o["b"] == 32 })
		time.Sleep(time.Minute)
		calls := func() (n int) {
			for _, m := range f.members {
				for _, c := range m.store.Calls() {
					n += c
				}
			}
			return n
		}
		before := calls()
		for range 120 {
			f.put(64, 64)
			time.Sleep(time.Second)
		}
		n := (calls() - before) / 2
		t.Logf("%d calls a minute", n)
		if n > 1050 {
			t.Errorf("%d calls a minute, at most 1,050", n)
		}
		f.await("delivered", time.Minute, f.allDelivered)
	})
}

// Shutdown returns what Run returns, and ends a start that hangs.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, nil)
		f.put(20, 5)
		a := f.start("a")
		f.await("delivered", time.Minute, f.allDelivered)
		start := time.Now()
		if err := a.Shutdown(t.Context()); err != nil || time.Since(start) > time.Second {
			t.Errorf("Shutdown: %v after %v", err, time.Since(start))
		}
		<-a.done
		if err := a.Run(t.Context()); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("a second Run: %v", err)
		}
		for _, l := range f.table.Rows() {
			if l.Owner != core.Nobody || l.Checkpoint.Anchor != core.AfterToken {
				t.Errorf("lease %s: owner %q, checkpoint %s", l.Key.Shard, l.Owner, l.Checkpoint)
			}
		}
		b := newFleet(t, 2, nil)
		b.stream.Break(source.Fault{Ops: []source.Op{source.Describe}, Hang: true})
		m := &member{fleet: b, done: make(chan struct{})}
		w, err := worker.New(worker.Config{Streams: worker.One(b.stream, core.FromHorizon), Store: b.table, Process: b.record("b")})
		if err != nil {
			t.Fatal(err)
		}
		go func() { defer close(m.done); m.err = w.Run(t.Context()) }()
		synctest.Wait()
		if err := w.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown of a worker that starts: %v", err)
		}
		<-m.done
	})
}

// On a stop the leases go straight to those that stay: read again within a look, without a duplicate (B6).
func TestStopHandsOn(t *testing.T) {
	bubble(t, 8, nil, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.start("b")
		f.put(80, 20)
		f.await("even", time.Minute, func() bool { return f.owners()["a"] == 4 && f.owners()["b"] == 4 })
		f.await("delivered", time.Minute, f.allDelivered)
		start := time.Now()
		a.stop()
		<-a.done
		f.put(80, 20)
		f.await("delivered by b", time.Minute, f.allDelivered)
		if d := time.Since(start); d > 3*time.Second {
			f.dump()
			t.Errorf("read again %v after the stop, at most 3 s", d)
		}
		f.check()
		if f.duplicates() != 0 {
			t.Errorf("%d duplicates", f.duplicates())
		}
	})
}

// A lease that is handed to a worker while it stops is given back at once, not left to expire.
func TestHandedOverWhileStopping(t *testing.T) {
	bubble(t, 2, nil, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.start("b")
		f.await("even", time.Minute, func() bool { return f.owners()["a"] == 1 && f.owners()["b"] == 1 })
		a.store.Break(store.Fault{Kind: store.Slow, Ops: []store.Op{store.Withdraw}, Delay: time.Second})
		a.stop()
		synctest.Wait() // it has stopped to look; b's lease is handed to it now, as an answer to an earlier ask
		for _, l := range f.table.Rows() {
			if l.Owner == "b" {
				w := core.HandOver("a")
				if _, err := f.table.Update(t.Context(), l, w.Same, w.Set); err != nil {
					t.Fatal(err)
				}
			}
		}
		<-a.done
		if o := f.owners(); o["a"] != 0 {
			t.Errorf("owners after the stop of a: %v", o)
		}
	})
}

// reborn is a stream that is deleted and made again under its name while it is read: shards have the same ids.
type reborn struct {
	core.StreamSource
	id atomic.Pointer[core.StreamID]
}

func (r *reborn) Describe(ctx context.Context) (core.StreamInfo, error) {
	info, err := r.StreamSource.Describe(ctx)
	if id := r.id.Load(); id != nil {
		info.ID = *id
	}
	return info, err
}

func TestStreamMadeAgainInheritsNothing(t *testing.T) {
	var again *reborn
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, func(c *worker.Config) {
			all, _ := c.Streams.Streams(context.Background())
			again = &reborn{StreamSource: all[0].Source}
			c.Streams = worker.One(again, core.FromHorizon)
		})
		a := f.start("a")
		f.put(10, 5)
		f.await("delivered", time.Minute, f.allDelivered)
		again.id.Store(new(core.StreamID("orders:2")))
		<-a.done
		if !errors.Is(a.err, core.ErrOtherStream) || !containsText(a.err, "orders:2") {
			t.Errorf("Run: %v, want ErrOtherStream that names the new one", a.err)
		}
	})
}

// A take that is under way when the stop comes is waited for, and given back.
func TestTakeUnderWayAtAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3, nil)
		first := f.start("first")
		f.await("leases", time.Minute, func() bool { return f.owners()["first"] == 3 })
		first.stop()
		<-first.done
		a := &member{fleet: f, store: f.table.Handle("a")}
		a.store.Break(store.Fault{Kind: store.Slow, Ops: []store.Op{store.Update}, Delay: time.Second})
		w, err := worker.New(worker.Config{ID: "a", Streams: worker.One(f.stream, core.FromHorizon), Store: a.store, Process: f.record("a")}, worker.WithHooks(worker.EventFunc(f.event)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- w.Run(ctx) }()
		time.Sleep(100 * time.Millisecond)
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		if o := f.owners(); o["a"] != 0 || f.count(worker.LeaseTaken, "a") != 3 {
			t.Errorf("owners %v after the stop, %d taken", o, f.count(worker.LeaseTaken, "a"))
		}
		if n := f.count(worker.StoreError, "a") + f.count(worker.ReadError, "a"); n != 0 {
			t.Errorf("%d errors told of though the stop was in order", n)
		}
	})
}

// The table that a Java fleet left after it had begun at a time: rows without our flag beneath parents that are listed, closed before that time, and have no
// leases. They are where it began, and are read.
func TestForeignRowsAtATime(t *testing.T) {
	var began time.Time
	bubble(t, 1, func(c *worker.Config) {
		all, _ := c.Streams.Streams(context.Background())
		c.Streams = worker.One(all[0].Source, core.From(began))
	}, func(t *testing.T, f *fleet) {
		parent := f.open()[0]
		f.stream.Put("old", nil)
		if _, _, err := f.stream.Split(parent); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		began = time.Now()
		for _, s := range f.open() {
			_, err := f.table.Create(t.Context(), core.Lease{
				Key: core.LeaseKey{Stream: id(t, f), Shard: s}, Owner: "java-1", Counter: 3, Parents: []core.ShardID{parent},
				Checkpoint: core.Position{Anchor: core.AtTime}, StartAt: began,
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		f.put(20, 5)
		f.start("a")
		f.await("read", time.Minute, f.allDelivered)
		if _, ok := f.shard(parent); ok {
			t.Error("a lease was made for a parent that ended before the start")
		}
	})
}
