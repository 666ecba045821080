package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/conformance"
	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// bench drives a table of the emulator for the conformance suite. Its stores reach it through a gate.
type bench struct {
	server *emulator.Server
	http   *http.Server
	direct *http.Transport
	served chan error
	gate   *gate
	admin  *dynamodb.Client
	stores []*dynamo.Store
	mu     sync.Mutex

	several bool // the table is one of several streams
	layout  dynamo.LayoutKind
}

// gate is a way to the service that can be closed.
type gate struct {
	next http.RoundTripper

	mu    sync.Mutex
	shut  chan struct{} // nil: open
	scans int           // that may still pass, if not below 0
}

func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	shut, scan := g.shut, strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".Scan")
	broken := scan && g.scans == 0
	if scan && g.scans > 0 {
		g.scans--
	}
	g.mu.Unlock()
	if broken {
		return nil, errors.New("connection reset by peer")
	}
	if shut != nil {
		select {
		case <-shut:
			return nil, errors.New("connection reset by peer")
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return g.next.RoundTrip(r)
}

func newBench() *bench {
	p := newPipe()
	b := &bench{server: emulator.New(emulator.Config{}), served: make(chan error, 1)}
	b.http = &http.Server{Handler: b.server}
	go func() { b.served <- b.http.Serve(p) }()
	b.direct = &http.Transport{DialContext: p.dial, MaxIdleConnsPerHost: 64}
	b.gate = &gate{next: b.direct, scans: -1}
	b.admin = dynamodb.NewFromConfig(b.config(b.direct), func(o *dynamodb.Options) {
		o.BaseEndpoint = aws.String("http://emulator")
		o.Retryer = aws.NopRetryer{}
	})
	return b
}

func (b *bench) config(rt http.RoundTripper) aws.Config {
	return aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("AKIDTEST", "secret", ""), HTTPClient: &http.Client{Transport: rt}}
}

func (b *bench) Store() core.LeaseStore {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := dynamo.New(b.config(b.gate), app, b.options()...)
	b.stores = append(b.stores, s)
	if b.layout == dynamo.KCL2 {
		return struct{ core.LeaseStore }{s} // its workers have no rows
	}
	return s
}

func (b *bench) options() []dynamo.Option {
	opts := []dynamo.Option{dynamo.Endpoint("http://emulator"), dynamo.Layout(b.layout)}
	if b.several {
		opts = append(opts, dynamo.SeveralStreams())
	}
	return opts
}

func (b *bench) key(k core.LeaseKey) dynamo.Attributes {
	key := string(k.Shard)
	if b.several {
		key = string(k.Stream) + ":" + key
	}
	return dynamo.Attributes{"leaseKey": &types.AttributeValueMemberS{Value: key}}
}

func (b *bench) Close() error {
	b.server.Close()
	err := b.http.Close()
	if served := <-b.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	for _, s := range b.stores {
		s.CloseIdle()
	}
	b.direct.CloseIdleConnections()
	return err
}

// PageBytes is what a scan of the service reads at a time.
func (b *bench) PageBytes() int { return 1 << 20 }

func (b *bench) PutAttribute(ctx context.Context, key core.LeaseKey, value string) error {
	return b.set(ctx, key, "their-column", &types.AttributeValueMemberM{Value: dynamo.Attributes{"text": &types.AttributeValueMemberS{Value: value}}})
}

func (b *bench) set(ctx context.Context, key core.LeaseKey, name string, v types.AttributeValue) error {
	_, err := b.admin.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: aws.String(app), Key: b.key(key),
		UpdateExpression: aws.String("SET #a = :v"), ExpressionAttributeNames: map[string]string{"#a": name}, ExpressionAttributeValues: dynamo.Attributes{":v": v},
	})
	return err
}

func (b *bench) Attribute(ctx context.Context, key core.LeaseKey) (string, error) {
	out, err := b.admin.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(app), Key: b.key(key), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return "", err
	}
	if m, ok := out.Item["their-column"].(*types.AttributeValueMemberM); ok {
		if s, ok := m.Value["text"].(*types.AttributeValueMemberS); ok {
			return s.Value, nil
		}
	}
	return "", nil
}

func (b *bench) Spoil(ctx context.Context, key core.LeaseKey) error {
	return b.set(ctx, key, "leaseCounter", &types.AttributeValueMemberS{Value: "seven"})
}

// PutStranger puts the leader lock of the KCL, which lies among the leases in a table of one.
func (b *bench) PutStranger(ctx context.Context) error {
	_, err := b.admin.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(app), Item: dynamo.Attributes{
		"leaseKey": &types.AttributeValueMemberS{Value: "Leader"}, "ownerName": &types.AttributeValueMemberS{Value: "java-worker"},
	}})
	return err
}

func (b *bench) Break(_ context.Context, f conformance.Fault) (func(), error) {
	kinds := map[conformance.Fault][]emulator.Fault{
		conformance.Unavailable: {{Kind: emulator.FaultServerError}},
		conformance.Throttled:   {{Kind: emulator.FaultThrottle}},
		conformance.Denied:      {{Kind: emulator.FaultDenied}},
		conformance.PartList:    {{Kind: emulator.FaultPageSize, Items: 40}},
		conformance.LostAnswer: {
			{Kind: emulator.FaultDropAfter, Op: "PutItem"}, {Kind: emulator.FaultDropAfter, Op: "UpdateItem"}, {Kind: emulator.FaultDropAfter, Op: "DeleteItem"},
		},
	}
	for _, k := range kinds[f] {
		b.server.SetFault(k)
	}
	shut := make(chan struct{})
	b.gate.mu.Lock()
	defer b.gate.mu.Unlock()
	switch {
	case f == conformance.Silent:
		b.gate.shut = shut
	case f == conformance.PartList:
		b.gate.scans = 1
	case kinds[f] == nil:
		return nil, fmt.Errorf("fault %q: %w", f, errors.ErrUnsupported)
	}
	return func() {
		b.server.ClearFaults()
		b.gate.mu.Lock()
		b.gate.shut, b.gate.scans = nil, -1
		b.gate.mu.Unlock()
		close(shut)
	}, nil
}

func TestConformance(t *testing.T) {
	conformance.TestStore(t, func(context.Context) (conformance.StoreHarness, error) { return newBench(), nil }, conformance.FakeTime())
}

// In the layouts of each KCL the store keeps the same contract. What it knows of the table of workers' metrics may be ten seconds old.
func TestConformanceOfLayouts(t *testing.T) {
	for _, k := range []dynamo.LayoutKind{dynamo.KCL2, dynamo.KCL3Tables, dynamo.KCL3Single} {
		t.Run(k.String(), func(t *testing.T) {
			conformance.TestStore(t, func(context.Context) (conformance.StoreHarness, error) {
				b := newBench()
				b.layout = k
				if k == dynamo.KCL3Tables {
					return staleBench{b}, nil
				}
				return b, nil
			}, conformance.FakeTime())
		})
	}
}

type staleBench struct{ *bench }

func (staleBench) Staleness() time.Duration { return 10 * time.Second }
