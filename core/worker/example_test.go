package worker_test

import (
	"context"
	"errors"
	"fmt"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

// orders is a stream of one shard with the records of three customers.
func orders() core.StreamSource {
	s := source.New("orders", 1)
	for i := range 6 {
		s.Put(fmt.Sprintf("customer-%d", i%3), fmt.Appendf(nil, "order %d", i))
	}
	return s
}

// A function that is called with each batch, until ctx ends.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	w, err := worker.New(worker.Config{
		Streams: worker.One(orders(), core.FromHorizon),
		Store:   store.New(),
		Process: func(_ context.Context, b *core.Batch) error {
			for _, r := range b.Records {
				fmt.Println(r.Key, string(r.Data))
			}
			stop() // a real program goes on
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(w.Run(ctx))
	// Output:
	// customer-0 order 0
	// customer-1 order 1
	// customer-2 order 2
	// customer-0 order 3
	// customer-1 order 4
	// customer-2 order 5
	// <nil>
}

// tally keeps state per shard, and says by itself how far it has come.
type tally struct {
	session core.Session
	n       int
	last    core.Position
	full    func()
}

func (t *tally) Process(_ context.Context, b *core.Batch) error {
	t.n += len(b.Records)
	t.last = b.Next() // a position may be kept; records may not, unless they are cloned
	if t.n == 6 {
		t.full()
	}
	return nil
}

// Stopping is the last chance to store what was gathered: the lease is still held on a stop or a hand-over.
func (t *tally) Stopping(ctx context.Context, why error) {
	fmt.Println(t.n, "records, then:", why)
	if err := t.session.Checkpoint(ctx, t.last); err != nil {
		fmt.Println(err)
	}
}

// A processor for each shard, with checkpoints of its own.
func ExampleConfig_factory() {
	ctx, stop := context.WithCancel(context.Background())
	table := store.New()
	w, err := worker.New(worker.Config{
		Streams: worker.One(orders(), core.FromHorizon), Store: table, Checkpoints: worker.Manual,
		Factory: func(_ context.Context, s core.Session) (core.Processor, error) {
			return &tally{session: s, full: stop}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = w.Run(ctx)
	fmt.Println(err, table.Rows()[0].Checkpoint.Anchor == core.AfterToken)
	// Output:
	// 6 records, then: worker is shutting down
	// <nil> true
}

// The pulled form: the function owns the loop. Asking for the next batch acknowledges the last.
func ExampleConfig_pull() {
	ctx, stop := context.WithCancel(context.Background())
	w, err := worker.New(worker.Config{
		Streams: worker.One(orders(), core.FromHorizon), Store: store.New(),
		Shard: func(ctx context.Context, s core.PullSession) error {
			n := 0 // state per shard is a local variable
			for b, err := range s.Batches(ctx) {
				if err != nil {
					return err // the lease was lost or is handed over, or the worker stops
				}
				if n += len(b.Records); n == 6 {
					fmt.Println(n, "records of", s.Key().Shard)
					stop()
				}
			}
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(w.Run(ctx))
	// Output:
	// 6 records of shardId-000000000000
	// <nil>
}

// A record that cannot be digested is isolated, and goes to a dead-letter function after three tries; the shard goes on behind it.
func ExampleErrorPolicy() {
	ctx, stop := context.WithCancel(context.Background())
	w, err := worker.New(worker.Config{
		Streams: worker.One(orders(), core.FromHorizon), Store: store.New(),
		Process: func(_ context.Context, b *core.Batch) error {
			for _, r := range b.Records {
				if string(r.Data) == "order 4" {
					return errors.New("no such article")
				}
				if string(r.Data) == "order 5" {
					stop()
				}
			}
			return nil
		},
		OnError: worker.ErrorPolicy{
			Backoff: 1, GiveUpAfter: 3, Bisect: true,
			DeadLetter: func(_ context.Context, b *core.Batch, cause error) error {
				fmt.Printf("%s: %v\n", b.Records[0].Data, cause)
				return nil
			},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(w.Run(ctx))
	// Output:
	// order 4: no such article
	// <nil>
}
