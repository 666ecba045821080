package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

// turns lets calls of a table through in a given order, each once. A call whose turn does not come within a second goes ahead all the same: some
// orders cannot be.
type turns struct {
	mu   sync.Mutex
	left []string
	step chan struct{} // closed at each step
	on   bool
}

// begin puts an order in force.
func (o *turns) begin(order []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.left, o.step, o.on = order, make(chan struct{}), true
}

func (o *turns) wait(ctx context.Context, what string) {
	alarm := time.NewTimer(time.Second)
	defer alarm.Stop()
	for {
		o.mu.Lock()
		at := -1
		for i, w := range o.left {
			if w == what {
				at = i
			}
		}
		step := o.step
		o.mu.Unlock()
		if at <= 0 {
			return
		}
		select {
		case <-step:
		case <-alarm.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (o *turns) done(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, w := range o.left {
		if w == what {
			o.left = append(o.left[:i:i], o.left[i+1:]...)
			close(o.step)
			o.step = make(chan struct{})
			return
		}
	}
}

// inTurn is one worker's way to the table.
type inTurn struct {
	*store.Store
	o  *turns
	me core.WorkerID
}

func (s *inTurn) Look(ctx context.Context, streams ...core.StreamID) (core.Sight, error) {
	if s.me == "b" {
		s.o.wait(ctx, "list")
		defer s.o.done("list")
	}
	return s.Store.Look(ctx, streams...)
}

func (s *inTurn) Update(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
	what := ""
	switch {
	case s.me == "b" && set.Owner != nil && *set.Owner == "b":
		what = "take"
	case s.me == "a" && set.Owner != nil && *set.Owner != "a":
		what = "release"
	case s.me == "a" && set.Bump:
		what = "renew"
	}
	s.o.wait(ctx, what)
	defer s.o.done(what)
	return s.Store.Update(ctx, seen, same, set)
}

// A renewal that failed once, the release of its worker as it stops, and the look and the take of another, in all orders in which they can reach
// the table; and the same where what the first sends gets no answer and comes 15 s later, when the other has taken the lease: in the end the table has
// one owner, and that one reads (field case F15).
func TestReleaseLookAndTakeInAllOrders(t *testing.T) {
	for i, order := range slices.Repeat(permutations("renew", "release", "list", "take"), 2) {
		late := i >= 24
		t.Run(fmt.Sprint(i, order, " late ", late), func(t *testing.T) {
			o := &turns{}
			bubble(t, 1, func(c *worker.Config) {
				c.Store = &inTurn{c.Store.(*store.Store), o, c.ID}
			}, func(t *testing.T, f *fleet) {
				a := f.start("a")
				f.put(20, 5)
				f.await("delivered", time.Minute, f.allDelivered)
				a.store.Break(store.Fault{Ops: []store.Op{store.Update}, Err: core.ErrThrottled, Times: 1})
				o.begin(order)
				within := 15 * time.Second
				if late {
					a.store.Break(store.Fault{Kind: store.Late, Ops: []store.Op{store.Update}, Skip: 1, Delay: 15 * time.Second})
					within = 25 * time.Second
				}
				f.await("renewal failed", 10*time.Second, func() bool { return f.count(worker.StoreError, "a") > 0 })
				f.start("b")
				a.stop()
				f.put(20, 5)
				took := f.await("read by b", time.Minute, f.allDelivered)
				<-a.done
				time.Sleep(30 * time.Second)
				f.put(20, 5)
				f.await("read by b", 5*time.Second, f.allDelivered)
				if l := f.table.Rows()[0]; l.Owner != "b" || f.count(worker.LeaseLost, "b") != 0 {
					t.Errorf("owner %q, lost %d times by b", l.Owner, f.count(worker.LeaseLost, "b"))
				}
				if took > within {
					t.Errorf("nobody read for %v", took)
				}
				f.check()
				f.checkEpochs()
			})
		})
	}
}

func permutations(words ...string) (out [][]string) {
	if len(words) == 0 {
		return [][]string{nil}
	}
	for i, w := range words {
		rest := append(append([]string{}, words[:i]...), words[i+1:]...)
		for _, p := range permutations(rest...) {
			out = append(out, append([]string{w}, p...))
		}
	}
	return out
}

// The table says that nobody owns a lease which its worker holds: the worker finds out, takes it again, and one consumer goes on (F15).
func TestRowClearedUnderItsOwner(t *testing.T) {
	bubble(t, 2, nil, func(t *testing.T, f *fleet) {
		a := f.start("a")
		for i := range 20 {
			f.put(20, 5)
			f.await("delivered", time.Minute, f.allDelivered)
			time.Sleep(time.Duration(i) * 311 * time.Millisecond) // at any time between two renewals
			l := f.table.Rows()[i%2]
			w := core.Release()
			if _, err := f.table.Update(t.Context(), l, w.Same, w.Set); err != nil {
				t.Fatal(err)
			}
			f.put(20, 5)
			took := f.await("read on", time.Minute, f.allDelivered)
			f.await("taken again", time.Minute, func() bool { return f.owners()["a"] == 2 })
			if took > 9*time.Second {
				t.Errorf("read on after %v", took)
			}
		}
		if n := f.count(worker.LeaseLost, "a"); n != 20 || len(a.Status().Shards) != 2 {
			t.Errorf("lost %d of 20 leases that were cleared", n)
		}
		f.check()
		f.checkEpochs()
	})
}

// slowSight is a store whose listing takes long, and shows the table as it was when the listing began.
type slowSight struct {
	*store.Store
	takes    time.Duration
	asks, no atomic.Int64
}

func (s *slowSight) Look(ctx context.Context, streams ...core.StreamID) (core.Sight, error) {
	sight, err := s.Store.Look(ctx, streams...)
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return core.Sight{}, ctx.Err()
	}
	return sight, err
}

func (s *slowSight) Update(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
	row, err := s.Store.Update(ctx, seen, same, set)
	if set.Run != "" && set.Owner != nil || set.Next != nil && *set.Next != core.Nobody { // a take, or an ask
		s.asks.Add(1)
		if errors.Is(err, core.ErrConflict) {
			s.no.Add(1)
		}
	}
	return row, err
}

// A table that takes longer to list than leases take to be renewed: counters in the listing are always old. Takes and asks go through all the same, and
// no lease that is renewed is taken for dead (field case F13).
func TestListingSlowerThanRenewals(t *testing.T) {
	taps := map[core.WorkerID]*slowSight{}
	bubble(t, 100, func(c *worker.Config) {
		taps[c.ID] = &slowSight{Store: c.Store.(*store.Store), takes: 8 * time.Second}
		c.Store = taps[c.ID]
	}, func(t *testing.T, f *fleet) {
		f.start("a")
		f.await("a holds all", time.Minute, func() bool { return f.owners()["a"] == 100 })
		time.Sleep(time.Minute)
		f.start("b")
		took := f.await("even", 5*time.Minute, func() bool { return f.owners()["a"] == 50 && f.owners()["b"] == 50 })
		f.put(100, 50)
		f.await("delivered", time.Minute, f.allDelivered)
		time.Sleep(time.Minute)
		b := taps["b"]
		t.Logf("even after %v; %d takes and asks of b, %d refused", took, b.asks.Load(), b.no.Load())
		if b.asks.Load() < 50 || b.no.Load()*20 > b.asks.Load() {
			t.Errorf("%d of %d takes and asks of b were refused, at most one in twenty", b.no.Load(), b.asks.Load())
		}
		if n := f.count(worker.LeaseLost, ""); n != 0 || f.duplicates() != 0 {
			t.Errorf("%d leases lost, %d duplicates though both renewed in time", n, f.duplicates())
		}
	})
}

// hangingTakes is a store at which takes and asks hang, once on is set, until their caller gives up.
type hangingTakes struct {
	*store.Store
	on   atomic.Bool
	hung atomic.Int64
	mu   sync.Mutex
	last map[core.LeaseKey]time.Time
	most time.Duration // between two renewals of a lease
}

func (s *hangingTakes) Update(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
	if s.on.Load() && (set.Owner != nil && set.Run != "" || set.Next != nil && *set.Next != core.Nobody) {
		s.hung.Add(1)
		<-ctx.Done()
		return core.Lease{}, ctx.Err()
	}
	row, err := s.Store.Update(ctx, seen, same, set)
	if err == nil && set.Bump && set.Owner == nil {
		s.mu.Lock()
		now := time.Now()
		if at := s.last[seen.Key]; !at.IsZero() {
			s.most = max(s.most, now.Sub(at))
		}
		s.last[seen.Key] = now
		s.mu.Unlock()
	}
	return row, err
}

// Takes and asks that hang at the table hold up no renewal (field case F70).
func TestHangingTakesDelayNoRenewal(t *testing.T) {
	taps := map[core.WorkerID]*hangingTakes{}
	bubble(t, 12, func(c *worker.Config) {
		taps[c.ID] = &hangingTakes{Store: c.Store.(*store.Store), last: map[core.LeaseKey]time.Time{}}
		c.Store = taps[c.ID]
	}, func(t *testing.T, f *fleet) {
		f.start("a")
		b := f.start("b")
		f.start("c")
		f.await("even", time.Minute, func() bool { o := f.owners(); return o["a"] == 4 && o["b"] == 4 && o["c"] == 4 })
		time.Sleep(20 * time.Second)
		taps["a"].on.Store(true)
		taps["c"].on.Store(true)
		heal := b.store.Break(store.Fault{Hang: true}) // its leases are to be taken, in vain
		for range 60 {
			f.put(12, 24)
			time.Sleep(time.Second)
		}
		for _, id := range []core.WorkerID{"a", "c"} {
			tap := taps[id]
			tap.mu.Lock()
			most := tap.most
			tap.mu.Unlock()
			if tap.hung.Load() == 0 {
				t.Errorf("%s took nothing", id)
			}
			if most > 5*time.Second {
				t.Errorf("%s: %v between two renewals; they are due each 4 s", id, most)
			}
			if n := f.count(worker.LeaseLost, id); n != 0 {
				t.Errorf("%s lost %d leases", id, n)
			}
			tap.on.Store(false)
		}
		f.await("delivered", time.Minute, f.allDelivered)
		heal()
		f.await("even", time.Minute, func() bool { o := f.owners(); return o["a"] == 4 && o["b"] == 4 && o["c"] == 4 })
		f.check()
	})
}
