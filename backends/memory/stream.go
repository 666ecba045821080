package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// Stream is a handle on a stream in memory. It implements [core.StreamSource], [core.Resolver], [core.PositionOrder] and [core.Clock]. Safe
// for concurrent use. Make one with [New].
type Stream struct {
	stream *stream
	faults faults
}

var (
	_ core.StreamSource  = (*Stream)(nil)
	_ core.Resolver      = (*Stream)(nil)
	_ core.PositionOrder = (*Stream)(nil)
	_ core.Clock         = (*Stream)(nil)
)

// stream is what handles share.
type stream struct {
	// settings, see Option
	name        string
	id          core.StreamID
	pageRecords int
	pageBytes   int64
	idle        time.Duration
	retention   time.Duration
	clock       func() time.Time
	shardName   func(n int) core.ShardID
	lacks       core.SourceLacks
	strict      bool

	held atomic.Int64 // pages of Strict that are not released

	mu      sync.Mutex
	instant time.Time // the latest that was given out or that something happened at
	records uint64    // put so far: the sequence
	named   int       // shards made so far
	shards  map[core.ShardID]*shard
	listed  []*shard // all that the service knows, oldest first
	open    []*shard // by range
}

// incarnations tells streams apart that one process makes under the same name.
var incarnations atomic.Int64

// New makes a stream of so many shards (at least one), which divide the key space evenly, and returns the first handle on it.
func New(name string, shards int, opts ...Option) *Stream {
	s := defaults(name)
	for _, o := range opts {
		o(s)
	}
	made := s.tick()
	if s.id == "" {
		s.id = core.StreamID(fmt.Sprintf("%s:%d:%d", name, made.UnixMilli(), incarnations.Add(1)))
	}
	shards = max(shards, 1)
	for i := range shards {
		sp := span{part(i, shards), maxHashKey}
		if i+1 < shards {
			sp.last = part(i+1, shards).prev()
		}
		s.add(sp, made)
	}
	return &Stream{stream: s}
}

// Handle is another handle on the same stream, with faults and counts of its own.
func (h *Stream) Handle() *Stream { return &Stream{stream: h.stream} }

// Plain is the handle without its optional abilities, as a source of three methods.
func (h *Stream) Plain() core.StreamSource { return struct{ core.StreamSource }{h} }

// Held is how many pages were handed out and not released, over all handles; negative if some were released twice. Only [Strict] streams
// count.
func (h *Stream) Held() int { return int(h.stream.held.Load()) }

// now never goes back.
func (s *stream) now() time.Time {
	if t := s.clock(); t.After(s.instant) {
		s.instant = t
	}
	return s.instant
}

// tick is an instant later than all before, so that what was open at an instant that somebody was given never changes.
func (s *stream) tick() time.Time {
	if t := s.clock(); t.After(s.instant) {
		s.instant = t
	} else {
		s.instant = s.instant.Add(1)
	}
	return s.instant
}

// Put adds a record to the shard that holds the key, and says where it went and under which sequence number. data is copied.
func (h *Stream) Put(key string, data []byte) (core.ShardID, string) {
	s := h.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.route(key)
	r := core.Record{Key: strings.Clone(key), Data: bytes.Clone(data)}
	s.append(sh, []core.Record{r}, false)
	return sh.id, sequence(s.records)
}

// PutMany adds records, each to the shard that holds its key, in order. Data, keys and Native are not copied: they belong to the stream from
// now on. Sequence is ignored, and so is Sub; Arrived too where it is 0 or would go back within the shard.
func (h *Stream) PutMany(records ...core.Record) {
	s := h.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := map[*shard][]core.Record{}
	var order []*shard // of the first record in each, so that runs repeat
	for _, r := range records {
		sh := s.route(r.Key)
		if parts[sh] == nil {
			order = append(order, sh)
		}
		parts[sh] = append(parts[sh], r)
	}
	for _, sh := range order {
		s.append(sh, parts[sh], false)
	}
}

// PutTo is PutMany to a shard of one's choice, whatever the keys (as an explicit hash key on Kinesis). [core.ErrNotFound]: there is no such
// shard; [core.ErrInvalid]: it has ended.
func (h *Stream) PutTo(shard core.ShardID, records ...core.Record) error {
	s := h.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	sh, err := s.openShard("put to", shard)
	if err == nil {
		s.append(sh, records, false)
	}
	return err
}

