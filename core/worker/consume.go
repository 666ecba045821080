package worker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// consumer processes one shard under one lease, from the position reached to the end, or until the right to process ends. A holding has one
// at a time; after a fence, a declined hand-over or ErrRestart it gets a new one. In the pushed forms its goroutine lives only while there is
// something to hand out, since most shards of a large fleet are idle; user code never runs twice at once.
type consumer struct {
	h       *holding
	shard   core.Shard
	ctx     context.Context // the right to process
	cancel  context.CancelCauseFunc
	drain   chan struct{} // closed: finish the batch at hand, then end
	done    chan struct{} // closed when user code has returned for good
	filled  chan struct{} // a page came; for the pulled form
	window  *window
	reads   progress
	session *session
	proc    core.Processor
	start   core.Position
	pending *core.Pending

	mu     sync.Mutex
	parked bool // no goroutine: the window is empty. wake starts one

	why       atomic.Pointer[error]         // of the drain
	delivered atomic.Pointer[core.Position] // behind the last batch handed to the handler
	records   atomic.Int64
	failures  atomic.Int64 // of the batch at hand
	stopped   atomic.Int64 // when ctx ended, Unix nanoseconds; for noticing handlers that go on
	overran   atomic.Bool
}

// Why a consumer ended, beside the causes of its context.
var (
	errDrained = errors.New("drained")
	errHalted  = errors.New("halted by the error policy")
	errEnded   = errors.New("shard ended")
)

// begin starts processing a lease that is held, if nothing processes it and nothing forbids it. It reports whether it did.
func (w *Worker) begin(h *holding) bool {
	ctx, cancel := context.WithCancelCause(w.base)
	c := &consumer{h: h, ctx: ctx, cancel: cancel, drain: make(chan struct{}), done: make(chan struct{})}
	c.session = &session{c: c}
	if w.cfg.Shard != nil {
		c.filled = make(chan struct{}, 1)
		c.window = newWindow(w.budget, w.cfg.ReadAheadShard, func() { poke(c.filled) })
	} else {
		c.window = newWindow(w.budget, w.cfg.ReadAheadShard, c.wake)
	}
	w.mu.Lock()
	if former := w.running[h.key]; former != nil && former.h != h || w.state != stateRunning {
		w.mu.Unlock()
		cancel(nil)
		if former != nil {
			h.set(Waiting, "the handler of a former lease of this worker has not returned", nil)
		}
		return false
	}
	h.mu.Lock()
	if h.over || h.fenced || h.give != nil || h.halted || h.consumer != nil || time.Since(h.goodAt) >= w.trust {
		h.mu.Unlock()
		w.mu.Unlock()
		cancel(nil)
		return false
	}
	h.consumer = c
	c.shard = core.Shard{ID: h.key.Shard, Parents: h.lease.Parents, Range: h.lease.Range}
	c.pending = h.lease.Pending
	h.state, h.why, h.err = Starting, "", nil
	h.mu.Unlock()
	w.running[h.key] = c
	w.mu.Unlock()
	go c.run()
	return true
}

// end ends the right to process, for a cause.
func (c *consumer) end(cause error) {
	c.stopped.CompareAndSwap(0, time.Now().UnixNano())
	c.cancel(cause)
	c.wake()
}

// drainFor asks the consumer to end once the batch at hand is done.
func (c *consumer) drainFor(why error) {
	if c.why.CompareAndSwap(nil, &why) {
		close(c.drain)
		c.wake()
	}
}

// ending is the cause a consumer ends for, nil while it goes on.
func (c *consumer) ending() error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if p := c.why.Load(); p != nil {
		return *p
	}
	return nil
}

// run is the consumer's goroutine until its first pause.
func (c *consumer) run() {
	why := c.prepare()
	switch {
	case why != nil:
	case c.h.w.cfg.Shard != nil:
		why = c.pull()
	default:
		why = c.work()
	}
	if why != nil {
		c.over(why)
	}
}

// park lets the goroutine go while there is nothing to do. It reports whether it may.
func (c *consumer) park() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parked = c.window.empty() && c.ending() == nil
	return c.parked
}

// wake goes on after a pause: a page came, or the end did.
func (c *consumer) wake() {
	c.mu.Lock()
	was := c.parked
	c.parked = false
	c.mu.Unlock()
	if was {
		go func() {
			if why := c.work(); why != nil {
				c.over(why)
			}
		}()
	}
}

// over ends the consumer. User code has returned.
func (c *consumer) over(why error) {
	h, w := c.h, c.h.w
	if p, ok := c.proc.(core.Stopper); ok && !errors.Is(why, errEnded) {
		c.stopping(p, why)
	}
	c.end(why)
	c.window.close()
	c.reads.mu.Lock()
	reading := c.reads.current
	c.reads.mu.Unlock()
	if reading != nil {
		reading.close()
		t := time.NewTimer(w.cfg.StopMargin)
		select {
		case <-reading.done:
		case <-t.C:
			w.log.Warn("the source does not return from Next though its context ended and its reader was closed", "stream", h.key.Stream, "shard", h.key.Shard)
		}
		t.Stop()
	}
	ended := errors.Is(why, errEnded)
	h.mu.Lock()
	h.consumer = nil
	waits := h.fenced || h.give != nil // for what looks by itself
	if errors.Is(why, core.ErrDone) || errors.Is(why, errHalted) {
		h.halted = true
		h.state = Halted
	}
	h.mu.Unlock()
	w.mu.Lock()
	if w.running[h.key] == c {
		delete(w.running, h.key)
	}
	held := w.held[h.key]
	w.mu.Unlock()
	if ended {
		h.end()
		w.emit(Event{Kind: ShardEnded, Key: h.key, Counter: h.snapshot().Counter})
		if w.cfg.AuditAtShardEnd {
			poke(w.keepNow)
		}
	} else {
		w.emit(Event{Kind: ShardStopped, Key: h.key, Err: why})
	}
	close(c.done)
	if ended || held != nil && (held != h || !waits) {
		w.look() // children may begin, or this shard again
	}
}

