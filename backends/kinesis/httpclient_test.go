package kinesis

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// The SDK closes request bodies too early; with large answers over real connections a part of all reads fails, or loses its connection, unless
// the body is copied. See ownBody. The requests go through the part of the SDK that does so; nothing is decoded, since that takes most of the
// time.
func TestLargeAnswersOverRealConnections(t *testing.T) {
	answer := bytes.Repeat([]byte("x"), 1_500_000)
	var dialled atomic.Int64
	hs := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(answer)
	}))
	hs.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			dialled.Add(1)
		}
	}
	hs.Start()
	defer hs.Close()
	client := smithyhttp.NewClientHandlerWithOptions(transport(awshttp.NewBuildableClient())) // the client is as LoadDefaultConfig makes it
	buf := make([]byte, len(answer)+1)
	failed := 0
	for range 500 {
		req := smithyhttp.NewStackRequest().(*smithyhttp.Request)
		u, err := url.Parse(hs.URL)
		if err != nil {
			t.Fatal(err)
		}
		req.URL, req.Method = u, http.MethodPost
		if req, err = req.SetStream(strings.NewReader(strings.Repeat("i", 300))); err != nil {
			t.Fatal(err)
		}
		out, _, err := client.Handle(t.Context(), req)
		if err == nil {
			body := out.(*smithyhttp.Response).Body
			var n int
			if n, err = io.ReadFull(body, buf); n == len(answer) {
				err = nil
			}
			_ = body.Close()
		}
		if err != nil {
			failed++
			t.Log(err)
		}
	}
	if failed > 0 {
		t.Errorf("%d of 500 reads of 1.5 MB failed", failed)
	}
	if n := dialled.Load(); n > 5 { // more than one where the machine is so busy that net/http gives up on a connection
		t.Errorf("%d connections for one reader, want 1 or a few", n)
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