// PutAggregated adds one record that holds many: they share a sequence number and are told apart by Sub, from 0. Data is copied.
func (h *Stream) PutAggregated(key string, data ...[]byte) (core.ShardID, string) {
	s := h.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.route(key)
	key = strings.Clone(key)
	records := make([]core.Record, len(data))
	for i, d := range data {
		records[i] = core.Record{Key: key, Data: bytes.Clone(d), Sub: uint64(i)}
	}
	s.append(sh, records, true)
	return sh.id, sequence(s.records)
}

// Split ends a shard and divides its range in halves.
func (h *Stream) Split(shard core.ShardID) (low, high core.ShardID, err error) {
	s := h.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	sh, err := s.openShard("split", shard)
	if err != nil {
		return "", "", err
	}
	size := sh.span.last.sub(sh.span.first)
	if size == (hashKey{}) {
		return "", "", s.wrap("split", shard, fmt.Errorf("its range is a single key: %w", core.ErrInvalid))
	}
	at := s.tick()
	middle := sh.span.first.add(size.half())
	s.end(sh, at)
	a := s.add(span{sh.span.first, middle}, at, sh)
	b := s.add(span{middle.next(), sh.span.last}, at, sh)
	return a.id, b.id, nil
}

// Merge ends two shards with adjacent ranges and goes on with one.
func (h *Stream) Merge(a, b core.ShardID) (core.ShardID, error) {
	s := h.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	x, err := s.openShard("merge", a)
	if err != nil {
		return "", err
	}
	y, err := s.openShard("merge", b)
	if err != nil {
		return "", err
	}
	low, high := x, y
	if high.span.first.less(low.span.first) {
		low, high = high, low
	}
	if low == high || low.span.last.next() != high.span.first {
		return "", s.wrap("merge", a, fmt.Errorf("its range does not touch that of %s: %w: merge neighbours", b, core.ErrInvalid))
	}
	at := s.tick()
	s.end(x, at)
	s.end(y, at)
	return s.add(span{low.span.first, high.span.last}, at, x, y).id, nil
}

// Trim drops the oldest n records of a shard, or all if it has no more.
func (h *Stream) Trim(shard core.ShardID, n int) error {
	s := h.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	sh, err := s.find("trim", shard)
	if err == nil {
		sh.trim(min(sh.first+max(n, 0), sh.end))
	}
	return err
}

// Forget drops a shard that has ended, as the service does when its retention is over: it is no longer listed, and cannot be read.
func (h *Stream) Forget(shard core.ShardID) error {
	s := h.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	sh, err := s.find("forget", shard)
	switch {
	case err != nil:
		return err
	case sh.isOpen():
		return s.wrap("forget", shard, fmt.Errorf("it is open: %w: split or merge it first", core.ErrInvalid))
	}
	s.forget(sh)
	return nil
}

func (s *stream) wrap(op string, shard core.ShardID, err error) error {
	return &core.Error{Op: op, Stream: s.id, Shard: shard, Err: err}
}

func (s *stream) find(op string, id core.ShardID) (*shard, error) {
	sh := s.shards[id]
	if sh == nil {
		return nil, s.wrap(op, id, core.ErrNotFound)
	}
	return sh, nil
}

func (s *stream) openShard(op string, id core.ShardID) (*shard, error) {
	sh, err := s.find(op, id)
	if err == nil && !sh.isOpen() {
		return nil, s.wrap(op, id, fmt.Errorf("it has ended: %w", core.ErrInvalid))
	}
	return sh, err
}

// route is the open shard that holds the key. Open ranges cover the space without holes.
func (s *stream) route(key string) *shard {
	k := hashOf(key)
	i, found := slices.BinarySearchFunc(s.open, k, func(sh *shard, k hashKey) int {
		switch {
		case sh.span.first.less(k):
			return -1
		case k.less(sh.span.first):
			return 1
		}
		return 0
	})
	if !found {
		i--
	}
	return s.open[i]
}

// add makes a shard.
func (s *stream) add(sp span, at time.Time, parents ...*shard) *shard {
	sh := &shard{id: s.shardName(s.named), span: sp, made: at, room: s.pageRecords}
	s.named++
	for _, p := range parents {
		sh.parents = append(sh.parents, p.id)
		p.children = append(p.children, sh)
	}
	s.shards[sh.id] = sh
	s.listed = append(s.listed, sh)
	i, _ := slices.BinarySearchFunc(s.open, sp.first, func(o *shard, k hashKey) int {
		if o.span.first.less(k) {
			return -1
		}
		return 1
	})
	s.open = slices.Insert(s.open, i, sh)
	return sh
}

