package kinesis

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscreds "github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"go.uber.org/goleak"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(benchServerVar); spec != "" {
		serveBench(spec)
		return
	}
	goleak.VerifyTestMain(m)
}

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

// call is a request as the server saw it.
type call struct {
	at time.Time
	op string
	in map[string]any
}

// rig is the emulator behind an in-memory listener, with a client that sets the scene and a log of all calls of sources.
type rig struct {
	t      *testing.T
	ctx    context.Context
	server *emulator.Server
	admin  *sdk.Client
	http   *http.Client
	// rude changes a request before the emulator sees it, and its answer afterwards. Either may be nil.
	request func(op string, in map[string]any)
	answer  func(op string, in, out map[string]any)

	mu    sync.Mutex
	calls []call
}

// bubble runs f with a rig, in fake time, and closes all of it before the bubble ends.
func bubble(t *testing.T, c emulator.Config, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, ctx: t.Context(), server: emulator.New(c)}
		l := &memory{conns: make(chan net.Conn), done: make(chan struct{})}
		hs := &http.Server{Handler: r}
		var serving sync.WaitGroup
		serving.Go(func() { _ = hs.Serve(l) })
		tr := &http.Transport{DialContext: l.dial, DisableCompression: true, MaxIdleConnsPerHost: 100}
		r.http = &http.Client{Transport: tr}
		r.admin = sdk.NewFromConfig(testConfig(), func(o *sdk.Options) {
			o.BaseEndpoint = aws.String("http://admin.test")
			o.HTTPClient = ownBody{r.http}
			o.Retryer = aws.NopRetryer{}
		})
		defer func() {
			r.server.Close()
			tr.CloseIdleConnections()
			_ = hs.Close()
			serving.Wait()
		}()
		f(t, r)
	})
}

func testConfig() aws.Config {
	return aws.Config{Region: "us-east-1", Credentials: awscreds.NewStaticCredentialsProvider("AKID", "secret", "")}
}

func (r *rig) source(stream string, opts ...Option) *Source {
	return New(testConfig(), stream, append([]Option{Endpoint("http://kinesis.test"), HTTPClient(r.http)}, opts...)...)
}

func (r *rig) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if strings.HasPrefix(req.Host, "admin") {
		r.server.ServeHTTP(w, req)
		return
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	_, op, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
	in := map[string]any{}
	if err := json.Unmarshal(body, &in); err != nil {
		r.t.Errorf("%s: %v", op, err)
	}
	r.mu.Lock()
	r.calls = append(r.calls, call{time.Now(), op, in})
	request, answer := r.request, r.answer
	r.mu.Unlock()
	if request != nil {
		request(op, in)
		if body, err = json.Marshal(in); err != nil {
			r.t.Error(err)
		}
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if answer == nil {
		r.server.ServeHTTP(w, req)
		return
	}
	rec := httptest.NewRecorder()
	r.server.ServeHTTP(rec, req)
	out := map[string]any{}
	if err := json.Unmarshal(rec.Body.Bytes(), &out); err != nil {
		r.t.Errorf("%s: %v", op, err)
	}
	if rec.Code == http.StatusOK {
		answer(op, in, out)
	}
	b, err := json.Marshal(out)
	if err != nil {
		r.t.Error(err)
	}
	w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
	w.WriteHeader(rec.Code)
	_, _ = w.Write(b)
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

// asked gives a member of the input of each call of an operation, as text.
func (r *rig) asked(op, member string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, c := range r.calls {
		if c.op == op {
			out = append(out, fmt.Sprint(c.in[member]))
		}
	}
	return out
}

func (r *rig) fault(f emulator.Fault) {
	r.t.Helper()
	r.ok(r.server.SetFault(f))
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) create(stream string, shards int32) {
	r.t.Helper()
	_, err := r.admin.CreateStream(r.ctx, &sdk.CreateStreamInput{StreamName: &stream, ShardCount: &shards})
	r.ok(err)
}

// put writes records and returns their sequence numbers.
func (r *rig) put(stream, key string, data ...string) []string {
	r.t.Helper()
	var out []string
	for part := range slices.Chunk(data, 500) {
		in := sdk.PutRecordsInput{StreamName: &stream}
		for _, d := range part {
			in.Records = append(in.Records, types.PutRecordsRequestEntry{Data: []byte(d), PartitionKey: &key})
		}
		res, err := r.admin.PutRecords(r.ctx, &in)
		r.ok(err)
		for _, e := range res.Records {
			if e.SequenceNumber == nil {
				r.t.Fatalf("record refused: %s %s", aws.ToString(e.ErrorCode), aws.ToString(e.ErrorMessage))
			}
			out = append(out, *e.SequenceNumber)
		}
	}
	return out
}

// numbered makes n data, "0" and so on.
func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(i)
	}
	return out
}

