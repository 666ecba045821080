package kclsim

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// consumer is a ShardConsumer: one ownership of a shard.
type consumer struct {
	w    *Worker
	h    *held
	done chan struct{}

	asked, lost         chan struct{}
	askedOnce, lostOnce sync.Once
}

func newConsumer(w *Worker, h *held) *consumer {
	return &consumer{w: w, h: h, done: make(chan struct{}), asked: make(chan struct{}), lost: make(chan struct{})}
}

func (c *consumer) ask()       { c.askedOnce.Do(func() { close(c.asked) }) }
func (c *consumer) leaseLost() { c.lostOnce.Do(func() { close(c.lost) }) }

// over reports whether the consumer shall do nothing more, and hands the lease on where it was asked for. It is looked at between two batches.
func (c *consumer) over(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	case <-c.lost:
		return true
	default:
	}
	select {
	case <-c.asked:
		c.shutdownRequested(ctx)
		return true
	default:
		return false
	}
}

// wait waits, for less if there is something else to do.
func (c *consumer) wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-c.lost:
	case <-c.asked:
	case <-t.C:
	}
}

// shutdownRequested: what was processed is checkpointed already. A lease that was asked for goes to who asked, any other is dropped: Java
// releases nothing when it stops.
func (c *consumer) shutdownRequested(ctx context.Context) {
	c.w.mu.Lock()
	asked := !c.h.requested.IsZero()
	c.w.mu.Unlock()
	if asked {
		c.w.transfer(ctx, c.h)
	} else {
		c.w.lose(c.h, "shut down")
	}
}

func (c *consumer) run(ctx context.Context) {
	l, _ := c.w.current(c.h)
	for _, p := range l.parents { // BlockOnParentShardTask: a parent without a lease blocks nothing
		for {
			if c.over(ctx) {
				return
			}
			parent, err := c.w.lease(ctx, p)
			if err == nil && (parent == nil || parent.checkpoint == shardEnd) {
				break
			}
			c.wait(ctx, c.w.s.ParentPoll)
		}
	}
	row, err := c.w.lease(ctx, l.key)
	for err != nil {
		c.wait(ctx, taskBackoff)
		if c.over(ctx) {
			return
		}
		row, err = c.w.lease(ctx, l.key)
	}
	if row == nil {
		c.w.lose(c.h, "its row is gone")
		return
	}
	if row.checkpoint == shardEnd {
		c.w.queueForCleanup(l.key)
		return
	}
	c.read(ctx, row.checkpoint)
}

// read gives the records behind the checkpoint to the processor, until the shard ends or the lease goes.
func (c *consumer) read(ctx context.Context, checkpoint string) {
	l, _ := c.w.current(c.h)
	var iterator *string
	for {
		if c.over(ctx) {
			return
		}
		if iterator == nil {
			in := &kinesis.GetShardIteratorInput{StreamName: aws.String(c.w.s.Stream), ShardId: aws.String(l.key), ShardIteratorType: types.ShardIteratorTypeTrimHorizon}
			if checkpoint != trimHorizon {
				in.ShardIteratorType, in.StartingSequenceNumber = types.ShardIteratorTypeAtSequenceNumber, aws.String(checkpoint)
			}
			out, err := c.w.s.Kinesis.GetShardIterator(ctx, in)
			if err != nil {
				c.wait(ctx, c.w.s.IdleBetween)
				continue
			}
			iterator = out.ShardIterator
		}
		page, err := c.w.s.Kinesis.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: iterator})
		if err != nil {
			if _, ok := errors.AsType[*types.ExpiredIteratorException](err); ok {
				iterator = nil
			}
			c.wait(ctx, c.w.s.IdleBetween)
			continue
		}
		fresh := slices.DeleteFunc(page.Records, func(r types.Record) bool { return !after(aws.ToString(r.SequenceNumber), checkpoint) })
		if len(fresh) > 0 {
			if c.over(ctx) {
				return
			}
			d := Delivery{Worker: c.w.s.ID, Shard: l.key, Session: c.h.session}
			bytes := 0
			for i := range fresh {
				d.Sequences = append(d.Sequences, aws.ToString(fresh[i].SequenceNumber))
				bytes += len(fresh[i].Data)
			}
			if !c.w.s.Process(ctx, d) || ctx.Err() != nil {
				return // killed
			}
			checkpoint = d.Sequences[len(d.Sequences)-1]
			c.w.mu.Lock()
			c.h.bytes += bytes
			c.w.mu.Unlock()
			_ = c.w.checkpoint(ctx, c.h, checkpoint) // a processor that hears of the loss by this goes on until it is told (leaseLost)
		}
		if page.NextShardIterator == nil {
			c.end(ctx, page.ChildShards)
			return
		}
		iterator = page.NextShardIterator
		c.wait(ctx, c.w.s.IdleBetween)
	}
}

// end is ShutdownTask with reason SHARD_END (4.3): the children's leases, their names on the parent, SHARD_END; deletion comes later.
func (c *consumer) end(ctx context.Context, children []types.ChildShard) {
	for !c.over(ctx) {
		switch err := c.endOnce(ctx, children); {
		case err == nil:
			return
		case errors.Is(err, errLost):
			return
		default:
			c.w.note("the end of %s: %v", c.h.l.key, err)
		}
		c.wait(ctx, taskBackoff)
	}
}

var errBlocked = errors.New("one of the two parents has no lease (BlockedOnParentShardException)")

func (c *consumer) endOnce(ctx context.Context, children []types.ChildShard) error {
	l, ok := c.w.current(c.h)
	if !ok {
		return errLost
	}
	if len(children) == 1 {
		have := 0
		for _, p := range children[0].ParentShards {
			parent, err := c.w.lease(ctx, p)
			if err != nil {
				return err
			}
			if parent != nil {
				have++
			}
		}
		if len(children[0].ParentShards) != 2 {
			c.w.fault("merges %s into %s, which names %d parents", l.key, aws.ToString(children[0].ShardId), len(children[0].ParentShards))
		}
		if have == 1 {
			if c.w.chance(30) == 0 {
				c.w.lose(c.h, "given up, so that another may end the shard")
				return errLost
			}
			return errBlocked
		}
	}
	var names []string
	for i := range children {
		child := lease{key: aws.ToString(children[i].ShardId), checkpoint: trimHorizon, parents: children[i].ParentShards}
		if r := children[i].HashKeyRange; r != nil {
			child.start, child.end = aws.ToString(r.StartingHashKey), aws.ToString(r.EndingHashKey)
		}
		there, err := c.w.lease(ctx, child.key)
		if err == nil && there == nil {
			err = c.w.create(ctx, child)
		}
		if err != nil {
			return err
		}
		names = append(names, child.key)
	}
	if len(names) > 0 {
		if err := c.w.setChildren(ctx, l.key, names); err != nil && !errors.Is(err, errCondition) {
			return err
		}
		c.w.mu.Lock()
		c.h.l.children = names
		c.w.mu.Unlock()
	}
	if err := c.w.checkpoint(ctx, c.h, shardEnd); err != nil {
		return err
	}
	c.w.note("ended %s", l.key)
	c.w.queueForCleanup(l.key)
	return nil
}

var errLost = errors.New("the lease is not held (ShutdownException)")
