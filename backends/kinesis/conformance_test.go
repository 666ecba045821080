package kinesis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardwarden/shardwarden/conformance"
	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
)

const streamUnderTest = "orders"

// bench drives a stream of the emulator for the conformance suite. There is no verb to trim: the service reads on at the oldest record it has,
// and does not say that some are gone.
type bench struct {
	server  *emulator.Server
	http    *http.Server
	serving sync.WaitGroup
	tr      *http.Transport
	client  *http.Client
	admin   *sdk.Client
	opts    []Option // of its sources

	mu    sync.Mutex
	start map[core.ShardID]string // the first key of its range
	shut  chan struct{}

	pushed  bool // its sources use fan-out, each with a consumer of its own
	sources int
	pushes  map[*pushedBody]bool
}

// pushedBody is the answer of a subscription, which breaks with the service.
type pushedBody struct {
	io.ReadCloser
	b   *bench
	ctx context.Context
}

func (p *pushedBody) Read(to []byte) (int, error) {
	for {
		n, err := p.ReadCloser.Read(to)
		p.b.mu.Lock()
		shut := p.b.shut
		p.b.mu.Unlock()
		if shut == nil {
			return n, err
		}
		select { // nothing comes through any more, ever
		case <-p.ctx.Done():
			return 0, p.ctx.Err()
		case <-shut:
			return 0, errors.New("connection reset by peer")
		}
	}
}

func (p *pushedBody) Close() error {
	p.b.mu.Lock()
	delete(p.b.pushes, p)
	p.b.mu.Unlock()
	return p.ReadCloser.Close()
}

// cut ends all subscriptions.
func (b *bench) cut() {
	b.mu.Lock()
	all := slices.Collect(maps.Keys(b.pushes))
	b.mu.Unlock()
	for _, p := range all {
		_ = p.Close()
	}
}

func newBench(ctx context.Context, opts ...Option) (*bench, error) {
	b := &bench{opts: opts, server: emulator.New(emulator.Config{NoLimits: true}), start: map[core.ShardID]string{}, pushes: map[*pushedBody]bool{}}
	l := &memory{conns: make(chan net.Conn), done: make(chan struct{})}
	b.http = &http.Server{Handler: b.server}
	b.serving.Go(func() { _ = b.http.Serve(l) })
	b.tr = &http.Transport{DialContext: l.dial, DisableCompression: true, MaxIdleConnsPerHost: 100}
	b.client = &http.Client{Transport: b}
	b.admin = sdk.NewFromConfig(testConfig(), func(o *sdk.Options) {
		o.BaseEndpoint = aws.String("http://admin.test")
		o.HTTPClient = ownBody{&http.Client{Transport: b.tr}}
		o.Retryer = aws.NopRetryer{}
	})
	return b, b.create(ctx)
}

func (b *bench) create(ctx context.Context) error {
	_, err := b.admin.CreateStream(ctx, &sdk.CreateStreamInput{StreamName: aws.String(streamUnderTest), ShardCount: aws.Int32(2)})
	return err
}

