package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// holding is a lease that this worker holds: the row as last known, and the right to process that comes from it. Every write of the lease
// goes through update or giveUp, one at a time (the token), and is judged as rule 3 of the design says.
type holding struct {
	w      *Worker
	st     *stream
	key    core.LeaseKey
	run    string
	fence  uint64        // the counter the take or accepting write left
	token  chan struct{} // held while a write is under way; a channel, so that waiting for it ends with a context
	parked chan struct{} // closed when the lease is given up or lost: nothing is written any more

	mu         sync.Mutex
	lease      core.Lease
	goodAt     time.Time // the START of the last write known to have gone through: the right lasts D_self from here
	oldest     time.Time // the start of the oldest attempt without an answer; zero: none
	unanswered int64
	failures   int           // renewals in a row that failed
	retryAt    time.Time     // after a failure: when to renew again
	renewing   bool          // a renewal is under way
	due        due           // when the renewer looks at it next; under the renewer's lock
	ack        core.Position // done by the handler and not stored yet; zero: none
	ackSince   time.Time
	over       bool          // the lease is gone or given up
	halted     bool          // by the error policy or ErrDone: held, and not processed
	fenced     bool          // not renewed in time: nothing is processed until a renewal goes through
	stored     chan struct{} // closed at the next write that goes through; nil while nobody waits
	throughput meter
	consumer   *consumer // what processes the shard; nil: nothing does
	give       *giving   // the lease is being given up; nil: it isn't
	state      ShardState
	why        string
	err        error
}

// notApplied: the service refused the write before it looked at the row, which is as it was.
func notApplied(err error) bool {
	return errors.Is(err, core.ErrThrottled) || errors.Is(err, core.ErrDenied) || errors.Is(err, core.ErrInvalid)
}

// lockWrite takes the token. It fails once the lease is over.
func (h *holding) lockWrite(ctx context.Context) error {
	select {
	case h.token <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-h.parked:
		return core.ErrLeaseLost
	}
	h.mu.Lock()
	over := h.over
	h.mu.Unlock()
	if over {
		<-h.token
		return core.ErrLeaseLost
	}
	return nil
}

func (h *holding) unlockWrite() { <-h.token }

// snapshot returns the row as last known.
func (h *holding) snapshot() core.Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease
}

// peek returns the row as last known and whether the lease is being given up.
func (h *holding) peek() (row core.Lease, giving bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease, h.give != nil || h.over
}

// trusted reports whether the right to process still stands, by this worker's own clock.
func (h *holding) trusted(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.over && now.Sub(h.goodAt) < h.w.trust
}

// update makes a write of the row as known, sends it, and finds out what became of it: nil when the row holds it now, core.ErrLeaseLost when the
// lease is gone, anything else when nothing is known or nothing was written, and the caller may try again. make is called again whenever the
// row turns out to be another than thought; it returns false when the row needs no write any more.
func (h *holding) update(ctx context.Context, make func(l *core.Lease) (core.Write, bool)) error {
	if err := h.lockWrite(ctx); err != nil {
		return err
	}
	defer h.unlockWrite()
	for range 4 {
		seen := h.snapshot()
		write, needed := make(&seen)
		if !needed {
			return nil
		}
		start := time.Now()
		callCtx, cancel := h.w.callContext(ctx)
		row, err := h.w.store.Update(callCtx, seen, write.Same, write.Set)
		cancel()
		if err == nil {
			h.wrote(row, start)
			return nil
		}
		if err := h.resolve(ctx, seen, start, err); err != nil {
			return err
		}
	}
	return &core.Error{Op: "write lease", Stream: h.key.Stream, Shard: h.key.Shard, Err: core.ErrConflict}
}

// wrote takes in the row after a write that went through and was begun at start.
func (h *holding) wrote(row core.Lease, start time.Time) {
	h.mu.Lock()
	h.lease, h.goodAt = row, start
	h.oldest, h.unanswered, h.failures, h.retryAt = time.Time{}, 0, 0, time.Time{}
	h.settleAckLocked()
	renewing := h.renewing
	h.mu.Unlock()
	if !renewing { // else the end of the renewal does it
		h.w.renewer.schedule(h)
	}
}

