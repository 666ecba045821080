package kinesis

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"

	"github.com/shardwarden/shardwarden/core"
)

// Tracked is a stream that a [Tracker] lists.
type Tracked struct {
	// Stream is its name, its ARN, or account:name:creationEpoch, as for [New].
	Stream string
	// Epoch is when the stream was created, in Unix seconds: one that was made again under the same name is refused. 0: whichever is there.
	Epoch int64
	// Start is where it begins if it has no leases. The zero value is core.FromHorizon.
	Start core.Position
	// Consumer is the fan-out consumer of this stream, as for [FanOut]: by ARN, which streams of other accounts need, or by name. Empty: as the
	// options of the catalog say.
	Consumer string
}

// Tracker says which streams are to be consumed. It is asked at start and then each minute. An error, and an empty list, leave the streams as they
// were. What it changes in a stream that it has listed already, other than its identity, holds from the next start of the worker on.
type Tracker interface {
	Tracked(ctx context.Context) ([]Tracked, error)
}

// TrackerFunc is a function as a [Tracker].
type TrackerFunc func(ctx context.Context) ([]Tracked, error)

// Tracked calls f.
func (f TrackerFunc) Tracked(ctx context.Context) ([]Tracked, error) { return f(ctx) }

// Track is a tracker of streams that never change.
func Track(streams ...Tracked) Tracker {
	streams = slices.Clone(streams)
	return TrackerFunc(func(context.Context) ([]Tracked, error) { return streams, nil })
}

// Streams is the catalog of the streams that a tracker lists, for one worker, with leases of all of them in one table
// (dynamo.SeveralStreams). opts hold for each of them. Connections are shared.
//
// A stream that is gone or cannot be read troubles no other. One that is deleted and made again under the same name is begun anew, all of it, with
// leases of its own; what becomes of the former's is worker.Config.Former's to say.
//
// Streams calls nobody. What makes no sense in a listing, or in the options, is returned by the catalog, as [core.ErrInvalid].
func Streams(cfg aws.Config, t Tracker, opts ...Option) core.Catalog {
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = awshttp.NewBuildableClient()
	}
	share := &shared{}
	opts = append(slices.Clone(opts), func(s *settings) { s.share = share })
	return &catalog{cfg: cfg, tracker: t, opts: opts, sources: map[string]tracked{}}
}

type catalog struct {
	cfg     aws.Config
	tracker Tracker
	opts    []Option

	mu      sync.Mutex
	sources map[string]tracked // by identity
}

type tracked struct {
	Tracked
	source *Source
}

// Streams implements [core.Catalog].
func (c *catalog) Streams(ctx context.Context) ([]core.Stream, error) {
	bad := func(format string, args ...any) ([]core.Stream, error) {
		return nil, fmt.Errorf("kinesis.Streams: %w: %w", core.ErrInvalid, fmt.Errorf(format, args...))
	}
	if c.tracker == nil {
		return bad("the tracker is nil")
	}
	list, err := c.tracker.Tracked(ctx)
	if err != nil {
		return nil, fmt.Errorf("kinesis.Streams: tracker: %w", err)
	}
	if len(list) == 0 {
		return bad("the tracker lists no streams: to stop, stop the worker")
	}
	names := make([]name, len(list))
	for i, t := range list {
		if names[i], err = t.name(c.cfg.Region); err != nil {
			return bad("%w", err)
		}
		for j, other := range names[:i] {
			if names[i].overlaps(other) {
				return bad("stream %s is listed twice, as %q and as %q", names[i].stream, list[j].Stream, t.Stream)
			}
		}
	}
	if err := c.checkFanOut(list, names); err != nil {
		return bad("%w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := make(map[string]tracked, len(list))
	var out []core.Stream
	for i, t := range list {
		key := fmt.Sprintf("%s %d", names[i].resource(), names[i].epoch)
		known, ok := c.sources[key]
		if !ok {
			known = tracked{t, c.source(t, names[i])}
			if err := known.source.err; err != nil {
				return nil, fmt.Errorf("kinesis.Streams: %w", err)
			}
		} else if known.Tracked != t {
			known.source.log.WarnContext(ctx, "the tracker lists a stream otherwise than before: that holds from the next start on", "stream", names[i].stream)
			known.Tracked = t
		}
		now[key] = known
		out = append(out, core.Stream{Source: known.source, Start: t.Start})
	}
	c.sources = now
	return out, nil
}

func (c *catalog) source(t Tracked, n name) *Source {
	opts := c.opts
	if t.Consumer != "" {
		opts = append(slices.Clone(opts), FanOut(t.Consumer))
	}
	s := New(c.cfg, t.Stream, opts...)
	s.name.epoch = n.epoch
	return s
}

// checkFanOut finds what would fail only when shards are read: a consumer belongs to one stream, and only the account of a stream registers one.
func (c *catalog) checkFanOut(list []Tracked, names []name) error {
	fan := newSettings(c.opts).fan
	if fan == nil {
		return nil
	}
	accounts, without := map[string]bool{}, ""
	for i, t := range list {
		if names[i].account != "" {
			accounts[names[i].account] = true
		}
		if t.Consumer == "" {
			if without != "" && fan.byARN() {
				return fmt.Errorf("FanOut(%q) is the consumer of one stream, and %s and %s have none of their own: set Tracked.Consumer, or give FanOut a name", fan.consumer, without, t.Stream)
			}
			without = t.Stream
		}
	}
	if len(accounts) < 2 {
		return nil
	}
	for i, t := range list {
		if names[i].account != "" && !(&fanOut{consumer: t.Consumer}).byARN() {
			return fmt.Errorf("streams of several accounts with FanOut: %s needs the ARN of a consumer in Tracked.Consumer, since only the account of a stream can register one", t.Stream)
		}
	}
	return nil
}

// name reads the identity.
func (t Tracked) name(region string) (name, error) {
	n, err := parseName(t.Stream, region)
	switch {
	case err != nil:
		return name{}, err
	case t.Epoch < 0:
		return name{}, fmt.Errorf("stream %q: Epoch is %d: must be Unix seconds, or 0", t.Stream, t.Epoch)
	case n.epoch != 0 && t.Epoch != 0 && n.epoch != t.Epoch:
		return name{}, fmt.Errorf("stream %q: Epoch is %d, another than it says itself", t.Stream, t.Epoch)
	case t.Epoch != 0:
		n.epoch = t.Epoch
	}
	return n, nil
}

// overlaps reports whether two may be one stream. A name alone is of the account of the credentials, which may be any.
func (n name) overlaps(o name) bool {
	return n.stream == o.stream && (n.account == "" || o.account == "" || n.account == o.account)
}

// shared are the connections of the sources of one catalog. The zero value is for a source of its own.
type shared struct{ poll, push sharing }

type sharing struct {
	mu         sync.Mutex
	from, made aws.HTTPClient
}

// transport prepares a client as prepare does, once.
func (of *sharing) transport(c aws.HTTPClient, prepare func(aws.HTTPClient) aws.HTTPClient) aws.HTTPClient {
	if c == nil || !reflect.TypeOf(c).Comparable() {
		return prepare(c)
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.made == nil || of.from != c {
		of.from, of.made = c, prepare(c)
	}
	return of.made
}
