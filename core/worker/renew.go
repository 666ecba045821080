package worker

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// renewer knows when each held lease is due: to be renewed, to have its checkpoint stored, or to be fenced off. One goroutine waits for the
// earliest; each write runs in a goroutine of its own, so a slow one delays no other, and nothing here waits for reading or handling
// (design, rule 2).
type renewer struct {
	w    *Worker
	wake chan struct{}
	crew crew

	mu    sync.Mutex
	due   dueHeap
	until time.Time // what run waits for; zero: it is not waiting
}

// dueHeap has each lease once. It belongs to the renewer's lock. Times stand beside each other, since comparing them is what costs.
type dueHeap []dueEntry

type dueEntry struct {
	at time.Duration // since the worker began
	h  *holding
}

func (d dueHeap) Len() int           { return len(d) }
func (d dueHeap) Less(i, j int) bool { return d[i].at < d[j].at }
func (d dueHeap) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].h.due.slot, d[j].h.due.slot = i, j
}
func (d *dueHeap) Push(x any) {
	h := x.(*holding)
	h.due.slot, h.due.in = len(*d), true
	*d = append(*d, dueEntry{h.due.at, h})
}
func (d *dueHeap) Pop() any {
	old := *d
	h := old[len(old)-1].h
	old[len(old)-1] = dueEntry{}
	*d = old[:len(old)-1]
	h.due.in = false
	return h
}

// due is a lease's place in the heap.
type due struct {
	at   time.Duration
	slot int
	in   bool
}

// dueLocked says when the lease needs something next, and what is due now. ok is false when it needs nothing.
func (h *holding) dueLocked(now time.Time) (at time.Time, renew, fence, ok bool) {
	if h.over {
		return at, false, false, false
	}
	fenceAt := h.goodAt.Add(h.w.trust)
	renewAt := h.retryAt
	if renewAt.IsZero() {
		renewAt = h.goodAt.Add(h.w.cfg.RenewEvery)
		if !h.ackSince.IsZero() {
			if c := h.ackSince.Add(h.w.cfg.CheckpointEvery); c.Before(renewAt) {
				renewAt = c
			}
		}
	}
	if h.failures == 0 {
		renewAt = h.w.renewer.grid(renewAt)
	}
	fence = !h.fenced && !now.Before(fenceAt)
	renew = !h.renewing && !now.Before(renewAt)
	switch {
	case h.renewing && h.fenced:
		return at, renew, fence, false // the write's end schedules it again
	case h.renewing:
		return fenceAt, renew, fence, true
	case h.fenced || renewAt.Before(fenceAt):
		return renewAt, renew, fence, true
	}
	return fenceAt, renew, fence, true
}

// schedule makes sure the lease is looked at when it is due, and not before.
func (r *renewer) schedule(h *holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	when, _, _, ok := h.dueLocked(time.Now())
	at := when.Sub(r.w.began)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch d := &h.due; {
	case !ok && d.in:
		heap.Remove(&r.due, d.slot)
	case !ok || d.in && d.at == at:
		return
	case d.in:
		d.at, r.due[d.slot].at = at, at
		heap.Fix(&r.due, d.slot)
	default:
		d.at = at
		heap.Push(&r.due, h)
	}
	if ok && when.Before(r.until) {
		poke(r.wake)
	}
}

// grid rounds a time down to one that many leases share: ten thousand renewals a lease duration are then a few wake-ups a second.
func (r *renewer) grid(at time.Time) time.Time {
	off := at.Sub(r.w.began)
	return r.w.began.Add(off - off%(r.w.cfg.RenewEvery/64+1))
}

// now makes a lease due at once, to find out what has become of it.
func (r *renewer) now(h *holding) {
	h.mu.Lock()
	if h.retryAt = time.Now(); h.over {
		h.mu.Unlock()
		return
	}
	h.mu.Unlock()
	r.schedule(h)
}

func (r *renewer) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now := time.Now()
		var ready []*holding
		wait := time.Hour
		r.mu.Lock()
		for len(r.due) > 0 {
			if d := r.due[0].at - now.Sub(r.w.began); d > 0 {
				wait = d
				break
			}
			ready = append(ready, heap.Pop(&r.due).(*holding))
		}
		if r.until = (time.Time{}); len(ready) == 0 {
			r.until = now.Add(wait)
		}
		r.mu.Unlock()
		r.serve(ctx, ready, now)
		if len(ready) > 0 {
			continue // serving may have put new entries in front
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-timer.C:
		}
	}
}