// resolve judges a write that failed. nil: the row is known again (taken into h.lease), make the write anew.
func (h *holding) resolve(ctx context.Context, seen core.Lease, start time.Time, err error) error {
	switch {
	case errors.Is(err, core.ErrNotFound):
		return h.lost(core.ErrNotFound)
	case errors.Is(err, core.ErrConflict):
	case notApplied(err):
		return err
	default: // the answer is lost: the write may have gone through, or may do so later
		h.mu.Lock()
		if h.unanswered == 0 {
			h.oldest = start
		}
		h.unanswered++
		h.mu.Unlock()
		return err
	}
	var row *core.Lease
	if c, ok := errors.AsType[*core.ConflictError](err); ok {
		row = c.Row
	}
	if row == nil {
		callCtx, cancel := h.w.callContext(ctx)
		defer cancel()
		got, err := h.w.store.Get(callCtx, h.key)
		if errors.Is(err, core.ErrNotFound) {
			return h.lost(err)
		}
		if err != nil {
			return err
		}
		row = &got
	}
	return h.judge(seen, *row)
}

// judge goes by owner, counter and run (rule 3).
func (h *holding) judge(seen, row core.Lease) error {
	me := h.w.cfg.ID
	if row.Owner == me && row.Run == h.run {
		h.mu.Lock()
		applied := row.Counter > seen.Counter && row.Counter <= seen.Counter+h.unanswered
		if applied {
			h.goodAt = h.oldest // never the latest attempt: that would outlive what others count (docs/model, flaw 10)
			h.oldest, h.unanswered = time.Time{}, 0
		}
		known := applied || row.Counter == seen.Counter
		if known {
			h.lease = row
			h.settleAckLocked()
		}
		h.mu.Unlock()
		if known {
			return nil
		}
		h.w.noteMeddler(h.key)
		return h.lost(&core.ConflictError{Key: h.key, Row: &row})
	}
	if row.Owner == me && row.Run != "" {
		h.w.emit(Event{Kind: TwinSeen, Key: h.key, Counter: row.Counter, Text: "the row holds run " + row.Run + ", this worker's is " + h.run, Err: core.ErrTwin})
		h.w.noteTwin()
		return h.lost(core.ErrTwin)
	}
	return h.lost(&core.ConflictError{Key: h.key, Row: &row})
}

// lost ends the right to process for good: somebody else has the lease, or the row is gone.
func (h *holding) lost(why error) error {
	h.mu.Lock()
	if h.over {
		h.mu.Unlock()
		return core.ErrLeaseLost
	}
	h.over = true
	c, counter := h.consumer, h.lease.Counter
	close(h.parked) // whoever waits for the token
	h.mu.Unlock()
	h.w.count(Lost, h.key, 1)
	h.w.emit(Event{Kind: LeaseLost, Key: h.key, Counter: counter, Err: why})
	if c != nil {
		c.end(core.ErrLeaseLost)
	}
	h.w.drop(h)
	h.w.look()
	return core.ErrLeaseLost
}

// fenceOff stops processing because the lease was not renewed in time. The lease is kept and renewed further; if a renewal still goes through,
// nobody has taken it, and processing begins again at the checkpoint.
func (h *holding) fenceOff(now time.Time) {
	h.mu.Lock()
	if h.over || h.fenced || now.Sub(h.goodAt) < h.w.trust {
		h.mu.Unlock()
		return
	}
	h.fenced = true
	c, counter, age := h.consumer, h.lease.Counter, now.Sub(h.goodAt)
	h.mu.Unlock()
	h.w.emit(Event{Kind: LeaseLost, Key: h.key, Counter: counter, Text: "not renewed for " + age.String() + "; kept trying", Err: core.ErrUnavailable})
	if c != nil {
		c.end(core.ErrLeaseLost)
	}
}

