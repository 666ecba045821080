package memory_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/leasestore/memory"
)

// What each kind of fault does to the answer, and to the table.
func TestKindsOfFault(t *testing.T) {
	const d = 3 * time.Second
	for _, c := range []struct {
		name    string
		fault   memory.Fault
		want    error
		takes   time.Duration
		applied bool // when the call returns
		later   bool // d after that
	}{
		{"fail", memory.Fault{}, core.ErrUnavailable, 0, false, false},
		{"throttle", memory.Fault{Err: core.ErrThrottled}, core.ErrThrottled, 0, false, false},
		{"fail slowly", memory.Fault{Delay: d}, core.ErrUnavailable, d, false, false},
		{"lose", memory.Fault{Kind: memory.Lose}, core.ErrUnavailable, 0, true, true},
		{"lose slowly", memory.Fault{Kind: memory.Lose, Delay: d, Err: core.ErrThrottled}, core.ErrThrottled, d, true, true},
		{"late", memory.Fault{Kind: memory.Late, Delay: d}, core.ErrUnavailable, 0, false, true},
		{"slow", memory.Fault{Kind: memory.Slow, Delay: d}, nil, d, true, true},
		{"stale", memory.Fault{Kind: memory.Stale, Delay: d}, nil, 0, true, true},
		{"cut", memory.Fault{Hang: true}, context.DeadlineExceeded, 10 * d, false, false},
		{"cut one way", memory.Fault{Kind: memory.Lose, Hang: true}, context.DeadlineExceeded, 10 * d, true, true},
		{"another call", memory.Fault{Ops: []memory.Op{memory.Get, memory.Create}}, nil, 0, true, true},
		{"another shard", memory.Fault{Shard: "2"}, nil, 0, true, true},
		{"this shard and call", memory.Fault{Shard: "1", Ops: []memory.Op{memory.Get, memory.Update}}, core.ErrUnavailable, 0, false, false},
		{"the next call", memory.Fault{Skip: 1}, nil, 0, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory.New()
				l := create(t, s, full("1"))
				h := s.Handle("h")
				h.Break(c.fault)
				ctx, cancel := context.WithTimeout(t.Context(), 10*d)
				defer cancel()
				began := time.Now()
				_, err := h.Update(ctx, l, core.SameCounter, core.Set{Bump: true})
				if !errors.Is(err, c.want) {
					t.Errorf("error %v, want %v", err, c.want)
				}
				if took := time.Since(began); took != c.takes {
					t.Errorf("it took %v, want %v", took, c.takes)
				}
				if applied := s.Rows()[0].Counter == l.Counter+1; applied != c.applied {
					t.Errorf("applied %v when it returned, want %v", applied, c.applied)
				}
				time.Sleep(d)
				if applied := mustGet(t, s, key("1")).Counter == l.Counter+1; applied != c.later {
					t.Errorf("applied %v later, want %v", applied, c.later)
				}
			})
		})
	}
}

// A late write is conditional when it arrives, not when it was sent.
func TestLateWriteMeetsTheRowOfItsDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		l := create(t, s, full("1"))
		h := s.Handle("h")
		h.Break(memory.Fault{Kind: memory.Late, Delay: time.Second, Times: 2})
		handOver, none := core.HandOver("B"), core.Set{Owner: new(core.WorkerID("late"))}
		for _, w := range []core.Write{handOver, {Set: none}} {
			if _, err := h.Update(t.Context(), l, w.Same, w.Set); !errors.Is(err, core.ErrUnavailable) {
				t.Fatal(err)
			}
		}
		w := core.Decline() // kills the hand-over that is under way
		if _, err := h.Update(t.Context(), l, w.Same, w.Set); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := mustGet(t, s, key("1")); got.Owner != "late" || got.Counter != l.Counter+1 {
			t.Errorf("owner %q, counter %d; want the hand-over refused and the unconditional write applied", got.Owner, got.Counter)
		}
	})
}

