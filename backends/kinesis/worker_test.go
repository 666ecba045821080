package kinesis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
	leases "github.com/shardwarden/shardwarden/leasestore/memory"
)

// A worker over many shards that end, with pages that go from hand to hand: every record once and as it was put, and no page is looked at after its
// release. Worth most under the race detector.
func TestPagesUnderAWorker(t *testing.T) {
	for name, on := range map[string]bool{"pages used again": false, "pages poisoned": true} {
		t.Run(name, func(t *testing.T) {
			former := poisoned
			poisoned = on
			defer func() { poisoned = former }()
			bubble(t, emulator.Config{NoLimits: true}, func(t *testing.T, r *rig) {
				const shards, records = 16, 1500
				r.create("orders", shards)
				for i := range records {
					if i%100 == 0 {
						r.put("orders", fmt.Sprintf("key-%d", i/100), numbered(100)...)
					}
				}
				for i := range shards {
					r.split("orders", shardID(i))
				}
				var mu sync.Mutex
				seen, ended := map[string]int{}, map[core.ShardID]bool{}
				ctx, cancel := context.WithCancel(r.ctx)
				defer cancel()
				w, err := worker.New(worker.Config{
					Streams: worker.One(r.source("orders", MaxRecords(7)), core.FromHorizon), Store: leases.New(),
					Process: func(_ context.Context, b *core.Batch) error {
						mu.Lock()
						defer mu.Unlock()
						for i := range b.Records {
							if _, err := strconv.Atoi(string(b.Records[i].Data)); err != nil {
								return fmt.Errorf("record %+v: %w", b.Records[i], err)
							}
							seen[b.Records[i].Clone().Sequence]++
						}
						if b.End {
							ended[b.Shard] = true
						}
						if len(seen) == records {
							cancel()
						}
						return nil
					},
				})
				r.ok(err)
				if err := w.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if len(seen) != records {
					t.Errorf("%d records, want %d", len(seen), records)
				}
				for seq, n := range maps.All(seen) {
					if n != 1 {
						t.Errorf("record %s came %d times", seq, n)
					}
				}
			})
		})
	}
}
