package kinesis

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/aws/smithy-go/transport/http/protocol/awsjson"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/internal/resend"
)

// Source is a Kinesis data stream. It implements [core.StreamSource], [core.PositionOrder] and [core.Clock], and is safe for concurrent use.
//
// It offers no [core.Resolver]: the service has no number for a place between two records, so a start can only be kept as an instant.
type Source struct {
	settings
	name   name
	client *sdk.Client
	creds  *credentials   // nil: calls are not signed
	pushes aws.HTTPClient // of subscriptions
	id     atomic.Value   // core.StreamID, once described; for errors
	err    error          // what is wrong with how the source was made; every method returns it
	pages  wires
	// checked: no permission is known to be missing.
	checked atomic.Bool
	// aggregates counts containers of the KPL.
	aggregates aggregateCounts
	// sender makes calls without the SDK's stack; nil where the client's stack is not the SDK's own.
	sender   *resend.Sender
	protocol smithyhttp.ClientProtocol // the client's own
}

var (
	_ core.StreamSource  = (*Source)(nil)
	_ core.PositionOrder = (*Source)(nil)
	_ core.Clock         = (*Source)(nil)
)

// New makes the source of a stream, given by its name or by its ARN (arn:aws:kinesis:…, also of the partitions aws-cn and aws-us-gov), which
// is needed where the stream belongs to another account, or by the id that [Source.Describe] gives it, "account:name:creationEpochSeconds": then
// one that was made again under the same name is refused. The region of the config is where calls go; that of an ARN must be the same.
//
// New sends nothing. What is wrong with the name, the config or an option is returned by the first call to the source, as
// [core.ErrInvalid], or [core.ErrDenied] where the config has no credentials.
func New(cfg aws.Config, nameOrARN string, opts ...Option) *Source {
	s := &Source{settings: newSettings(opts)}
	noCredentials := false
	s.client = sdk.NewFromConfig(cfg, func(o *sdk.Options) {
		o.Retryer = aws.NopRetryer{} // the loops here decide, and know the pace of a shard
		if s.endpoint != "" {
			o.BaseEndpoint = aws.String(s.endpoint)
		}
		if s.http != nil {
			o.HTTPClient = s.http
		}
		for _, f := range s.clientOptions {
			f(o)
		}
		if s.fan != nil {
			s.pushes = s.share.push.transport(o.HTTPClient, pushTransport)
		}
		o.HTTPClient = s.share.poll.transport(o.HTTPClient, transport)
		switch {
		case o.Credentials == nil:
			noCredentials = true
		case !aws.IsCredentialsProvider(o.Credentials, aws.AnonymousCredentials{}):
			s.creds = &credentials{CredentialsProvider: o.Credentials}
			o.Credentials = s.creds
		}
	})
	options := s.client.Options()
	s.protocol, s.sender = options.Protocol, newSender(options)
	if _, stock := options.Protocol.(*awsjson.Protocol); !stock {
		s.first = wireStock // the user chose another
	}
	s.pages.wire.Store(uint32(s.first))
	var err error
	if s.name, err = parseName(nameOrARN, options.Region); err == nil {
		err = s.check()
	}
	if err == nil && s.fan != nil {
		err = s.fan.check(s.name)
	}
	switch {
	case err != nil:
		s.err = &core.Error{Op: "open", Stream: core.StreamID(nameOrARN), Err: fmt.Errorf("%w: %w", core.ErrInvalid, err)}
	case noCredentials:
		s.err = &core.Error{Op: "open", Stream: core.StreamID(nameOrARN), Err: fmt.Errorf("%w: %w", core.ErrDenied, errNoCredentials)}
	}
	return s
}

// newSender returns nil where calls must go through the SDK's stack.
func newSender(o sdk.Options) *resend.Sender {
	_, once := o.Retryer.(aws.NopRetryer)
	client, ours := o.HTTPClient.(ownBody)
	if !once || !ours || !resend.Plain(o) {
		return nil
	}
	// What the sender sends has a body of its own already.
	return &resend.Sender{HTTP: client.next, Credentials: o.Credentials, Signer: o.HTTPSignerV4, Service: sdk.ServiceID, Operation: "GetRecords"}
}

var errNoCredentials = errors.New("the aws.Config has no credentials: make it with config.LoadDefaultConfig, or set Credentials")

// stream is the id for errors: the stream's own once it is known.
func (s *Source) stream() core.StreamID {
	id, _ := s.id.Load().(core.StreamID)
	return cmp.Or(id, core.StreamID(s.name.stream))
}
