package worker_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

// again kills a worker and starts another under its id.
func (f *fleet) again(id core.WorkerID) *member {
	f.t.Helper()
	former := f.member(id)
	former.kill()
	f.start(string(id))
	i, last := slices.Index(f.members, former), len(f.members)-1
	f.members[i], f.members[last] = f.members[last], former // the first of an id is the one that is meant
	return f.members[i]
}

// A process that is killed and begun anew under its id finds rows of a led table that name it by a run of the former one. It reads them once that
// one is dead: whoever leads, it alone too, and one of another library that goes on assigning them to this id.
func TestRestartUnderTheSameIDInALedTable(t *testing.T) {
	for name, who := range map[string]struct {
		ids   []string
		again func(f *fleet) core.WorkerID
	}{
		"alone":      {[]string{"a"}, func(*fleet) core.WorkerID { return "a" }},
		"the leader": {[]string{"a", "b"}, func(f *fleet) core.WorkerID { return f.leader() }},
		"a member":   {[]string{"a", "b"}, func(f *fleet) core.WorkerID { return others(f.leader(), "a", "b")[0] }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 4, nil, func(t *testing.T, f *fleet) {
				f.table.Share(led)
				var ids []core.WorkerID
				for _, id := range who.ids {
					f.start(id)
					ids = append(ids, core.WorkerID(id))
				}
				f.await("even", time.Minute, func() bool { return f.even(4, ids...) })
				f.put(80, 16)
				f.await("delivered", time.Minute, f.allDelivered)
				f.again(who.again(f))
				f.put(80, 16)
				took := f.await("delivered", 45*time.Second, f.allDelivered)
				t.Logf("read again after %v", took)
				f.await("even", time.Minute, func() bool { return f.even(4, ids...) })
				for _, id := range ids {
					if n := f.count(worker.TwinSeen, id); n != 0 {
						t.Errorf("%s told of a twin %d times: the former process is dead", id, n)
					}
				}
			})
		})
	}
	t.Run("another leads, and assigns to this id", func(t *testing.T) {
		bubble(t, 2, func(c *worker.Config) { c.NeverLead = true }, func(t *testing.T, f *fleet) {
			f.table.Share(led)
			for _, s := range f.open() {
				key := core.LeaseKey{Stream: id(t, f), Shard: s}
				if _, err := f.table.Create(t.Context(), core.Lease{Key: key, Owner: "a", Run: core.NewRun("a", "former.1"), Counter: 7, Checkpoint: core.FromHorizon, Ready: true}); err != nil {
					t.Fatal(err)
				}
			}
			f.start("a")
			f.put(40, 8)
			time.Sleep(8 * time.Second)
			for _, l := range f.table.Rows() { // as a leader does whose time for the former owner is over
				write := core.Assign(&l, "a")
				if _, err := f.table.Update(t.Context(), l, write.Same, write.Set); err != nil {
					t.Fatal(err)
				}
			}
			f.await("delivered", 15*time.Second, f.allDelivered)
			if n := f.count(worker.TwinSeen, "a"); n != 0 {
				t.Errorf("a twin was told of %d times", n)
			}
		})
	})
}

// The leader of a table gives on a lease that is stuck in a hand-over also where the run of a former worker of the owner's id stands in it.
func TestStuckHandOverUnderAFormerRun(t *testing.T) {
	bubble(t, 1, nil, func(t *testing.T, f *fleet) {
		f.table.Share(led)
		key := core.LeaseKey{Stream: id(t, f), Shard: f.open()[0]}
		l, err := f.table.Create(t.Context(), core.Lease{Key: key, Owner: "java-1", Next: "a", Run: core.NewRun("java-1", "former.1"), Counter: 3, Checkpoint: core.FromHorizon, Ready: true})
		if err != nil {
			t.Fatal(err)
		}
		defer renews(t, f, l)()
		if err := f.table.Announce(t.Context(), core.WorkerInfo{ID: "java-1", Beat: "1796039607"}); err != nil {
			t.Fatal(err)
		}
		f.start("a")
		f.await("given on", 80*time.Second, func() bool { return f.owners()["a"] == 1 })
	})
}

// renews goes on renewing a lease until its counter is another's, and hears nothing. stop ends that.
func renews(t *testing.T, f *fleet, l core.Lease) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		tick := time.NewTicker(3 * time.Second)
		defer tick.Stop()
		for err := error(nil); err == nil; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				l, err = f.table.Update(ctx, l, core.SameCounter, core.Set{Bump: true})
			}
		}
	}()
	return cancel
}

// quietTable shows no rows of workers, as where an older KCL may read the table.
type quietTable struct{ *store.Store }

func (q quietTable) Look(ctx context.Context, streams ...core.StreamID) (core.Sight, error) {
	s, err := q.Store.Look(ctx, streams...)
	s.Workers = nil
	return s, err
}

// Where workers of another library take, one of them may have the id of a former worker of this library, whose run it leaves in its rows: so it is
// asked for leases like one of ours, and does not hear. What was asked for in vain is taken: by who asked, or, where that one is gone, by another.
func TestAskedInVain(t *testing.T) {
	for name, next := range map[string]core.WorkerID{"by this worker": core.Nobody, "by one that is gone": "gone"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(c *worker.Config) { c.Store = quietTable{c.Store.(*store.Store)} }, func(t *testing.T, f *fleet) {
				f.table.Share(&core.Foreigners{Regime: "kcl2", Steal: true, KeepFinished: true})
				for _, s := range f.open() {
					key := core.LeaseKey{Stream: id(t, f), Shard: s}
					l, err := f.table.Create(t.Context(), core.Lease{Key: key, Owner: "java-1", Next: next, Run: core.NewRun("java-1", "former.1"), Counter: 3, Checkpoint: core.FromHorizon, Ready: true})
					if err != nil {
						t.Fatal(err)
					}
					defer renews(t, f, l)()
				}
				f.start("a")
				took := f.await("its share", 2*time.Minute, func() bool { return f.owners()["a"] == 1 })
				if took < time.Minute {
					t.Errorf("taken by force after %v: a worker of this library has its HandlerStopTimeout, 30 s, to say no", took)
				}
				time.Sleep(2 * time.Minute)
				if o := f.owners(); o["a"] != 1 || o["java-1"] != 1 {
					t.Errorf("owners %v two minutes later", o)
				}
			})
		})
	}
}

