package worker

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// deliver hands a batch to the processor until all of it is done, by the error policy; nil: done. Anything else is why the consumer ends.
func (c *consumer) deliver(proc core.Processor, b *core.Batch) error {
	if n := c.h.w.cfg.KeyConcurrency; n > 1 && len(b.Records) > 1 {
		return c.deliverByKey(proc, b, n)
	}
	return c.deliverWhole(proc, b, true)
}

// deliverWhole delivers one batch. Records that could not be decoded are tried, and fail, each by itself. ack says whether a part that is done may
// be acknowledged by itself.
func (c *consumer) deliverWhole(proc core.Processor, b *core.Batch, ack bool) error {
	for {
		first, rest := c.cut(b)
		if rest == nil {
			return c.attempt(proc, b, ack)
		}
		if err := c.attempt(proc, first, ack); err != nil {
			return err
		}
		if ack {
			c.handled(first)
		}
		b = rest
	}
}

// cut takes from a batch what stands before its first record that could not be decoded, or that record; rest is nil where that is all.
func (c *consumer) cut(b *core.Batch) (first, rest *core.Batch) {
	i, undecoded := b.Undecoded()
	if n := max(i, 1); undecoded != nil && n < len(b.Records) {
		return b.Part(0, n), b.Part(n, len(b.Records))
	}
	return b, nil
}

// attempt tries one batch, or its halves, until it is done.
func (c *consumer) attempt(proc core.Processor, b *core.Batch, ack bool) error {
	cfg := &c.h.w.cfg
	pause := &backoff{next: cfg.OnError.Backoff, most: cfg.OnError.MaxBackoff}
	for n := 1; ; n++ {
		err := c.call(proc, b)
		if err == nil {
			c.settle()
			return nil
		}
		if why := c.ending(); why != nil && (c.ctx.Err() != nil || !errors.Is(err, core.ErrDone)) {
			return why // also when draining: a poison record does not hold a hand-over
		}
		switch {
		case errors.Is(err, core.ErrDone):
			return core.ErrDone
		case errors.Is(err, core.ErrRestart):
			return core.ErrRestart
		}
		c.fail(n, err)
		if cfg.OnError.Bisect && len(b.Records) > 1 {
			half := len(b.Records) / 2
			first := b.Part(0, half)
			if err := c.attempt(proc, first, ack); err != nil {
				return err
			}
			if ack {
				c.handled(first)
			}
			return c.attempt(proc, b.Part(half, len(b.Records)), ack)
		}
		if cfg.OnError.GiveUpAfter > 0 && n >= cfg.OnError.GiveUpAfter {
			if cfg.OnError.Halt {
				c.h.set(Halted, fmt.Sprintf("gave up after %d failures", n), err)
				c.h.w.emit(Event{Kind: ShardHalted, Key: c.h.key, Failures: n, Err: err})
				return errHalted
			}
			return c.deadLetter(b, err)
		}
		if !pause.wait(c.ctx, c.drain) {
			if why := c.ending(); why != nil {
				return why
			}
		}
	}
}

// deadLetter gives clones of what failed to the dead-letter function until it takes them.
func (c *consumer) deadLetter(b *core.Batch, cause error) error {
	d := *b
	d.Records = make([]core.Record, len(b.Records))
	for i, r := range b.Records {
		d.Records[i] = r.Clone()
	}
	err := c.persist("dead letter", func() error { return c.h.w.cfg.OnError.DeadLetter(c.ctx, &d, cause) })
	if err == nil {
		c.h.w.emit(Event{Kind: DeadLettered, Key: c.h.key, Records: len(d.Records), Err: cause})
	}
	return err
}

// call hands a batch to the processor once, if the right to process stands.
func (c *consumer) call(proc core.Processor, b *core.Batch) error {
	leave, err := c.enter()
	if err != nil {
		return err
	}
	defer leave()
	if p := b.Next(); !p.IsZero() {
		c.delivered.Store(&p)
	}
	if _, undecoded := b.Undecoded(); undecoded != nil {
		return undecoded // cut has left it alone; a dead-letter function may store its place
	}
	c.noteDelivered(b)
	return safely("handler", func() error { return proc.Process(c.ctx, b) })
}

// enter waits for a place among the handlers that run side by side and makes sure, at the last moment, that the lease is still to be
// trusted by this worker's own clock.
func (c *consumer) enter() (leave func(), err error) {
	w := c.h.w
	leave = func() {}
	if w.slots != nil {
		select {
		case w.slots <- struct{}{}:
			leave = func() { <-w.slots }
		case <-c.ctx.Done():
			return nil, context.Cause(c.ctx)
		case <-c.drain:
			return nil, errDrained
		}
	}
	if c.ctx.Err() == nil && !c.h.trusted(time.Now()) {
		c.h.fenceOff(time.Now())
		c.end(core.ErrLeaseLost)
	}
	if c.ctx.Err() != nil {
		leave()
		return nil, context.Cause(c.ctx)
	}
	return leave, nil
}

var laneSeed = maphash.MakeSeed()

// deliverByKey hands the records of a batch to n lanes side by side, all records of one key to the same lane, in order. The batch is done when
// all lanes are: that is the low-water mark. A key that fails holds the batch, and so the checkpoint.
func (c *consumer) deliverByKey(proc core.Processor, b *core.Batch, n int) error {
	lanes := make([][]int, n)
	for i := range b.Records {
		l := maphash.String(laneSeed, b.Records[i].Key) % uint64(n)
		lanes[l] = append(lanes[l], i)
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for l, idx := range lanes {
		if len(idx) > 0 {
			wg.Go(func() { errs[l] = c.deliverWhole(proc, b.Pick(idx), false) })
		}
	}
	wg.Wait()
	var first error
	for _, err := range errs {
		if err != nil && (first == nil || errors.Is(first, errDrained)) {
			first = err
		}
	}
	return first
}
