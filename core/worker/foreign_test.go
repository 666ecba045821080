package worker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

// sharedTable is a table that workers of another library may use.
type sharedTable struct {
	*store.Store
	by core.Foreigners
}

func (s sharedTable) SharedWith() *core.Foreigners { return &s.by }

// shareTable lets a fleet's workers share their table with others whose leases last 20 s, as the Java Stream Client's.
func shareTable(c *worker.Config) {
	c.Store = sharedTable{c.Store.(*store.Store), core.Foreigners{LeaseDuration: 20 * time.Second, CountFinished: true, LeaseListed: true}}
}

// javaTakes writes java-1 into a row as its owner, whoever it was, and begins to renew it. stop ends that.
func javaTakes(t *testing.T, f *fleet, shard core.ShardID, every time.Duration) (stop func()) {
	t.Helper()
	key := core.LeaseKey{Stream: id(t, f), Shard: shard}
	l, err := f.table.Create(t.Context(), core.Lease{Key: key, Owner: "java-1", Counter: 3, Checkpoint: core.FromHorizon})
	if errors.Is(err, core.ErrExists) {
		if l, err = f.table.Get(t.Context(), key); err == nil {
			l, err = f.table.Update(t.Context(), l, core.SameCounter, core.Set{Bump: true, Owner: new(core.WorkerID("java-1")), Next: new(core.Nobody)})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if l, err = f.table.Update(ctx, l, core.SameCounter, core.Set{Bump: true}); err != nil {
					return
				}
			}
		}
	}()
	return cancel
}

// Where they may share, an owner of the other library is left its leases, as long as its own library would: also of a row that was ours.
func TestSharedTableWaitsForForeigners(t *testing.T) {
	bubble(t, 2, shareTable, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.await("all held", time.Minute, func() bool { return f.owners()["a"] == 2 })
		shard := f.open()[0]
		stop := javaTakes(t, f, shard, 12*time.Second) // slower than our lease duration, well within theirs
		time.Sleep(2 * time.Minute)
		if o := f.owners(); o["java-1"] != 1 || o["a"] != 1 {
			t.Fatalf("owners %v after two minutes: java-1 renews its lease in time", o)
		}
		select {
		case <-a.done:
			t.Fatalf("a ended: %v", a.err)
		default:
		}
		stop()
		last := f.counter(shard)
		gone := time.Now()
		f.await("taken over", time.Minute, func() bool { return f.owners()["a"] == 2 })
		if d := time.Since(gone); d < 9*time.Second || d > 24*time.Second { // its last renewal may be 12 s old
			t.Errorf("taken over %v after java-1 stopped, at counter %d", d, last)
		}
	})
}

func (f *fleet) counter(s core.ShardID) int64 {
	l, ok := f.shard(s)
	if !ok {
		f.t.Fatalf("no lease of %s", s)
	}
	return l.Counter
}

// Finished leases that the other library goes on owning are part of its share.
func TestSharedTableCountsFinished(t *testing.T) {
	bubble(t, 4, shareTable, func(t *testing.T, f *fleet) {
		for _, name := range []core.ShardID{"old-1", "old-2"} {
			l, err := f.table.Create(t.Context(), core.Lease{Key: core.LeaseKey{Stream: id(t, f), Shard: name}, Checkpoint: core.AtShardEnd})
			if err != nil {
				t.Fatal(err)
			}
			defer javaTakes(t, f, l.Key.Shard, 6*time.Second)()
		}
		for _, s := range f.open()[:2] {
			defer javaTakes(t, f, s, 6*time.Second)()
		}
		for _, s := range f.open()[2:] {
			if _, err := f.table.Create(t.Context(), core.Lease{Key: core.LeaseKey{Stream: id(t, f), Shard: s}, Checkpoint: core.FromHorizon, Ready: true}); err != nil {
				t.Fatal(err)
			}
		}
		f.start("a")
		asked := func() (n int) {
			for _, l := range f.table.Rows() {
				if l.Owner == "java-1" && l.Next == "a" {
					n++
				}
			}
			return n
		}
		f.await("a asks for the third of six", time.Minute, func() bool { return f.owners()["a"] == 2 && asked() == 1 })
		time.Sleep(time.Minute)
		if asked() != 1 {
			t.Errorf("a asks for %d leases: of six, two finished ones among java-1's, each has three", asked())
		}
	})
}