// Late writes arrive in the order they were sent, as they were sent: the caller has gone on, and its memory with it.
func TestLateWritesKeepTheirOrderAndTheirValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		l := create(t, s, full("1"))
		s.Break(memory.Fault{Kind: memory.Late, Delay: time.Second, Ops: []memory.Op{memory.Update}})
		owner, next, pending, at, tput := core.WorkerID("C"), core.WorkerID("D"), full("1").Pending, core.Position{Token: "99"}, 7.5
		start := time.Unix(77, 0)
		set := core.Set{Owner: &owner, Next: &next, Pending: &pending, Checkpoint: &at, StartAt: &start, Throughput: &tput, Range: &core.HashRange{}, Children: []core.ShardID{"c7"}}
		want := set.Apply(l)
		want.Pending = full("1").Pending
		want.Range = new(core.HashRange)
		for _, set := range []core.Set{{Owner: new(core.WorkerID("first"))}, set} {
			if _, err := s.Update(t.Context(), l, 0, set); !errors.Is(err, core.ErrUnavailable) {
				t.Fatal(err)
			}
		}
		owner, next, at.Token, start, tput, set.Range.End[0], set.Children[0] = "x", "x", "x", time.Time{}, 0, 1, "x"
		pending.State[0], pending = 'x', nil
		time.Sleep(time.Second)
		wantSame(t, "row after", mustGet(t, s, key("1")), want)
	})
}

func TestEveryCallCanFailAndBeCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for op, call := range calls(memory.New(), full("1")) {
			_ = call
			s := memory.New()
			l := create(t, s, full("1"))
			h := s.Handle("h")
			h.Break(memory.Fault{Ops: []memory.Op{op}, Err: core.ErrDenied})
			if err := calls(h, l)[op](t.Context()); !errors.Is(err, core.ErrDenied) {
				t.Errorf("%s: %v, want ErrDenied", op, err)
			}
			if err := calls(s, l)[op](t.Context()); err != nil {
				t.Errorf("%s through another handle: %v, want no fault", op, err)
			}
			h.Heal()
			h.Break(memory.Fault{Ops: []memory.Op{op}, Hang: true})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			began := time.Now()
			if err := calls(h, l)[op](ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
				t.Errorf("%s cut off: %v after %v, want the end of its context after a minute", op, err, time.Since(began))
			}
			cancel()
			if got, want := h.Calls(), map[memory.Op]int{op: 2}; !reflect.DeepEqual(got, want) {
				t.Errorf("calls %v, want %v", got, want)
			}
		}
	})
}

func TestHealing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		create(t, s, full("1"))
		for _, c := range []struct {
			name string
			kind memory.Kind
			heal func(func())
			want error
		}{
			{"fail, by its own heal", memory.Fail, func(f func()) { f(); f() }, core.ErrUnavailable},
			{"fail, by Heal", memory.Fail, func(f func()) { s.Heal(); f() }, core.ErrUnavailable},
			{"slow", memory.Slow, func(f func()) { f() }, nil},
		} {
			heal := s.Break(memory.Fault{Kind: c.kind, Hang: true, Times: 2})
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					if _, err := s.Get(t.Context(), key("1")); !errors.Is(err, c.want) {
						t.Errorf("%s: the call that hung: %v, want %v", c.name, err, c.want)
					}
				})
			}
			synctest.Wait()
			mustGet(t, s, key("1")) // its times are over
			c.heal(heal)
			wg.Wait()
			mustGet(t, s, key("1"))
		}
	})
}

func TestOddsRepeatBySeed(t *testing.T) {
	strikes := func(seed uint64) (out []bool) {
		s := memory.New()
		s.Break(memory.Fault{Odds: 0.3, Seed: seed})
		for range 200 {
			out = append(out, s.Prepare(t.Context()) != nil)
		}
		return out
	}
	a, n := strikes(1), 0
	for _, hit := range a {
		if hit {
			n++
		}
	}
	if n < 30 || n > 90 {
		t.Errorf("%d of 200 calls failed at odds of 0.3", n)
	}
	if !slices.Equal(a, strikes(1)) || slices.Equal(a, strikes(2)) {
		t.Error("the same seed must strike the same calls, and another seed others")
	}
}