// prepare makes ready what the user's code needs, and begins to read.
func (c *consumer) prepare() error {
	h, w := c.h, c.h.w
	if err := c.fixStart(); err != nil {
		return err
	}
	c.start = h.reached()
	c.reads.at = c.start
	if w.cfg.Process != nil {
		c.proc = w.cfg.Process
	}
	if w.cfg.Factory != nil {
		err := c.persist("factory", func() (err error) {
			c.proc, err = w.cfg.Factory(c.ctx, c.session)
			if err == nil && c.proc == nil {
				err = errors.New("the factory returned neither a processor nor an error")
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	w.emit(Event{Kind: ShardStarted, Key: h.key, Position: c.start, Counter: int64(h.fence)})
	h.set(Reading, "", nil)
	c.read()
	return nil
}

// fixStart gives a start without an instant (a row that the KCL made) the instant of now, stored before the first record is read, so that
// a later owner begins at the same place.
func (c *consumer) fixStart() error {
	l := c.h.snapshot()
	if l.Checkpoint.Anchor != core.Latest || !l.StartAt.IsZero() || c.h.st.lacks.StartTime {
		return nil
	}
	at := c.h.st.now(c.ctx)
	return c.persist("fix start", func() error {
		return c.h.insist(c.ctx, func(l *core.Lease) (core.Write, bool) {
			return core.FixStart(at), l.Checkpoint.Anchor == core.Latest && l.StartAt.IsZero()
		})
	})
}

// work hands out the pages that are there, for the pushed forms. It returns why the consumer ends, or nil after it parked.
func (c *consumer) work() error {
	for {
		if why := c.ending(); why != nil {
			return why
		}
		p, ok := c.window.take()
		if !ok {
			if c.park() {
				return nil
			}
			continue
		}
		b := core.NewBatch(c.session, p.page)
		var err error
		if len(b.Records) > 0 || c.h.w.cfg.DeliverEmpty {
			err = c.deliver(c.proc, b)
		}
		if err == nil {
			c.handled(b)
		}
		end, children := p.page.End, p.page.Children
		c.window.release(p)
		if err != nil {
			return err
		}
		if end {
			return c.finish(c.proc, children)
		}
	}
}

// next waits for a page, for the pulled form.
func (c *consumer) next() (pageOf, error) {
	for {
		if why := c.ending(); why != nil {
			return pageOf{}, why
		}
		if p, ok := c.window.take(); ok {
			return p, nil
		}
		select {
		case <-c.filled:
		case <-c.drain:
		case <-c.ctx.Done():
		}
	}
}

// handled notes that a whole batch is done.
func (c *consumer) handled(b *core.Batch) {
	if c.h.w.cfg.Checkpoints == Automatic {
		c.h.acked(c, b.Next())
	}
}

// noteDelivered counts what is handed to user code.
func (c *consumer) noteDelivered(b *core.Batch) {
	n := int64(len(b.Records))
	if n == 0 {
		return
	}
	var bytes int64
	for i := range b.Records {
		bytes += int64(len(b.Records[i].Data))
	}
	c.records.Add(n)
	c.h.throughput.add(bytes)
	w := c.h.w
	w.count(RecordsDelivered, c.h.key, n)
	w.count(BytesDelivered, c.h.key, bytes)
	w.count(BatchesDelivered, c.h.key, 1)
}

// persist repeats a step until it succeeds or the consumer ends. What the step means by ErrDone and ErrRestart is passed on.
func (c *consumer) persist(what string, step func() error) error {
	b := &backoff{next: c.h.w.cfg.OnError.Backoff, most: c.h.w.cfg.OnError.MaxBackoff}
	for n := 1; ; n++ {
		if why := c.ending(); why != nil {
			return why
		}
		err := safely(what, step)
		switch {
		case err == nil:
			c.settle()
			return nil
		case errors.Is(err, core.ErrDone), errors.Is(err, core.ErrRestart), errors.Is(err, core.ErrLeaseLost), errors.Is(err, errHalted):
			return err
		}
		c.fail(n, err)
		if !b.wait(c.ctx, c.drain) {
			if why := c.ending(); why != nil {
				return why
			}
		}
	}
}

// fail shows a failure of user code.
func (c *consumer) fail(n int, err error) {
	c.failures.Store(int64(n))
	c.h.set(Retrying, "", err)
	c.h.w.count(HandlerErrors, c.h.key, 1)
	c.h.w.emit(Event{Kind: HandlerError, Key: c.h.key, Failures: n, Err: err})
}

// settle shows that user code goes well again.
func (c *consumer) settle() {
	if c.failures.Swap(0) != 0 {
		c.h.set(Reading, "", nil)
	}
}

// stopping gives a processor its last chance.
func (c *consumer) stopping(p core.Stopper, why error) {
	ctx, cancel := c.ctx, context.CancelFunc(func() {})
	if ctx.Err() != nil { // too late to store anything; time to let go of things
		ctx, cancel = context.WithTimeoutCause(context.WithoutCancel(ctx), c.h.w.cfg.StopMargin, why)
	}
	defer cancel()
	if err := safely("Stopping", func() error { p.Stopping(ctx, why); return nil }); err != nil {
		c.fail(1, err)
	}
}
