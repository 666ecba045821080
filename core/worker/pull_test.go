package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
)

// A shard function that panics in its loop gives back its place among those that run side by side, or soon no shard of the worker is read.
func TestPanicInPulledLoopGivesItsPlaceBack(t *testing.T) {
	var panics atomic.Int32
	panics.Store(3)
	bubble(t, 2, func(c *worker.Config) {
		record := c.Process
		c.Process, c.MaxShardsAtOnce = nil, 1
		c.Shard = func(ctx context.Context, s core.PullSession) error {
			for b, err := range s.Batches(ctx) {
				if err != nil {
					return err
				}
				if panics.Add(-1) >= 0 {
					panic("on purpose")
				}
				if err := record(ctx, b); err != nil {
					return err
				}
			}
			return nil
		}
	}, func(t *testing.T, f *fleet) {
		f.start("a")
		f.put(40, 10)
		f.await("delivered", time.Minute, f.allDelivered)
		f.check()
	})
}