// serve does what is due for some leases. Those due together share the time limit of their calls.
func (r *renewer) serve(ctx context.Context, ready []*holding, now time.Time) {
	var due []*holding
	for _, h := range ready {
		h.mu.Lock()
		_, renew, fence, _ := h.dueLocked(now)
		if renew {
			h.renewing = true
			due = append(due, h)
		}
		h.mu.Unlock()
		if fence {
			h.fenceOff(now)
		}
		r.schedule(h)
	}
	if len(due) == 0 {
		return
	}
	callCtx, cancel := r.w.callContext(ctx)
	left := new(atomic.Int64)
	left.Store(int64(len(due)))
	for _, h := range due {
		r.crew.do(ctx, &r.w.wg, func() {
			r.renew(ctx, callCtx, h)
			if left.Add(-1) == 0 {
				cancel()
			}
		})
	}
}

// crew are goroutines that do one thing after another: a new one would grow its stack anew for each renewal, which costs more than the renewal.
type crew struct {
	work chan func()
	idle atomic.Int64
}

// mostIdle bounds the goroutines that wait for work.
const mostIdle = 64

// do has f done by a goroutine that waits for work, or by a new one. ctx ends those that wait.
func (c *crew) do(ctx context.Context, wg *sync.WaitGroup, f func()) {
	select {
	case c.work <- f:
	default:
		wg.Go(func() {
			for f := f; ; {
				f()
				if c.idle.Add(1) > mostIdle {
					c.idle.Add(-1)
					return
				}
				select {
				case f = <-c.work:
					c.idle.Add(-1)
				case <-ctx.Done():
					return
				}
			}
		})
	}
}

func (r *renewer) renew(ctx, callCtx context.Context, h *holding) {
	err := h.renew(callCtx)
	h.mu.Lock()
	h.renewing = false
	if err != nil {
		h.failures++
		pause := retryAfter(h.failures, r.w.cfg.RenewEvery)
		if h.fenced { // too late to hurry: the next look that goes well asks for it, and until then the table is spared
			pause = 3*r.w.cfg.LeaseDuration + rand.N(3*r.w.cfg.LeaseDuration)
		}
		h.retryAt = time.Now().Add(pause)
	}
	h.mu.Unlock()
	if err != nil && ctx.Err() == nil && !isLost(err) {
		r.w.count(RenewErrors, h.key, 1)
		r.w.storeError("renew lease", h.key, err)
	}
	r.schedule(h)
}

// retryAfter is the pause after the nth failed renewal in a row: at once, then longer, never so long that a short outage costs the lease.
func retryAfter(n int, every time.Duration) time.Duration {
	d := every / 40 << min(n-1, 3)
	return d/2 + rand.N(d/2+1)
}

// meter smooths the bytes that a shard delivered, as the KCL does for throughputKBps (kcl.md 3.3: KB a second, alpha 0.5).
type meter struct {
	mu    sync.Mutex
	bytes int64
	since time.Time
	kbps  float64
	any   bool
}

func (m *meter) add(n int64) {
	m.mu.Lock()
	m.bytes += n
	m.mu.Unlock()
}

// rate closes an interval; nil until something was delivered.
func (m *meter) rate(now time.Time) *float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	dt := now.Sub(m.since).Seconds()
	if m.since.IsZero() || dt <= 0 {
		m.since = now
		return nil
	}
	if m.bytes == 0 && !m.any {
		m.since = now
		return nil
	}
	now1 := float64(m.bytes) / 1024 / dt
	if m.any {
		now1 = (m.kbps + now1) / 2
	}
	m.kbps, m.any, m.bytes, m.since = now1, true, 0, now
	return new(m.kbps)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// backoff is a pause that doubles, with jitter.
type backoff struct{ next, most time.Duration }

func (b *backoff) pause() time.Duration {
	d := b.next
	b.next = min(2*b.next, b.most)
	return d/2 + rand.N(d/2+1)
}

// wait pauses; false when ctx ended first.
func (b *backoff) wait(ctx context.Context, also ...<-chan struct{}) bool {
	t := time.NewTimer(b.pause())
	defer t.Stop()
	var other <-chan struct{}
	if len(also) > 0 {
		other = also[0]
	}
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-other:
	}
	return false
}

// backoff for repeated calls to the store.
func (w *Worker) backoff() *backoff {
	return &backoff{next: w.cfg.RenewEvery / 40, most: w.cfg.RenewEvery / 2}
}

// callContext bounds one call to the store, so that one lost answer does not eat the time in which a lease could still be renewed.
func (w *Worker) callContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if by, ok := ctx.Deadline(); ok && time.Until(by) <= w.trust/4 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, w.trust/4, core.ErrUnavailable)
}