// acked notes that c has done everything up to p. It is stored with the next renewal. What comes after the right to process ended counts for
// nothing.
func (h *holding) acked(c *consumer, p core.Position) {
	if p.IsZero() {
		return
	}
	h.mu.Lock()
	if h.over || h.fenced || h.consumer != c || c.ctx.Err() != nil {
		h.mu.Unlock()
		return
	}
	h.ack = p
	first := h.ackSince.IsZero()
	if first {
		h.ackSince = time.Now()
	}
	h.mu.Unlock()
	if first && h.w.cfg.CheckpointEvery < h.w.cfg.RenewEvery {
		h.w.renewer.schedule(h)
	}
}

// forget takes back an acknowledgement that is not stored.
func (h *holding) forget(p core.Position) {
	h.mu.Lock()
	if h.ack.Equal(p) {
		h.ack, h.ackSince = core.Position{}, time.Time{}
	}
	h.mu.Unlock()
}

// reached is where processing goes on: behind the last acknowledged record.
func (h *holding) reached() core.Position {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ack.IsZero() {
		return h.ack
	}
	return h.lease.From()
}

// settleAckLocked forgets an acknowledgement that the row holds.
func (h *holding) settleAckLocked() {
	if !h.ack.IsZero() {
		if h.ackSince = time.Now(); h.lease.Checkpoint.Equal(h.ack) {
			h.ack, h.ackSince = core.Position{}, time.Time{}
		}
	}
	if h.stored != nil {
		close(h.stored)
		h.stored = nil
	}
}

// renew writes a sign of life, and with it the checkpoint that waits.
func (h *holding) renew(ctx context.Context) error {
	t := h.throughput.rate(time.Now())
	if h.w.plainRows.Load() {
		t = nil
	}
	var stored core.Position
	err := h.update(ctx, func(l *core.Lease) (core.Write, bool) {
		h.mu.Lock()
		ack := h.ack
		h.mu.Unlock()
		w := core.Renew(t)
		if stored = ack; !ack.IsZero() {
			w.Set = core.Store(ack, t).Set
		}
		return w, true
	})
	if err == nil {
		h.w.count(Renewals, h.key, 1)
		if !stored.IsZero() {
			h.checkpointed(stored)
		}
		h.unfence()
	}
	return err
}

func (h *holding) checkpointed(p core.Position) {
	h.w.count(Checkpoints, h.key, 1)
	h.w.emit(Event{Kind: Checkpoint, Key: h.key, Position: p, Counter: h.snapshot().Counter})
}

// unfence begins processing again after a late renewal that went through.
func (h *holding) unfence() {
	h.mu.Lock()
	was := h.fenced && !h.over && time.Since(h.goodAt) < h.w.trust
	if was {
		h.fenced = false
	}
	h.mu.Unlock()
	if was {
		h.w.look() // the look begins what is held and not processed
	}
}

// store writes a checkpoint and returns when the row holds it. ctx bounds the trying.
func (h *holding) store(ctx context.Context, p core.Position, set func(*core.Set)) error {
	return h.insist(ctx, func(l *core.Lease) (core.Write, bool) {
		w := core.Store(p, nil)
		if set != nil {
			set(&w.Set)
			return w, true
		}
		return w, !l.Checkpoint.Equal(p)
	})
}

// insist repeats an update until it went through, the lease is gone, or ctx or the right to write ends.
func (h *holding) insist(ctx context.Context, make func(l *core.Lease) (core.Write, bool)) error {
	b := h.w.backoff()
	for {
		err := h.update(ctx, make)
		if err == nil || errors.Is(err, core.ErrLeaseLost) {
			return err
		}
		if ctx.Err() != nil {
			return err
		}
		h.w.storeError("write lease", h.key, err)
		if !b.wait(ctx) {
			return err
		}
	}
}

