package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/balance"
)

// AbandonedError names the shards whose handlers had not returned when the time for a graceful stop was over. Their leases are left to expire:
// to hand them on would let two handlers run at once.
type AbandonedError struct{ Shards []core.LeaseKey }

func (e *AbandonedError) Error() string {
	names := make([]string, len(e.Shards))
	for i, k := range e.Shards {
		names[i] = k.String()
	}
	return fmt.Sprintf("%d shards abandoned, their handlers have not returned: %s", len(names), strings.Join(names, ", "))
}

// Shutdown stops the worker gracefully: no more leases are taken; handlers may finish the batch at hand; what they acknowledged is stored;
// leases are handed on to workers that are present, or released. It returns when Run has returned, with Run's error. If ctx ends
// first, handlers still running are told so (their context ends) and their shards are abandoned: [*AbandonedError]. Before Run it only
// keeps Run from starting. It may be called any number of times, and whoever has the least patience is heard. A handler that calls it
// waits for itself: it passes its own context on, which ends in time, or calls it in the background.
func (w *Worker) Shutdown(ctx context.Context) error {
	w.mu.Lock()
	fresh := w.state == stateNew
	w.mu.Unlock()
	if fresh {
		select {
		case w.stop <- stopRequest{ctx}:
		default: // somebody asked already
		}
		return nil
	}
	select {
	case w.stop <- stopRequest{ctx}:
	case <-w.stopped:
	}
	<-w.stopped
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runErr
}

// release gives every lease away within patience. Handlers have the time soft to finish by themselves; then their contexts end. A clean stop
// returns nil.
func (w *Worker) release(patience context.Context, soft time.Duration) error {
	w.seeWhoStays(patience)
	w.unask(patience)
	w.mu.Lock()
	held := make([]*holding, 0, len(w.held))
	keys := make([]core.LeaseKey, 0, len(w.held))
	for k, h := range w.held {
		held = append(held, h)
		keys = append(keys, k)
	}
	to := w.spreadLocked(keys)
	w.mu.Unlock()
	var g group
	for _, h := range held {
		w.giveAwayIn(&g, h, giving{why: core.ErrShutdown, to: to[h.key], by: patience})
	}
	defer time.AfterFunc(soft, func() { w.cancelAll(core.ErrShutdown) }).Stop()
	g.wait()
	w.cancelAll(core.ErrShutdown)
	var left []core.LeaseKey
	w.mu.Lock()
	running := make([]*consumer, 0, len(w.running))
	for _, c := range w.running {
		running = append(running, c)
	}
	w.mu.Unlock()
	for _, c := range running {
		select {
		case <-c.done:
		case <-patience.Done():
			select {
			case <-c.done:
			default:
				left = append(left, c.h.key)
			}
		}
	}
	if len(left) == 0 {
		return nil
	}
	slices.SortFunc(left, func(a, b core.LeaseKey) int { return strings.Compare(a.String(), b.String()) })
	return &AbandonedError{left}
}

