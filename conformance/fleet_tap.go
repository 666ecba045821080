package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// tap is a worker's way to the stream: any source, with faults on the way. What the worker sees has the abilities of the source and no more.
type tap struct {
	f    *fleet
	next core.StreamSource

	mu     sync.Mutex
	faults []*tapFault
	skew   time.Duration // of its clock
	dice   *rand.Rand    // shuffles listings; nil: they are as the source gives them
}

type tapKind uint8

const (
	readFails  tapKind = iota // the call fails; a reader stands where it stood
	readHangs                 // the call hangs until its context ends or its reader is closed
	shardsPart                // Shards gives half a listing, and an error
)

type tapFault struct {
	kind   tapKind
	next   bool // of Next
	open   bool // of Open
	shards bool // of Shards
	shard  core.ShardID
	err    error // nil: core.ErrUnavailable
	times  int   // over after so many; 0: never
	healed chan struct{}
}

var errReaderClosed = errors.New("reader is closed")

func newTap(f *fleet, next core.StreamSource) *tap { return &tap{f: f, next: next} }

func (t *tap) breaks(x tapFault) (heal func()) {
	b := &x
	b.healed = make(chan struct{})
	t.mu.Lock()
	t.faults = append(t.faults, b)
	t.mu.Unlock()
	return func() { t.remove(b) }
}

func (t *tap) remove(b *tapFault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.faults, b); i >= 0 {
		t.faults = slices.Delete(t.faults, i, i+1)
		close(b.healed)
	}
}

func (t *tap) heal() {
	t.mu.Lock()
	all := slices.Clone(t.faults)
	t.mu.Unlock()
	for _, b := range all {
		t.remove(b)
	}
}

func (t *tap) strike(shard core.ShardID, is func(b *tapFault) bool) *tapFault {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range t.faults {
		if !is(b) || b.shard != "" && b.shard != shard {
			continue
		}
		if b.times > 0 {
			if b.times--; b.times == 0 {
				t.faults = slices.DeleteFunc(t.faults, func(o *tapFault) bool { return o == b })
			}
		}
		return b
	}
	return nil
}

func (b *tapFault) failure() error {
	kind := b.err
	if kind == nil {
		kind = core.ErrUnavailable
	}
	return fmt.Errorf("stream: %w", fmt.Errorf("service: %w", kind))
}

// befall is what a fault does to a call.
func (b *tapFault) befall(ctx context.Context, closed <-chan struct{}) error {
	if b.kind == readHangs {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-closed:
			return errReaderClosed
		case <-b.healed:
		}
	}
	return b.failure()
}

// source is what the worker gets.
func (t *tap) source() core.StreamSource {
	s := tapSource{t}
	r, resolves := t.next.(core.Resolver)
	o, orders := t.next.(core.PositionOrder)
	switch {
	case resolves && orders:
		return struct {
			tapSource
			core.Resolver
			core.PositionOrder
		}{s, r, o}
	case resolves:
		return struct {
			tapSource
			core.Resolver
		}{s, r}
	case orders:
		return struct {
			tapSource
			core.PositionOrder
		}{s, o}
	}
	return s
}

type tapSource struct{ t *tap }

func (s tapSource) Describe(ctx context.Context) (core.StreamInfo, error) {
	return s.t.next.Describe(ctx)
}

func (s tapSource) Shards(ctx context.Context, open core.Position) ([]core.Shard, error) {
	b := s.t.strike("", func(b *tapFault) bool { return b.shards })
	if b != nil && b.kind != shardsPart {
		return nil, b.befall(ctx, nil)
	}
	all, err := s.t.next.Shards(ctx, open)
	if err != nil {
		return nil, err
	}
	if b != nil {
		return all[:len(all)/2], b.failure()
	}
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if s.t.dice != nil {
		all = slices.Clone(all)
		s.t.dice.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	return all, nil
}

func (s tapSource) Open(ctx context.Context, shard core.Shard, at core.Position) (core.ShardReader, error) {
	if b := s.t.strike(shard.ID, func(b *tapFault) bool { return b.open }); b != nil {
		return nil, b.befall(ctx, nil)
	}
	r, err := s.t.next.Open(ctx, shard, at)
	if err != nil {
		return nil, err
	}
	return &tapReader{ShardReader: r, t: s.t, shard: shard.ID, closed: make(chan struct{})}, nil
}

// Now is the clock of the service, or the local one, as the worker would ask anyway; it may be wrong.
func (s tapSource) Now(ctx context.Context) (time.Time, error) {
	now := time.Now()
	if c, ok := s.t.next.(core.Clock); ok {
		var err error
		if now, err = c.Now(ctx); err != nil {
			return now, err
		}
	}
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	return now.Add(s.t.skew), nil
}

type tapReader struct {
	core.ShardReader
	t      *tap
	shard  core.ShardID
	closed chan struct{}
	once   sync.Once
}

func (r *tapReader) Next(ctx context.Context) (*core.Page, error) {
	if b := r.t.strike(r.shard, func(b *tapFault) bool { return b.next }); b != nil {
		return nil, b.befall(ctx, r.closed)
	}
	return r.ShardReader.Next(ctx)
}

func (r *tapReader) Close() error {
	r.once.Do(func() { close(r.closed) })
	return r.ShardReader.Close()
}
