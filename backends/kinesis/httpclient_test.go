package kinesis

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
)

// The SDK closes request bodies too early; with large answers over real connections a part of all reads fails unless the body is copied. See
// ownBody. A failure that a retry would hide shows as a second connection.
func TestLargePagesOverRealConnections(t *testing.T) {
	server := emulator.New(emulator.Config{NoLimits: true})
	defer server.Close()
	var dialled atomic.Int64
	hs := httptest.NewUnstartedServer(server)
	hs.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			dialled.Add(1)
		}
	}
	hs.Start()
	defer hs.Close()
	cfg := testConfig()
	cfg.HTTPClient = awshttp.NewBuildableClient() // as LoadDefaultConfig makes it
	s := New(cfg, "orders", Endpoint(hs.URL))
	ctx := t.Context()
	if _, err := s.client.CreateStream(ctx, &sdk.CreateStreamInput{StreamName: aws.String("orders"), ShardCount: aws.Int32(1)}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.client.PutRecord(ctx, &sdk.PutRecordInput{StreamName: aws.String("orders"), PartitionKey: aws.String("k"), Data: make([]byte, 750_000)}); err != nil {
			t.Fatal(err)
		}
	}
	it, err := s.client.GetShardIterator(ctx, &sdk.GetShardIteratorInput{StreamName: aws.String("orders"), ShardId: aws.String(string(one)), ShardIteratorType: types.ShardIteratorTypeTrimHorizon})
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for range 500 {
		out, err := once(ctx, s, "GetRecords", s.client.GetRecords, &sdk.GetRecordsInput{ShardIterator: it.ShardIterator})
		if err != nil || len(out.Records) != 2 {
			failed++
			t.Log(err)
		}
	}
	if failed > 0 {
		t.Errorf("%d of 500 reads of 1.5 MB failed", failed)
	}
	if n := dialled.Load(); n != 1 {
		t.Errorf("%d connections for one reader, want 1", n)
	}
}

// doer is a client that is a function.
type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(r *http.Request) (*http.Response, error) { return d(r) }

func TestRequestBodiesAreCopied(t *testing.T) {
	var sent *http.Request
	refused := errors.New("refused")
	c := transport(doer(func(r *http.Request) (*http.Response, error) { sent = r; return nil, refused }))
	body := &closing{Reader: strings.NewReader("hello")}
	req := httptest.NewRequest(http.MethodPost, "http://kinesis.test", body)
	if _, err := c.Do(req); !errors.Is(err, refused) {
		t.Fatalf("error %v, want the client's", err)
	}
	body.closed = true
	for name, f := range map[string]func() (io.ReadCloser, error){"body": func() (io.ReadCloser, error) { return sent.Body, nil }, "body again": sent.GetBody} {
		rc, err := f()
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(rc); string(b) != "hello" || err != nil {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if sent.ContentLength != 5 || req.Body != io.ReadCloser(body) {
		t.Errorf("length %d; the caller's request must stay as it was", sent.ContentLength)
	}
	req = httptest.NewRequest(http.MethodPost, "http://kinesis.test", &closing{Reader: strings.NewReader("x"), closed: true})
	if _, err := c.Do(req); err == nil || errors.Is(err, refused) {
		t.Errorf("body that cannot be read: %v", err)
	}
}

// closing fails once it is closed, as the SDK's body does.
type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Read(p []byte) (int, error) {
	if c.closed {
		return 0, errors.New("closed too early")
	}
	return c.Reader.Read(p)
}

func (c *closing) Close() error { return nil }
