package worker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
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

// Such a table gets the token of a start at Latest before anything arrives that must not be lost.
func TestLatestOnATableWithoutStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, nil)
		f.table = store.New(store.WithoutStarts())
		f.config = func(c *worker.Config) {
			all, _ := c.Streams.Streams(t.Context())
			c.Streams = worker.One(all[0].Source, core.FromLatest)
		}
		f.stream.Put("old", nil)
		time.Sleep(time.Second)
		f.start("a")
		f.await("held", time.Minute, func() bool { return f.owners()["a"] == 2 })
		f.put(20, 5)
		f.await("delivered", time.Minute, f.allDelivered)
		f.check()
		f.stopAll()
	})
}

// A source that cannot open a shard at a time, as one of files, begins at Latest all the same: its token is asked for before the lease is created,
// though the table could hold the instant.
func TestLatestWithoutStartTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, nil)
		f.stream = source.New("orders", 2, source.Idle(2*time.Second), source.Lacking(core.SourceLacks{StartTime: true}))
		f.config = func(c *worker.Config) {
			all, _ := c.Streams.Streams(t.Context())
			c.Streams = worker.One(all[0].Source, core.FromLatest)
		}
		f.stream.Put("old", nil)
		time.Sleep(time.Second)
		f.start("a")
		f.await("held", time.Minute, func() bool { return f.owners()["a"] == 2 })
		f.put(20, 5)
		f.await("delivered", time.Minute, f.allDelivered)
		f.check()
		f.stopAll()
	})
}

// A source that can neither open a time nor resolve one cannot begin at LATEST: what arrived between the start and the first read would be lost.
func TestLatestWithNothingToResolveIt(t *testing.T) {
	w, err := worker.New(worker.Config{
		Streams: worker.One(source.New("s", 1, source.Lacking(core.SourceLacks{StartTime: true})).Plain(), core.FromLatest), Store: store.New(),
		Process: func(context.Context, *core.Batch) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context()); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("Run: %v, want ErrInvalid", err)
	}
}
