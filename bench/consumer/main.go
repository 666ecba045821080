// Consumer is our side of the baseline measurements: it speaks the contract of bench/harness, so that one harness measures us and the peers.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/shardwarden/shardwarden/backends/kinesis"
	peer "github.com/shardwarden/shardwarden/bench/harness/mains/peerkit"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// peak is the most memory that this process has taken, in kB; 0 where the kernel does not say. What the kernel tells a parent of its child (ru_maxrss)
// begins with what the parent took when it started the child.
func peak() (kb int64) {
	status, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	_, _ = fmt.Sscan(rest, &kb)
	return kb
}

func main() {
	cbor := flag.Bool("cbor", false, "ask for pages in CBOR")
	peer.Init()
	var opts []kinesis.Option
	if *cbor {
		opts = append(opts, kinesis.CBOR())
	}
	cfg := aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("bench", "bench", "")}
	source := kinesis.New(cfg, *peer.Stream, append(opts, kinesis.Endpoint(*peer.Kinesis))...)
	w, err := worker.New(worker.Config{
		ID:              core.WorkerID(*peer.Worker),
		Streams:         worker.One(source, core.FromHorizon),
		Store:           dynamo.New(cfg, *peer.App, dynamo.Endpoint(*peer.Dynamo)),
		CheckpointEvery: time.Duration(*peer.CpMs) * time.Millisecond,
		Process: func(_ context.Context, b *core.Batch) error {
			peer.Got(string(b.Shard), len(b.Records), func(i int) (string, string) { return b.Records[i].Sequence, b.Records[i].Key })
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
		peer.Wait()
		stop()
	}()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	n := source.Pages()
	peer.Say("pages", "cbor", n.CBOR, "json", n.JSON, "stock", n.Stock, "fallbacks", n.Fallbacks)
	peer.Say("memory", "peakKB", peak())
	peer.Summary()
}
