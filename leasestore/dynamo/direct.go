package dynamo

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/schemas"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/shardwarden/shardwarden/internal/resend"
)

// updates sends UpdateItem, which a worker does for each of its leases every few seconds, without the SDK's stack of middleware where the
// client allows that. The SDK's own protocol writes the requests and reads the answers.
type updates struct {
	client   *dynamodb.Client
	sender   *resend.Sender // nil: always through the stack
	protocol smithyhttp.ClientProtocol
	checked  bool // answers are checked against their CRC-32
}

var updateItem = smithy.NewOperationSchema(schemas.UpdateItem, schemas.UpdateItemInput, schemas.UpdateItemOutput)

func newUpdates(client *dynamodb.Client) updates {
	o := client.Options()
	u := updates{client: client, protocol: o.Protocol, checked: !o.DisableValidateResponseChecksum}
	send, ours := o.HTTPClient.(wholeBody)
	if ours && !o.EnableAcceptEncodingGzip && o.EndpointDiscovery.EnableEndpointDiscovery != aws.EndpointDiscoveryEnabled && resend.Plain(o) {
		u.sender = &resend.Sender{HTTP: send.client, Credentials: o.Credentials, Signer: o.HTTPSignerV4, Service: dynamodb.ServiceID, Operation: "UpdateItem"}
	}
	return u
}

// once makes the call, which is sent once. It has the form of the SDK's method.
func (u *updates) once(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	if again, ok := u.sender.Ready(); ok {
		return u.directly(ctx, again, in)
	}
	if u.sender == nil {
		return u.client.UpdateItem(ctx, in, opts...)
	}
	var w resend.Watcher
	out, err := u.client.UpdateItem(ctx, in, append(opts, func(o *dynamodb.Options) { w.HTTPClient, o.HTTPClient = o.HTTPClient, &w })...)
	u.sender.Learn(&w, err)
	return out, err
}

func (u *updates) directly(ctx context.Context, again resend.Request, in *dynamodb.UpdateItemInput) (*dynamodb.UpdateItemOutput, error) {
	req := smithyhttp.NewStackRequest().(*smithyhttp.Request)
	if err := u.protocol.SerializeRequest(ctx, updateItem, in, req); err != nil {
		return nil, fmt.Errorf("write UpdateItem: %w", err)
	}
	body, err := io.ReadAll(req.GetStream())
	if err != nil {
		return nil, fmt.Errorf("write UpdateItem: %w", err)
	}
	out := &dynamodb.UpdateItemOutput{}
	err = again.Send(ctx, "", body, func(resp *http.Response) error {
		if err := u.check(resp); err != nil {
			return err
		}
		return u.protocol.DeserializeResponse(ctx, updateItem, dynamodb.TypeRegistry, &smithyhttp.Response{Response: resp}, out)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// check reads the body of an answer and compares it with its checksum, as the SDK does.
func (u *updates) check(resp *http.Response) error {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("the answer broke off after %d bytes: %w", len(body), err)
	}
	_ = resp.Body.Close() // it is read
	resp.Body = io.NopCloser(bytes.NewReader(body))
	want := resp.Header.Get("X-Amz-Crc32")
	if want == "" || !u.checked {
		return nil
	}
	if got := crc32.ChecksumIEEE(body); want != strconv.FormatUint(uint64(got), 10) {
		return fmt.Errorf("the answer has checksum %d and says that it has %s", got, want)
	}
	return nil
}
