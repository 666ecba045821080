package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/balance"
	"github.com/shardwarden/shardwarden/core/worker"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

// led are the rules of a table that one worker leads.
var led = &core.Foreigners{Regime: "kcl3", Led: true, KeepFinished: true}

// leader is who leads, as the lock says.
func (f *fleet) leader() core.WorkerID {
	l, err := f.table.Leader(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return l.Owner
}

func (f *fleet) member(id core.WorkerID) *member {
	for _, m := range f.members {
		if m.ID() == id {
			return m
		}
	}
	f.t.Fatalf("no worker %s", id)
	return nil
}

// kill cuts a worker off from everything: to the others it is dead.
func (m *member) kill() {
	m.store.Break(store.Fault{Hang: true})
	m.src.Break(source.Fault{Hang: true})
}

// even reports whether these workers, and nobody else, own all n open leases within one of each other.
func (f *fleet) even(n int, ids ...core.WorkerID) bool {
	owners, sum := f.owners(), 0
	for _, id := range ids {
		if owners[id] < n/len(ids) || owners[id] > (n+len(ids)-1)/len(ids) {
			return false
		}
		sum += owners[id]
	}
	return sum == n
}

// In a led table one worker says who gets what: the spread is even, nobody takes or asks for himself, and whoever comes gets its part.
func TestLedFleet(t *testing.T) {
	bubble(t, 12, nil, func(t *testing.T, f *fleet) {
		f.table.Share(led)
		f.start("a")
		f.start("b")
		f.await("even", 40*time.Second, func() bool { return f.even(12, "a", "b") })
		f.put(240, 24)
		f.await("delivered", time.Minute, f.allDelivered)
		f.start("c")
		f.await("even again", 40*time.Second, func() bool { return f.even(12, "a", "b", "c") })
		f.put(240, 24)
		f.await("delivered", time.Minute, f.allDelivered)
		if n := f.duplicates(); n != 0 {
			t.Errorf("%d records came twice: hand-overs repeat nothing", n)
		}
		leader := f.leader()
		for _, id := range []core.WorkerID{"a", "b", "c"} {
			if id != leader && f.count(worker.LeaseTaken, id)+f.count(worker.LeaseAsked, id)+f.count(worker.LeaseAssigned, id) > 0 {
				t.Errorf("%s takes, asks or assigns, and %s leads", id, leader)
			}
			if s := f.member(id).Status(); s.Leader != leader || s.Regime != "kcl3" || s.Lister != (id == leader) {
				t.Errorf("status of %s: leader %q, regime %q, lister %v; %q leads", id, s.Leader, s.Regime, s.Lister, leader)
			}
		}
	})
}

// The leases of a dead member name a live worker within a lease duration and a look; those of a dead leader once its lock has run out.
func TestLedFleetSurvives(t *testing.T) {
	bubble(t, 8, nil, func(t *testing.T, f *fleet) {
		f.table.Share(led)
		f.start("a")
		f.start("b")
		f.start("c")
		f.await("even", time.Minute, func() bool { return f.even(8, "a", "b", "c") })
		leader := f.leader()
		others := others(leader, "a", "b", "c")
		f.member(others[0]).kill()
		took := f.await("the dead member's leases", 15*time.Second, func() bool { return f.even(8, leader, others[1]) })
		t.Logf("a member died: %v", took)
		f.put(80, 16)
		f.await("delivered", time.Minute, f.allDelivered)
		f.member(leader).kill()
		took = f.await("the dead leader's leases", time.Minute, func() bool { return f.even(8, others[1]) && f.leader() == others[1] })
		t.Logf("the leader died: %v", took)
		f.put(80, 16)
		f.await("delivered", time.Minute, f.allDelivered)
	})
}

// A worker that stops hands its leases on itself, and the lead back.
func TestLedFleetStops(t *testing.T) {
	bubble(t, 8, nil, func(t *testing.T, f *fleet) {
		f.table.Share(led)
		f.start("a")
		f.start("b")
		f.await("even", time.Minute, func() bool { return f.even(8, "a", "b") })
		leader := f.leader()
		other := others(leader, "a", "b")[0]
		m := f.member(leader)
		start := time.Now()
		m.stop()
		<-m.done
		if took := time.Since(start); took > 2*time.Second || !f.even(8, other) {
			t.Errorf("after %v the leases are %v, all to be %s's", took, f.owners(), other)
		}
		if f.leader() != core.Nobody {
			t.Errorf("%s has stopped and leads still", f.leader())
		}
		f.await("led again", 15*time.Second, func() bool { return f.leader() == other })
		f.put(80, 16)
		f.await("delivered", time.Minute, f.allDelivered)
		if n := f.duplicates(); n != 0 {
			t.Errorf("%d records came twice", n)
		}
	})
}

// A worker that is never to lead takes no lock, gives nobody anything, and does what it is told.
func TestNeverLead(t *testing.T) {
	bubble(t, 4, func(c *worker.Config) { c.NeverLead = c.ID == "a" }, func(t *testing.T, f *fleet) {
		f.table.Share(led)
		f.start("a")
		time.Sleep(2 * time.Minute)
		if f.leader() != core.Nobody || len(f.table.Rows()) != 0 {
			t.Errorf("%q leads, %d leases", f.leader(), len(f.table.Rows()))
		}
		f.start("b")
		f.await("even", time.Minute, func() bool { return f.even(4, "a", "b") })
	})
}

// The rules change under a running fleet, to and fro: nothing is lost and nothing comes twice.
func TestRegimeChanges(t *testing.T) {
	bubble(t, 8, nil, func(t *testing.T, f *fleet) {
		f.start("a")
		f.start("b")
		f.await("even", time.Minute, func() bool { return f.even(8, "a", "b") })
		for i, rules := range []*core.Foreigners{led, nil, led} {
			f.table.Share(rules)
			f.put(80, 16)
			f.start([]string{"c", "d", "e"}[i])
			ids := []core.WorkerID{"a", "b", "c", "d", "e"}[:3+i]
			f.await("even", time.Minute, func() bool { return f.even(8, ids...) })
			f.await("delivered", time.Minute, f.allDelivered)
			if rules == nil {
				f.await("the lead given back", 5*time.Second, func() bool { return f.leader() == core.Nobody })
			}
		}
		if n := f.duplicates(); n != 0 {
			t.Errorf("%d records came twice", n)
		}
		if f.count(worker.RegimeChanged, "a") != 3 {
			t.Errorf("%d changes told", f.count(worker.RegimeChanged, "a"))
		}
	})
}

// Two that believe themselves leaders at once do no harm: what each writes is conditional.
func TestTwoLeaders(t *testing.T) {
	bubble(t, 8, nil, func(t *testing.T, f *fleet) {
		f.table.Share(led)
		f.start("a")
		f.start("b")
		f.start("c")
		f.await("even", time.Minute, func() bool { return f.even(8, "a", "b", "c") })
		first := f.leader()
		// Its lock is taken away, and it does not hear of it until it next writes it.
		l, err := f.table.Leader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := f.table.Resign(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		f.member(others(first, "a", "b", "c")[0]).kill()
		f.put(80, 16)
		f.await("another leads", time.Minute, func() bool {
			return f.leader() != core.Nobody && f.leader() != first || f.count(worker.LeadLost, first) > 0
		})
		f.await("delivered", 2*time.Minute, f.allDelivered)
	})
}

// A leader that can't renew its lock stops to lead before another may take it, though it reads the table and its leases are well.
func TestLeaderThatCannotRenewTheLock(t *testing.T) {
	bubble(t, 4, nil, func(t *testing.T, f *fleet) {
		f.table.Share(led)
		f.start("a")
		f.start("b")
		f.await("even", time.Minute, func() bool { return f.even(4, "a", "b") })
		first := f.leader()
		other := others(first, "a", "b")[0]
		f.member(first).store.Break(store.Fault{Ops: []store.Op{store.Lead, store.Leader, store.Resign}})
		f.await("it knows", 30*time.Second, func() bool { return f.count(worker.LeadLost, first) == 1 && !f.member(first).Status().Lister })
		if f.leader() != first {
			t.Errorf("%s has the lock already: two led", f.leader())
		}
		f.await("another leads", 30*time.Second, func() bool { return f.leader() == other })
	})
}

// A leader that can't read the table gives the lead up.
func TestBlindLeader(t *testing.T) {
	bubble(t, 4, nil, func(t *testing.T, f *fleet) {
		f.table.Share(led)
		f.start("a")
		f.start("b")
		f.await("even", time.Minute, func() bool { return f.even(4, "a", "b") })
		first := f.leader()
		f.member(first).store.Break(store.Fault{Ops: []store.Op{store.Look}})
		f.await("another leads", 30*time.Second, func() bool { return f.leader() == others(first, "a", "b")[0] })
	})
}

// A finished lease stays its owner's, who renews it, until it is deleted.
func TestFinishedLeaseIsKept(t *testing.T) {
	bubble(t, 2, nil, func(t *testing.T, f *fleet) {
		f.table.Share(led)
		f.start("a")
		f.start("b")
		f.await("even", time.Minute, func() bool { return f.even(2, "a", "b") })
		parent := f.open()[0]
		f.split(parent)
		f.await("ended", time.Minute, func() bool { l, ok := f.shard(parent); return ok && l.Ended() })
		before, _ := f.shard(parent)
		time.Sleep(time.Minute)
		after, ok := f.shard(parent)
		if !ok || after.Owner != before.Owner || after.Counter < before.Counter+10 {
			t.Errorf("before %+v, a minute later %v %+v: to be renewed by its owner", before, ok, after)
		}
		f.await("deleted", 10*time.Minute, func() bool { _, ok := f.shard(parent); return !ok })
	})
}

func others(not core.WorkerID, of ...core.WorkerID) (out []core.WorkerID) {
	for _, id := range of {
		if id != not {
			out = append(out, id)
		}
	}
	return out
}

// A row that is stuck in a hand-over, since its owner renews it and runs nothing for it, is given on by the leader when the time for that is over.
func TestStuckHandOver(t *testing.T) {
	bubble(t, 2, nil, func(t *testing.T, f *fleet) {
		f.table.Share(led)
		stuck := f.open()[0]
		defer javaTakes(t, f, stuck, 3*time.Second)()
		f.start("a")
		f.start("b")
		f.await("the other one read", time.Minute, func() bool { return f.owners()["a"]+f.owners()["b"] == 1 })
		l, _ := f.shard(stuck)
		if _, err := f.table.Update(t.Context(), l, core.SameOwner|core.SameNext, core.Set{Next: new(core.WorkerID("b"))}); err != nil {
			t.Fatal(err)
		}
		took := f.await("given on", time.Minute, func() bool { return f.owners()["b"] >= 1 && f.owners()["java-1"] == 0 })
		if took < 40*time.Second {
			t.Errorf("given on after %v: its owner has 30 s, and a lease duration to be heard of", took)
		}
	})
}

// What announces nothing gets nothing from a leader, and what it holds is left to it.
func TestLeaderPassesOverTheUnknown(t *testing.T) {
	bubble(t, 4, nil, func(t *testing.T, f *fleet) {
		f.table.Share(led)
		theirs := f.open()[0]
		defer javaTakes(t, f, theirs, 3*time.Second)()
		f.start("a")
		f.await("the others", time.Minute, func() bool { return f.owners()["a"] == 3 })
		time.Sleep(2 * time.Minute)
		if o := f.owners(); o["a"] != 3 || o["java-1"] != 1 {
			t.Errorf("owners %v", o)
		}
	})
}

// busyTable tells how busy workers are.
type busyTable struct {
	*store.Store
	cpu func(core.WorkerID) float64
}

func (b busyTable) Look(ctx context.Context, streams ...core.StreamID) (core.Sight, error) {
	s, err := b.Store.Look(ctx, streams...)
	for i := range s.Workers {
		s.Workers[i].Load = map[string]float64{"cpu": b.cpu(s.Workers[i].ID)}
	}
	return s, err
}

// By utilization the leader takes leases from who is busier than the others, a part of them a minute, and none where all are alike.
func TestLeaderEvensOutUtilization(t *testing.T) {
	var busy atomic.Bool
	cpu := func(id core.WorkerID) float64 {
		if busy.Load() && id == "a" {
			return 90
		}
		return 30
	}
	bubble(t, 12, func(c *worker.Config) {
		c.Utilization = &balance.Utilization{}
		c.Store = busyTable{c.Store.(*store.Store), cpu}
	}, func(t *testing.T, f *fleet) {
		f.table.Share(led)
		f.start("a")
		f.await("all owned", time.Minute, func() bool { return f.owners()["a"] == 12 })
		f.start("b")
		time.Sleep(5 * time.Minute)
		if o := f.owners(); o["a"] != 12 {
			t.Errorf("owners %v: a is no busier than b, whatever it has", o)
		}
		busy.Store(true)
		took := f.await("some moved", 3*time.Minute, func() bool { return f.owners()["b"] > 0 })
		some := f.owners()["b"]
		time.Sleep(30 * time.Second)
		if n := f.owners()["b"]; n != some || n > 4 {
			t.Errorf("%d moved after %v, %d half a minute later: a part of what is too much, a minute apart", some, took, n)
		}
		f.put(120, 24)
		f.await("delivered", time.Minute, f.allDelivered)
	})
}

// What was given to a worker as it stopped is given on, though the first readings of the table are not answered.
func TestStopSweepsUntilAnswered(t *testing.T) {
	bubble(t, 1, nil, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.await("held", time.Minute, func() bool { return f.owners()["a"] == 1 })
		key := core.LeaseKey{Stream: id(t, f), Shard: "given"}
		if _, err := f.table.Create(t.Context(), core.Lease{Key: key, Owner: "a", Counter: 7, Checkpoint: core.Position{Token: "1"}, Ready: true}); err != nil {
			t.Fatal(err)
		}
		a.store.Break(store.Fault{Ops: []store.Op{store.Look}, Times: 3})
		a.stop()
		<-a.done
		if l, err := f.table.Get(t.Context(), key); err != nil || l.Owner != core.Nobody {
			t.Errorf("lease %+v, error %v: it waits to expire", l, err)
		}
		if err := f.table.Delete(t.Context(), core.Lease{Key: key}, 0); err != nil {
			t.Fatal(err)
		}
	})
}
