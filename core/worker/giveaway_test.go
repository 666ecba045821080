package worker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

// HandlerStopTimeout is for handlers. The hand-over itself may take longer: it waits for a renewal that is under way, and is a slow call itself. A
// lease that is neither handed over nor processed would be renewed for ever and never read.
func TestHandOverOverASlowTable(t *testing.T) {
	for after := time.Duration(0); after < 4*time.Second; after += 500 * time.Millisecond {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			bubble(t, 1, func(c *worker.Config) { c.HandlerStopTimeout = 100 * time.Millisecond }, func(t *testing.T, f *fleet) {
				a := f.start("a")
				f.put(10, 5)
				f.await("delivered", time.Minute, f.allDelivered)
				time.Sleep(10 * time.Second)
				a.store.Break(store.Fault{Kind: store.Slow, Delay: 1500 * time.Millisecond, Ops: []store.Op{store.Update}})
				if err := f.table.Announce(t.Context(), core.WorkerInfo{ID: "b", Beat: "1"}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(after)
				l := f.table.Rows()[0]
				if _, err := f.table.Update(t.Context(), l, core.Ask("b").Same, core.Ask("b").Set); err != nil {
					t.Fatal(err)
				}
				f.await("handed over", 10*time.Second, func() bool { return f.count(worker.LeaseHandedOver, "a") == 1 })
				f.check()
			})
		})
	}
}
