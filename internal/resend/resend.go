// Package resend makes calls of an AWS service without the SDK's stack of middleware, which takes most of the CPU time of a small call: a poll
// that finds nothing, the renewal of a lease.
//
// It does not know what the stack does. It sees a request that the stack has made, and repeats it with another body, date and signature. The
// stack makes one again each minute, and after each failure, so that it goes on to decide about endpoints, clocks and whatever else
// changes. Credentials, signatures and connections are those of the client's options. A client with anything of its own in the stack
// always goes through it: see [Plain].
package resend

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/metrics"
	"github.com/aws/smithy-go/tracing"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// HTTPClient is what the Options of each service call so.
type HTTPClient interface {
	Do(*http.Request) (*http.Response, error)
}

// Plain reports whether the stack of a client is the SDK's own, by the Options of its service: no middleware or interceptors beside, no
// tracing, metrics or request logs, and no resolver of signatures. What decides about repeating calls is the caller's business.
func Plain(options any) bool {
	v := reflect.ValueOf(options)
	field := func(name string) any {
		if f := v.FieldByName(name); f.IsValid() {
			return f.Interface()
		}
		return nil
	}
	_, untraced := field("TracerProvider").(*tracing.NopTracerProvider)
	_, unmeasured := field("MeterProvider").(metrics.NopMeterProvider)
	interceptors, known := field("Interceptors").(smithyhttp.InterceptorRegistry)
	plain := untraced && unmeasured && known && v.FieldByName("APIOptions").Len() == 0 && field("ClientLogMode") == aws.ClientLogMode(0) &&
		strings.HasSuffix(fmt.Sprintf("%T", field("AuthSchemeResolver")), ".withAnonymous") // what a client makes of its default
	for _, list := range reflect.ValueOf(interceptors).Fields() {
		plain = plain && list.Len() == 0
	}
	return plain
}

// Sender repeats the requests of one operation of a service. It is safe for concurrent use.
type Sender struct {
	HTTP        HTTPClient
	Credentials aws.CredentialsProvider // nil: requests are not signed
	Signer      v4.HTTPSigner
	Service     string // for errors
	Operation   string

	sent atomic.Pointer[template]
}

// template is a request as the SDK sent it, less what is new in each.
type template struct {
	url             url.URL
	host            string
	header          http.Header
	service, region string     // of the signature; empty: not signed
	signature       *signature // nil: the client's signer
	skew            time.Duration
	made            time.Time
}

// life is how long a request of the SDK's is repeated.
const life = time.Minute

// Ready gives a request to repeat. Where there is none, as with a nil Sender, the SDK must make one, with a [Watcher].
func (s *Sender) Ready() (Request, bool) {
	if s == nil {
		return Request{}, false
	}
	t := s.sent.Load()
	return Request{s, t}, t != nil && time.Since(t.made) < life
}

// Request is one that may be sent again.
type Request struct {
	s *Sender
	t *template
}

// Watcher is the HTTP client of one call of the SDK, and keeps what it sends.
type Watcher struct {
	HTTPClient
	sent *template
}

// Do implements [HTTPClient].
func (w *Watcher) Do(req *http.Request) (*http.Response, error) {
	w.sent = newTemplate(req)
	return w.HTTPClient.Do(req)
}

// Learn takes the request that a call of the SDK has sent, which ended with err, as the one to repeat.
func (s *Sender) Learn(w *Watcher, err error) {
	if err != nil {
		w.sent = nil
	}
	s.sent.Store(w.sent)
}

// fresh are the headers that are new in each request.
var fresh = []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token", "Content-Length", "Amz-Sdk-Invocation-Id"}

// newTemplate returns nil for a request that cannot be repeated.
func newTemplate(req *http.Request) *template {
	t := &template{url: *req.URL, host: req.Host, header: req.Header.Clone(), made: time.Now()}
	for _, name := range fresh {
		t.header.Del(name)
	}
	signature := req.Header.Get("Authorization")
	if signature == "" {
		return t
	}
	// AWS4-HMAC-SHA256 Credential=AKID/20260101/us-east-1/kinesis/aws4_request, ...
	scope, ok := strings.CutPrefix(signature, "AWS4-HMAC-SHA256 Credential=")
	scope, _, _ = strings.Cut(scope, ",")
	parts := strings.Split(scope, "/")
	date, err := time.Parse(timeForm, req.Header.Get("X-Amz-Date"))
	if !ok || len(parts) < 5 || err != nil {
		return nil
	}
	parts = parts[len(parts)-4:] // a key id may contain slashes
	t.region, t.service = parts[1], parts[2]
	if skew := date.Sub(t.made); skew.Abs() > 5*time.Second { // below that it is the cut to whole seconds
		t.skew = skew
	}
	t.signature = newSignature(t)
	return t
}

// Send sends a body as the SDK would, and gives the answer to read, whatever its status. kind, where not empty, replaces the content type. What
// read returns, and what else goes wrong, comes back in the form that the SDK gives an error.
func (r Request) Send(ctx context.Context, kind string, body []byte, read func(*http.Response) error) error {
	s := r.s
	resp, err := s.send(ctx, r.t, kind, body)
	if err == nil {
		defer func() { _ = resp.Body.Close() }() // an answer that was read is whole, whatever Close says
		err = read(resp)
	}
	if err == nil {
		return nil
	}
	s.sent.Store(nil)
	if resp != nil {
		err = &awshttp.ResponseError{
			ResponseError: &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: resp}, Err: err},
			RequestID:     resp.Header.Get("X-Amzn-Requestid"),
		}
	}
	return &smithy.OperationError{ServiceID: s.Service, OperationName: s.Operation, Err: err}
}

func (s *Sender) send(ctx context.Context, t *template, kind string, body []byte) (*http.Response, error) {
	req := t.request(ctx, kind, body)
	if t.service != "" {
		creds, err := s.Credentials.Retrieve(ctx)
		if err != nil {
			return nil, fmt.Errorf("get identity: %w", err)
		}
		now := time.Now().Add(t.skew)
		if _, standard := s.Signer.(*v4.Signer); standard && t.signature != nil {
			t.signature.sign(req, body, creds, now)
		} else {
			hash := sha256.Sum256(body)
			if err := s.Signer.SignHTTP(ctx, creds, req, hex.EncodeToString(hash[:]), t.service, t.region, now); err != nil {
				return nil, fmt.Errorf("sign request: %w", err)
			}
		}
	}
	resp, err := s.HTTP.Do(req)
	if err != nil {
		return nil, &smithyhttp.RequestSendError{Err: err}
	}
	return resp, nil
}

func (t *template) request(ctx context.Context, kind string, body []byte) *http.Request {
	header := make(http.Header, len(t.header)+3)
	maps.Copy(header, t.header)
	if kind != "" {
		header["Content-Type"] = []string{kind}
	}
	u := t.url
	req := &http.Request{
		Method: http.MethodPost, URL: &u, Host: t.host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
		// For a connection that turns out to be closed before anything was written. Nothing else is sent twice.
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}
	return req.WithContext(ctx)
}
