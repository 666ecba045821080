package kinesis

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipeListener hands the server's end of net.Pipe connections to http.Server: all in memory, so that it works in a
// synctest bubble.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	close func()
}

func newPipeListener() *pipeListener {
	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.done) })
	return l
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.close(); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ownBody gives each request a body of its own. The SDK closes its body as soon as there is an answer, while
// net/http may still look whether the body is at its end, which then breaks the connection under the answer.
type ownBody struct{ http.RoundTripper }

func (o ownBody) RoundTrip(req *http.Request) (*http.Response, error) {
	b, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	_ = req.Body.Close()
	req = req.Clone(req.Context())
	req.Body = io.NopCloser(bytes.NewReader(b))
	return o.RoundTripper.RoundTrip(req)
}

// rig is a server with a stock SDK client (retries off) and the HTTP client beneath it. All of it is closed at the
// end of the test or of stop, which a bubble must call before it ends.
type rig struct {
	t    testing.TB
	s    *Server
	c    *sdk.Client
	http *http.Client
	stop func()
}

func newRig(t testing.TB, c Config) *rig {
	t.Helper()
	s := New(c)
	l := newPipeListener()
	hs := &http.Server{Handler: s}
	var wg sync.WaitGroup
	wg.Go(func() { _ = hs.Serve(l) })
	tr := &http.Transport{DialContext: l.dial, DisableCompression: true, MaxIdleConnsPerHost: 16}
	r := &rig{t: t, s: s, http: &http.Client{Transport: ownBody{tr}}}
	r.c = sdk.New(sdk.Options{
		Region:       s.config.Region,
		BaseEndpoint: aws.String("http://kinesis.test"),
		Credentials:  credentials.NewStaticCredentialsProvider("AKID", "secret", ""),
		Retryer:      aws.NopRetryer{},
		HTTPClient:   r.http,
	})
	r.stop = sync.OnceFunc(func() {
		s.Close()
		tr.CloseIdleConnections()
		_ = hs.Close()
		wg.Wait()
	})
	t.Cleanup(r.stop)
	return r
}

// calls lets the SDK client call the server without a connection: for tests of very many calls.
type calls struct{ s *Server }

func (c calls) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	c.s.ServeHTTP(w, req)
	return w.Result(), nil
}

// fill stores records of the given size at once, as if put, but without the limits and the trouble.
func (r *rig) fill(stream, shard string, records, size int) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	st := r.s.streams[stream]
	h, _ := st.shard(shard)
	for range records {
		h.log.append(st.tick(), time.Now().UnixMilli(), "k", make([]byte, size-1))
	}
}