func (r *rig) split(stream string, shard core.ShardID) {
	r.t.Helper()
	list, err := r.admin.ListShards(r.ctx, &sdk.ListShardsInput{StreamName: &stream})
	r.ok(err)
	for _, s := range list.Shards {
		if aws.ToString(s.ShardId) != string(shard) {
			continue
		}
		rg, err := newRange(s.HashKeyRange)
		r.ok(err)
		_, err = r.admin.SplitShard(r.ctx, &sdk.SplitShardInput{StreamName: &stream, ShardToSplit: aws.String(string(shard)), NewStartingHashKey: aws.String(middle(rg))})
		r.ok(err)
		return
	}
	r.t.Fatalf("no shard %s to split", shard)
}

func (r *rig) merge(stream string, a, b core.ShardID) {
	r.t.Helper()
	_, err := r.admin.MergeShards(r.ctx, &sdk.MergeShardsInput{StreamName: &stream, ShardToMerge: aws.String(string(a)), AdjacentShardToMerge: aws.String(string(b))})
	r.ok(err)
}

func (r *rig) open(s *Source, shard core.ShardID, at core.Position) core.ShardReader {
	r.t.Helper()
	rd, err := s.Open(r.ctx, core.Shard{ID: shard}, at)
	r.ok(err)
	r.t.Cleanup(func() { _ = rd.Close() })
	return rd
}

// read gathers records until there are n (0: until the end of the shard), at most for ten fake minutes.
func (r *rig) read(rd core.ShardReader, n int) ([]core.Record, *core.Page) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.ctx, 10*time.Minute)
	defer cancel()
	var out []core.Record
	for {
		p, err := rd.Next(ctx)
		if err != nil {
			r.t.Fatalf("after %d records: %v", len(out), err)
		}
		out = append(out, p.Records...)
		if p.End || (n > 0 && len(out) >= n) {
			return out, p
		}
	}
}

func data(rs []core.Record) []string {
	out := make([]string, len(rs))
	for i := range rs {
		out[i] = string(rs[i].Data)
	}
	return out
}

func ids(shards []core.Shard) string {
	out := make([]string, len(shards))
	for i := range shards {
		out[i] = strings.TrimLeft(strings.TrimPrefix(string(shards[i].ID), "shardId-"), "0")
		if out[i] == "" {
			out[i] = "0"
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func shardID(i int) core.ShardID { return core.ShardID(fmt.Sprintf("shardId-%012d", i)) }

func (r *rig) remove(stream string) {
	r.t.Helper()
	_, err := r.admin.DeleteStream(r.ctx, &sdk.DeleteStreamInput{StreamName: &stream})
	r.ok(err)
}

// logged is a logger that keeps what it is told.
type logged struct{ text strings.Builder }

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(&l.text, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// reshard splits or merges one of the open shards, as n says.
func (r *rig) reshard(stream string, n int) {
	r.t.Helper()
	list, err := r.admin.ListShards(r.ctx, &sdk.ListShardsInput{StreamName: &stream, ShardFilter: &types.ShardFilter{Type: types.ShardFilterTypeAtLatest}})
	r.ok(err)
	var open []core.Shard
	for i := range list.Shards {
		s, err := newShard(&list.Shards[i])
		r.ok(err)
		open = append(open, s)
	}
	slices.SortFunc(open, func(a, b core.Shard) int { return bytes.Compare(a.Range.Start[:], b.Range.Start[:]) })
	if i := n % len(open); n%2 == 0 && i+1 < len(open) {
		r.merge(stream, open[i].ID, open[i+1].ID)
	} else {
		r.split(stream, open[i].ID)
	}
}
