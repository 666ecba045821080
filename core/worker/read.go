package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// reading is one go at reading a shard: a goroutine that opens a reader and fills the window. It is begun anew, from the last page that went
// into the window, when it stalls; what the former still brings is dropped.
type reading struct {
	c      *consumer
	done   chan struct{}
	reader atomic.Pointer[onceReader]
}

// progress is what the reader of a consumer has come to; shared by successive readings.
type progress struct {
	mu       sync.Mutex
	current  *reading
	at       core.Position // behind the last page in the window
	good     time.Time     // the last sign that reading goes well: a good read, or room after waiting for it
	lastRead time.Time     // the last good read
	waiting  bool          // for room in the window: not the reader's fault
	lag      time.Duration
	err      error
	errs     int
	stalls   int
	gone     bool // the shard ended: no more pages come
}

// read begins to read at the place reached so far.
func (c *consumer) read() {
	r := &reading{c: c, done: make(chan struct{})}
	c.reads.mu.Lock()
	c.reads.current = r
	if c.reads.good.IsZero() {
		c.reads.good = time.Now()
	}
	at := c.reads.at
	c.reads.mu.Unlock()
	go func() {
		defer close(r.done)
		r.loop(c.ctx, at)
		r.close()
	}()
}

// restartReading gives up a reading that hangs and begins another.
func (c *consumer) restartReading() {
	c.reads.mu.Lock()
	old, gone := c.reads.current, c.reads.gone
	c.reads.mu.Unlock()
	if old == nil || gone || c.ctx.Err() != nil {
		return
	}
	c.read()
	go old.close() // ends a Next that waits; a source that hangs in Close too cannot be waited for
}

// close closes the reader that is open, from whichever side comes first: the loop that uses it, or the end of its right to read.
func (r *reading) close() {
	if o := r.reader.Swap(nil); o != nil {
		o.close()
	}
}

// isCurrent reports whether r is still the reading that counts.
func (r *reading) isCurrent() bool {
	r.c.reads.mu.Lock()
	defer r.c.reads.mu.Unlock()
	return r.c.reads.current == r
}

// readBackoff is the pause between failed reads; a source makes its own retries before it fails.
var readBackoff = backoff{next: 100 * time.Millisecond, most: 10 * time.Second}

// deniedPause is the longest pause after a read that was denied.
const deniedPause = 30 * time.Second

func (r *reading) loop(ctx context.Context, at core.Position) {
	c, w := r.c, r.c.h.w
	var reader *onceReader
	b := readBackoff
	for errs := 0; ; {
		if err := c.waitForRoom(ctx); err != nil {
			return
		}
		var page *core.Page
		var err error
		if reader == nil {
			reader, err = openReader(ctx, c.h.st.source, c.shard, at)
			r.reader.Store(reader)
		}
		if err == nil {
			err = safely("read", func() (err error) { page, err = reader.Next(ctx); return err })
			if err == nil && page == nil {
				err = fmt.Errorf("the source returned neither a page nor an error: %w", core.ErrInvalid)
			}
		}
		if ctx.Err() != nil || !r.isCurrent() {
			if page != nil && page.Release != nil {
				page.Release()
			}
			return
		}
		if err != nil {
			errs++
			w.count(ReadErrors, c.h.key, 1)
			err = &core.Error{Op: "read", Stream: c.h.key.Stream, Shard: c.h.key.Shard, Err: err}
			c.reads.failed(err)
			switch {
			case errors.Is(err, core.ErrTrimmed):
				w.emit(Event{Kind: ShardTrimmed, Key: c.h.key, Position: at, Err: err, Text: "reading goes on at the oldest record"})
				r.close()
				reader = nil
				at = core.FromHorizon
				continue
			case errors.Is(err, core.ErrNotFound):
				if w.shardGone(ctx, c.h) {
					w.emit(Event{Kind: ShardTrimmed, Key: c.h.key, Position: at, Err: err, Text: "the service no longer has the shard"})
					r.push(&core.Page{End: true, Lag: -1}, at)
					return
				}
			case errors.Is(err, core.ErrInvalid) && errs == 1 && !w.single:
				// Perhaps a position of another stream, that had this name before.
				if w.isSame(ctx, c.h.st) != nil && ctx.Err() != nil {
					return
				}
			}
			w.emit(Event{Kind: ReadError, Key: c.h.key, Position: at, Failures: errs, Err: err})
			if errs%5 == 0 { // a reader that keeps failing may be beyond help
				r.close()
				reader = nil
			}
			pause := &b
			if errors.Is(err, core.ErrDenied) {
				pause = &backoff{deniedPause, deniedPause} // nobody gives a permission within seconds
			}
			if !pause.wait(ctx) {
				return
			}
			continue
		}
		errs, b.next = 0, readBackoff.next
		w.count(Reads, c.h.key, 1)
		if len(page.Records) == 0 {
			w.count(EmptyReads, c.h.key, 1)
		}
		at = pageEnd(page, at)
		if !r.push(page, at) {
			return
		}
		if page.End {
			return
		}
	}
}