// A worker that shall never lead asks for a lock whose holder is dead no more often than for another, and looks at the table as always.
func TestNeverLeadBesideADeadLeader(t *testing.T) {
	bubble(t, 2, func(c *worker.Config) { c.NeverLead = true }, func(t *testing.T, f *fleet) {
		f.table.Share(led)
		if _, err := f.table.Lead(t.Context(), core.Lock{}, "java-1"); err != nil {
			t.Fatal(err)
		}
		a := f.start("a")
		time.Sleep(3 * time.Minute)
		before := a.store.Calls()
		time.Sleep(time.Minute)
		after := a.store.Calls()
		if looks, locks := after[store.Look]-before[store.Look], after[store.Leader]-before[store.Leader]; looks > 40 || locks > 10 {
			t.Errorf("%d looks a minute and %d readings of the lock, at most 40 and 10", looks, locks)
		}
	})
}

// What several rows that are stuck in hand-overs to a worker that is gone come to is spread over those that are there.
func TestStuckHandOversAreSpread(t *testing.T) {
	bubble(t, 4, nil, func(t *testing.T, f *fleet) {
		f.table.Share(led)
		for _, s := range f.open() {
			key := core.LeaseKey{Stream: id(t, f), Shard: s}
			l, err := f.table.Create(t.Context(), core.Lease{Key: key, Owner: "java-1", Next: "gone", Counter: 3, Checkpoint: core.FromHorizon})
			if err != nil {
				t.Fatal(err)
			}
			defer renews(t, f, l)()
		}
		f.start("a")
		f.start("b")
		f.await("given on", time.Minute, func() bool { return f.owners()["java-1"] == 0 })
		f.await("accepted", 10*time.Second, func() bool { return f.even(4, "a", "b") })
		if n := f.count(worker.LeaseHandedOver, "a") + f.count(worker.LeaseHandedOver, "b"); n > 0 {
			t.Errorf("%d leases were handed on again to be spread", n)
		}
	})
}

// A lease that has ended may name a worker that is gone for ever: it is not the one who lists, though those of another library may think so.
func TestTheDeadDoNotList(t *testing.T) {
	bubble(t, 2, nil, func(t *testing.T, f *fleet) {
		f.table.Share(&core.Foreigners{Regime: "kcl2", Steal: true, KeepFinished: true, Lister: func(owners []core.WorkerID) core.WorkerID { return owners[0] }})
		ended := core.Lease{Key: core.LeaseKey{Stream: id(t, f), Shard: "ended"}, Owner: "a", Counter: 7, Checkpoint: core.AtShardEnd}
		if _, err := f.table.Create(t.Context(), ended); err != nil {
			t.Fatal(err)
		}
		f.start("b")
		f.start("c")
		f.await("its part is read", time.Minute, func() bool { return f.even(2, "b", "c") })
		f.await("who lists", 20*time.Second, func() bool { return f.member("b").Status().Lister && !f.member("c").Status().Lister })
		f.await("deleted", 20*time.Minute, func() bool { _, err := f.table.Get(t.Context(), ended.Key); return errors.Is(err, core.ErrNotFound) })
	})
}

// A lease that this worker gave away is deleted and made anew, with a counter from the beginning, and given to it again: it is another lease.
func TestAdoptsALeaseThatWasMadeAnew(t *testing.T) {
	for name, pause := range map[string]time.Duration{"seen to be gone": 5 * time.Second, "between two looks": 0} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(c *worker.Config) { c.NeverLead = true }, func(t *testing.T, f *fleet) {
				f.table.Share(led)
				key := core.LeaseKey{Stream: id(t, f), Shard: f.open()[0]}
				l := core.Lease{Key: key, Owner: "a", Counter: 50, Checkpoint: core.FromHorizon, Ready: true}
				if _, err := f.table.Create(t.Context(), l); err != nil {
					t.Fatal(err)
				}
				f.start("a")
				f.await("accepted", 5*time.Second, func() bool { return f.count(worker.LeaseAccepted, "a") == 1 })
				if err := f.table.Announce(t.Context(), core.WorkerInfo{ID: "b", Beat: "1"}); err != nil {
					t.Fatal(err)
				}
				seen, _ := f.shard(key.Shard)
				write := core.AskFor("b")
				if _, err := f.table.Update(t.Context(), seen, write.Same, write.Set); err != nil {
					t.Fatal(err)
				}
				f.await("handed over", 8*time.Second, func() bool { return f.count(worker.LeaseHandedOver, "a") == 1 })
				if err := f.table.Delete(t.Context(), core.Lease{Key: key}, 0); err != nil {
					t.Fatal(err)
				}
				time.Sleep(pause)
				l.Counter = 1
				if _, err := f.table.Create(t.Context(), l); err != nil {
					t.Fatal(err)
				}
				f.await("accepted again", 10*time.Second, func() bool { return f.count(worker.LeaseAccepted, "a") == 2 })
				f.put(10, 2)
				f.await("delivered", 10*time.Second, f.allDelivered)
			})
		})
	}
}
