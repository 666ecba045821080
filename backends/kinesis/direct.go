package kinesis

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
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/metrics"
	"github.com/aws/smithy-go/tracing"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// direct sends GetRecords without the SDK's stack of middleware, which takes most of the time of an empty poll. It does not know what the stack
// does: it sees a request that the stack has made, and repeats it with another body, date and signature. The stack makes one again each
// minute, and after each failure, so that it goes on to decide about endpoints, clocks and whatever else changes.
//
// Signatures, credentials and connections are those of the client's options. A client with anything of its own in the stack (middleware,
// interceptors, retries, tracing, metrics, logs) always goes through it.
type direct struct {
	client *sdk.Options // nil: not allowed
	sent   atomic.Pointer[template]
}

// template is a GetRecords as the SDK sent it, less what is new in each.
type template struct {
	url             url.URL
	host            string
	header          http.Header
	service, region string // of the signature; empty: not signed
	skew            time.Duration
	made            time.Time
}

// templateLife is how long a request of the SDK's is repeated.
const templateLife = time.Minute

// directly is the client's options where its stack is the SDK's own, else nil.
func directly(o sdk.Options) *sdk.Options {
	_, untraced := o.TracerProvider.(*tracing.NopTracerProvider)
	_, unmeasured := o.MeterProvider.(metrics.NopMeterProvider)
	_, once := o.Retryer.(aws.NopRetryer)
	body, ours := o.HTTPClient.(ownBody)
	plain := untraced && unmeasured && once && ours && len(o.APIOptions) == 0 && o.ClientLogMode == 0 &&
		fmt.Sprintf("%T", o.AuthSchemeResolver) == "*kinesis.withAnonymous" // what becomes of the default
	for _, interceptors := range reflect.ValueOf(o.Interceptors).Fields() {
		plain = plain && interceptors.Len() == 0
	}
	if !plain {
		return nil
	}
	o.HTTPClient = body.next // the bodies sent here are their own
	return &o
}

// template is the request to repeat, nil where the SDK must make one.
func (d *direct) template() *template {
	if t := d.sent.Load(); t != nil && time.Since(t.made) < templateLife {
		return t
	}
	return nil
}

// watcher keeps what a call of the SDK sends.
type watcher struct {
	sdk.HTTPClient
	sent *template
}

func (w *watcher) Do(req *http.Request) (*http.Response, error) {
	w.sent = newTemplate(req)
	return w.HTTPClient.Do(req)
}

// fresh are the headers that are new in each request.
var fresh = []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token", "Content-Length", "Content-Type", "Amz-Sdk-Invocation-Id"}

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
	date, err := time.Parse("20060102T150405Z", req.Header.Get("X-Amz-Date"))
	if !ok || len(parts) < 5 || err != nil {
		return nil
	}
	parts = parts[len(parts)-4:] // a key id may contain slashes
	t.region, t.service = parts[1], parts[2]
	if skew := date.Sub(t.made); skew.Abs() > 5*time.Second { // below that it is the cut to whole seconds
		t.skew = skew
	}
	return t
}

// send makes an exchange.
func (d *direct) send(ctx context.Context, t *template, e *exchange) error {
	body := e.body(e.wire)
	req, err := d.request(ctx, t, e, body)
	if err != nil {
		d.sent.Store(nil)
		return fail(nil, err)
	}
	resp, err := d.client.HTTPClient.Do(req)
	if err != nil {
		d.sent.Store(nil)
		return fail(nil, &smithyhttp.RequestSendError{Err: err})
	}
	defer resp.Body.Close()
	if e.status = resp.StatusCode; e.status >= 200 && e.status < 300 {
		err = e.decode(ctx, resp)
	} else if err = errorAsJSON(resp); err == nil {
		err = d.client.Protocol.DeserializeResponse(ctx, nil, sdk.TypeRegistry, &smithyhttp.Response{Response: resp}, nil)
	}
	if err != nil {
		d.sent.Store(nil)
		return fail(resp, err)
	}
	return nil
}

func (d *direct) request(ctx context.Context, t *template, e *exchange, body []byte) (*http.Request, error) {
	header := make(http.Header, len(t.header)+4)
	maps.Copy(header, t.header)
	header["Content-Type"] = []string{contentTypes[e.wire]}
	u := t.url
	req := &http.Request{
		Method: http.MethodPost, URL: &u, Host: t.host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}
	req = req.WithContext(ctx)
	if t.service == "" {
		return req, nil
	}
	creds, err := d.client.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, fmt.Errorf("get identity: %w", err)
	}
	hash := sha256.Sum256(body)
	err = d.client.HTTPSignerV4.SignHTTP(ctx, creds, req, hex.EncodeToString(hash[:]), t.service, t.region, time.Now().Add(t.skew))
	return req, err
}

// fail gives an error the form that the SDK gives it.
func fail(resp *http.Response, err error) error {
	if resp != nil {
		err = &awshttp.ResponseError{
			ResponseError: &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: resp}, Err: err},
			RequestID:     resp.Header.Get("X-Amzn-Requestid"),
		}
	}
	return &smithy.OperationError{ServiceID: sdk.ServiceID, OperationName: "GetRecords", Err: err}
}
