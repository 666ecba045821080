package worker

import (
	"context"
	"errors"

	"github.com/shardwarden/shardwarden/core"
)

// finish does what is owed at the end of a shard, in this order: leases for the children, the children on the parent's row, the
// processor's word, then END (design, rule 6; model M-end-before-kids shows the loss otherwise). Each step may be done again by a later owner.
func (c *consumer) finish(proc core.Processor, children []core.Shard) error {
	h, w := c.h, c.h.w
	h.set(Ending, "", nil)
	if err := c.persist("create leases of children", func() error {
		if len(children) == 0 {
			listed, err := w.childrenOf(c.ctx, h)
			if err != nil {
				return err
			}
			children = listed
		}
		return w.createChildren(c.ctx, h, children)
	}); err != nil {
		return err
	}
	if err := c.recordChildren(children); err != nil {
		return err
	}
	ender, _ := proc.(core.ShardEnder)
	if ender != nil {
		h.set(Ending, "waits for ShardEnded to return nil", nil)
		if err := c.persist("ShardEnded", func() error { return ender.ShardEnded(c.ctx) }); err != nil {
			return err
		}
	}
	if w.cfg.Checkpoints == Manual && ender == nil && w.cfg.Shard == nil {
		h.set(Ending, "ended and not acknowledged: waits for a checkpoint of the last record", nil)
		if err := c.lastStored(); err != nil {
			return err
		}
	}
	h.acked(c, core.AtShardEnd) // so that no renewal stores an older place behind it
	err := c.persist("store the end", func() error {
		return h.store(c.ctx, core.AtShardEnd, nil)
	})
	if err != nil {
		return err
	}
	h.checkpointed(core.AtShardEnd)
	return errEnded
}

// recordChildren writes the children on the parent's row. The write has no condition and so proves nothing about the lease.
func (c *consumer) recordChildren(children []core.Shard) error {
	if len(children) == 0 {
		return nil
	}
	ids := make([]core.ShardID, len(children))
	for i, s := range children {
		ids[i] = s.ID
	}
	return c.persist("record children", func() error {
		ctx, cancel := c.h.w.callContext(c.ctx)
		defer cancel()
		write := core.AddChildren(ids)
		_, err := c.h.w.store.Update(ctx, c.h.snapshot(), write.Same, write.Set)
		if errors.Is(err, core.ErrNotFound) {
			return c.h.lost(err)
		}
		return err
	})
}

// lastStored waits until the checkpoint is the last position that was handed out.
func (c *consumer) lastStored() error {
	for {
		last := c.delivered.Load()
		c.h.mu.Lock()
		done := last == nil || c.h.lease.Checkpoint.Equal(*last)
		if c.h.stored == nil {
			c.h.stored = make(chan struct{})
		}
		stored := c.h.stored
		c.h.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-stored:
		case <-c.drain:
			return c.ending()
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		}
	}
}
