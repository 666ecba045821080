package worker

import (
	"context"
	"errors"
	"iter"

	"github.com/shardwarden/shardwarden/core"
)

// pulled is the session of a shard function. It is used by that function's goroutine only.
type pulled struct {
	*session
	held  *pageOf     // handed out and not yet acknowledged
	batch *core.Batch // of held: what is handed out; nil: nothing
	left  *core.Batch // of held: what comes after it; nil: nothing
	leave func()
	ended bool // the last batch is acknowledged
	kids  []core.Shard
	err   error // why Batches ended early
}

// pull runs the user's function over the shard. What it did not acknowledge comes again after an error.
func (c *consumer) pull() error {
	p := &pulled{session: c.session}
	err := c.persist("shard function", func() error {
		p.err = nil
		defer p.rest() // after a panic too
		err := c.h.w.cfg.Shard(c.ctx, p)
		if c.ending() != nil {
			return nil // persist sees why it ends; that is what counts
		}
		switch {
		case errors.Is(p.err, errHalted): // whatever the function makes of it
			return p.err
		case err == nil && p.err != nil:
			return p.err
		case err == nil && !p.ended:
			return core.ErrDone
		}
		return err
	})
	if why := c.ending(); why != nil {
		p.drop()
		return why
	}
	if err != nil {
		p.drop()
		return err
	}
	return c.finish(nil, p.kids)
}

// Batches yields the batches. See [core.PullSession].
func (p *pulled) Batches(ctx context.Context) iter.Seq2[*core.Batch, error] {
	return func(yield func(*core.Batch, error) bool) {
		for !p.ended {
			b, err := p.pull(ctx)
			if err != nil {
				p.err = err
				yield(nil, err)
				return
			}
			if b != nil && !yield(b, nil) {
				return // the batch is not acknowledged: it was not asked past
			}
			p.acknowledge()
		}
	}
}

// pull returns the batch that is not acknowledged yet, or the next. nil: there is nothing to hand out, and so nothing to wait for. Records that
// could not be decoded are dealt with here, by the error policy.
func (p *pulled) pull(ctx context.Context) (*core.Batch, error) {
	c := p.c
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if p.held == nil {
		page, err := c.next()
		if err != nil {
			return nil, p.outward(err)
		}
		p.held, p.left = &page, core.NewBatch(p.session, page.page)
	}
	if p.batch == nil {
		p.batch, p.left = c.cut(p.left)
	}
	b := p.batch
	if _, undecoded := b.Undecoded(); undecoded != nil {
		return nil, p.outward(c.attempt(nil, b, true))
	}
	if len(b.Records) == 0 && !c.h.w.cfg.DeliverEmpty {
		return nil, nil
	}
	leave, err := c.enter()
	if err != nil {
		return nil, p.outward(err)
	}
	p.leave = leave
	c.noteDelivered(b)
	if at := b.Next(); !at.IsZero() {
		c.delivered.Store(&at)
	}
	return b, nil
}

// outward is why a consumer ends in the words of the contract.
func (p *pulled) outward(err error) error {
	if errors.Is(err, errDrained) {
		if why := p.c.ending(); why != nil {
			return why
		}
	}
	return err
}

// acknowledge notes that the batch handed out is done.
func (p *pulled) acknowledge() {
	p.rest()
	if p.held == nil {
		return
	}
	c := p.c
	c.handled(p.batch)
	c.settle()
	if p.batch = nil; p.left != nil {
		return
	}
	if p.held.page.End {
		p.ended, p.kids = true, p.held.page.Children
	}
	p.drop()
}

// rest gives back the place among the handlers that run side by side.
func (p *pulled) rest() {
	if p.leave != nil {
		p.leave()
		p.leave = nil
	}
}

func (p *pulled) drop() {
	if p.held != nil {
		p.c.window.release(*p.held)
		p.held, p.batch, p.left = nil, nil, nil
	}
}