// One that asks for a lease is given it, though nobody ever saw it: it announces itself to nobody.
func TestSharedTableHandsOver(t *testing.T) {
	bubble(t, 2, shareTable, func(t *testing.T, f *fleet) {
		f.start("a")
		f.await("all held", time.Minute, func() bool { return f.owners()["a"] == 2 })
		l, _ := f.shard(f.open()[0])
		if _, err := f.table.Update(t.Context(), l, core.SameOwner|core.SameNext, core.Set{Next: new(core.WorkerID("java-9"))}); err != nil {
			t.Fatal(err)
		}
		d := f.await("handed over", time.Minute, func() bool { return f.owners()["java-9"] == 1 })
		if d > 5*time.Second {
			t.Errorf("it took %v to hand over", d)
		}
		f.await("taken back, since java-9 never came", time.Minute, func() bool { return f.owners()["a"] == 2 })
	})
}

// No lease is missing for a listed shard: one that was over before a LATEST start has one at its end, and finished ones stay.
func TestSharedTableLeasesWhatIsListed(t *testing.T) {
	bubble(t, 1, func(c *worker.Config) {
		shareTable(c)
		all, _ := c.Streams.Streams(context.Background())
		c.Streams = worker.One(all[0].Source, core.FromLatest)
	}, func(t *testing.T, f *fleet) {
		first := f.open()[0]
		f.stream.Put("old", nil)
		f.split(first)
		time.Sleep(time.Second)
		f.start("a")
		f.await("the one that was over is at its end", 15*time.Second, func() bool { l, ok := f.shard(first); return ok && l.Ended() })
		second := f.open()[0]
		f.split(second)
		f.put(20, 5)
		f.await("delivered", time.Minute, f.allDelivered)
		time.Sleep(time.Hour)
		for _, s := range []core.ShardID{first, second} {
			if l, ok := f.shard(s); !ok || !l.Ended() {
				t.Errorf("the lease of %s is gone, or not at its end, though it is listed", s)
			}
		}
		f.check()
	})
}

func TestSharedTableNeedsShorterLeases(t *testing.T) {
	f := newFleet(t, 1, nil)
	_, err := worker.New(worker.Config{
		Streams: worker.One(f.stream, core.FromHorizon), Process: func(context.Context, *core.Batch) error { return nil },
		Store: sharedTable{f.table, core.Foreigners{LeaseDuration: 9 * time.Second}},
	})
	if !errors.Is(err, core.ErrInvalid) || !containsText(err, "LeaseDuration is 10s") || !containsText(err, "9s") {
		t.Errorf("error is %v, want ErrInvalid that names both durations", err)
	}
}

// Without a word that they may share, a worker of another library that takes what was ours ends the worker too.
func TestForeignWorkerThatTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, nil)
		a := f.start("a")
		f.await("all held", time.Minute, func() bool { return f.owners()["a"] == 2 })
		defer javaTakes(t, f, f.open()[0], 3*time.Second)()
		f.await("a ends", time.Minute, func() bool {
			select {
			case <-a.done:
				return true
			default:
				return false
			}
		})
		if !errors.Is(a.err, core.ErrForeignWorker) || !containsText(a.err, "java-1") {
			t.Errorf("Run: %v, want ErrForeignWorker that names java-1", a.err)
		}
	})
}

