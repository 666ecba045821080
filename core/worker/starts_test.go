package worker_test

import (
	"testing"
	"testing/synctest"
	"time"

	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

// A table that cannot hold the instant of a start is given tokens in place of Latest and times, and of nothing else: a beginning is no start that a
// source could resolve, so the children of a split would never get a lease.
func TestTableWithoutStartsHasChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, nil)
		f.table = store.New(store.WithoutStarts())
		f.start("a")
		f.put(20, 5)
		f.await("delivered", time.Minute, f.allDelivered)
		f.split(f.open()[0])
		f.put(20, 5)
		f.await("delivered after the split", time.Minute, f.allDelivered)
		f.stopAll()
		f.check()
	})
}