func (s *stream) end(sh *shard, at time.Time) {
	sh.ended = at
	s.open = slices.DeleteFunc(s.open, func(o *shard) bool { return o == sh })
	sh.signal()
}

func (s *stream) forget(sh *shard) {
	sh.forgotten = true
	sh.trim(sh.end)
	delete(s.shards, sh.id)
	s.listed = slices.DeleteFunc(s.listed, func(o *shard) bool { return o == sh })
	sh.signal()
}

// append numbers records and adds them. aggregated: all under one number.
func (s *stream) append(sh *shard, records []core.Record, aggregated bool) {
	if len(records) == 0 {
		return
	}
	now := s.now().UnixMilli()
	numbers := make([]byte, 0, digits*len(records))
	for i := range records {
		if i == 0 || !aggregated {
			s.records++
		}
		numbers = appendSequence(numbers, s.records)
	}
	all := string(numbers) // one allocation for the strings of all
	for i := range records {
		r := records[i]
		r.Sequence = all[i*digits : (i+1)*digits]
		if !aggregated {
			r.Sub = 0
		}
		if r.Arrived == 0 {
			r.Arrived = now
		}
		sh.add(r, len(records)-i)
	}
	sh.signal()
}

// expire drops what is older than the retention. A closed shard goes when it has been closed for that long.
func (s *stream) expire(sh *shard) {
	if s.retention == 0 || sh.forgotten {
		return
	}
	oldest := s.now().Add(-s.retention)
	first := sh.first
	for first < sh.end && sh.record(first).Arrived < oldest.UnixMilli() {
		first++
	}
	sh.trim(first)
	if !sh.isOpen() && !sh.ended.After(oldest) {
		s.forget(sh)
	}
}

// Describe implements [core.StreamSource].
func (h *Stream) Describe(ctx context.Context) (core.StreamInfo, error) {
	if _, err := h.call(ctx, Describe, ""); err != nil {
		return core.StreamInfo{}, err
	}
	s := h.stream
	return core.StreamInfo{ID: s.id, Name: s.name, Retention: s.retention, Lacks: s.lacks}, nil
}

// Shards implements [core.StreamSource].
func (h *Stream) Shards(ctx context.Context, open core.Position) ([]core.Shard, error) {
	fate, err := h.call(ctx, Shards, "")
	if err != nil {
		return nil, err
	}
	s := h.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sh := range slices.Clone(s.listed) {
		s.expire(sh)
	}
	then := s.now().Add(-fate.stale)
	at := then
	switch {
	case open.IsZero(), open.Anchor == core.Horizon:
	case open.Anchor == core.AtTime, open.Anchor == core.Latest && !open.Time.IsZero():
		at = open.Time
	case open.Anchor == core.Latest:
	default:
		return nil, s.wrap(string(Shards), "", fmt.Errorf("open at %s: %w: the beginning, the end, or a time", open, core.ErrInvalid))
	}
	var out []core.Shard
	for _, sh := range s.listed {
		known := !sh.made.After(then)
		switch {
		case open.IsZero():
		case open.Anchor == core.Horizon:
			known = known && s.isRoot(sh)
		default: // what was open then; where nothing is left of that, the oldest there is
			known = known && (sh.openAt(at) || sh.made.After(at) && s.isRoot(sh))
		}
		if known {
			out = append(out, s.public(sh, then))
		}
	}
	return out, nil
}

// isRoot: none of its parents is known any more.
func (s *stream) isRoot(sh *shard) bool {
	return !slices.ContainsFunc(sh.parents, func(id core.ShardID) bool { return s.shards[id] != nil })
}

// public is the shard as it was listed at an instant.
func (s *stream) public(sh *shard, at time.Time) core.Shard {
	out := core.Shard{ID: sh.id, Parents: slices.Clone(sh.parents), Closed: !sh.isOpen() && !sh.ended.After(at)}
	if !s.lacks.HashRanges {
		out.Range = sh.span.public()
	}
	return out
}

// Now implements [core.Clock].
func (h *Stream) Now(ctx context.Context) (time.Time, error) {
	if _, err := h.call(ctx, Now, ""); err != nil {
		return time.Time{}, err
	}
	h.stream.mu.Lock()
	defer h.stream.mu.Unlock()
	return h.stream.now(), nil
}
