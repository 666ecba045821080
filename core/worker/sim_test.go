package worker_test

import (
	"context"
	"flag"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

var (
	simSeeds = flag.Int("sim.seeds", 12, "how many simulated fleets")
	simSeed  = flag.Uint64("sim.seed", 0, "only this seed")
)

// TestSim runs small fleets under random faults: cut and flaky tables, lost answers, writes that arrive late, stale listings, throttling, failing and
// stalled reads, handlers that fail; workers join, stop and are cut off; shards split and merge. Afterwards everything heals, and all that was
// put must have been delivered, in order per key, parents first, each shard by one worker at a time, within a bound.
func TestSim(t *testing.T) {
	seeds := make([]uint64, *simSeeds)
	for i := range seeds {
		seeds[i] = uint64(i + 1)
	}
	if *simSeed != 0 {
		seeds = []uint64{*simSeed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulate(t, seed) })
		})
	}
}

func simulate(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 7))
	var failing sync.Map // shard -> bool: its handler fails
	f := newFleet(t, 1+r.IntN(6), nil)
	f.config = func(c *worker.Config) {
		record := c.Process
		c.Process = nil
		c.StallAfter = 20 * time.Second
		c.Factory = func(ctx context.Context, s core.Session) (core.Processor, error) {
			return core.ProcessorFunc(func(ctx context.Context, b *core.Batch) error {
				if _, bad := failing.Load(b.Shard); bad {
					return fmt.Errorf("handler fails on purpose")
				}
				return record(ctx, b)
			}), nil
		}
		if r.IntN(3) == 0 {
			c.CheckpointEvery = time.Second
		}
		if r.IntN(4) == 0 {
			c.KeyConcurrency = 3
		}
	}
	watch := watchTable(f)
	n := 1 + r.IntN(4)
	var alive []*member
	next := 0
	join := func() {
		alive = append(alive, f.start(fmt.Sprintf("w%d", next)))
		next++
	}
	for range n {
		join()
	}
	storeKinds := []store.Kind{store.Fail, store.Lose, store.Late, store.Slow, store.Stale}
	var heals []func()
	for range 60 {
		f.put(1+r.IntN(50), 12)
		time.Sleep(time.Duration(r.IntN(8000)) * time.Millisecond)
		switch r.IntN(12) {
		case 0, 1, 2:
			m := alive[r.IntN(len(alive))]
			heals = append(heals, m.store.Break(store.Fault{
				Kind: storeKinds[r.IntN(len(storeKinds))], Odds: r.Float64(), Seed: r.Uint64(),
				Delay: time.Duration(r.IntN(4000)) * time.Millisecond, Hang: r.IntN(3) == 0, Times: r.IntN(30),
			}))
		case 3:
			m := alive[r.IntN(len(alive))]
			heals = append(heals, m.store.Break(store.Fault{Err: core.ErrThrottled, Odds: 0.8, Seed: r.Uint64(), Times: r.IntN(100)}))
		case 4, 5:
			m := alive[r.IntN(len(alive))]
			heals = append(heals, m.src.Break(source.Fault{
				Kind: []source.Kind{source.Fail, source.Slow, source.Stale, source.Empty, source.Orphans}[r.IntN(5)],
				Odds: r.Float64(), Seed: r.Uint64(), Delay: time.Duration(r.IntN(5000)) * time.Millisecond, Hang: r.IntN(4) == 0, Times: r.IntN(20),
			}))
		case 6:
			if open := f.open(); len(open) < 20 {
				f.split(open[r.IntN(len(open))])
			}
		case 7:
			if open := f.openAdjacent(); len(open) > 1 {
				i := r.IntN(len(open) - 1)
				f.merge(open[i], open[i+1])
			}
		case 8:
			if len(alive) < 6 {
				join()
			}
		case 9:
			if len(alive) > 1 {
				i := r.IntN(len(alive))
				m := alive[i]
				alive = slices.Delete(alive, i, i+1)
				if r.IntN(2) == 0 {
					m.store.Break(store.Fault{Hang: true}) // cut off for good; its handlers go on
				}
				m.stop()
			}
		case 10:
			if open := f.open(); len(open) > 0 {
				s := open[r.IntN(len(open))]
				failing.Store(s, true)
				heals = append(heals, func() { failing.Delete(s) })
			}
		case 11:
			for _, h := range heals {
				h()
			}
			heals = nil
		}
	}
	for _, h := range heals {
		h()
	}
	failing.Clear()
	healed := time.Now()
	f.await("everything delivered after all faults healed", 4*time.Minute, func() bool { return f.distinct() == f.total() })
	f.await("every open shard held by somebody alive", 4*time.Minute, func() bool {
		for id := range f.owners() {
			if !slices.ContainsFunc(alive, func(m *member) bool { return m.ID() == id }) {
				return false
			}
		}
		return true
	})
	t.Logf("whole again %v after the faults; %d records, %d delivered, %d duplicates", time.Since(healed), f.total(), len(f.delivered), f.duplicates())
	f.stopAll()
	f.check()
	f.checkEpochs()
	watch.check(t)
}