// getRaw is get for large pages, which the SDK takes long to decode: only the status and the number of records.
func (r *rig) getRaw(it *string) (status, records int, next *string) {
	r.t.Helper()
	status, _, body := raw(r.t, r.http, "http://kinesis.test", jsonType, "GetRecords", fmt.Appendf(nil, `{"ShardIterator":%q}`, *it))
	var out struct {
		Records           []json.RawMessage
		NextShardIterator *string
	}
	r.ok(json.Unmarshal(body, &out))
	return status, len(out.Records), out.NextShardIterator
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// wantCode checks that err is the service's error of that name and that its message has the given words.
func wantCode(t testing.TB, err error, code string, words ...string) {
	t.Helper()
	var ae smithy.APIError
	if !errors.As(err, &ae) {
		t.Fatalf("got error %v, want %s", err, code)
	}
	if ae.ErrorCode() != code {
		t.Fatalf("got %s: %s, want %s", ae.ErrorCode(), ae.ErrorMessage(), code)
	}
	for _, w := range words {
		if !strings.Contains(ae.ErrorMessage(), w) {
			t.Errorf("%s says %q, want it to name %q", code, ae.ErrorMessage(), w)
		}
	}
}

func (r *rig) create(name string, shards int32) {
	r.t.Helper()
	_, err := r.c.CreateStream(r.t.Context(), &sdk.CreateStreamInput{StreamName: &name, ShardCount: &shards})
	r.ok(err)
}

// put writes to the shard that the hash key belongs to and gives shard and sequence number.
func (r *rig) put(stream, hash, data string) (string, string) {
	r.t.Helper()
	o, err := r.c.PutRecord(r.t.Context(), &sdk.PutRecordInput{StreamName: &stream, PartitionKey: aws.String("key"),
		ExplicitHashKey: &hash, Data: []byte(data)})
	r.ok(err)
	return *o.ShardId, *o.SequenceNumber
}

func (r *rig) iterator(stream, shard string, kind types.ShardIteratorType) *string {
	r.t.Helper()
	o, err := r.c.GetShardIterator(r.t.Context(), &sdk.GetShardIteratorInput{StreamName: &stream, ShardId: &shard, ShardIteratorType: kind})
	r.ok(err)
	return o.ShardIterator
}

func (r *rig) get(it *string, limit int32) *sdk.GetRecordsOutput {
	r.t.Helper()
	in := &sdk.GetRecordsInput{ShardIterator: it}
	if limit > 0 {
		in.Limit = &limit
	}
	o, err := r.c.GetRecords(r.t.Context(), in)
	r.ok(err)
	return o
}

func (r *rig) data(o *sdk.GetRecordsOutput) string {
	var parts []string
	for _, rec := range o.Records {
		parts = append(parts, string(rec.Data))
	}
	return strings.Join(parts, " ")
}

func (r *rig) shards(stream string, f *types.ShardFilter) []types.Shard {
	r.t.Helper()
	var all []types.Shard
	in := &sdk.ListShardsInput{StreamName: &stream, ShardFilter: f}
	for {
		o, err := r.c.ListShards(r.t.Context(), in)
		r.ok(err)
		all = append(all, o.Shards...)
		if o.NextToken == nil {
			return all
		}
		in = &sdk.ListShardsInput{NextToken: o.NextToken}
	}
}

func (r *rig) split(stream, shard, middle string) {
	r.t.Helper()
	_, err := r.c.SplitShard(r.t.Context(), &sdk.SplitShardInput{StreamName: &stream, ShardToSplit: &shard, NewStartingHashKey: &middle})
	r.ok(err)
}

func (r *rig) merge(stream, shard, adjacent string) {
	r.t.Helper()
	_, err := r.c.MergeShards(r.t.Context(), &sdk.MergeShardsInput{StreamName: &stream, ShardToMerge: &shard, AdjacentShardToMerge: &adjacent})
	r.ok(err)
}

func (r *rig) summary(stream string) *types.StreamDescriptionSummary {
	r.t.Helper()
	o, err := r.c.DescribeStreamSummary(r.t.Context(), &sdk.DescribeStreamSummaryInput{StreamName: &stream})
	r.ok(err)
	return o.StreamDescriptionSummary
}

const (
	hashHalf    = "170141183460469231731687303715884105728"
	hashQuarter = "85070591730234615865843651857942052864"
	hashLast    = "340282366920938463463374607431768211455"
)

func TestRecordsGoRound(t *testing.T) {
	r := newRig(t, Config{})
	r.create("orders", 2)
	low, first := r.put("orders", "0", "a")
	high, _ := r.put("orders", hashLast, "b")
	if low != shardID(0) || high != shardID(1) {
		t.Fatalf("records went to %s and %s, want shards 0 and 1", low, high)
	}
	r.put("orders", "0", "c")
	o := r.get(r.iterator("orders", shardID(0), types.ShardIteratorTypeTrimHorizon), 0)
	if got := r.data(o); got != "a c" {
		t.Errorf("shard 0 holds %q, want %q", got, "a c")
	}
	rec := o.Records[0]
	if *rec.SequenceNumber != first || *rec.PartitionKey != "key" || time.Since(*rec.ApproximateArrivalTimestamp).Abs() > time.Minute {
		t.Errorf("first record is %s %q %v", *rec.SequenceNumber, *rec.PartitionKey, rec.ApproximateArrivalTimestamp)
	}
	if o.NextShardIterator == nil || *o.MillisBehindLatest != 0 || o.ChildShards != nil {
		t.Errorf("at the tip: next iterator %v, behind %v, children %v", o.NextShardIterator, *o.MillisBehindLatest, o.ChildShards)
	}
}

func TestSplitAndMergeAreSeenAtTheEndOfTheShard(t *testing.T) {
	r := newRig(t, Config{})
	r.create("orders", 1)
	r.put("orders", "0", "before")
	r.split("orders", shardID(0), hashHalf)
	o := r.get(r.iterator("orders", shardID(0), types.ShardIteratorTypeTrimHorizon), 0)
	if r.data(o) != "before" || o.NextShardIterator != nil || len(o.ChildShards) != 2 {
		t.Fatalf("end of the split shard: %q, next %v, %d children", r.data(o), o.NextShardIterator, len(o.ChildShards))
	}
	r.put("orders", "0", "x")
	r.merge("orders", shardID(1), shardID(2))
	for _, parent := range []string{shardID(1), shardID(2)} {
		o = r.get(r.iterator("orders", parent, types.ShardIteratorTypeLatest), 0)
		if o.NextShardIterator != nil || len(o.ChildShards) != 1 || strings.Join(o.ChildShards[0].ParentShards, " ") != shardID(1)+" "+shardID(2) {
			t.Errorf("end of merged shard %s: next %v, children %+v", parent, o.NextShardIterator, o.ChildShards)
		}
	}
	all := r.shards("orders", nil)
	last := all[len(all)-1]
	if *last.ParentShardId != shardID(1) || *last.AdjacentParentShardId != shardID(2) || last.SequenceNumberRange.EndingSequenceNumber != nil {
		t.Errorf("merged shard is %s of %v and %v", *last.ShardId, last.ParentShardId, last.AdjacentParentShardId)
	}
}
