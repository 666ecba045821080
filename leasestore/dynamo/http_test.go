package dynamo

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

func transportOf(t *testing.T, w wholeBody) *http.Transport {
	t.Helper()
	c, ok := w.client.(*http.Client)
	if !ok {
		t.Fatalf("client is a %T", w.client)
	}
	return c.Transport.(*http.Transport)
}

// The pool is not the SDK's small one; what the user set in the SDK's builder stays, and another client is used as it is.
func TestHTTPClient(t *testing.T) {
	for name, configured := range map[string]aws.HTTPClient{"none configured": nil, "the SDK's default": awshttp.NewBuildableClient()} {
		w := httpClient(configured, time.Second)
		tr := transportOf(t, w)
		if tr.MaxConnsPerHost != 0 || tr.MaxIdleConnsPerHost < 256 || tr.MaxIdleConns != 0 || tr.DisableKeepAlives || w.client.(*http.Client).Timeout != time.Second {
			t.Errorf("%s: %+v", name, tr)
		}
	}
	w := httpClient(awshttp.NewBuildableClient().WithTimeout(7*time.Second).WithTransportOptions(func(tr *http.Transport) {
		tr.MaxConnsPerHost, tr.MaxIdleConnsPerHost, tr.TLSHandshakeTimeout = 3, 4, 5*time.Second
	}), time.Second)
	if tr := transportOf(t, w); tr.MaxConnsPerHost != 3 || tr.MaxIdleConnsPerHost != 4 || tr.TLSHandshakeTimeout != 5*time.Second || w.client.(*http.Client).Timeout != 7*time.Second {
		t.Errorf("the user's settings became %+v", tr)
	}
	own := &http.Client{}
	if w := httpClient(own, time.Second); w.client != aws.HTTPClient(own) {
		t.Error("the user's client was replaced")
	}
}

// A request's body may be closed before it was sent: the copy is what travels.
func TestWholeBody(t *testing.T) {
	sent := bytes.Repeat([]byte("x"), 1<<20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		if err != nil || !bytes.Equal(got, sent) || r.ContentLength != int64(len(sent)) {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	defer server.Close()
	w := httpClient(nil, 10*time.Second)
	defer w.closeIdle()
	body := &closer{Reader: bytes.NewReader(sent)}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || req.Body != io.ReadCloser(body) {
		t.Errorf("status %d; the SDK's request was changed: %v", resp.StatusCode, req.Body != io.ReadCloser(body))
	}
}

type closer struct{ io.Reader }

func (c *closer) Close() error { return nil }
