package kclsim

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// renewAll is one round of the renewer.
func (w *Worker) renewAll(ctx context.Context) {
	w.mu.Lock()
	all := make([]*held, 0, len(w.held))
	for _, h := range w.held {
		all = append(all, h)
	}
	w.mu.Unlock()
	var round sync.WaitGroup
	for _, h := range all {
		round.Go(func() { w.renew(ctx, h) })
	}
	round.Wait()
}

func (w *Worker) renew(ctx context.Context, h *held) {
	if !h.acquire(ctx) {
		return
	}
	defer h.release()
	w.mu.Lock()
	l, requested, mine, age := h.l, !h.requested.IsZero(), w.held[h.l.key] == h, time.Since(h.renewed)
	w.mu.Unlock()
	if !mine {
		return
	}
	if age > w.s.Failover {
		w.lose(h, "not renewed in time")
		return
	}
	watchful := w.s.Version >= V34 && !requested
	before, err := w.renewRow(ctx, l, watchful, w.throughput(h))
	switch {
	case err == nil:
		w.renewed(h, func() {})
	case !errors.Is(err, errCondition): // its state is unknown
	case watchful && before != nil && textOf(before, "checkpointOwner") != "":
		w.hear(ctx, h, before)
	default:
		// Perhaps the request before this one went through and its answer was lost.
		row, err := w.lease(ctx, l.key)
		owner := l.actualOwner()
		if err == nil && row != nil && row.owner == owner && row.counter == l.counter+1 {
			w.renewed(h, func() {})
		} else if err == nil {
			w.lose(h, "another has changed the row")
		}
	}
	if requested {
		w.askConsumer(h)
	}
}

// renewRow bumps the counter. A 3.x worker that knows of no hand-over demands that there is none.
func (w *Worker) renewRow(ctx context.Context, l lease, watchful bool, throughput string) (item, error) {
	u := write{at: w.leases(), key: l.key, condition: "leaseCounter = :c", expression: "SET leaseCounter = :n", values: item{":c": num(l.counter), ":n": num(l.counter + 1)}}
	if watchful {
		u.condition += " AND attribute_not_exists(checkpointOwner)"
	}
	if throughput != "" {
		u.expression += ", throughputKBps = :t"
		u.values[":t"] = &types.AttributeValueMemberN{Value: throughput}
	}
	return w.update(ctx, u)
}

// throughput is what a renewal tells of it; "" before there is anything to tell, and in 2.x.
func (w *Worker) throughput(h *held) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.s.Version < V34 || h.bytes == 0 && !h.measured {
		return ""
	}
	now := float64(h.bytes) / 1024 / w.s.renewEvery().Seconds()
	if h.kbps = (h.kbps + now) / 2; !h.measured {
		h.kbps = now
	}
	h.bytes, h.measured = 0, true
	return strconv.FormatFloat(h.kbps, 'f', 6, 64)
}

func (w *Worker) renewed(h *held, also func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h.l.counter++
	h.renewed = time.Now()
	also()
}

// hear takes in that a hand-over was asked for, from the row that a renewal was refused with.
func (w *Worker) hear(ctx context.Context, h *held, before item) {
	owner, former := textOf(before, "leaseOwner"), textOf(before, "checkpointOwner")
	if former != w.s.ID || owner == former {
		w.lose(h, "handed over to "+owner+" by "+former)
		return
	}
	w.mu.Lock()
	h.l.owner, h.l.checkpointOwner, h.requested = owner, former, time.Now()
	l := h.l
	w.mu.Unlock()
	w.note("is asked to hand over %s to %s", l.key, owner)
	if _, err := w.renewRow(ctx, l, false, ""); err == nil {
		w.renewed(h, func() {})
	} else if errors.Is(err, errCondition) {
		w.lose(h, "another has changed the row")
		return
	}
	w.askConsumer(h)
}

// checkpoint stores how far a shard has come. errLost: the lease is not held, and the processor goes no further.
func (w *Worker) checkpoint(ctx context.Context, h *held, at string) error {
	if !h.acquire(ctx) {
		return ctx.Err()
	}
	defer h.release()
	l, ok := w.current(h)
	if !ok {
		return errLost
	}
	u := write{at: w.leases(), key: l.key, condition: "leaseCounter = :c", values: item{":c": num(l.counter), ":n": num(l.counter + 1), ":at": str(at), ":zero": num(0)}}
	u.expression = "SET leaseCounter = :n, checkpoint = :at, checkpointSubSequenceNumber = :zero, ownerSwitchesSinceCheckpoint = :zero"
	if len(l.children) > 0 {
		u.expression += ", childShardIds = :ch"
		u.values[":ch"] = &types.AttributeValueMemberSS{Value: l.children}
	}
	if l.start != "" {
		u.expression += ", startingHashKey = :s, endingHashKey = :e"
		u.values[":s"], u.values[":e"] = str(l.start), str(l.end)
	}
	u.expression += " REMOVE pendingCheckpoint, pendingCheckpointSubSequenceNumber, pendingCheckpointState"
	switch _, err := w.update(ctx, u); {
	case errors.Is(err, errCondition):
		w.lose(h, "a checkpoint was refused")
		return errLost
	case err != nil:
		return err
	}
	w.renewed(h, func() { h.l.checkpoint = at })
	return nil
}