// push notes a good read and puts the page into the window, if there is anything in it.
func (r *reading) push(p *core.Page, at core.Position) bool {
	c := r.c
	c.reads.mu.Lock()
	if c.reads.current != r {
		c.reads.mu.Unlock()
		if p.Release != nil {
			p.Release()
		}
		return false
	}
	now := time.Now()
	c.reads.at, c.reads.good, c.reads.lastRead, c.reads.lag, c.reads.err, c.reads.errs = at, now, now, p.Lag, nil, 0
	c.reads.gone = p.End
	if c.reads.stalls > 0 && !p.End {
		c.reads.stalls = 0
	}
	c.reads.mu.Unlock()
	if len(p.Records) > 0 || p.End || !p.Next.IsZero() || c.h.w.cfg.DeliverEmpty {
		c.window.put(p)
		return true
	}
	c.window.skip()
	if p.Release != nil {
		p.Release()
	}
	return true
}

// pageEnd is where to go on behind a page.
func pageEnd(p *core.Page, at core.Position) core.Position {
	switch n := len(p.Records); {
	case !p.Next.IsZero():
		return p.Next
	case n == 0:
		return at
	case p.After != nil:
		return p.After(n - 1)
	default:
		return core.Position{Token: p.Records[n-1].Sequence, Sub: p.Records[n-1].Sub}.Clone()
	}
}

// waitForRoom waits until the window takes another page. That time is not the reader's: a shard whose handler is slow has not stalled.
func (c *consumer) waitForRoom(ctx context.Context) error {
	if c.window.hasRoom() {
		return nil
	}
	c.reads.mu.Lock()
	c.reads.waiting = true
	c.reads.mu.Unlock()
	err := c.window.room(ctx)
	c.reads.mu.Lock()
	c.reads.waiting, c.reads.good = false, time.Now()
	c.reads.mu.Unlock()
	return err
}

// onceReader is a reader that may be closed from two sides.
type onceReader struct {
	core.ShardReader
	once sync.Once
}

func openReader(ctx context.Context, source core.StreamSource, s core.Shard, at core.Position) (*onceReader, error) {
	r := &onceReader{}
	err := safely("open", func() (err error) { r.ShardReader, err = source.Open(ctx, s, at); return err })
	if err != nil {
		return nil, err
	}
	if r.ShardReader == nil {
		return nil, fmt.Errorf("the source returned neither a reader nor an error: %w", core.ErrInvalid)
	}
	return r, nil
}

func (r *onceReader) close() {
	// What Close says of its end changes nothing: pages stay valid, and another reader is opened.
	r.once.Do(func() { _ = safely("close reader", r.Close) })
}

// stalledFor is how long there has been no sign that reading goes well, though there was room for a page.
func (c *consumer) stalledFor(now time.Time) time.Duration {
	p := &c.reads
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == nil || p.waiting || p.gone {
		return 0
	}
	return now.Sub(p.good)
}

// stalled counts a restart of reading.
func (p *progress) stalled() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalls++
	return p.stalls
}

func (p *progress) restarts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stalls
}

func (p *progress) failed(err error) {
	p.mu.Lock()
	p.err = err
	p.errs++
	p.mu.Unlock()
}

// safely runs code of others and turns a panic into an error.
func safely(what string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{What: what, Value: p, Stack: debug.Stack()}
		}
	}()
	return f()
}

// PanicError is a panic of a handler, a source or a store, as an error of its shard.
type PanicError struct {
	What  string
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.What, e.Value) }