// RoundTrip is the way of the sources to the service, which can be shut.
func (b *bench) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	shut := b.shut
	b.mu.Unlock()
	if shut != nil {
		select {
		case <-shut:
			return nil, errors.New("connection reset by peer")
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	resp, err := b.tr.RoundTrip(r)
	if err == nil && resp.Header.Get("Content-Type") == "application/vnd.amazon.eventstream" {
		p := &pushedBody{ReadCloser: resp.Body, b: b, ctx: r.Context()}
		b.mu.Lock()
		b.pushes[p] = true
		b.mu.Unlock()
		resp.Body = p
	}
	return resp, err
}

func (b *bench) Source() core.StreamSource {
	opts := append(slices.Clone(b.opts), Endpoint("http://kinesis.test"), HTTPClient(b.client))
	if b.pushed {
		b.mu.Lock()
		b.sources++
		opts = append(opts, FanOut(fmt.Sprint("app", b.sources)))
		b.mu.Unlock()
	}
	return New(testConfig(), streamUnderTest, opts...)
}

func (b *bench) Close() error {
	b.server.Close()
	b.tr.CloseIdleConnections()
	err := b.http.Close()
	b.serving.Wait()
	return err
}

// hashKey is a key in the middle of the range of a shard.
func (b *bench) hashKey(ctx context.Context, shard core.ShardID) (string, error) {
	b.mu.Lock()
	key, ok := b.start[shard]
	b.mu.Unlock()
	if ok {
		return key, nil
	}
	list, err := b.admin.ListShards(ctx, &sdk.ListShardsInput{StreamName: aws.String(streamUnderTest)})
	if err != nil {
		return "", err
	}
	for _, s := range list.Shards {
		if aws.ToString(s.ShardId) == string(shard) {
			r, err := newRange(s.HashKeyRange)
			if err != nil {
				return "", err
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.start[shard] = middle(r)
			return b.start[shard], nil
		}
	}
	return "", fmt.Errorf("no shard %s: %w", shard, core.ErrNotFound)
}

func (b *bench) Put(ctx context.Context, shard core.ShardID, key string, data []byte) error {
	hash, err := b.hashKey(ctx, shard)
	if err != nil {
		return err
	}
	_, err = b.admin.PutRecord(ctx, &sdk.PutRecordInput{StreamName: aws.String(streamUnderTest), PartitionKey: &key, ExplicitHashKey: &hash, Data: append([]byte{}, data...)})
	return err
}

func (b *bench) Split(ctx context.Context, shard core.ShardID) error {
	hash, err := b.hashKey(ctx, shard)
	if err != nil {
		return err
	}
	_, err = b.admin.SplitShard(ctx, &sdk.SplitShardInput{StreamName: aws.String(streamUnderTest), ShardToSplit: aws.String(string(shard)), NewStartingHashKey: &hash})
	return err
}

func (b *bench) Merge(ctx context.Context, x, y core.ShardID) error {
	_, err := b.admin.MergeShards(ctx, &sdk.MergeShardsInput{StreamName: aws.String(streamUnderTest), ShardToMerge: aws.String(string(x)), AdjacentShardToMerge: aws.String(string(y))})
	return err
}

// Remake waits for more than the grain of the time of creation, a second.
func (b *bench) Remake(ctx context.Context) error {
	if _, err := b.admin.DeleteStream(ctx, &sdk.DeleteStreamInput{StreamName: aws.String(streamUnderTest), EnforceConsumerDeletion: aws.Bool(true)}); err != nil {
		return err
	}
	if err := pause(ctx, 2*time.Second); err != nil {
		return err
	}
	return b.create(ctx)
}

func (b *bench) Break(_ context.Context, f conformance.Fault) (func(), error) {
	kind := map[conformance.Fault]emulator.Kind{conformance.Unavailable: emulator.Unavailable, conformance.Throttled: emulator.Throttle, conformance.Denied: emulator.AccessDenied}[f]
	switch {
	case kind != "":
		b.cut()
		return b.server.ClearFaults, b.server.SetFault(emulator.Fault{Kind: kind})
	case f != conformance.Silent: // a listing of less than 1,000 shards is one page
		return nil, errors.ErrUnsupported
	}
	shut := make(chan struct{})
	b.mu.Lock()
	b.shut = shut
	b.mu.Unlock()
	return func() {
		b.mu.Lock()
		b.shut = nil
		b.mu.Unlock()
		close(shut)
	}, nil
}

// Pages are poisoned when they are released, so that the suite also finds out whether anything of them is used afterwards.
func TestConformance(t *testing.T) {
	former := poisoned
	poisoned = true
	t.Cleanup(func() { poisoned = former })
	for name, opts := range map[string][]Option{"JSON": nil, "CBOR": {CBOR()}, "the SDK's decoder": {StockPages()}} {
		t.Run(name, func(t *testing.T) {
			conformance.TestSource(t, func(ctx context.Context) (conformance.SourceHarness, error) { return newBench(ctx, opts...) }, conformance.FakeTime())
		})
	}
}

// Fan-out, by the same suite. Readers of one source at one shard are left out: the service gives a shard to one subscription of a consumer at a
// time, and a worker has but one reader of a shard.
func TestConformanceOfFanOut(t *testing.T) {
	former := poisoned
	poisoned = true
	t.Cleanup(func() { poisoned = former })
	for name, opts := range map[string][]Option{"our decoder": nil, "the SDK's decoder": {StockPages()}} {
		t.Run(name, func(t *testing.T) {
			conformance.TestSource(t, func(ctx context.Context) (conformance.SourceHarness, error) {
				b, err := newBench(ctx, opts...)
				b.pushed = true
				return b, err
			}, conformance.FakeTime(), conformance.Only(func(rule string) bool { return rule != "readers-apart" }))
		})
	}
}
