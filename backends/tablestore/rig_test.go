package tablestore

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/common"
	sdk "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/tablestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	instance = "inst"
	table    = "orders"
)

// memory is a listener of net.Pipe connections, which a bubble can see through.
type memory struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *memory) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memory) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *memory) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "memory"} }

func (l *memory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// served is an emulator behind an in-memory listener.
type served struct {
	*emulator.Server
	tr    *http.Transport
	admin *sdk.TableStoreClient
	close func()
}

func serve(c emulator.Config) *served {
	s := &served{Server: emulator.New(c)}
	l := &memory{conns: make(chan net.Conn), done: make(chan struct{})}
	hs := &http.Server{Handler: s.Server}
	var serving sync.WaitGroup
	serving.Go(func() { _ = hs.Serve(l) })
	s.tr = &http.Transport{DialContext: l.dial, DisableCompression: true, MaxIdleConnsPerHost: 100}
	config := sdk.NewDefaultTableStoreConfig()
	config.RetryTimes = 0
	config.HTTPTimeout.RequestTimeout = 0
	config.Transport = s.tr
	s.admin = sdk.NewClientWithConfig("http://admin", instance, "x", "x", "", config)
	s.close = func() {
		s.Server.Close()
		s.tr.CloseIdleConnections()
		_ = hs.Close()
		serving.Wait()
	}
	return s
}

func keys() common.CredentialsProvider {
	return &common.DefaultCredentialsProvider{AccessKeyID: "x", AccessKeySecret: "x"}
}

func there() Instance {
	return Instance{Endpoint: "http://emulator", Name: instance, Credentials: keys()}
}

// call is a request of a source as the service saw it.
type call struct {
	at   time.Time
	op   string
	body []byte
}

// rig is a served emulator and a log of the calls of sources.
type rig struct {
	*served
	t   *testing.T
	ctx context.Context
	// answer changes an answer of the service, if it is set.
	answer func(op string, status int, body []byte) (int, []byte)

	written int

	mu    sync.Mutex
	calls []call
}

// bubble runs f with a rig, in fake time, and closes all of it before the bubble ends.
func bubble(t *testing.T, c emulator.Config, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{served: serve(c), t: t, ctx: t.Context()}
		defer r.close()
		f(t, r)
	})
}

// RoundTrip is the way of sources to the service.
func (r *rig) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	in, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	op := strings.TrimPrefix(req.URL.Path, "/")
	r.mu.Lock()
	r.calls = append(r.calls, call{time.Now(), op, in})
	answer := r.answer
	r.mu.Unlock()
	res, err := r.tr.RoundTrip(req)
	if err != nil || answer == nil {
		return res, err
	}
	out, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	res.Body.Close()
	res.StatusCode, out = answer(op, res.StatusCode, out)
	res.Header.Del("X-Ots-Contentmd5")
	res.Body, res.ContentLength = io.NopCloser(strings.NewReader(string(out))), int64(len(out))
	return res, nil
}

func (r *rig) source(opts ...Option) *Source {
	return New(there(), table, append([]Option{Transport(r)}, opts...)...)
}

// times gives when each call of an operation came in.
func (r *rig) times(op string) []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []time.Time
	for _, c := range r.calls {
		if c.op == op {
			out = append(out, c.at)
		}
	}
	return out
}

// reads gives the requests of GetStreamRecord so far.
func (r *rig) reads() (out []*otsprotocol.GetStreamRecordRequest) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		if c.op == "GetStreamRecord" {
			in := new(otsprotocol.GetStreamRecordRequest)
			r.ok(unmarshal(c.body, in))
			out = append(out, in)
		}
	}
	return out
}

func (r *rig) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = nil
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) fault(f emulator.Fault) {
	r.t.Helper()
	r.ok(r.SetFault(f))
}

