package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/shardwarden/shardwarden/core"
)

// session is the user's view of a consumer.
type session struct{ c *consumer }

func (s *session) Key() core.LeaseKey   { return s.c.h.key }
func (s *session) Fence() uint64        { return s.c.h.fence }
func (s *session) Start() core.Position { return s.c.start }

func (s *session) Pending() (core.Pending, bool) {
	p := s.c.pending
	if p == nil {
		return core.Pending{}, false
	}
	return core.Pending{At: p.At, State: slices.Clone(p.State)}, true
}

// Checkpoint stores p. See [core.Session].
func (s *session) Checkpoint(ctx context.Context, p core.Position) error {
	if err := s.check("checkpoint", p); err != nil {
		return err
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	return s.store(ctx, "checkpoint", p)
}

func (s *session) store(ctx context.Context, op string, p core.Position) error {
	s.c.h.acked(s.c, p.Clone()) // what waited to be stored lies before it, and must not come after
	err := s.c.h.insist(ctx, func(l *core.Lease) (core.Write, bool) {
		return core.Store(p, nil), !l.Checkpoint.Equal(p) || l.Pending != nil
	})
	if err != nil {
		if s.c.h.w.cfg.Checkpoints == Manual {
			s.c.h.forget(p) // the user was told that it failed, and may prepare another
		}
		return s.fault(op, s.cause(ctx, err))
	}
	s.c.h.checkpointed(p)
	return nil
}

// maxState is how much state a prepared checkpoint may carry: a lease row must stay small, it is read with every look.
const maxState = 64 << 10

// Prepare stores p beside the checkpoint. See [core.Session].
func (s *session) Prepare(ctx context.Context, p core.Position, state []byte) (core.Prepared, error) {
	if s.c.h.w.cfg.Checkpoints != Manual {
		return nil, s.fault("prepare", fmt.Errorf("prepared checkpoints need worker.Config.Checkpoints Manual: an automatic checkpoint would drop them: %w", core.ErrInvalid))
	}
	if len(state) > maxState {
		return nil, s.fault("prepare", fmt.Errorf("state of %d bytes: at most %d fit a lease row: %w", len(state), maxState, core.ErrInvalid))
	}
	if err := s.check("prepare", p); err != nil {
		return nil, err
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	pending := &core.Pending{At: p.Clone(), State: slices.Clone(state)}
	if err := s.c.h.insist(ctx, func(*core.Lease) (core.Write, bool) { return core.PrepareStore(pending), true }); err != nil {
		return nil, s.fault("prepare", s.cause(ctx, err))
	}
	return &prepared{s, pending.At}, nil
}

type prepared struct {
	s  *session
	at core.Position
}

// Commit makes the prepared position the checkpoint.
func (p *prepared) Commit(ctx context.Context) error {
	ctx, cancel := p.s.bound(ctx)
	defer cancel()
	return p.s.store(ctx, "commit", p.at)
}

// check refuses what can't be a checkpoint here.
func (s *session) check(op string, p core.Position) error {
	c := s.c
	if p.Anchor != core.AfterToken || p.Token == "" {
		return s.fault(op, fmt.Errorf("position %q: only a position of a delivered record can be stored (Batch.After): %w", p, core.ErrInvalid))
	}
	if c.h.w.cfg.KeyConcurrency > 1 {
		return s.fault(op, fmt.Errorf("with worker.Config.KeyConcurrency above 1 the engine stores the low-water mark by itself: %w", core.ErrInvalid))
	}
	if c.ctx.Err() != nil && errors.Is(context.Cause(c.ctx), core.ErrLeaseLost) {
		return s.fault(op, core.ErrLeaseLost)
	}
	if order := c.h.st.order; order != nil {
		if done := c.h.snapshot().Checkpoint; order.Compare(p, done) < 0 {
			return s.fault(op, fmt.Errorf("position %s.%d lies before the checkpoint %s.%d, which never goes back: %w", p, p.Sub, done, done.Sub, core.ErrInvalid))
		}
		if last := c.delivered.Load(); last == nil || order.Compare(p, *last) > 0 {
			return s.fault(op, fmt.Errorf("position %s.%d has not been delivered: %w", p, p.Sub, core.ErrInvalid))
		}
	}
	return nil
}

// bound ends a call of the user with the right to write too.
func (s *session) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.c.ctx, func() { cancel(context.Cause(s.c.ctx)) })
	return ctx, func() { stop(); cancel(nil) }
}

// cause prefers why the context ended to the error that came of it.
func (s *session) cause(ctx context.Context, err error) error {
	if ctx.Err() == nil || errors.Is(err, core.ErrLeaseLost) {
		return err
	}
	if s.c.ctx.Err() != nil {
		return context.Cause(s.c.ctx)
	}
	return context.Cause(ctx)
}

func (s *session) fault(op string, err error) error {
	k := s.c.h.key
	return &core.Error{Op: op, Stream: k.Stream, Shard: k.Shard, Err: err}
}

func isLost(err error) bool { return errors.Is(err, core.ErrLeaseLost) }
