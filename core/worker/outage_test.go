package worker_test

import (
	"context"
	"errors"
	"fmt"
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

// happened are the events so far, ledger the deliveries.
func (f *fleet) happened() []worker.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.events)
}

func (f *fleet) ledger() []delivery {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.delivered)
}

func (m *member) storeCalls() (n int) {
	for _, c := range m.store.Calls() {
		n += c
	}
	return n
}

// A long outage of the table: nobody ends, the table is not stormed, and all is read again soon after it (field case F72).
func TestLongOutageOfTheTable(t *testing.T) {
	bubble(t, 16, nil, func(t *testing.T, f *fleet) {
		for _, id := range []string{"a", "b", "c", "d"} {
			f.start(id)
		}
		f.await("even", time.Minute, func() bool { o := f.owners(); return min(o["a"], o["b"], o["c"], o["d"]) == 4 })
		f.put(160, 40)
		f.await("delivered", time.Minute, f.allDelivered)
		for i, m := range f.members {
			m.store.Break([]store.Fault{{}, {Hang: true}, {Err: errors.New("500")}, {Delay: 300 * time.Millisecond}}[i])
		}
		time.Sleep(time.Minute)
		f.put(160, 40)
		before := make([]int, len(f.members))
		for i, m := range f.members {
			before[i] = m.storeCalls()
		}
		const long = 14 * time.Minute
		time.Sleep(long)
		for i, m := range f.members {
			if n := float64(m.storeCalls()-before[i]) / long.Seconds(); n > 1 {
				t.Errorf("%s calls the table %.1f times a second during the outage, at most once", m.ID(), n)
			}
			m.store.Heal()
		}
		took := f.await("delivered", time.Minute, f.allDelivered)
		t.Logf("whole again after %v", took)
		if took > 15*time.Second {
			t.Errorf("whole again %v after the outage", took)
		}
		f.await("even", time.Minute, func() bool { o := f.owners(); return min(o["a"], o["b"], o["c"], o["d"]) == 4 })
		f.check()
		f.checkEpochs()
	})
}

// onLook is a store of which one reading of the table shows no row at all.
type onLook struct {
	*store.Store
	empty atomic.Bool
}

func (s *onLook) Look(ctx context.Context, streams ...core.StreamID) (core.Sight, error) {
	sight, err := s.Store.Look(ctx, streams...)
	if s.empty.CompareAndSwap(true, false) {
		return core.Sight{}, err
	}
	return sight, err
}

// A reading that shows an empty table, once, takes nothing from anybody: leases are lost by their own refused writes only (field case F73).
func TestTableThatLooksEmptyOnce(t *testing.T) {
	var taps []*onLook
	bubble(t, 6, func(c *worker.Config) {
		tap := &onLook{Store: c.Store.(*store.Store)}
		taps = append(taps, tap)
		c.Store = tap
	}, func(t *testing.T, f *fleet) {
		f.start("a")
		f.start("b")
		f.put(60, 20)
		f.await("even", time.Minute, func() bool { return f.owners()["a"] == 3 && f.owners()["b"] == 3 && f.allDelivered() })
		time.Sleep(time.Minute)
		events := len(f.happened())
		for i := range taps {
			taps[i].empty.Store(true)
			f.await("looked", 10*time.Second, func() bool { return !taps[i].empty.Load() })
			start := time.Now()
			f.put(60, 20)
			f.await("delivered", time.Minute, f.allDelivered)
			if d := time.Since(start); d > 2*time.Second {
				t.Errorf("read %v later", d)
			}
		}
		time.Sleep(5 * time.Minute)
		for _, e := range f.happened()[events:] {
			if e.Kind != worker.Checkpoint {
				t.Errorf("%s %s of %s: %v", e.Worker, e.Kind, e.Key.Shard, e.Err)
			}
		}
		f.check()
		if f.duplicates() != 0 {
			t.Errorf("%d duplicates", f.duplicates())
		}
	})
}

