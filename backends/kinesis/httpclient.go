package kinesis

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// idleConns is enough for every shard of a large worker to have its own connection waiting: a poll a second must not dial.
const idleConns = 4096

// transport prepares the client that sends requests. A client that is not the SDK's own stays as it is.
//
// Polling goes over HTTP/1.1: one request at a time and shard, with pages of megabytes, for which Go's HTTP/2 costs up to twice the CPU
// (docs/reference/spike-cbor.md 1). Compression is off, because a compressed answer has no length to make room for.
func transport(c aws.HTTPClient) aws.HTTPClient {
	if c == nil {
		c = awshttp.NewBuildableClient()
	}
	if b, ok := c.(*awshttp.BuildableClient); ok { // what LoadDefaultConfig makes; keeps its certificates, proxy and timeouts
		c = b.WithTransportOptions(func(t *http.Transport) {
			t.Protocols = new(http.Protocols)
			t.Protocols.SetHTTP1(true)
			t.ForceAttemptHTTP2 = false
			if c := t.TLSClientConfig; c != nil {
				// The copy of a transport that knew HTTP/2 would go on to offer it, and then not speak it.
				c.NextProtos = slices.DeleteFunc(c.NextProtos, func(p string) bool { return p == "h2" })
			}
			t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost = idleConns, idleConns, 0
			t.DisableCompression = true
		})
	}
	return ownBody{c}
}

// pushTransport prepares the client that subscribes: HTTP/2 where there is TLS, many subscriptions to a connection. What is not read must not
// fill memory, so each gets a window of half a second's worth; pings find out about connections that are gone.
func pushTransport(c aws.HTTPClient) aws.HTTPClient {
	if c == nil {
		c = awshttp.NewBuildableClient()
	}
	if b, ok := c.(*awshttp.BuildableClient); ok {
		c = b.WithTimeout(0).WithTransportOptions(func(t *http.Transport) { // a time-out of the client would be one of the whole subscription
			t.Protocols = new(http.Protocols)
			t.Protocols.SetHTTP1(true)
			t.Protocols.SetHTTP2(true)
			t.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 20, SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second}
			t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost = idleConns, idleConns, 0
			t.DisableCompression = true
		})
	}
	return ownBody{c}
}

// ownBody gives each request a body of its own. The SDK closes its body as soon as the answer begins; net/http may not have finished with it
// and then tears down the connection under the answer: up to 40 % of large reads fail (docs/reference/go-peers.md 4.1, aws-sdk-go-v2
// issues 1825 and 2737). The body is a few hundred bytes, and net/http sends a plain reader together with the head.
type ownBody struct{ next aws.HTTPClient }

func (o ownBody) Do(req *http.Request) (*http.Response, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return o.next.Do(req)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, fmt.Errorf("read request body: %w", err)
	}
	r := req.WithContext(req.Context()) // a shallow copy: the SDK keeps the original
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	r.ContentLength = int64(len(body))
	return o.next.Do(r)
}
