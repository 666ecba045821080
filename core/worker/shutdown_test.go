package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
)

// Shutdown may be called at any time, any number of times and from anywhere; all calls return (field case F77).
func TestShutdownFromAnywhere(t *testing.T) {
	t.Run("before Run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, 1, nil)
			w, err := worker.New(worker.Config{Streams: worker.One(f.stream, core.FromHorizon), Store: f.table, Process: f.record("a")})
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := w.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if err := w.Run(t.Context()); err != nil || f.owners()[core.Nobody] != 0 {
				t.Errorf("Run: %v, leases %v", err, f.owners())
			}
		})
	})
	t.Run("from five goroutines, thrice each", func(t *testing.T) {
		bubble(t, 4, nil, func(t *testing.T, f *fleet) {
			a := f.start("a")
			f.put(40, 10)
			f.await("delivered", time.Minute, f.allDelivered)
			done := make(chan error, 15)
			for range 5 {
				go func() {
					for range 3 {
						done <- a.Shutdown(t.Context())
					}
				}()
			}
			start := time.Now()
			for range 15 {
				if err := <-done; err != nil || time.Since(start) > time.Second {
					t.Errorf("Shutdown: %v after %v", err, time.Since(start))
				}
			}
			<-a.done
			if err := a.Shutdown(t.Context()); err != nil {
				t.Errorf("after Run has returned: %v", err)
			}
		})
	})
	t.Run("from a handler", func(t *testing.T) {
		var a *member
		var said atomic.Pointer[error]
		bubble(t, 2, onKey("stop", func(ctx context.Context, _ *core.Batch) error {
			err := a.Shutdown(ctx) // ends at the latest when the handler's time is over
			said.Store(&err)
			return err
		}), func(t *testing.T, f *fleet) {
			a = f.start("a")
			f.put(20, 5)
			f.await("delivered", time.Minute, f.allDelivered)
			f.stream.Put("stop", nil)
			start := time.Now()
			<-a.done
			f.await("the handler has returned", time.Second, func() bool { return said.Load() != nil })
			if d := time.Since(start); d > 21*time.Second {
				t.Errorf("stopped after %v; handlers have two thirds of 30 s", d)
			}
			if e, ok := errors.AsType[*worker.AbandonedError](a.err); a.err != nil && (!ok || len(e.Shards) != 1) {
				t.Errorf("Run: %v", a.err)
			}
		})
	})
	t.Run("in the background of a handler", func(t *testing.T) {
		var a *member
		bubble(t, 2, onKey("stop", func(context.Context, *core.Batch) error {
			go func() { _ = a.Shutdown(context.Background()) }()
			return nil
		}), func(t *testing.T, f *fleet) {
			a = f.start("a")
			f.await("held", time.Minute, func() bool { return f.owners()["a"] == 2 })
			f.stream.Put("stop", nil)
			start := time.Now()
			<-a.done
			if d := time.Since(start); a.err != nil || d > 3*time.Second {
				t.Errorf("Run: %v after %v", a.err, d)
			}
		})
	})
	t.Run("a second that has less patience", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{}) // of the bubble
			f := newFleet(t, 2, onKey("stuck", func(context.Context, *core.Batch) error { <-release; return nil }))
			a := f.start("a")
			f.await("held", time.Minute, func() bool { return f.owners()["a"] == 2 })
			f.stream.Put("stuck", nil)
			f.await("read", time.Minute, func() bool { return a.Status().Counts[worker.RecordsDelivered] == 1 })
			first := make(chan error, 1)
			go func() { first <- a.Shutdown(context.Background()) }() // for ever
			time.Sleep(time.Hour)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			start := time.Now()
			for _, err := range []error{a.Shutdown(ctx), <-first} {
				if e, ok := errors.AsType[*worker.AbandonedError](err); !ok || len(e.Shards) != 1 || time.Since(start) > 6*time.Second {
					t.Errorf("%v after %v, want the one shard that was abandoned", err, time.Since(start))
				}
			}
			close(release)
		})
	})
}
