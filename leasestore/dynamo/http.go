package dynamo

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// httpClient is the client that the user configured, or one with a pool of its own: the renewals of thousands of leases must not wait for
// the connections of readers, nor for each other. The SDK's builder (which config.LoadDefaultConfig always puts in) is taken apart and
// tuned, so that what the user set in it (proxy, certificates) stays.
func httpClient(configured aws.HTTPClient, attempt time.Duration) wholeBody {
	if configured == nil {
		configured = awshttp.NewBuildableClient()
	}
	builder, ok := configured.(*awshttp.BuildableClient)
	if !ok {
		return wholeBody{configured}
	}
	t := builder.GetTransport()
	if t.MaxConnsPerHost == awshttp.DefaultHTTPTransportMaxConnsPerHost {
		t.MaxConnsPerHost = 0
	}
	if t.MaxIdleConns == awshttp.DefaultHTTPTransportMaxIdleConns {
		t.MaxIdleConns = 0
	}
	if t.MaxIdleConnsPerHost == awshttp.DefaultHTTPTransportMaxIdleConnsPerHost {
		t.MaxIdleConnsPerHost = 256
	}
	c := &http.Client{Transport: t, Timeout: builder.GetTimeout()}
	if c.Timeout == 0 {
		c.Timeout = attempt // a hung connection must not use up the patience of all attempts
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return wholeBody{c}
}

// wholeBody sends a copy of the request's body. The SDK closes the body as soon as it has the head of the answer, and net/http drops the
// connection under a big answer when that happens before its writer is done (docs/reference/go-peers.md 4.1).
type wholeBody struct{ client aws.HTTPClient }

func (w wholeBody) Do(req *http.Request) (*http.Response, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return w.client.Do(req)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	own := req.WithContext(req.Context())
	own.Body, own.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return w.client.Do(own)
}

// closeIdle closes connections that no call uses, where the client can.
func (w wholeBody) closeIdle() {
	if c, ok := w.client.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
