package worker_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core/worker"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

// What the table costs: a look each two seconds or so for each worker, and a write for each lease each four, whatever is acknowledged meanwhile (field
// case F112). A look at a table of many rows comes less often.
func TestCostOfTheTable(t *testing.T) {
	for _, c := range []struct {
		shards, workers       int
		looks, writes, others float64 // a minute, at most
	}{
		{1, 1, 30, 16, 3},
		{100, 5, 5 * 30, 100 * 16, 5 * 3},
		{400, 4, 4 * 30, 400 * 16, 4 * 3},
	} {
		t.Run(fmt.Sprintf("%d shards, %d workers", c.shards, c.workers), func(t *testing.T) {
			bubble(t, c.shards, nil, func(t *testing.T, f *fleet) {
				for i := range c.workers {
					f.start(fmt.Sprintf("w%d", i))
				}
				f.await("even", time.Minute, func() bool {
					o := f.owners()
					return len(o) == c.workers && slices.Max(values(o)) == c.shards/c.workers
				})
				time.Sleep(time.Minute)
				var before, after [3]float64
				count := func(n *[3]float64) {
					for _, m := range f.members {
						calls := m.store.Calls()
						n[0] += float64(calls[store.Look])
						n[1] += float64(calls[store.Update])
						n[2] += float64(m.storeCalls() - calls[store.Look] - calls[store.Update])
					}
				}
				count(&before)
				const minutes = 5
				for range minutes * 60 {
					f.put(c.shards, c.shards)
					time.Sleep(time.Second)
				}
				count(&after)
				looks, writes, others := (after[0]-before[0])/minutes, (after[1]-before[1])/minutes, (after[2]-before[2])/minutes
				t.Logf("a minute: %.1f looks, %.1f writes, %.1f other calls", looks, writes, others)
				if looks > c.looks || writes > c.writes || others > c.others {
					t.Errorf("a minute: %.1f looks, %.1f writes, %.1f others; at most %.0f, %.0f, %.0f", looks, writes, others, c.looks, c.writes, c.others)
				}
			})
		})
	}
}

// What Status says of the lag: none where nothing comes, and a growing one where reading hears nothing, though the last answer said none (field
// case F114). A shard that nobody holds shows for how long.
func TestLagShown(t *testing.T) {
	bubble(t, 2, func(c *worker.Config) { c.MaxLeases = 1 }, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.await("one held", time.Minute, func() bool { return f.owners()["a"] == 1 })
		var held, free worker.ShardStatus
		look := func() {
			for _, s := range a.Status().Shards {
				if s.Owner == "a" {
					held = s
				} else {
					free = s
				}
			}
		}
		time.Sleep(30 * time.Minute)
		look()
		if held.Lag != 0 || time.Since(held.LastRead) > 5*time.Second {
			t.Errorf("idle for 30 minutes: lag %v, last read %v ago", held.Lag, time.Since(held.LastRead))
		}
		if free.State != worker.Free || free.Unchanged < 25*time.Minute || free.Lag >= 0 {
			t.Errorf("nobody's shard: %s, unchanged for %v, lag %v", free.State, free.Unchanged, free.Lag)
		}
		f.put(100, 50)
		f.n = map[string]int{} // half of it is nobody's
		time.Sleep(5 * time.Second)
		if look(); held.Lag != 0 {
			t.Errorf("after a burst that was read: lag %v", held.Lag)
		}
		a.src.Break(source.Fault{Ops: []source.Op{source.Next, source.Open}, Hang: true})
		var before time.Duration
		for i := range 10 {
			time.Sleep(time.Minute)
			if look(); held.Lag < before+50*time.Second || held.Lag < time.Duration(i)*time.Minute {
				t.Errorf("nothing was read for %v: lag %v, a minute ago %v", time.Since(held.LastRead), held.Lag, before)
			}
			before = held.Lag
		}
	})
}
