package kinesis_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/shardwarden/shardwarden/backends/kinesis"
	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
)

// The records are pushed to a consumer of the stream, which is registered if it is missing. With OrPoll they are polled for where that is not
// permitted, or the stream has no room for another consumer.
func ExampleFanOut() {
	service := emulator.New(emulator.Config{})
	server := httptest.NewServer(service)
	defer server.Close()
	defer service.Close()
	ctx := context.Background()
	cfg := aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("AKID", "secret", ""), BaseEndpoint: aws.String(server.URL)}
	put(ctx, cfg, "orders", "hello", "world")

	source := kinesis.New(cfg, "orders", kinesis.FanOut("billing"), kinesis.OrPoll()) // for worker.Config.Streams, as any source
	r, err := source.Open(ctx, core.Shard{ID: "shardId-000000000000"}, core.FromHorizon)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	page, err := r.Next(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, rec := range page.Records {
		fmt.Printf("%s\n", rec.Data)
	}
	// Output:
	// hello
	// world
}