// seeWhoStays looks once more: who was present at the last look may have stopped since, and a lease handed to it would wait to expire.
func (w *Worker) seeWhoStays(ctx context.Context) {
	sight, err := w.see(ctx, w.streamIDs())
	if err != nil {
		w.storeError("look", core.LeaseKey{}, err)
		return
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.table.read(sight, now, w.evidence)
	w.present = w.table.present(w.cfg.ID, now, w.limits)
}

// unask takes back what this worker asked for: what is handed to it after its sweep would wait to expire.
func (w *Worker) unask(ctx context.Context) {
	var asked []core.Lease
	w.mu.Lock()
	for _, r := range w.table.rows {
		if r.lease.Next == w.cfg.ID && r.lease.Owner != w.cfg.ID && !r.lease.Ended() {
			asked = append(asked, r.lease)
		}
	}
	w.mu.Unlock()
	var g group
	for _, l := range asked {
		g.do(func() {
			callCtx, cancel := w.callContext(ctx)
			defer cancel()
			write := core.Unask()
			if _, err := w.store.Update(callCtx, l, write.Same, write.Set); err != nil {
				w.raced("take back an ask", l.Key, err)
			}
		})
	}
	g.wait()
}

// sweep gives back what was handed to this worker while it stopped, and what it took or gave up without an answer: otherwise that waits to expire. It
// reports whether all of it was answered.
func (w *Worker) sweep(ctx context.Context) bool {
	sight, err := w.see(ctx, w.streamIDs())
	if err != nil {
		w.storeError("look", core.LeaseKey{}, err)
		return false
	}
	var g group
	var unanswered atomic.Bool
	give := func(f func() error) {
		g.do(func() {
			if err := f(); err != nil && !errors.Is(err, core.ErrConflict) && !errors.Is(err, core.ErrNotFound) {
				unanswered.Store(true)
			}
		})
	}
	var mine []core.Lease
	var keys []core.LeaseKey
	w.mu.Lock()
	for _, l := range sight.Leases {
		given := l.Owner == w.cfg.ID && !l.Ended() && (l.Run == "" || w.myRun(l.Run))
		if given && w.held[l.Key] == nil && w.running[l.Key] == nil {
			mine, keys = append(mine, l), append(keys, l.Key)
		}
	}
	to := w.spreadLocked(keys)
	w.mu.Unlock()
	for _, l := range mine {
		switch to := to[l.Key]; {
		case to != core.Nobody && l.Run == "": // it was given to this worker, and nothing ran for it
			give(func() error { return w.passOn(ctx, l, to) })
		default:
			give(func() error { return w.releaseAgain(ctx, l) })
		}
	}
	g.wait()
	return !unanswered.Load()
}

func (w *Worker) cancelAll(why error) {
	w.mu.Lock()
	running := make([]*consumer, 0, len(w.running))
	for _, c := range w.running {
		running = append(running, c)
	}
	w.mu.Unlock()
	for _, c := range running {
		c.end(why)
	}
}

// spreadLocked says to whom each lease goes when this worker leaves: to those known to live, evenly; nobody where there is nobody.
func (w *Worker) spreadLocked(keys []core.LeaseKey) map[core.LeaseKey]core.WorkerID {
	return w.spreadButLocked(w.cfg.ID, keys)
}

// spreadButLocked says the same of workers other than except; Nobody: of all.
func (w *Worker) spreadButLocked(except core.WorkerID, keys []core.LeaseKey) map[core.LeaseKey]core.WorkerID {
	in := balance.Input{Seed: w.seed}
	for _, id := range w.candidatesLocked(w.present) {
		in.Workers = append(in.Workers, balance.Worker{ID: id, Cap: w.cfg.MaxLeases})
	}
	for _, r := range w.table.rows {
		if !r.lease.Ended() {
			in.Leases = append(in.Leases, balance.Lease{Key: r.lease.Key, Owner: r.lease.Owner, Next: r.lease.Next, Weight: r.lease.Throughput})
		}
	}
	return balance.Spread(in, except, keys)
}

// giveAway gives a lease up in the background.
func (w *Worker) giveAway(h *holding, g giving) { w.giveAwayIn(nil, h, g) }

func (w *Worker) giveAwayIn(in *group, h *holding, g giving) {
	h.mu.Lock()
	if h.over || h.give != nil && !errors.Is(g.why, core.ErrShutdown) {
		h.mu.Unlock()
		return
	}
	h.give = &g
	c := h.consumer
	h.state, h.why = Draining, ""
	h.mu.Unlock()
	run := func() { w.drainAndGive(h, c, &g) }
	if in != nil {
		in.do(run)
	} else {
		w.wg.Go(run)
	}
}

// drainAndGive lets user code return, stores what it acknowledged, and gives the lease away in one write (design, rule 8).
func (w *Worker) drainAndGive(h *holding, c *consumer, g *giving) {
	by := g.by
	if by == nil {
		ctx, cancel := context.WithTimeout(w.base, w.cfg.HandlerStopTimeout)
		defer cancel()
		by = ctx
	}
	if c != nil {
		c.drainFor(g.why)
		select {
		case <-c.done:
		case <-by.Done():
			select {
			case <-c.done:
			default:
				if !errors.Is(g.why, core.ErrShutdown) {
					w.decline(h, "the handler did not return in time")
				}
				return // its handler still runs: the lease is kept, or left to expire
			}
		}
	}
	if g.by == nil {
		// The handler may have used up its time: what is written now has time of its own.
		ctx, cancel := context.WithTimeout(w.base, w.cfg.LeaseDuration)
		defer cancel()
		by = ctx
	}
	if h.fencedOff() {
		h.resume(g)
		return
	}
	if errors.Is(g.why, core.ErrHandOver) && !w.isPresent(g.to) {
		w.decline(h, "it is no longer present")
		return
	}
	ack := func() core.Position { h.mu.Lock(); defer h.mu.Unlock(); return h.ack }()
	if !ack.IsZero() {
		if err := h.store(by, ack, nil); err != nil {
			if !isLost(err) {
				h.resume(g)
			}
			return
		}
		h.checkpointed(ack)
	}
	if c != nil && w.cfg.Checkpoints == Manual && c.records.Load() > 0 && h.snapshot().Checkpoint.IsStart() {
		w.log.Warn("the shard moves without any checkpoint: all its records will come again", "stream", h.key.Stream, "shard", h.key.Shard)
	}
	switch err := h.giveUp(by, g); {
	case errors.Is(err, errUnasked):
		h.resume(g)
		w.emit(Event{Kind: LeaseDeclined, Key: h.key, Other: g.to, Text: "it asks no longer"})
	case err != nil && !isLost(err):
		w.storeError("give up lease", h.key, err)
		h.resume(g) // where nothing was sent the lease is held still
	}
}

// isPresent reports whether a worker was present at the last look, as far as one that owns nothing yet can be seen.
func (w *Worker) isPresent(id core.WorkerID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.presenceSeenLocked() || slices.Contains(w.present, id)
}

func (h *holding) fencedOff() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fenced
}

// resume ends a give-away that did not come about: the lease is processed further.
func (h *holding) resume(g *giving) {
	h.mu.Lock()
	if h.give == g || g == nil {
		h.give = nil
	}
	h.mu.Unlock()
	h.w.look()
}

// decline says no to the worker that asks, and goes on. The write bumps the counter, which kills a hand-over that may be on its way.
func (w *Worker) decline(h *holding, why string) {
	var other core.WorkerID
	err := h.update(w.base, func(l *core.Lease) (core.Write, bool) {
		if other == core.Nobody {
			other = l.Next
		}
		return core.Decline(), l.Next != core.Nobody || other == core.Nobody
	})
	h.resume(nil)
	if err != nil {
		w.raced("decline hand-over", h.key, err)
		return
	}
	w.emit(Event{Kind: LeaseDeclined, Key: h.key, Other: other, Text: why})
}
