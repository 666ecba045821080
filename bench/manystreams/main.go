// Manystreams is a worker that reads many streams with a handler that does nothing, for measuring what that takes. It prints a line once it has
// read as many records as it was told, and runs until its standard input ends.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"runtime/pprof"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/shardwarden/shardwarden/backends/kinesis"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

func main() {
	streams := flag.Int("streams", 1, "how many, named bench-0 and so on")
	expect := flag.Int64("expect", 0, "say when so many records were read")
	kinesisURL := flag.String("kinesis", "", "endpoint")
	dynamoURL := flag.String("dynamo", "", "endpoint")
	app := flag.String("app", "bench", "lease table")
	heap := flag.String("heap", "", "write a profile of the heap to this file at the end")
	flag.Parse()

	cfg := aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("bench", "bench", "")}
	var list []kinesis.Tracked
	for i := range *streams {
		list = append(list, kinesis.Tracked{Stream: fmt.Sprint("bench-", i)})
	}
	var left atomic.Int64
	left.Store(*expect)
	w, err := worker.New(worker.Config{
		Streams: kinesis.Streams(cfg, kinesis.Track(list...), kinesis.Endpoint(*kinesisURL)),
		Store:   dynamo.New(cfg, *app, dynamo.Endpoint(*dynamoURL), dynamo.SeveralStreams()),
		Process: func(_ context.Context, b *core.Batch) error {
			if n := int64(len(b.Records)); n > 0 && left.Add(-n) == 0 {
				fmt.Println("read")
			}
			return nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		if *heap != "" {
			if err := writeHeap(*heap); err != nil {
				log.Print(err)
			}
		}
		stop()
	}()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
}

func writeHeap(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := pprof.Lookup("heap").WriteTo(f, 0); err != nil {
		return err
	}
	return f.Close()
}
