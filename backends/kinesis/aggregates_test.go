package kinesis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
	leases "github.com/shardwarden/shardwarden/leasestore/memory"
)

// Of ten user records of one container four are acknowledged in a row, and one further on fails: the lease says "behind number 3" as the KCL
// writes it, and the next worker goes on with number 4 (F97 in docs/reference/field-cases.md).
func TestWorkerStopsAndGoesOnInsideAContainer(t *testing.T) {
	bubble(t, emulator.Config{NoLimits: true}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.put("orders", "k", aggregate("before", 2), aggregate("a", 10))
		table := leases.New()
		run := func(process func(b *core.Batch, end context.CancelFunc) error) {
			t.Helper()
			ctx, end := context.WithCancel(r.ctx)
			defer end()
			w, err := worker.New(worker.Config{
				Streams: worker.One(r.source("orders"), core.FromHorizon), Store: table, Checkpoints: worker.Manual,
				Process: func(_ context.Context, b *core.Batch) error { return process(b, end) },
			})
			r.ok(err)
			if err := w.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		failed := errors.New("number 5 fails")
		run(func(b *core.Batch, end context.CancelFunc) error {
			for i := range b.Records {
				switch string(b.Records[i].Data) {
				case "a-3":
					r.ok(b.CheckpointAfter(context.WithoutCancel(r.ctx), i))
				case "a-5":
					end()
					return failed
				}
			}
			return nil
		})
		lease := onlyLease(t, table)
		if lease.Checkpoint.Sub != 3 || lease.Checkpoint.Token == "" {
			t.Fatalf("checkpoint %+v, want one behind number 3", lease.Checkpoint)
		}
		var mu sync.Mutex
		var got []string
		run(func(b *core.Batch, end context.CancelFunc) error {
			mu.Lock()
			defer mu.Unlock()
			for i := range b.Records {
				got = append(got, string(b.Records[i].Data))
			}
			if len(got) >= 6 {
				end()
			}
			return b.Checkpoint(context.WithoutCancel(r.ctx))
		})
		if want := "[a-4 a-5 a-6 a-7 a-8 a-9]"; fmt.Sprint(got) != want {
			t.Errorf("the next worker got %v, want %s", got, want)
		}
		if lease := onlyLease(t, table); lease.Checkpoint.Sub != 9 {
			t.Errorf("checkpoint %+v at the end, want number 9", lease.Checkpoint)
		}
	})
}

func onlyLease(t *testing.T, table core.LeaseStore) core.Lease {
	t.Helper()
	var all []core.Lease
	for lease, err := range table.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, lease)
	}
	if len(all) != 1 {
		t.Fatalf("%d leases", len(all))
	}
	return all[0]
}
