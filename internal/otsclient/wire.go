package otsclient

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
)

// wire is the transport of one SDK client. It brings the call's context to the request, and checks the answer before the SDK sees it.
type wire struct {
	next http.RoundTripper

	// Of the call under way.
	ctx  context.Context
	body func([]byte) ([]byte, error)
	sent bool // the request was handed to the network: from here on what became of it may be unknown
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	w.sent = true
	res, err := w.next.RoundTrip(req.WithContext(w.ctx))
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		_ = res.Body.Close()
		return nil, fmt.Errorf("the endpoint answers with a redirect (HTTP %d) to %q: it is not a Tablestore endpoint", res.StatusCode, res.Header.Get("Location"))
	}
	if res.StatusCode < 200 || res.StatusCode >= 300 {
		return res, nil // the SDK reads errors well enough
	}
	body, err := read(res)
	if err == nil && w.body != nil {
		body, err = w.body(body)
	}
	if err != nil {
		return nil, fmt.Errorf("the answer is damaged: %w", err)
	}
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return res, nil
}

// read reads an answer and compares it with its checksum, which the real service always sends (docs/reference/tablestore.md 2.4).
func read(res *http.Response) ([]byte, error) {
	defer func() { _ = res.Body.Close() }()
	var buf bytes.Buffer
	if n := res.ContentLength; n > 0 && n < 64<<20 {
		buf.Grow(int(n) + bytes.MinRead)
	}
	if _, err := buf.ReadFrom(res.Body); err != nil {
		return nil, err
	}
	body := buf.Bytes()
	if want := res.Header.Get("X-Ots-Contentmd5"); want != "" {
		sum := md5.Sum(body)
		if got := base64.StdEncoding.EncodeToString(sum[:]); got != want {
			return nil, fmt.Errorf("its MD5 is %s, the service announced %s", got, want)
		}
	}
	return body, nil
}
