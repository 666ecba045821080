package kinesis_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardwarden/shardwarden/backends/kinesis"
	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
)

// A source is made from the SDK's config and the stream's name, and given to a worker. See examples/kinesis for a whole program.
func ExampleNew() {
	ctx := context.Background()
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion("eu-west-1"))
	if err != nil {
		return
	}
	orders := kinesis.New(cfg, "orders")
	// A stream of another account goes by its ARN; two applications that poll one stream share its five reads a second.
	theirs := kinesis.New(cfg, "arn:aws:kinesis:eu-west-1:123456789012:stream/payments",
		kinesis.PollBehind(500*time.Millisecond), kinesis.Logger(slog.Default()))
	_, _ = orders, theirs
}

// What is wrong with a name, a config or an option is said by the first call, before anything is sent.
func ExampleNew_wrongRegion() {
	cfg := aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("AKID", "secret", "")}
	_, err := kinesis.New(cfg, "arn:aws:kinesis:eu-west-1:123456789012:stream/orders").Describe(context.Background())
	fmt.Println(errors.Is(err, core.ErrInvalid))
	// Output: true
}

// A source can be used without a worker, for tools and tests: here against the emulator.
func ExampleSource_Open() {
	server := httptest.NewServer(emulator.New(emulator.Config{}))
	defer server.Close()
	ctx := context.Background()
	cfg := aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("AKID", "secret", ""), BaseEndpoint: aws.String(server.URL)}
	put(ctx, cfg, "orders", "hello", "world")

	source := kinesis.New(cfg, "orders")
	shards, err := source.Shards(ctx, core.FromHorizon)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, shard := range shards {
		r, err := source.Open(ctx, shard, core.FromHorizon)
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
			fmt.Printf("%s %s\n", rec.Key, rec.Data)
		}
	}
	// Output:
	// key hello
	// key world
}

func put(ctx context.Context, cfg aws.Config, stream string, data ...string) {
	client := sdk.NewFromConfig(cfg)
	if _, err := client.CreateStream(ctx, &sdk.CreateStreamInput{StreamName: &stream, ShardCount: aws.Int32(1)}); err != nil {
		fmt.Println(err)
	}
	for _, d := range data {
		if _, err := client.PutRecord(ctx, &sdk.PutRecordInput{StreamName: &stream, PartitionKey: aws.String("key"), Data: []byte(d)}); err != nil {
			fmt.Println(err)
		}
	}
}
