package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	source "github.com/shardwarden/shardwarden/backends/kinesis"
	dynamoemulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
	kinesisemulator "github.com/shardwarden/shardwarden/emulator/kinesis"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

const (
	streamName  = "demo"
	application = "demo-app"
	region      = "us-east-1"
)

// cloud is the stage of two services on loopback, called through the AWS SDK.
type cloud struct {
	plain
	kinesis *service
	dynamo  *service
	client  *sdk.Client
	idle    func()
}

// service is an emulator that listens.
type service struct {
	url    string
	server *http.Server
	done   chan error
	end    func()
}

func serve(handler http.Handler, end func()) (*service, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen on loopback: %w", err)
	}
	s := &service{url: "http://" + l.Addr().String(), server: &http.Server{Handler: handler}, done: make(chan error, 1), end: end}
	go func() { s.done <- s.server.Serve(l) }()
	return s, nil
}

func (s *service) close() error {
	s.end()
	err := s.server.Close()
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func newCloud(ctx context.Context, shards int, seed uint64) (stage, error) {
	k := kinesisemulator.New(kinesisemulator.Config{Region: region, Seed: seed, UpdateDelay: 300 * time.Millisecond})
	d := dynamoemulator.New(dynamoemulator.Config{Region: region, Seed: seed})
	kinesis, err := serve(k, k.Close)
	if err != nil {
		return nil, err
	}
	dynamo, err := serve(d, d.Close)
	if err != nil {
		return nil, errors.Join(err, kinesis.close())
	}
	c := &cloud{kinesis: kinesis, dynamo: dynamo}
	transport := &http.Transport{MaxIdleConnsPerHost: producers + 1}
	c.idle = transport.CloseIdleConnections
	// A put that is sent again may be stored twice, which no ledger could tell from a fault of the engine: it is sent once.
	c.client = sdk.NewFromConfig(configFor(kinesis.url, wholeBody{transport}), func(o *sdk.Options) { o.Retryer = aws.NopRetryer{} })
	if _, err := c.client.CreateStream(ctx, &sdk.CreateStreamInput{StreamName: aws.String(streamName), ShardCount: aws.Int32(int32(shards))}); err != nil {
		return nil, errors.Join(fmt.Errorf("create the stream: %w", err), c.close())
	}
	return c, c.active(ctx)
}

// wholeBody sends a copy of the request's body. The SDK closes its own as soon as the answer begins, and net/http, which may not be done with
// it, then drops the connection (docs/reference/go-peers.md 4.1).
type wholeBody struct{ next http.RoundTripper }

func (w wholeBody) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		return w.next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if e := r.Body.Close(); err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	own := r.WithContext(r.Context())
	own.Body = io.NopCloser(bytes.NewReader(body))
	return w.next.RoundTrip(own)
}

func configFor(url string, transport http.RoundTripper) aws.Config {
	return aws.Config{
		Region:       region,
		BaseEndpoint: aws.String(url),
		Credentials:  credentials.NewStaticCredentialsProvider("demo", "demo", ""),
		HTTPClient:   &http.Client{Transport: transport},
	}
}

func (c *cloud) join(string) (seat, error) {
	base := &http.Transport{MaxIdleConnsPerHost: 64}
	n := newNetwork(base)
	return seat{
		source: source.New(configFor(c.kinesis.url, n), streamName),
		store:  dynamo.New(configFor(c.dynamo.url, n), application),
		sever:  n.sever,
		leave:  func() { n.close(); base.CloseIdleConnections() },
	}, nil
}

func (c *cloud) put(ctx context.Context, records []outgoing) ([]placed, error) {
	in := &sdk.PutRecordsInput{StreamName: aws.String(streamName)}
	for _, r := range records {
		in.Records = append(in.Records, types.PutRecordsRequestEntry{PartitionKey: aws.String(r.key), Data: r.data})
	}
	out, err := c.client.PutRecords(ctx, in)
	if err != nil {
		return nil, err
	}
	got := make([]placed, len(records))
	for i, r := range out.Records {
		if r.ErrorCode == nil {
			got[i] = placed{aws.ToString(r.ShardId), aws.ToString(r.SequenceNumber)}
		}
	}
	return got, nil
}

func (c *cloud) shards(ctx context.Context) ([]shard, error) {
	var out []shard
	in := &sdk.ListShardsInput{StreamName: aws.String(streamName)}
	for {
		page, err := c.client.ListShards(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("list shards: %w", err)
		}
		for _, s := range page.Shards {
			r, err := decimalRange(aws.ToString(s.HashKeyRange.StartingHashKey), aws.ToString(s.HashKeyRange.EndingHashKey))
			if err != nil {
				return nil, fmt.Errorf("shard %s: %w", aws.ToString(s.ShardId), err)
			}
			v := shard{id: aws.ToString(s.ShardId), hashes: r, open: s.SequenceNumberRange.EndingSequenceNumber == nil}
			for _, p := range []*string{s.ParentShardId, s.AdjacentParentShardId} {
				if p != nil {
					v.parents = append(v.parents, *p)
				}
			}
			out = append(out, v)
		}
		if page.NextToken == nil {
			return out, nil
		}
		in = &sdk.ListShardsInput{NextToken: page.NextToken}
	}
}

func (c *cloud) split(ctx context.Context, s shard) error {
	_, err := c.client.SplitShard(ctx, &sdk.SplitShardInput{StreamName: aws.String(streamName), ShardToSplit: aws.String(s.id),
		NewStartingHashKey: aws.String(s.hashes.middle().String())})
	if err != nil {
		return err
	}
	return c.active(ctx)
}

func (c *cloud) merge(ctx context.Context, a, b shard) error {
	_, err := c.client.MergeShards(ctx, &sdk.MergeShardsInput{StreamName: aws.String(streamName), ShardToMerge: aws.String(a.id),
		AdjacentShardToMerge: aws.String(b.id)})
	if err != nil {
		return err
	}
	return c.active(ctx)
}

// active waits until the stream can be changed again. The service has no call that waits.
func (c *cloud) active(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		d, err := c.client.DescribeStreamSummary(ctx, &sdk.DescribeStreamSummaryInput{StreamName: aws.String(streamName)})
		if err != nil {
			return fmt.Errorf("describe the stream: %w", err)
		}
		if d.StreamDescriptionSummary.StreamStatus == types.StreamStatusActive {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (c *cloud) close() error {
	c.idle()
	return errors.Join(c.kinesis.close(), c.dynamo.close())
}