// giving is a lease on its way out: why, and to whom.
type giving struct {
	why error           // core.ErrHandOver, core.ErrShutdown or core.ErrStalled
	to  core.WorkerID   // Nobody: whoever wants it
	by  context.Context // when patience ends; nil: Config.HandlerStopTimeout
}

// errUnasked: the worker that asked for the lease has taken that back.
var errUnasked = errors.New("no longer asked for")

// giveUp hands the lease to another worker, or to nobody, in one write. User code has returned and the checkpoint is in. From the moment the
// write is sent the lease is never processed again under its counter, whatever a later reading shows (docs/model, rule 6): it is repeated
// until an answer is known, and if none comes the lease is left to expire. Who asked may take that back at any time, to leave: then the write
// is a decline, which kills a hand-over that is on its way, and the error errUnasked.
func (h *holding) giveUp(ctx context.Context, g *giving) error {
	if err := h.lockWrite(ctx); err != nil {
		return err
	}
	defer h.unlockWrite()
	b, to := h.w.backoff(), g.to
	for {
		seen := h.snapshot()
		h.w.gaveUp(h.key, seen.Counter)
		w, unasked := core.Release(), errors.Is(g.why, core.ErrHandOver) && seen.Next != to
		switch {
		case unasked:
			w = core.Decline()
		case to != core.Nobody:
			w = core.HandOver(to)
		}
		start := time.Now()
		callCtx, cancel := h.w.callContext(ctx)
		row, err := h.w.store.Update(callCtx, seen, w.Same, w.Set)
		cancel()
		switch {
		case err == nil && unasked:
			h.wrote(row, start)
			return errUnasked
		case err == nil:
			h.w.noteRow(row)
			h.gone(to, row.Counter)
			return nil
		}
		err = h.resolveGift(ctx, seen, start, err, to)
		if err == nil || errors.Is(err, core.ErrLeaseLost) {
			return err
		}
		if !b.wait(ctx) {
			h.end()
			return err
		}
	}
}

// resolveGift judges a hand-over or release that failed: nil when it went through after all, core.ErrConflict when the row is known again and the
// write can be made anew.
func (h *holding) resolveGift(ctx context.Context, seen core.Lease, start time.Time, err error, to core.WorkerID) error {
	if !errors.Is(err, core.ErrConflict) {
		return h.resolve(ctx, seen, start, err)
	}
	callCtx, cancel := h.w.callContext(ctx)
	row, err := h.w.store.Get(callCtx, h.key)
	cancel()
	switch {
	case errors.Is(err, core.ErrNotFound):
		return h.lost(err)
	case err != nil:
		return err
	case row.Owner == h.w.cfg.ID:
		if lost := h.judge(seen, row); lost != nil {
			return lost
		}
		return core.ErrConflict
	case h.hasUnanswered(): // the owner is another: an earlier try went through
		h.gone(to, row.Counter)
		return nil
	}
	return h.lost(&core.ConflictError{Key: h.key, Row: &row})
}

func (h *holding) hasUnanswered() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unanswered > 0
}

// gone ends the holding after the lease was given away.
func (h *holding) gone(to core.WorkerID, counter int64) {
	if !h.end() {
		return
	}
	if to == core.Nobody {
		h.w.emit(Event{Kind: LeaseReleased, Key: h.key, Counter: counter})
	} else {
		h.w.count(HandedOver, h.key, 1)
		h.w.emit(Event{Kind: LeaseHandedOver, Key: h.key, Other: to, Counter: counter})
	}
}

// end takes the lease out of this worker's hands without a word about it.
func (h *holding) end() bool {
	h.mu.Lock()
	was := h.over
	h.over = true
	if !was {
		close(h.parked)
	}
	h.mu.Unlock()
	if !was {
		h.w.drop(h)
	}
	return !was
}

// set notes what is going on, for Status.
func (h *holding) set(s ShardState, why string, err error) {
	h.mu.Lock()
	h.state, h.why, h.err = s, why, err
	h.mu.Unlock()
}
