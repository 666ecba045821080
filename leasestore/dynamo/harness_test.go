package dynamo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"go.uber.org/goleak"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	app    = "orders-app"
	stream = core.StreamID("123456789012:orders:1796039487")
)

// pipe is a listener without a network, so that a synctest bubble can hold both ends.
type pipe struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipe() *pipe { return &pipe{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipe) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipe) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (p *pipe) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return mine, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// service is an emulator with a way to reach it; or, with this variable set, somebody else's that listens at its URL, for the tests that
// need no faults and no counts.
const elsewhere = "SHARDWARDEN_DYNAMODB_ENDPOINT"

type service struct {
	*emulator.Server
	t   testing.TB
	cfg aws.Config
	log *journal
}

// serve starts an emulator; each of wrap may come between it and the client.
func serve(t testing.TB, c emulator.Config, wrap ...func(aws.HTTPClient) aws.HTTPClient) *service {
	t.Helper()
	srv := &service{emulator.New(c), t, aws.Config{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("AKIDTEST", "secret", ""),
	}, &journal{}}
	if endpoint := os.Getenv(elsewhere); endpoint != "" {
		srv.external(c != emulator.Config{})
		srv.cfg.HTTPClient = redirect(t, endpoint)
		for _, table := range []string{app, coordinatorTable, metricsTable} {
			// Left by the test before, or not there.
			_, _ = srv.sdk().UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: aws.String(table), DeletionProtectionEnabled: aws.Bool(false)})
			_, _ = srv.sdk().DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String(table)})
		}
	} else {
		p := newPipe()
		server := &http.Server{Handler: srv.Server}
		served := make(chan error)
		go func() { served <- server.Serve(p) }()
		tr := &http.Transport{DialContext: p.dial, MaxIdleConnsPerHost: 64}
		t.Cleanup(func() {
			srv.Close()
			server.Close()
			if err := <-served; !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
			tr.CloseIdleConnections()
		})
		srv.cfg.HTTPClient = &http.Client{Transport: tr}
	}
	for _, w := range wrap {
		srv.cfg.HTTPClient = w(srv.cfg.HTTPClient)
	}
	return srv
}

func redirect(t testing.TB, endpoint string) aws.HTTPClient {
	to, err := url.Parse(endpoint)
	must(t, err)
	tr := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(tr.CloseIdleConnections)
	next := &http.Client{Transport: tr}
	whole := edit(func(_, body string) string { return body })(next) // for the plain client, see wholeBody
	return client(func(r *http.Request) (*http.Response, error) {
		r.URL.Host, r.Host = to.Host, to.Host
		return whole.Do(r)
	})
}

func (s *service) external(needs bool) {
	if needs && os.Getenv(elsewhere) != "" {
		s.t.Skip("needs our emulator")
	}
}

func (s *service) SetFault(f emulator.Fault) { s.external(true); s.Server.SetFault(f) }
func (s *service) Calls() map[string]int64   { s.external(true); return s.Server.Calls() }
func (s *service) CallsOn(table string) map[string]int64 {
	s.external(true)
	return s.Server.CallsOn(table)
}

// size is the number of rows in the application's table.
func (s *service) size() int {
	s.t.Helper()
	out, err := s.sdk().Scan(s.t.Context(), &dynamodb.ScanInput{TableName: aws.String(app), ConsistentRead: aws.Bool(true)})
	must(s.t, err)
	return len(out.Items)
}

// store is one more handle on the application's table.
func (s *service) store(opts ...dynamo.Option) *dynamo.Store {
	return dynamo.New(s.cfg, app, append([]dynamo.Option{dynamo.Endpoint("http://emulator"), dynamo.Logger(slog.New(s.log))}, opts...)...)
}

// ready is a store whose table was prepared.
func (s *service) ready(t testing.TB, opts ...dynamo.Option) *dynamo.Store {
	t.Helper()
	d := s.store(opts...)
	must(t, d.Prepare(t.Context()))
	return d
}

// sdk is a plain client, to do what others do.
func (s *service) sdk() *dynamodb.Client {
	return dynamodb.NewFromConfig(s.cfg, func(o *dynamodb.Options) {
		o.BaseEndpoint = aws.String("http://emulator")
		o.Retryer = aws.NopRetryer{}
	})
}

// put writes rows as others would; they are in the notation of the dumps.
func (s *service) put(t testing.TB, rows ...string) {
	t.Helper()
	for _, r := range rows {
		_, err := s.sdk().PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(app), Item: item(t, r)})
		must(t, err)
	}
}

// row is one row of the table in a stable notation, empty where there is none.
func (s *service) row(t testing.TB, key string) string {
	t.Helper()
	out, err := s.sdk().GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String(app), Key: item(t, `{"leaseKey":{"S":"`+key+`"}}`), ConsistentRead: aws.Bool(true)})
	must(t, err)
	return show(out.Item)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func expect(t testing.TB, what string, err, kind error, texts ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("%s: error is %v, want %v", what, err, kind)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: error %q does not say %q", what, err, text)
		}
	}
}

