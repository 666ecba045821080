package ots_test

import (
	"context"
	"fmt"
	"time"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	emulator "github.com/shardwarden/shardwarden/emulator/tablestore"
	"github.com/shardwarden/shardwarden/leasestore/ots"
)

// Leases in a status table that workers of the Java Stream Client share. The emulator stands for the service here.
func Example() {
	s := newService(emulator.Config{})
	defer func() { _ = s.Close() }()

	store := ots.New(ots.Instance{Endpoint: "http://emulator", Name: "shop", Credentials: keys}, "orders_status",
		ots.WithJava(20*time.Second), // leaseDurationMillis of their ClientConfig
		ots.Transport(s.direct),      // leave it out: the store has connections of its own
	)
	stream := source.New("orders", 1)
	stream.Put("customer 7", []byte("two apples"))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w, err := worker.New(worker.Config{
		Streams: worker.One(stream, core.FromHorizon),
		Store:   store,
		Process: func(_ context.Context, b *core.Batch) error {
			for _, r := range b.Records {
				fmt.Printf("%s: %s\n", r.Key, r.Data)
			}
			cancel()
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := w.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: customer 7: two apples
}
