package broken

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/conformance"
	"github.com/shardwarden/shardwarden/core"
)

// Source is a stream that is wrong in one way.
type Source struct {
	Name string
	Rule string // that must find it
	wrap func(h *sourceHarness, s *memory.Stream) *source
}

// Make makes the stream for the suite.
func (b Source) Make(context.Context) (conformance.SourceHarness, error) {
	h := &sourceHarness{wrap: b.wrap}
	h.stream = h.make()
	return h, nil
}

// SoundSource is the stream that the broken ones are made of.
var SoundSource = Source{Name: "sound", wrap: func(h *sourceHarness, s *memory.Stream) *source { return &source{Stream: s, h: h} }}

const pageBytes = 400

func (h *sourceHarness) make() *memory.Stream {
	return memory.New("conformance", 1, memory.Strict(), memory.PageRecords(6), memory.PageBytes(pageBytes), memory.Idle(5*time.Millisecond), memory.WithClock(h.now))
}

// sourceHarness offers every verb.
type sourceHarness struct {
	wrap func(h *sourceHarness, s *memory.Stream) *source

	mu      sync.Mutex
	stream  *memory.Stream
	handles []*memory.Stream
	sources []*source
	ahead   time.Duration
	part    bool // listings fail behind their first page
}

func (h *sourceHarness) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(h.ahead)
}

func (h *sourceHarness) partly() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.part
}

func (h *sourceHarness) Source() core.StreamSource {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.stream.Handle()
	h.handles = append(h.handles, s)
	w := h.wrap(h, s)
	h.sources = append(h.sources, w)
	return w
}

// Remake gives the handles another stream. None is in use meanwhile.
func (h *sourceHarness) Remake(context.Context) error {
	h.stream = h.make()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handles = nil
	for _, s := range h.sources {
		s.Stream = h.stream.Handle()
		h.handles = append(h.handles, s.Stream)
	}
	return nil
}

func (h *sourceHarness) Close() error { return nil }

func (h *sourceHarness) Put(_ context.Context, shard core.ShardID, key string, data []byte) error {
	return h.stream.PutTo(shard, core.Record{Key: key, Data: data})
}

func (h *sourceHarness) PutAggregated(_ context.Context, _ core.ShardID, key string, data ...[]byte) error {
	h.stream.PutAggregated(key, data...) // to the only shard
	return nil
}

func (h *sourceHarness) Split(_ context.Context, shard core.ShardID) error {
	_, _, err := h.stream.Split(shard)
	return err
}

func (h *sourceHarness) Merge(_ context.Context, a, b core.ShardID) error {
	_, err := h.stream.Merge(a, b)
	return err
}

func (h *sourceHarness) Trim(_ context.Context, shard core.ShardID) error {
	return h.stream.Trim(shard, 1<<30)
}

func (h *sourceHarness) Forget(_ context.Context, shard core.ShardID) error {
	return h.stream.Forget(shard)
}

func (h *sourceHarness) Advance(_ context.Context, d time.Duration) error {
	h.mu.Lock()
	h.ahead += d
	h.mu.Unlock()
	return nil
}

func (h *sourceHarness) PageBytes() int { return pageBytes }

func (h *sourceHarness) Break(_ context.Context, f conformance.Fault) (func(), error) {
	var fault memory.Fault
	switch f {
	case conformance.Unavailable:
	case conformance.Throttled:
		fault.Err = core.ErrThrottled
	case conformance.Denied:
		fault.Err = core.ErrDenied
	case conformance.Silent:
		fault.Hang = true
	case conformance.PartList:
		h.mu.Lock()
		h.part = true
		h.mu.Unlock()
		return func() {
			h.mu.Lock()
			h.part = false
			h.mu.Unlock()
		}, nil
	default:
		return nil, errors.ErrUnsupported
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var heals []func()
	for _, s := range h.handles {
		heals = append(heals, s.Break(fault))
	}
	return func() {
		for _, heal := range heals {
			heal()
		}
	}, nil
}

// source is the stream in memory with methods that can be replaced one by one. Its listings are read in two pages.
type source struct {
	*memory.Stream
	h        *sourceHarness
	describe func(ctx context.Context) (core.StreamInfo, error)
	shards   func(ctx context.Context, open core.Position) ([]core.Shard, error)
	open     func(ctx context.Context, shard core.Shard, at core.Position) (core.ShardReader, error)
	compare  func(a, b core.Position) int
	resolve  func(ctx context.Context, shard core.Shard, start core.Position) (core.Position, error)
	clock    func(ctx context.Context) (time.Time, error)
}

func (s *source) Describe(ctx context.Context) (core.StreamInfo, error) {
	if s.describe != nil {
		return s.describe(ctx)
	}
	return s.Stream.Describe(ctx)
}

func (s *source) Shards(ctx context.Context, open core.Position) ([]core.Shard, error) {
	if s.shards != nil {
		return s.shards(ctx, open)
	}
	return s.list(ctx, open)
}

func (s *source) list(ctx context.Context, open core.Position) ([]core.Shard, error) {
	if s.h.partly() {
		return nil, &core.Error{Op: "list shards, page 2", Err: core.ErrUnavailable}
	}
	return s.Stream.Shards(ctx, open)
}

func (s *source) Open(ctx context.Context, shard core.Shard, at core.Position) (core.ShardReader, error) {
	if s.open != nil {
		return s.open(ctx, shard, at)
	}
	return s.Stream.Open(ctx, shard, at)
}

func (s *source) Compare(a, b core.Position) int {
	if s.compare != nil {
		return s.compare(a, b)
	}
	return s.Stream.Compare(a, b)
}

func (s *source) Resolve(ctx context.Context, shard core.Shard, start core.Position) (core.Position, error) {
	if s.resolve != nil {
		return s.resolve(ctx, shard, start)
	}
	return s.Stream.Resolve(ctx, shard, start)
}

func (s *source) Now(ctx context.Context) (time.Time, error) {
	if s.clock != nil {
		return s.clock(ctx)
	}
	return s.Stream.Now(ctx)
}