// item reads the notation of the dumps: {"attribute": {"S": "value"}}.
func item(t testing.TB, text string) dynamo.Attributes {
	t.Helper()
	it, err := parseItem([]byte(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return it
}

func parseItem(text []byte) (dynamo.Attributes, error) {
	var raw map[string]map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, err
	}
	out := dynamo.Attributes{}
	for name, v := range raw {
		a, err := parseValue(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = a
	}
	return out, nil
}

func parseValue(v map[string]json.RawMessage) (types.AttributeValue, error) {
	for kind, raw := range v {
		var err error
		into := func(p any) { err = json.Unmarshal(raw, p) }
		var out types.AttributeValue
		switch kind {
		case "S":
			a := &types.AttributeValueMemberS{}
			into(&a.Value)
			out = a
		case "N":
			a := &types.AttributeValueMemberN{}
			into(&a.Value)
			out = a
		case "B":
			a := &types.AttributeValueMemberB{}
			into(&a.Value)
			out = a
		case "BOOL":
			a := &types.AttributeValueMemberBOOL{}
			into(&a.Value)
			out = a
		case "NULL":
			a := &types.AttributeValueMemberNULL{}
			into(&a.Value)
			out = a
		case "SS":
			a := &types.AttributeValueMemberSS{}
			into(&a.Value)
			out = a
		case "NS":
			a := &types.AttributeValueMemberNS{}
			into(&a.Value)
			out = a
		case "L":
			var list []map[string]json.RawMessage
			into(&list)
			a := &types.AttributeValueMemberL{}
			for _, e := range list {
				m, err := parseValue(e)
				if err != nil {
					return nil, err
				}
				a.Value = append(a.Value, m)
			}
			out = a
		case "M":
			m, err := parseItem(raw)
			if err != nil {
				return nil, err
			}
			out = &types.AttributeValueMemberM{Value: m}
		default:
			return nil, fmt.Errorf("unknown type %q", kind)
		}
		return out, err
	}
	return nil, errors.New("no value")
}

// show is a row in one line, attributes in order: name=TYPE value.
func show(row dynamo.Attributes) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(row)) {
		out = append(out, name+"="+showValue(row[name]))
	}
	return strings.Join(out, " ")
}

func showValue(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return "S " + v.Value
	case *types.AttributeValueMemberN:
		return "N " + v.Value
	case *types.AttributeValueMemberB:
		return fmt.Sprintf("B %x", v.Value)
	case *types.AttributeValueMemberBOOL:
		return fmt.Sprintf("BOOL %v", v.Value)
	case *types.AttributeValueMemberNULL:
		return "NULL"
	case *types.AttributeValueMemberSS:
		set := slices.Clone(v.Value)
		slices.Sort(set)
		return fmt.Sprintf("SS %v", set)
	case *types.AttributeValueMemberNS:
		return fmt.Sprintf("NS %v", v.Value)
	case *types.AttributeValueMemberL:
		var parts []string
		for _, e := range v.Value {
			parts = append(parts, showValue(e))
		}
		return "L[" + strings.Join(parts, ",") + "]"
	case *types.AttributeValueMemberM:
		return "M{" + show(v.Value) + "}"
	}
	return fmt.Sprintf("%T", v)
}

// journal is a log that tests can read.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Enabled(context.Context, slog.Level) bool { return true }
func (j *journal) WithAttrs([]slog.Attr) slog.Handler       { return j }
func (j *journal) WithGroup(string) slog.Handler            { return j }

func (j *journal) Handle(_ context.Context, r slog.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintf(&j.text, "%s %s", r.Level, r.Message)
	r.Attrs(func(a slog.Attr) bool { fmt.Fprintf(&j.text, " %s", a); return true })
	fmt.Fprintln(&j.text)
	return nil
}

func (j *journal) lines(containing string) (out []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for l := range strings.Lines(j.text.String()) {
		if strings.Contains(l, containing) {
			out = append(out, strings.TrimSpace(l))
		}
	}
	return out
}

// client is a function as an HTTP client.
type client func(*http.Request) (*http.Response, error)

func (f client) Do(r *http.Request) (*http.Response, error) { return f(r) }

// edit changes the bodies of requests on their way.
func edit(change func(op, body string) string) func(aws.HTTPClient) aws.HTTPClient {
	return func(next aws.HTTPClient) aws.HTTPClient {
		return client(func(r *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
			changed := change(op, string(body))
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(changed)), int64(len(changed))
			return next.Do(r)
		})
	}
}

// lease is a lease of the tests' stream.
func lease(shard core.ShardID) core.Lease {
	return core.Lease{Key: core.LeaseKey{Stream: stream, Shard: shard}, Checkpoint: core.FromHorizon}
}
