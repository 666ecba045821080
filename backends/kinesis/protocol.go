package kinesis

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/shardwarden/shardwarden/internal/resend"
)

// protocol is what Options.Protocol is set to for one GetRecords: the request and a good answer are ours, errors are the stock protocol's.
type protocol struct {
	smithyhttp.ClientProtocol // the client's own
	e                         *exchange
}

// SerializeRequest implements [smithyhttp.ClientProtocol].
func (p protocol) SerializeRequest(_ context.Context, schema *smithy.OperationSchema, _ smithy.Serializable, req *smithyhttp.Request) error {
	req.Method = http.MethodPost
	if req.URL.Path == "" {
		req.URL.Path = "/"
	}
	req.Header.Set("X-Amz-Target", targetPrefix+schema.ID().Name)
	req.Header.Set("Content-Type", contentTypes[p.e.wire])
	with, err := req.SetStream(bytes.NewReader(p.e.body(p.e.wire)))
	if err != nil {
		return fmt.Errorf("set body: %w", err)
	}
	*req = *with
	return nil
}

const targetPrefix = "Kinesis_20131202."

// DeserializeResponse implements [smithyhttp.ClientProtocol].
func (p protocol) DeserializeResponse(ctx context.Context, schema *smithy.OperationSchema, types *smithy.TypeRegistry, resp *smithyhttp.Response, out smithy.Deserializable) error {
	p.e.status = resp.StatusCode
	if resp.StatusCode < 200 || resp.StatusCode >= 300 {
		if err := errorAsJSON(resp.Response); err != nil {
			return err
		}
		return p.ClientProtocol.DeserializeResponse(ctx, schema, types, resp, out)
	}
	return p.e.decode(ctx, resp.Response)
}

// mostError is how much of an error is read.
const mostError = 1 << 20

// errorAsJSON replaces the body of an error in CBOR, so that the stock decoder can read it.
func errorAsJSON(resp *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, mostError))
	if err != nil {
		return fmt.Errorf("the answer, with status %d, broke off after %d bytes: %w", resp.StatusCode, len(b), err)
	}
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(b))
	if len(b) == 0 || b[0]>>5 != cborMap {
		return nil
	}
	members := map[string]string{}
	c := cborCursor{b: b}
	err = c.pairs(func(key []byte) error {
		switch name := string(key); name {
		case "__type", "message", "Message":
			s, err := c.text()
			members[name] = string(s)
			return err
		}
		return c.skip(0)
	})
	if err == nil { // else the stock decoder says what it thinks of it
		text, _ := json.Marshal(members) // strings always can be
		resp.Body = io.NopCloser(bytes.NewReader(text))
	}
	return nil
}

// viaSDK makes an exchange through the SDK's whole stack, which is kept as a pattern for the short way where that is allowed.
func (s *Source) viaSDK(ctx context.Context, e *exchange) error {
	var w resend.Watcher
	_, err := s.client.GetRecords(ctx, e.sdk(), func(o *sdk.Options) {
		o.Protocol = protocol{o.Protocol, e}
		if s.sender != nil {
			w.HTTPClient, o.HTTPClient = o.HTTPClient, &w
		}
	})
	if s.sender != nil {
		s.sender.Learn(&w, err)
	}
	return err
}

// directly makes an exchange without the SDK's stack.
func (s *Source) directly(ctx context.Context, again resend.Request, e *exchange) error {
	return again.Send(ctx, contentTypes[e.wire], e.body(e.wire), func(resp *http.Response) error {
		return protocol{s.protocol, e}.DeserializeResponse(ctx, nil, sdk.TypeRegistry, &smithyhttp.Response{Response: resp}, nil)
	})
}
