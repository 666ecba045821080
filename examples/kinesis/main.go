// A worker of the application "billing" that prints the records of its share of the stream "orders".
//
//	go run ./examples/kinesis
package main

import (
	"context"
	"fmt"
	"log"
	"os/signal"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/shardwarden/shardwarden/backends/kinesis"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	w, err := worker.New(worker.Config{
		Streams: worker.One(kinesis.New(cfg, "orders"), core.FromHorizon),
		Store:   dynamo.New(cfg, "billing"),
		Process: func(ctx context.Context, b *core.Batch) error {
			for _, r := range b.Records {
				fmt.Printf("%s %s %s\n", b.Shard, r.Key, r.Data)
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