// A stale listing is one that was true, Delay ago; Get is not stale.
func TestStaleListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		h := s.Handle("h")
		const age = 5 * time.Second
		a := create(t, s, full("a"))
		create(t, s, full("b"))
		h.Break(memory.Fault{Kind: memory.Stale, Delay: age})

		type truth struct {
			at      time.Time
			rows    []core.Lease
			workers int
		}
		history := []truth{{time.Now(), s.Rows(), 0}}
		for i := range 30 {
			time.Sleep(500 * time.Millisecond)
			var err error
			switch i % 5 {
			case 0:
				create(t, s, full(fmt.Sprint("n", i)))
			case 1, 2:
				a, err = s.Update(t.Context(), a, core.SameCounter, core.Set{Bump: true})
			case 3:
				err = s.Delete(t.Context(), full(fmt.Sprint("n", i-3)), 0)
			case 4:
				err = s.Announce(t.Context(), core.WorkerInfo{ID: core.WorkerID(fmt.Sprint(i))})
			}
			if err != nil {
				t.Fatal(err)
			}
			workers := (i + 1) / 5
			history = append(history, truth{time.Now(), s.Rows(), workers})

			want := history[0]
			for _, x := range history {
				if !x.at.After(time.Now().Add(-age)) {
					want = x
				}
			}
			sight, err := h.Look(t.Context())
			if err != nil || !reflect.DeepEqual(sight.Leases, want.rows) || len(sight.Workers) != want.workers {
				t.Fatalf("step %d: the listing (%d leases, %d workers, %v) is not the table of %v ago (%d, %d)", i, len(sight.Leases), len(sight.Workers), err, age, len(want.rows), want.workers)
			}
			wantSame(t, "Get", mustGet(t, h, key("a")), a)
			if now, _ := s.Look(t.Context()); !reflect.DeepEqual(now.Leases, s.Rows()) {
				t.Fatal("another handle is stale too")
			}
		}
	})
}

// Observers hear of every change in order, by whom, before the writer goes on.
func TestObservers(t *testing.T) {
	s := memory.New()
	rows := map[core.LeaseKey]*core.Lease{}
	told := map[string]int{}
	s.OnWrite(func(before, after *core.Lease, by string) {
		k := cmpKey(before, after)
		if rows[k] != before {
			t.Errorf("%s: before is %+v, want the last after", k, before)
		}
		if rows[k] = after; after == nil {
			delete(rows, k)
		}
		told[by]++ // no lock: calls never overlap
	})
	var wg sync.WaitGroup
	const each = 100
	for i := range 4 {
		h := s.Handle(fmt.Sprint(i))
		wg.Go(func() {
			mine := core.Lease{Key: key(fmt.Sprint("shard ", i)), Checkpoint: core.FromHorizon}
			for range each {
				l, err := h.Create(t.Context(), mine)
				if err != nil {
					t.Error(err)
				}
				if _, err = h.Update(t.Context(), l, core.SameCounter, core.Set{Bump: true}); err != nil {
					t.Error(err)
				}
				_, _ = h.Update(t.Context(), l, core.SameCounter, core.Set{Bump: true}) // refused: no change
				if err := h.Delete(t.Context(), l, 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if len(rows) != 0 {
		t.Errorf("%d rows are left by what the observer heard", len(rows))
	}
	for i := range 4 {
		if told[fmt.Sprint(i)] != 3*each {
			t.Errorf("handle %d: told of %d changes, want %d", i, told[fmt.Sprint(i)], 3*each)
		}
	}
}

func cmpKey(before, after *core.Lease) core.LeaseKey {
	if before != nil {
		return before.Key
	}
	return after.Key
}

// The observer has returned before the writer does, also when another writer's change is being told.
func TestWriterWaitsForTheObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		var heard sync.Map
		s.OnWrite(func(_, after *core.Lease, _ string) {
			time.Sleep(time.Second)
			heard.Store(after.Key, true)
		})
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				l := create(t, s, full(fmt.Sprint(i)))
				if _, ok := heard.Load(l.Key); !ok {
					t.Errorf("Create of %s returned before the observer knew", l.Key)
				}
			})
		}
		wg.Wait()
	})
}