// A worker of the KCL 2.x does not hear that it is asked for a lease: what is its surplus is taken from it while it lives, and no more.
func TestStealFromForeigners(t *testing.T) {
	bubble(t, 4, nil, func(t *testing.T, f *fleet) {
		f.table.Share(&core.Foreigners{Regime: "kcl2", Steal: true, KeepFinished: true})
		for _, s := range f.open() {
			defer javaTakes(t, f, s, 3300*time.Millisecond)()
		}
		f.put(40, 8)
		f.start("a")
		f.await("even", 30*time.Second, func() bool { return f.even(4, "a", "java-1") })
		if n := f.count(worker.LeaseAsked, "a"); n != 0 {
			t.Errorf("%d leases asked for: nobody hears that", n)
		}
		time.Sleep(2 * time.Minute)
		if !f.even(4, "a", "java-1") || f.count(worker.LeaseTaken, "a") != 2 {
			t.Errorf("owners %v, %d leases taken: two are everybody's share", f.owners(), f.count(worker.LeaseTaken, "a"))
		}
	})
}

// Java workers whose failoverTimeMillis is longer than ours renew more seldom; that is no sign of death.
func TestForeignersWithALongerLease(t *testing.T) {
	bubble(t, 2, func(c *worker.Config) { c.MaxLeases = 1 }, func(t *testing.T, f *fleet) {
		f.table.Share(&core.Foreigners{Regime: "kcl2", Steal: true})
		slow := f.open()[0]
		stop := javaTakes(t, f, slow, 10*time.Second)
		f.start("a")
		f.await("the free one", time.Minute, func() bool { return f.owners()["a"] == 1 })
		time.Sleep(5 * time.Minute)
		if l, _ := f.shard(slow); l.Owner != "java-1" {
			t.Fatalf("%s was taken from an owner that lives, by %q", slow, l.Owner)
		}
		f.start("b")
		time.Sleep(2 * time.Minute)
		stop()
		took := f.await("taken over", time.Minute, func() bool { return f.owners()["b"] == 1 })
		if took < 20*time.Second {
			t.Errorf("taken over %v after its death: three renewals take 30 s", took)
		}
	})
}

// Where other workers choose who lists shards, the one they choose lists them, be it one of ours or one of theirs.
func TestForeignRuleOfWhoLists(t *testing.T) {
	bubble(t, 2, nil, func(t *testing.T, f *fleet) {
		f.table.Share(&core.Foreigners{Regime: "kcl2", Steal: true, Lister: func(owners []core.WorkerID) core.WorkerID { return owners[len(owners)-1] }})
		f.start("a")
		f.start("b")
		f.await("even", time.Minute, func() bool { return f.even(2, "a", "b") })
		f.await("who lists", 10*time.Second, func() bool { return !f.member("a").Status().Lister && f.member("b").Status().Lister })
		java, err := f.table.Create(t.Context(), core.Lease{Key: core.LeaseKey{Stream: id(t, f), Shard: "x"}, Owner: "java-1", Checkpoint: core.FromHorizon})
		if err != nil {
			t.Fatal(err)
		}
		f.await("who lists", 10*time.Second, func() bool { return !f.member("a").Status().Lister && !f.member("b").Status().Lister })
		if err := f.table.Delete(t.Context(), java, 0); err != nil {
			t.Fatal(err)
		}
	})
}

// A row that was given to a worker, and then to another before the first began, is passed on by the first: nobody else would.
func TestUnbegunHandOverIsCompleted(t *testing.T) {
	bubble(t, 2, nil, func(t *testing.T, f *fleet) {
		f.table.Share(led)
		f.start("a")
		f.start("b")
		f.await("even", time.Minute, func() bool { return f.even(2, "a", "b") })
		key := core.LeaseKey{Stream: id(t, f), Shard: "extra"}
		if _, err := f.table.Create(t.Context(), core.Lease{Key: key, Owner: "a", Next: "b", Counter: 7, Checkpoint: core.Position{Token: "1"}, Ready: true}); err != nil {
			t.Fatal(err)
		}
		f.await("passed on", 5*time.Second, func() bool {
			l, err := f.table.Get(t.Context(), key)
			return err == nil && l.Owner == "b" && l.Next == core.Nobody
		})
		if f.count(worker.LeaseAccepted, "a") > 1 {
			t.Error("accepted first")
		}
	})
}