// Discovery, every reading and every handler fail in the same instant, and some of it for good: Run says what ended it, at once, and nothing of the
// worker is left running; the bubble would not end else (field case F76).
func TestEverythingFailsAtOnce(t *testing.T) {
	for seed := range 50 {
		var again *reborn
		var sick atomic.Bool
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, 8, func(c *worker.Config) {
				all, _ := c.Streams.Streams(context.Background())
				again = &reborn{StreamSource: all[0].Source}
				c.Streams = worker.One(again, core.FromHorizon)
				c.ListEvery = time.Second
				record := c.Process
				c.Process = func(ctx context.Context, b *core.Batch) error {
					switch {
					case sick.Load() && seed%3 == 0:
						panic("on purpose")
					case sick.Load():
						return errors.New("on purpose")
					}
					return record(ctx, b)
				}
			})
			a := f.start("a")
			f.await("held", time.Minute, func() bool { return f.owners()["a"] == 8 })
			time.Sleep(time.Duration(seed) * 37 * time.Millisecond)
			again.id.Store(new(core.StreamID("orders:2")))
			list := a.src.Break(source.Fault{Kind: source.Slow, Ops: []source.Op{source.Describe}, Hang: true})
			look := func() {}
			if seed%2 == 0 {
				look = a.store.Break(store.Fault{Ops: []store.Op{store.Look}, Err: core.ErrOtherStream, Hang: true})
			}
			time.Sleep(3 * time.Second) // a listing and a look are under way
			sick.Store(true)
			a.src.Break(source.Fault{Ops: []source.Op{source.Next, source.Open}, Err: fmt.Errorf("on purpose: %w", core.ErrUnavailable)})
			f.put(80, 40)
			start := time.Now()
			list()
			look()
			<-a.done
			if d := time.Since(start); !errors.Is(a.err, core.ErrOtherStream) || d > 5*time.Second {
				t.Errorf("seed %d: Run returned %v after %v", seed, a.err, d)
			}
		})
	}
}

// A shard that may not be read is asked for a few times a minute, told of with its error, and no hindrance to the others; it goes on once the permission
// is there (field case F109).
func TestShardThatMayNotBeRead(t *testing.T) {
	bubble(t, 3, nil, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.await("held", time.Minute, func() bool { return f.owners()["a"] == 3 })
		denied := f.open()[0]
		f.put(30, 15)
		f.await("delivered", time.Minute, f.allDelivered)
		heal := a.src.Break(source.Fault{Ops: []source.Op{source.Next, source.Open}, Shard: denied, Err: core.ErrDenied})
		f.put(30, 15)
		time.Sleep(2 * time.Minute)
		s := f.state(a, denied)
		if !errors.Is(s.Err, core.ErrDenied) || s.State != worker.Retrying {
			t.Errorf("the shard shows as %s, %v", s.State, s.Err)
		}
		n := f.count(worker.ReadError, "a")
		if n < 2 || n > 11 {
			t.Errorf("%d refused reads in 2 minutes, at most 5 a minute", n)
		}
		for _, d := range f.ledger() {
			if d.shard == denied && d.at.After(time.Now().Add(-2*time.Minute)) {
				t.Errorf("a record of %s though it cannot be read", denied)
			}
		}
		for _, o := range f.open()[1:] {
			if s := f.state(a, o); s.State != worker.Reading || time.Since(s.LastRead) > 5*time.Second {
				t.Errorf("%s is %s, last read %v ago", o, s.State, time.Since(s.LastRead))
			}
		}
		heal()
		took := f.await("delivered", time.Minute, f.allDelivered)
		t.Logf("%d refused reads; read again after %v", n, took)
		f.check()
	})
}

// What aged out while nobody read: the gap is told of, with where reading stood, and reading goes on (field case F103).
func TestShardAgedOutUnread(t *testing.T) {
	for name, gone := range map[string]bool{"records": false, "the whole shard": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, nil, func(t *testing.T, f *fleet) {
				a := f.start("a")
				f.put(20, 5)
				f.await("delivered", time.Minute, f.allDelivered)
				a.stop()
				<-a.done
				parent := f.open()[0]
				stood, _ := f.shard(parent)
				f.stream.Put("unread", nil) // lost
				f.split(parent)
				if gone {
					if err := f.stream.Forget(parent); err != nil {
						t.Fatal(err)
					}
				} else if err := f.stream.Trim(parent, 21); err != nil {
					t.Fatal(err)
				}
				f.put(20, 5)
				f.start("b")
				f.await("children read", 2*time.Minute, f.allDelivered)
				var told []worker.Event
				for _, e := range f.happened() {
					if e.Kind == worker.ShardTrimmed {
						told = append(told, e)
					}
				}
				if len(told) != 1 || told[0].Key.Shard != parent || !told[0].Position.Equal(stood.Checkpoint) || told[0].Err == nil {
					t.Errorf("events of the gap: %+v; reading stood at %s", told, stood.Checkpoint)
				}
				f.await("closed", time.Minute, func() bool { l, ok := f.shard(parent); return !ok || l.Ended() })
				f.check()
			})
		})
	}
}
