package worker_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
)

// weighed is a source that knows how many bytes of its pages are out: read, and not yet released.
type weighed struct {
	core.StreamSource
	mu        sync.Mutex
	out, peak int64
}

func (w *weighed) Open(ctx context.Context, s core.Shard, at core.Position) (core.ShardReader, error) {
	r, err := w.StreamSource.Open(ctx, s, at)
	if err != nil {
		return nil, err
	}
	return weighedReader{r, w}, nil
}

type weighedReader struct {
	core.ShardReader
	w *weighed
}

func (r weighedReader) Next(ctx context.Context) (*core.Page, error) {
	p, err := r.ShardReader.Next(ctx)
	if err != nil || len(p.Records) == 0 {
		return p, err
	}
	out := *p
	n := int64(p.Bytes)
	r.w.add(n)
	out.Release = func() { r.w.add(-n) }
	return &out, nil
}

func (w *weighed) add(n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out += n
	w.peak = max(w.peak, w.out)
}

// What is read ahead is bounded in bytes, over all shards of the worker and for each, also where many read at the same time; and no shard starves
// (field case F94).
func TestReadAheadIsBoundedInBytes(t *testing.T) {
	const shards, record = 100, 10_000
	for name, c := range map[string]struct{ all, shard, most int64 }{
		"over all shards":          {150 * record, 100 * record, 150 * record},
		"over all, in large pages": {110 * record, 100 * record, 110 * record},
		"each shard":               {1000 * shards * record, 3 * record, 3 * shards * record},
		"less than a page a shard": {50 * record, 100 * record, shards * record}, // a shard may always hold one
	} {
		t.Run(name, func(t *testing.T) {
			var src *weighed
			var mu sync.Mutex
			batches := map[core.ShardID]int{}
			bubble(t, shards, func(cfg *worker.Config) {
				all, _ := cfg.Streams.Streams(context.Background())
				src = &weighed{StreamSource: all[0].Source}
				cfg.Streams = worker.One(src, core.FromHorizon)
				cfg.ReadAhead, cfg.ReadAheadShard = c.all, c.shard
				cfg.Process = func(ctx context.Context, b *core.Batch) error {
					mu.Lock()
					batches[b.Shard]++
					mu.Unlock()
					select {
					case <-time.After(time.Minute):
					case <-ctx.Done():
					}
					return ctx.Err()
				}
			}, func(t *testing.T, f *fleet) {
				f.stream = source.New("orders", shards, source.Idle(2*time.Second), source.PageRecords(1))
				data := make([]byte, record-100)
				for _, s := range f.open() {
					for range 30 {
						if err := f.stream.PutTo(s, core.Record{Key: "k", Data: data}); err != nil {
							t.Fatal(err)
						}
					}
				}
				a := f.start("a")
				a.src.Break(source.Fault{Kind: source.Slow, Ops: []source.Op{source.Next}, Delay: 10 * time.Millisecond}) // readers meet
				time.Sleep(10 * time.Minute)
				mu.Lock()
				fewest, served := slices.Min(slices.Collect(maps.Values(batches))), len(batches)
				mu.Unlock()
				src.mu.Lock()
				peak := src.peak
				src.mu.Unlock()
				t.Logf("at most %d kB out, %d allowed", peak/1000, c.most/1000)
				if peak > c.most*12/10 {
					t.Errorf("%d bytes were read and not released at a time, at most %d and a fifth", peak, c.most)
				}
				if peak < c.most*8/10 {
					t.Errorf("never more than %d bytes: there is room for %d", peak, c.most)
				}
				if served < shards || fewest < 8 {
					t.Errorf("%d of %d shards were served, one with %d batches in 10 minutes of one a minute", served, shards, fewest)
				}
			})
		})
	}
}

// Readers behind a blocked handler wait; they do not turn in circles. In a bubble time stands still while anything runs, so this
// test ends only if they wait (field case F83).
func TestBlockedHandlersCostNothing(t *testing.T) {
	var entered atomic.Int64
	bubble(t, 1000, func(c *worker.Config) {
		c.Process = func(ctx context.Context, _ *core.Batch) error {
			entered.Add(1)
			<-ctx.Done()
			return ctx.Err()
		}
		c.ReadAhead, c.ReadAheadShard = 1<<20, 1000
	}, func(t *testing.T, f *fleet) {
		for _, s := range f.open() {
			for range 20 {
				if err := f.stream.PutTo(s, core.Record{Key: "k", Data: make([]byte, 1000)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		a := f.start("a")
		f.await("all blocked", time.Minute, func() bool { return entered.Load() == 1000 })
		time.Sleep(time.Minute)
		before := a.src.Calls()
		time.Sleep(10 * time.Minute)
		after := a.src.Calls()
		if n := after[source.Next] - before[source.Next] + after[source.Open] - before[source.Open]; n != 0 {
			t.Errorf("%d reads in 10 minutes though every handler was blocked and every window full", n)
		}
		if n := f.count(worker.LeaseLost, ""); n != 0 || f.owners()["a"] != 1000 {
			t.Errorf("%d leases lost meanwhile; owners %v", n, f.owners())
		}
	})
}
