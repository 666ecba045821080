package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

// A worker that stops hands its leases to those that are there then, not to one that it saw a look ago and that has stopped since: such a lease
// would wait to expire.
func TestStopsInQuickSuccession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 9, nil)
		a, b := f.start("a"), f.start("b")
		f.start("c")
		f.await("even", time.Minute, func() bool { o := f.owners(); return o["a"] == 3 && o["b"] == 3 && o["c"] == 3 })
		time.Sleep(20 * time.Second)
		a.stop()
		<-a.done
		time.Sleep(10 * time.Millisecond)
		b.stop()
		<-b.done
		took := f.await("c has all", time.Minute, func() bool { return f.owners()["c"] == 9 })
		if took > 3*time.Second {
			t.Errorf("c had all %v after the second stop, at most 3 s", took)
		}
	})
}

// A worker that asked for leases and stops before it got them takes that back: what is handed to it after it has gone would wait to expire.
func TestStopTakesBackWhatWasAskedFor(t *testing.T) {
	var busy atomic.Bool
	bubble(t, 4, func(c *worker.Config) {
		record := c.Process
		c.Process = func(ctx context.Context, b *core.Batch) error {
			if busy.Load() {
				time.Sleep(5 * time.Second)
			}
			return record(ctx, b)
		}
	}, func(t *testing.T, f *fleet) {
		f.start("a")
		f.await("held", time.Minute, func() bool { return f.owners()["a"] == 4 })
		busy.Store(true)
		f.put(40, 40)
		synctest.Wait() // a is in its handlers: it hands nothing over for 5 s
		b := f.start("b")
		f.await("asked", time.Minute, func() bool { return f.count(worker.LeaseAsked, "b") == 2 })
		b.stop()
		<-b.done
		for _, l := range f.table.Rows() {
			if l.Next != core.Nobody {
				t.Errorf("after the stop of b lease %s is still asked for by %q", l.Key.Shard, l.Next)
			}
		}
		busy.Store(false)
		f.put(40, 40)
		took := f.await("delivered", time.Minute, f.allDelivered)
		if o := f.owners(); o["a"] != 4 || took > 9*time.Second {
			t.Errorf("owners %v %v after the stop", o, took)
		}
		f.check()
	})
}

// onHandOver is a store that does something once, when the worker is about to send the write that hands a lease to another.
type onHandOver struct {
	*store.Store
	to   core.WorkerID
	once atomic.Pointer[func(seen core.Lease)]
}

func (s *onHandOver) Update(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
	if set.Owner != nil && *set.Owner == s.to {
		if once := s.once.Swap(nil); once != nil {
			(*once)(seen)
		}
	}
	return s.Store.Update(ctx, seen, same, set)
}

// The owner has let go already when it finds the ask taken back, or has sent a hand-over whose answer is lost and that may come late: it declines,
// which bumps the counter, and goes on.
func TestHandOverThatIsNoLongerAskedFor(t *testing.T) {
	for name, fault := range map[string]store.Fault{
		"slow":         {Kind: store.Slow, Delay: 500 * time.Millisecond},
		"lost":         {Kind: store.Fail, Delay: 500 * time.Millisecond},
		"late by 2 s":  {Kind: store.Late, Delay: 2 * time.Second},
		"late by 30 s": {Kind: store.Late, Delay: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			var tap *onHandOver
			bubble(t, 1, func(c *worker.Config) {
				tap = &onHandOver{Store: c.Store.(*store.Store), to: "b"}
				c.Store = tap
			}, func(t *testing.T, f *fleet) {
				a := f.start("a")
				f.put(10, 5)
				f.await("delivered", time.Minute, f.allDelivered)
				once := func(seen core.Lease) {
					w := core.Unask()
					if _, err := f.table.Update(t.Context(), seen, w.Same, w.Set); err != nil {
						t.Error(err)
					}
					fault.Ops, fault.Times = []store.Op{store.Update}, 1
					a.store.Break(fault)
				}
				tap.once.Store(&once)
				if err := f.table.Announce(t.Context(), core.WorkerInfo{ID: "b", Beat: "1"}); err != nil {
					t.Fatal(err)
				}
				l := f.table.Rows()[0]
				if _, err := f.table.Update(t.Context(), l, core.Ask("b").Same, core.Ask("b").Set); err != nil {
					t.Fatal(err)
				}
				f.await("let go", 10*time.Second, func() bool { return f.count(worker.ShardStopped, "a") == 1 })
				f.put(10, 5)
				f.await("read on by a", 9*time.Second, f.allDelivered)
				time.Sleep(time.Minute)
				if o := f.owners(); o["a"] != 1 || f.count(worker.LeaseHandedOver, "a")+f.count(worker.LeaseLost, "a") != 0 || f.count(worker.LeaseDeclined, "a") != 1 {
					t.Errorf("owners %v, %d handed over, %d lost, %d declined", o, f.count(worker.LeaseHandedOver, "a"), f.count(worker.LeaseLost, "a"), f.count(worker.LeaseDeclined, "a"))
				}
				f.check()
			})
		})
	}
}

// A worker that a new one finds in the table may have died a moment before: nothing is handed to it until it gave a sign of life.
func TestStopHandsNothingToTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 4, nil)
		if err := f.table.Announce(t.Context(), core.WorkerInfo{ID: "ghost", Beat: "1"}); err != nil {
			t.Fatal(err)
		}
		a := f.start("a")
		f.await("held", time.Minute, func() bool { return f.owners()["a"] > 0 })
		a.stop()
		<-a.done
		if o := f.owners(); o["ghost"] != 0 || o["a"] != 0 {
			t.Errorf("owners after the stop: %v", o)
		}
		f.start("b")
		took := f.await("b has all", time.Minute, func() bool { return f.owners()["b"] == 4 })
		if took > 12*time.Second {
			t.Errorf("b had all after %v", took)
		}
		f.stopAll()
	})
}
