package kinesis

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
	leases "github.com/shardwarden/shardwarden/leasestore/memory"
)

// TestPushedToAFleet: a worker joins and takes half of the shards over, shards split and merge, and the first worker leaves, all with one consumer.
// Every record comes, and once, as all of it is in order.
func TestPushedToAFleet(t *testing.T) {
	former := poisoned
	poisoned = true
	defer func() { poisoned = former }()
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		const shards = 8
		r.create("orders", shards)
		store := leases.New()
		var mu sync.Mutex
		seen := map[string]int{}
		var wg sync.WaitGroup
		run := func(id core.WorkerID) *worker.Worker {
			w, err := worker.New(worker.Config{
				ID: id, Store: store, Streams: worker.One(r.source("orders", FanOut("billing")), core.FromHorizon),
				Process: func(_ context.Context, b *core.Batch) error {
					mu.Lock()
					defer mu.Unlock()
					for i := range b.Records {
						seen[b.Records[i].Clone().Sequence]++
					}
					return nil
				},
			})
			r.ok(err)
			wg.Go(func() {
				if err := w.Run(r.ctx); err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("%s: %v", id, err)
				}
			})
			return w
		}
		stop := func(w *worker.Worker) {
			ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
			defer cancel()
			r.ok(w.Shutdown(ctx))
		}
		put := map[string]bool{}
		write := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
				for _, key := range []string{"a", "b", "c", "d", "e"} {
					for _, q := range r.put("orders", key, "x") {
						put[q] = true
					}
				}
			}
		}
		first := run("first")
		write(30 * time.Second)
		subscriptions := func() int {
			return len(slices.DeleteFunc(r.asked("SubscribeToShard", "ShardId"), func(shard string) bool { return shard == noShard }))
		}
		before := subscriptions()
		if before != shards {
			t.Errorf("%d subscriptions for %d shards", before, shards)
		}
		second := run("second")
		write(time.Minute)
		if n := subscriptions() - before; n > shards {
			t.Errorf("%d subscriptions to hand half of %d shards over", n, shards)
		}
		r.split("orders", shardID(0))
		r.merge("orders", shardID(3), shardID(4))
		write(time.Minute)
		stop(first)
		write(time.Minute)
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Second) {
			mu.Lock()
			n := len(seen)
			mu.Unlock()
			if n == len(put) {
				break
			}
		}
		stop(second)
		wg.Wait()
		for q := range put {
			if seen[q] != 1 {
				t.Errorf("record %s came %d times", q, seen[q])
			}
		}
		if n := len(r.times("GetRecords")); n != 0 {
			t.Errorf("%d polls", n)
		}
		if n := len(r.times("RegisterStreamConsumer")); n != 1 {
			t.Errorf("the consumer was registered %d times", n)
		}
	})
}
