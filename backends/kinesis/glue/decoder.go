package glue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"unsafe"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/glue"

	"github.com/shardwarden/shardwarden/core"
)

const (
	headerBytes = 18
	headVersion = 3
	plain       = 0
	compressed  = 5
)

// hasHeader reports whether a record says that it has a schema.
func hasHeader(data []byte) bool {
	return len(data) >= headerBytes && data[0] == headVersion && (data[1] == plain || data[1] == compressed)
}

// Decoder decodes records by the schemas that the registry has. It is made for kinesis.Decode, and safe for concurrent use: several sources
// may share one, and so its schemas. [New] makes one.
type Decoder struct {
	settings
	registry                                         registry
	decoded, untouched, bad, lookups, registryErrors atomic.Int64
}

type settings struct {
	endpoint string
	strict   bool
	maxBytes int
	log      *slog.Logger
}

// Option changes how a [Decoder] works.
type Option func(*settings)

// Endpoint sends all calls to a URL instead of the service's. Without it the aws.Config decides, which LoadDefaultConfig fills from
// AWS_ENDPOINT_URL and AWS_ENDPOINT_URL_GLUE.
func Endpoint(url string) Option { return func(s *settings) { s.endpoint = url } }

// Strict keeps a record that has a schema and cannot be decoded from user code: it fails like a handler, for itself alone, and the worker's
// OnError decides what becomes of it. Default: the record is handed out as it came, with the error in [Message.Err].
func Strict() Option { return func(s *settings) { s.strict = true } }

// MaxBytes bounds the memory that one record may take once it is decoded, in bytes: its payload, and about what its value takes. A record that
// would take more is one that cannot be decoded. Default 64 MiB; what is below 1 counts as 1.
func MaxBytes(n int) Option { return func(s *settings) { s.maxBytes = max(n, 1) } }

// Logger gets the records that cannot be decoded: the first, the second, the fourth, the eighth, and so on. Default: none.
func Logger(l *slog.Logger) Option {
	return func(s *settings) {
		if l != nil {
			s.log = l
		}
	}
}

// New makes a decoder that asks the registry of the config's region and account. It sends nothing.
func New(cfg aws.Config, opts ...Option) *Decoder {
	d := &Decoder{settings: settings{maxBytes: 64 << 20, log: slog.New(slog.DiscardHandler)}}
	for _, o := range opts {
		o(&d.settings)
	}
	d.registry.known = map[[16]byte]*entry{}
	d.registry.lookups = func() { d.lookups.Add(1) }
	d.registry.client = sdk.NewFromConfig(cfg, func(o *sdk.Options) {
		if d.endpoint != "" {
			o.BaseEndpoint = aws.String(d.endpoint)
		}
	})
	return d
}

// Counts is what a [Decoder] has done. All only grow.
type Counts struct {
	Decoded        int64 // records
	Untouched      int64 // records without the header
	Bad            int64 // records that could not be decoded and were handed out as they came
	Lookups        int64 // calls to the registry
	RegistryErrors int64 // times that a record had to wait, since the registry did not answer, throttled or denied
}

// Counts says what was done so far.
func (d *Decoder) Counts() Counts {
	return Counts{
		Decoded: d.decoded.Load(), Untouched: d.untouched.Load(), Bad: d.bad.Load(), Lookups: d.lookups.Load(), RegistryErrors: d.registryErrors.Load(),
	}
}

// Decode decodes a record in place: Data becomes the payload and Native a [*Message]. A record without the header stays as it is. size is about
// what it takes in memory beside what it took before, in bytes.
//
// A record that cannot be decoded keeps its Data, with the reason in [Message.Err]; with [Strict] it stays as it is and the error, a
// [core.ErrInvalid], is returned. All other errors are the registry's ([core.ErrThrottled], [core.ErrUnavailable], [core.ErrDenied]) or those
// of ctx: the record stays as it is, and Decode may be called again. The registry is not asked each time it is.
func (d *Decoder) Decode(ctx context.Context, r *core.Record) (size int, err error) {
	if !hasHeader(r.Data) {
		d.untouched.Add(1)
		return 0, nil
	}
	id := [16]byte(r.Data[2:headerBytes])
	m := &Message{Native: r.Native}
	mem := newBudget(d.maxBytes)
	payload, err := d.message(ctx, id, r.Data, m, mem)
	if err == nil {
		d.decoded.Add(1)
		r.Data, r.Native = payload, m
		return mem.used() + messageSize, nil
	}
	bad, ok := errors.AsType[*badRecord](err)
	if !ok {
		if ctx.Err() == nil {
			d.registryErrors.Add(1)
		}
		return 0, fmt.Errorf("schema registry: %w", err)
	}
	// The kind of error is that of the record alone: that the registry does not find a schema must not look as if it were the stream's.
	err = fmt.Errorf("record %s, schema version %s: %w: %s", r.Sequence, uuid(id), core.ErrInvalid, bad.err.Error())
	if d.strict {
		return 0, err
	}
	if n := d.bad.Add(1); n&(n-1) == 0 {
		d.log.WarnContext(ctx, "record cannot be decoded and is handed out as it came", "sequence", r.Sequence, "sub", r.Sub, "so_far", n, "error", err)
	}
	m.Version, m.Value, m.Type, m.Err = uuid(id), nil, "", err
	r.Native = m
	return 0, nil
}

// messageSize is what a Message takes beside what it points to.
const messageSize = int(unsafe.Sizeof(Message{}))

// badRecord is an error of the record, not of the registry.
type badRecord struct{ err error }

func (b *badRecord) Error() string { return b.err.Error() }

func (d *Decoder) message(ctx context.Context, id [16]byte, data []byte, m *Message, mem *budget) ([]byte, error) {
	s, err := d.registry.get(ctx, id)
	if _, bad := errors.AsType[*badSchema](err); bad {
		return nil, &badRecord{err}
	}
	if err != nil {
		return nil, err
	}
	m.schema, m.Schema, m.Version, m.Number, m.Format = s, s.name, s.version, s.number, s.format
	payload := data[headerBytes:]
	if data[1] == compressed {
		if payload, err = inflate(payload, mem); err != nil {
			return nil, &badRecord{err}
		}
	}
	if err := s.read(payload, mem, m); err != nil {
		return nil, &badRecord{err}
	}
	return payload, nil
}
