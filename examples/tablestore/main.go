// A worker that prints every change of the table "orders" as it happens.
//
//	export TABLESTORE_ENDPOINT=https://INSTANCE.REGION.ots.aliyuncs.com TABLESTORE_INSTANCE=INSTANCE
//	export TABLESTORE_ACCESS_KEY_ID=… TABLESTORE_ACCESS_KEY_SECRET=…
//	go run ./examples/tablestore
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/shardwarden/shardwarden/backends/tablestore"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	"github.com/shardwarden/shardwarden/leasestore/ots"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	instance := tablestore.Instance{Endpoint: os.Getenv("TABLESTORE_ENDPOINT"), Name: os.Getenv("TABLESTORE_INSTANCE")}
	w, err := worker.New(worker.Config{
		Streams: tablestore.Tables(instance, core.FromLatest, []string{"orders"}),
		Store:   ots.New(ots.Instance(instance), "orders_status"),
		Process: func(ctx context.Context, b *core.Batch) error {
			for i := range b.Records {
				c := b.Records[i].Native.(*tablestore.Change)
				fmt.Println(c.Type, c.KeyText())
				for _, col := range c.Columns {
					fmt.Println("  ", col.Op, col.Name, col.Value)
				}
				for _, col := range c.Old {
					fmt.Println("   was", col.Name, col.Value)
				}
			}
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
