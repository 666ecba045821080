package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/shardwarden/shardwarden/core"
)

// ErrClosed is what Next returns once its reader is closed.
var ErrClosed = errors.New("reader is closed")

// reader reads one shard.
type reader struct {
	handle *Stream
	shard  *shard

	at       core.Position // behind what was read, or the start
	next     int           // index of the next record
	from     time.Time     // a start at a time that no record has reached yet
	started  bool          // its place is fixed: what goes missing from here on is missed
	timer    *time.Timer
	closing  sync.Once
	isClosed chan struct{}
}

// Open implements [core.StreamSource]. A start at a time that is older than all that is kept begins at the oldest record, as on Kinesis.
func (h *Stream) Open(ctx context.Context, shard core.Shard, at core.Position) (core.ShardReader, error) {
	if _, err := h.call(ctx, Open, shard.ID); err != nil {
		return nil, err
	}
	s := h.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	sh, err := s.find(string(Open), shard.ID)
	if err == nil {
		s.expire(sh)
	}
	if err != nil || sh.forgotten {
		return nil, s.wrap(string(Open), shard.ID, core.ErrNotFound)
	}
	r := &reader{handle: h, shard: sh, at: at.Clone(), isClosed: make(chan struct{})}
	if err := r.seek(at); err != nil {
		return nil, s.wrap(string(Open), sh.id, err)
	}
	return r, nil
}

// seek finds the first record behind a position.
func (r *reader) seek(at core.Position) error {
	s, sh := r.handle.stream, r.shard
	switch at.Anchor {
	case core.Horizon:
		r.next = sh.first
	case core.Latest, core.AtTime:
		switch {
		case at.Time.IsZero() && at.Anchor == core.AtTime:
			return fmt.Errorf("start at a time without the time: %w", core.ErrInvalid)
		case s.lacks.StartTime && !at.Time.IsZero():
			return fmt.Errorf("start at %v: %w: this source starts at no time", at.Time, core.ErrInvalid)
		case at.Time.IsZero():
			r.next, r.started = sh.end, true
		default:
			r.next, r.from = sh.first, at.Time
		}
	case core.ShardEnd:
		if sh.isOpen() {
			return fmt.Errorf("start at the end of a shard that has not ended: %w", core.ErrInvalid)
		}
		r.next = sh.end
	case core.AfterToken:
		if _, err := s.parse(at.Token); err != nil {
			return err
		}
		if compare(at.Token, at.Sub, sh.trimmed.Sequence, sh.trimmed.Sub) < 0 {
			return fmt.Errorf("behind %s: %w: the oldest that is kept comes after %s", at.Token, core.ErrTrimmed, sh.trimmed.Sequence)
		}
		r.next = sh.search(func(o *core.Record) bool { return compare(o.Sequence, o.Sub, at.Token, at.Sub) > 0 })
		r.started = true
	default:
		return fmt.Errorf("anchor %d: %w", at.Anchor, core.ErrInvalid)
	}
	return nil
}

// Next implements [core.ShardReader].
func (r *reader) Next(ctx context.Context) (*core.Page, error) {
	s := r.handle.stream
	fate, err := r.handle.callUntil(ctx, Next, r.shard.id, r.isClosed)
	if err != nil {
		return nil, err
	}
	if fate.empty {
		return &core.Page{Lag: r.lag(0)}, nil
	}
	if fate.end {
		return &core.Page{End: true, Lag: r.lag(0)}, nil
	}
	var alarm <-chan time.Time
	for {
		page, wake, err := r.read()
		if page != nil && fate.orphans {
			page.Children = nil
		}
		if page != nil || err != nil {
			return page, err
		}
		if alarm == nil && s.idle > 0 {
			if r.timer == nil {
				r.timer = time.NewTimer(s.idle)
			} else {
				r.timer.Reset(s.idle)
			}
			defer r.timer.Stop()
			alarm = r.timer.C
		}
		select {
		case <-wake:
		case <-alarm:
			return &core.Page{Lag: r.lag(0)}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-r.isClosed:
			return nil, s.wrap(string(Next), r.shard.id, ErrClosed)
		}
	}
}

// read is the next page, or what to wait for.
func (r *reader) read() (*core.Page, <-chan struct{}, error) {
	s, sh := r.handle.stream, r.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(sh)
	if sh.forgotten {
		return nil, nil, s.wrap(string(Next), sh.id, core.ErrNotFound)
	}
	if !r.from.IsZero() {
		r.next = sh.searchTime(r.from)
		if r.next < sh.end {
			r.from = time.Time{}
		}
	}
	if r.next < sh.first {
		if r.started {
			return nil, nil, s.wrap(string(Next), sh.id, fmt.Errorf("behind %s: %w: the oldest that is kept comes after %s", r.at, core.ErrTrimmed, sh.trimmed.Sequence))
		}
		r.next = sh.first
	}
	records, bytes := sh.page(r.next, s.pageRecords, s.pageBytes)
	r.next += len(records)
	end := r.next == sh.end && !sh.isOpen()
	if len(records) == 0 && !end {
		return nil, sh.waiting(), nil
	}
	page := &core.Page{Records: records, Bytes: int(bytes), End: end}
	if n := len(records); n > 0 {
		last := &records[n-1]
		var behind int64
		if r.next < sh.end {
			behind = max(sh.record(sh.end-1).Arrived-last.Arrived, 1)
		}
		page.Lag = time.Duration(behind) * time.Millisecond
		if s.lacks.RecordPositions {
			r.wholePages(page)
		}
		r.at, r.started = core.Position{Token: last.Sequence, Sub: last.Sub}, true
		if s.strict {
			s.lend(page)
		}
	}
	page.Lag = r.lag(page.Lag)
	if end && !s.lacks.ChildrenAtEnd {
		for _, c := range sh.children {
			page.Children = append(page.Children, s.public(c, s.now()))
		}
	}
	return page, nil, nil
}

func (r *reader) lag(d time.Duration) time.Duration {
	if r.handle.stream.lacks.Lag {
		return -1
	}
	return d
}

// wholePages makes a page whose positions lie at its ends only: to resume inside it is to begin it again.
func (r *reader) wholePages(p *core.Page) {
	before, last := r.at, p.Records[len(p.Records)-1]
	n := len(p.Records)
	p.After = func(i int) core.Position {
		if i < n-1 {
			return before.Clone()
		}
		return core.Position{Token: last.Sequence, Sub: last.Sub}.Clone()
	}
}

// lend makes a page of copies that turn to rubbish when it is released.
func (s *stream) lend(p *core.Page) {
	size := 0
	for i := range p.Records {
		r := &p.Records[i]
		size += len(r.Data) + len(r.Key) + len(r.Sequence)
	}
	buf := make([]byte, 0, size)
	keep := func(text string) string {
		from := len(buf)
		buf = append(buf, text...)
		return unsafe.String(unsafe.SliceData(buf[from:]), len(text))
	}
	records := make([]core.Record, len(p.Records))
	for i, r := range p.Records {
		from := len(buf)
		buf = append(buf, r.Data...)
		r.Data = buf[from:len(buf):len(buf)]
		r.Key, r.Sequence = keep(r.Key), keep(r.Sequence)
		records[i] = r
	}
	p.Records = records
	s.held.Add(1)
	p.Release = func() {
		for i := range buf {
			buf[i] = '#'
		}
		s.held.Add(-1)
	}
}

// Close implements [core.ShardReader].
func (r *reader) Close() error {
	r.closing.Do(func() { close(r.isClosed) })
	return nil
}