// create makes the table, keyed by an integer, over which it is partitioned, and a text. Its stream keeps changes for so many hours.
func (s *served) create(hours int32, origin ...string) error {
	meta := &sdk.TableMeta{TableName: table}
	meta.AddPrimaryKeyColumn("part", sdk.PrimaryKeyType_INTEGER)
	meta.AddPrimaryKeyColumn("key", sdk.PrimaryKeyType_STRING)
	option := sdk.NewTableOptionWithMaxVersion(1)
	option.TimeToAlive = -1
	in := &sdk.CreateTableRequest{TableMeta: meta, TableOption: option, ReservedThroughput: &sdk.ReservedThroughput{}}
	if hours > 0 {
		in.StreamSpec = &sdk.StreamSpecification{EnableStream: true, ExpirationTime: hours, OriginColumnsToGet: origin}
	}
	_, err := s.admin.CreateTable(in)
	return err
}

// stream switches the stream off, or on.
func (s *served) stream(on bool) error {
	spec := &sdk.StreamSpecification{EnableStream: on}
	if on {
		spec.ExpirationTime = 24
	}
	_, err := s.admin.UpdateTable(&sdk.UpdateTableRequest{TableName: table, StreamSpec: spec})
	return err
}

func (s *served) put(part int64, key string, value any) error {
	pk := &sdk.PrimaryKey{}
	pk.AddPrimaryKeyColumn("part", part)
	pk.AddPrimaryKeyColumn("key", key)
	change := &sdk.PutRowChange{TableName: table, PrimaryKey: pk}
	change.AddColumn("data", value)
	change.SetCondition(sdk.RowExistenceExpectation_IGNORE)
	_, err := s.admin.PutRow(&sdk.PutRowRequest{PutRowChange: change})
	return err
}

// puts writes n rows into a part, whose values are numbers that go on where the last call ended.
func (r *rig) puts(part int64, n int) (want []string) {
	r.t.Helper()
	for range n {
		r.written++
		r.ok(r.put(part, "k", int64(r.written)))
		want = append(want, fmt.Sprint(r.written))
	}
	return want
}

// parts lists the partitions of the table, in their order.
func (r *rig) parts() []emulator.Partition {
	r.t.Helper()
	parts, err := r.Partitions(instance, table)
	r.ok(err)
	return parts
}

// only is the only shard of the stream.
func (r *rig) only() core.ShardID {
	r.t.Helper()
	parts := r.parts()
	if len(parts) != 1 {
		r.t.Fatalf("%d partitions, want one", len(parts))
	}
	return core.ShardID(parts[0].Shard)
}

func (r *rig) split(at int64) (left, right core.ShardID) {
	r.t.Helper()
	a, b, err := r.Split(instance, table, at)
	r.ok(err)
	return core.ShardID(a), core.ShardID(b)
}

func (r *rig) open(s core.StreamSource, shard core.ShardID, at core.Position) core.ShardReader {
	r.t.Helper()
	rd, err := s.Open(r.ctx, core.Shard{ID: shard}, at)
	r.ok(err)
	r.t.Cleanup(func() { _ = rd.Close() })
	return rd
}

// page reads until a page has records, for at most ten fake minutes.
func (r *rig) page(rd core.ShardReader) *core.Page {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.ctx, 10*time.Minute)
	defer cancel()
	for {
		p, err := rd.Next(ctx)
		if err != nil {
			r.t.Fatal(err)
		}
		if len(p.Records) > 0 || p.End {
			return p
		}
	}
}

// read gathers the values of records until there are n (0: until the end of the shard), for at most ten fake minutes.
func (r *rig) read(rd core.ShardReader, n int) (got []string, last *core.Page) {
	r.t.Helper()
	for {
		p := r.page(rd)
		got = append(got, values(p)...)
		if p.End || n > 0 && len(got) >= n {
			return got, p
		}
	}
}

func values(p *core.Page) (out []string) {
	for i := range p.Records {
		c, _ := p.Records[i].Native.(*Change).Column("data")
		out = append(out, fmt.Sprint(c.Value))
	}
	return out
}

func (r *rig) same(what string, got, want []string) {
	r.t.Helper()
	if !slices.Equal(got, want) {
		r.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// logged is a logger that keeps what it is told.
type logged struct{ text strings.Builder }

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(&l.text, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func marshal(m protoadapt.MessageV1) []byte {
	b, err := proto.Marshal(protoadapt.MessageV2Of(m))
	if err != nil {
		panic(err)
	}
	return b
}

func unmarshal(b []byte, into protoadapt.MessageV1) error {
	return proto.Unmarshal(b, protoadapt.MessageV2Of(into))
}