// open are the shards that take records, by hash range.
func (f *fleet) openAdjacent() []core.ShardID {
	shards, err := f.stream.Shards(f.t.Context(), core.FromLatest)
	if err != nil {
		f.t.Fatal(err)
	}
	slices.SortFunc(shards, func(a, b core.Shard) int { return slices.Compare(a.Range.Start[:], b.Range.Start[:]) })
	var out []core.ShardID
	for _, s := range shards {
		out = append(out, s.ID)
	}
	return out
}

func (f *fleet) open() []core.ShardID {
	out := f.openAdjacent()
	slices.Sort(out)
	return out
}

// checkEpochs: no delivery for a shard under an older ownership after one under a newer.
func (f *fleet) checkEpochs() {
	f.t.Helper()
	type epoch struct {
		fence uint64
		by    core.WorkerID
	}
	last := map[core.ShardID]epoch{}
	for _, d := range f.delivered {
		l := last[d.shard]
		if d.fence < l.fence || d.fence == l.fence && d.by != l.by {
			f.t.Errorf("shard %s: %s delivered %s/%s under fence %d after %s under %d", d.shard, d.by, d.key, d.val, d.fence, l.by, l.fence)
		}
		if d.fence >= l.fence {
			last[d.shard] = epoch{d.fence, d.by}
		}
	}
}

// tableWatch sees every write of the lease table.
type tableWatch struct {
	mu     sync.Mutex
	faults []string
}

func watchTable(f *fleet) *tableWatch {
	w := &tableWatch{}
	num := func(p core.Position) *big.Int {
		switch p.Anchor {
		case core.ShardEnd:
			return new(big.Int).Lsh(big.NewInt(1), 200)
		case core.AfterToken:
			n, _ := new(big.Int).SetString(p.Token, 10)
			return n
		}
		return new(big.Int)
	}
	f.table.OnWrite(func(before, after *core.Lease, by string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		bad := func(format string, args ...any) { w.faults = append(w.faults, fmt.Sprintf(format, args...)) }
		switch {
		case before == nil:
			return
		case after == nil:
			if !before.Ended() && before.Owner != core.Nobody {
				bad("%s deleted lease %s, owned by %s and not ended", by, before.Key.Shard, before.Owner)
			}
			return
		}
		if num(after.Checkpoint).Cmp(num(before.Checkpoint)) < 0 {
			bad("%s moved the checkpoint of %s back from %s to %s", by, before.Key.Shard, before.Checkpoint, after.Checkpoint)
		}
		if before.Ready && !after.Ready {
			bad("%s took Ready from %s", by, before.Key.Shard)
		}
		if after.Counter < before.Counter || after.Counter > before.Counter+1 {
			bad("%s moved the counter of %s from %d to %d", by, before.Key.Shard, before.Counter, after.Counter)
		}
		if after.Owner != before.Owner && after.Counter == before.Counter {
			bad("%s changed the owner of %s from %s to %s without moving the counter", by, before.Key.Shard, before.Owner, after.Owner)
		}
	})
	return w
}

func (w *tableWatch) check(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.faults {
		t.Error(f)
	}
}
