// Two workers share the four shards of a stream, with no service and no setup: stream and lease table are in this process.
//
//	go run ./examples/memory
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	stream "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	leases "github.com/shardwarden/shardwarden/leasestore/memory"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	orders, table := stream.New("orders", 4), leases.New()
	var left atomic.Int64
	for customer := range 8 {
		for n := range 3 {
			orders.Put(fmt.Sprint("customer ", customer), fmt.Append(nil, "order ", n))
			left.Add(1)
		}
	}
	ctx, done := context.WithCancel(ctx)
	defer done()
	var workers errgroup.Group
	for _, id := range []core.WorkerID{"worker 1", "worker 2"} {
		w, err := worker.New(worker.Config{
			ID:      id,
			Streams: worker.One(orders, core.FromHorizon),
			Store:   table.Handle(string(id)),
			Process: func(_ context.Context, b *core.Batch) error {
				for _, r := range b.Records {
					fmt.Fprintf(out, "%s  %s  %s  %s\n", id, b.Shard, r.Key, r.Data)
				}
				if left.Add(-int64(len(b.Records))) <= 0 {
					done()
				}
				return nil
			},
		})
		if err != nil {
			return err
		}
		workers.Go(func() error { return w.Run(ctx) })
	}
	return workers.Wait()
}
