package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardwarden/shardwarden/backends/kinesis"
	"github.com/shardwarden/shardwarden/core"
	dynamoemulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
	kinesisemulator "github.com/shardwarden/shardwarden/emulator/kinesis"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// service is an emulator behind connections in memory, which a bubble can see through.
type service struct {
	conns  chan net.Conn
	done   chan struct{}
	once   sync.Once
	server *http.Server
	served chan error

	mu      sync.Mutex
	clients []*http.Transport
}

func serve(h http.Handler) *service {
	s := &service{conns: make(chan net.Conn), done: make(chan struct{}), server: &http.Server{Handler: h}, served: make(chan error, 1)}
	go func() { s.served <- s.server.Serve(s) }()
	return s
}

func (s *service) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}
func (s *service) Close() error   { s.once.Do(func() { close(s.done) }); return nil }
func (s *service) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (s *service) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case s.conns <- theirs:
		return mine, nil
	case <-s.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// config is one more client's.
func (s *service) config() aws.Config {
	t := &http.Transport{DialContext: s.dial, MaxIdleConnsPerHost: 64}
	s.mu.Lock()
	s.clients = append(s.clients, t)
	s.mu.Unlock()
	return aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("AKIDTEST", "secret", ""), HTTPClient: ownBody{&http.Client{Transport: t}}}
}

// ownBody gives each request a body of its own: the SDK closes its body while a pipe may still be writing it.
type ownBody struct{ *http.Client }

func (o ownBody) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		var b bytes.Buffer
		if _, err := b.ReadFrom(r.Body); err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		body := b.Bytes()
		r.Body, r.ContentLength = readCloser{bytes.NewReader(body)}, int64(len(body))
	}
	return o.Client.Do(r)
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

func (s *service) end() error {
	for _, t := range s.clients {
		t.CloseIdleConnections()
	}
	err := s.server.Close()
	if e := <-s.served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}

// dynamoTable drives a table of DynamoDB.
type dynamoTable struct {
	*service
	emulator *dynamoemulator.Server
}

func makeDynamoTable(context.Context) (StoreHarness, error) {
	e := dynamoemulator.New(dynamoemulator.Config{})
	return &dynamoTable{serve(e), e}, nil
}

func (h *dynamoTable) Store() core.LeaseStore {
	return dynamo.New(h.config(), "orders-app", dynamo.Endpoint("http://emulator"))
}
func (h *dynamoTable) PageBytes() int { return 1 << 20 }
func (h *dynamoTable) Close() error   { h.emulator.Close(); return h.end() }

func (h *dynamoTable) Break(_ context.Context, f Fault) (func(), error) {
	kind, ok := map[Fault]dynamoemulator.FaultKind{
		Unavailable: dynamoemulator.FaultDropBefore, Throttled: dynamoemulator.FaultThrottle, LostAnswer: dynamoemulator.FaultDropAfter,
	}[f]
	if !ok {
		return nil, errors.ErrUnsupported
	}
	h.emulator.SetFault(dynamoemulator.Fault{Kind: kind})
	return h.emulator.ClearFaults, nil
}

// kinesisStream drives a stream of Kinesis.
type kinesisStream struct {
	*service
	emulator *kinesisemulator.Server
	admin    *sdk.Client
}

const streamName = "orders"

func makeKinesisStream(ctx context.Context) (SourceHarness, error) {
	e := kinesisemulator.New(kinesisemulator.Config{})
	h := &kinesisStream{service: serve(e), emulator: e}
	h.admin = sdk.NewFromConfig(h.config(), func(o *sdk.Options) { o.BaseEndpoint = aws.String("http://emulator") })
	_, err := h.admin.CreateStream(ctx, &sdk.CreateStreamInput{StreamName: aws.String(streamName), ShardCount: aws.Int32(1)})
	return h, err
}

func (h *kinesisStream) Source() core.StreamSource {
	c := h.config()
	return kinesis.New(c, streamName, kinesis.Endpoint("http://emulator"), kinesis.HTTPClient(c.HTTPClient))
}
func (h *kinesisStream) Close() error { h.emulator.Close(); return h.end() }

func (h *kinesisStream) Break(_ context.Context, f Fault) (func(), error) {
	kind, ok := map[Fault]kinesisemulator.Kind{Unavailable: kinesisemulator.Unavailable, Throttled: kinesisemulator.Throttle, Silent: kinesisemulator.Hang}[f]
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return h.emulator.ClearFaults, h.emulator.SetFault(kinesisemulator.Fault{Kind: kind})
}

// hashRange is where keys of a shard lie.
func (h *kinesisStream) hashRange(ctx context.Context, shard core.ShardID) (first, last *big.Int, err error) {
	list, err := h.admin.ListShards(ctx, &sdk.ListShardsInput{StreamName: aws.String(streamName)})
	if err != nil {
		return nil, nil, err
	}
	for _, s := range list.Shards {
		if aws.ToString(s.ShardId) == string(shard) {
			first, _ = new(big.Int).SetString(aws.ToString(s.HashKeyRange.StartingHashKey), 10)
			last, _ = new(big.Int).SetString(aws.ToString(s.HashKeyRange.EndingHashKey), 10)
			return first, last, nil
		}
	}
	return nil, nil, fmt.Errorf("no shard %s", shard)
}

func (h *kinesisStream) Put(ctx context.Context, shard core.ShardID, key string, data []byte) error {
	first, _, err := h.hashRange(ctx, shard)
	if err != nil {
		return err
	}
	out, err := h.admin.PutRecord(ctx, &sdk.PutRecordInput{StreamName: aws.String(streamName), PartitionKey: &key, ExplicitHashKey: aws.String(first.String()), Data: data})
	if err == nil && aws.ToString(out.ShardId) != string(shard) {
		err = fmt.Errorf("the record went to %s", aws.ToString(out.ShardId))
	}
	return err
}

func (h *kinesisStream) Split(ctx context.Context, shard core.ShardID) error {
	first, last, err := h.hashRange(ctx, shard)
	if err != nil {
		return err
	}
	middle := new(big.Int).Rsh(new(big.Int).Add(first, last), 1)
	_, err = h.admin.SplitShard(ctx, &sdk.SplitShardInput{StreamName: aws.String(streamName), ShardToSplit: aws.String(string(shard)), NewStartingHashKey: aws.String(middle.String())})
	return err
}

func (h *kinesisStream) Merge(ctx context.Context, a, b core.ShardID) error {
	_, err := h.admin.MergeShards(ctx, &sdk.MergeShardsInput{StreamName: aws.String(streamName), ShardToMerge: aws.String(string(a)), AdjacentShardToMerge: aws.String(string(b))})
	return err
}

// The adapters of the services, over emulators that speak the real protocols: the SDK, HTTP and all, in fake time.
func TestFleetOfServices(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	began := time.Now()
	TestFleet(t, makeKinesisStream, makeDynamoTable, FakeTime())
	t.Logf("in %v", time.Since(began))
}
