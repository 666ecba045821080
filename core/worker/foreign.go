package worker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/lineage"
)

// meetForeigners takes in what the store says of workers of another library that may share its table. Called before the worker starts.
func (w *Worker) meetForeigners() error {
	f := w.sharedWith()
	if f != nil && f.LeaseDuration != 0 && f.LeaseDuration < w.cfg.LeaseDuration {
		return fmt.Errorf("worker.Config.LeaseDuration is %v: must not be above that of the workers of another library that share the table, %v, who would take leases that are still held: %w", w.cfg.LeaseDuration, f.LeaseDuration, core.ErrInvalid)
	}
	w.obeyLocked(f)
	return nil
}

func (w *Worker) sharedWith() *core.Foreigners {
	if w.sharer == nil {
		return nil
	}
	return w.sharer.SharedWith()
}

// obeyLocked keeps to the rules that the last reading of the table showed. It returns what to tell where they are others than before.
func (w *Worker) obeyLocked(f *core.Foreigners) (changed string) {
	w.plainRows.Store(f != nil && f.NoThroughput)
	was := w.foreigners
	w.foreigners = f
	w.limits.shared, w.limits.finished, w.limits.kept = f != nil, f != nil && f.CountFinished, f != nil && f.KeepFinished
	w.limits.led, w.limits.guess = f != nil && f.Led, f != nil && f.LeaseDuration == 0
	w.limits.foreign = w.cfg.LeaseDuration + time.Second
	if f != nil && f.LeaseDuration != 0 {
		w.limits.foreign = f.LeaseDuration + time.Second
	}
	if regime(f) == regime(was) {
		return ""
	}
	w.table.changed, w.planned = true, nil
	return fmt.Sprintf("from %q to %q", regime(was), regime(f))
}

func regime(f *core.Foreigners) string {
	if f == nil {
		return ""
	}
	return f.Regime
}

// rules are those of the workers of another library; the zero value where there are none.
func (w *Worker) rules() core.Foreigners {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.foreigners == nil {
		return core.Foreigners{}
	}
	return *w.foreigners
}

// foreignHint is what to do about a worker of another library that was not expected.
func (w *Worker) foreignHint() string {
	if w.sharer != nil {
		return "stop it first, use another application name, or let it share the table, an option of the store (WithJava of Tablestore's, Layout of DynamoDB's)"
	}
	return "stop it first, or use another application name"
}

// alive reports whether the owner of a row counts as present for it: where workers of another library go on owning what has ended, and count it,
// theirs counts too.
func (l limits) alive(r *sighting, now time.Time) bool {
	return l.counts(r) && r.lease.Owner != core.Nobody && r.silent(now) < l.of(r) && (r.proven || !l.led)
}

// counts reports whether a row is part of its owner's share.
func (l limits) counts(r *sighting) bool {
	return !r.lease.Ended() || l.kept || l.finished && r.lease.Run == ""
}

// createPast creates leases at their end for listed shards that need none, where workers of another library would begin them at their beginning. A
// wrong one would lose the shard, so a shard must be found past in two passes. It returns when to come again.
func (w *Worker) createPast(ctx context.Context, st *stream, g *lineage.Graph) time.Duration {
	if !w.rules().LeaseListed {
		return w.cfg.ListEvery
	}
	former := st.past
	st.past = map[core.ShardID]bool{}
	var now []core.Lease
	for _, l := range g.Past() {
		if former[l.Key.Shard] {
			now = append(now, l)
		} else {
			st.past[l.Key.Shard] = true
		}
	}
	if err := w.create(ctx, st, now); err != nil && ctx.Err() == nil {
		w.storeError("create leases", core.LeaseKey{Stream: st.id}, err)
	} else if len(st.past) == 0 {
		return w.cfg.ListEvery
	}
	st.nextList = time.Now()
	return w.cfg.LookEvery
}

// ownsFinished reports whether this worker owns leases that have ended, which it then deletes itself when nothing depends on them any more: where
// workers of another library lead, each looks after its own.
func (w *Worker) ownsFinished(st *stream) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.limits.kept {
		return false
	}
	for _, r := range w.table.rows {
		if l := &r.lease; l.Ended() && l.Owner == w.cfg.ID && l.Key.Stream == st.id {
			return true
		}
	}
	return false
}

// renewFinished keeps a lease that has ended this worker's until it is deleted.
func (w *Worker) renewFinished(ctx context.Context, seen core.Lease) {
	callCtx, cancel := w.callContext(ctx)
	defer cancel()
	write := core.Renew(nil)
	row, err := w.store.Update(callCtx, seen, write.Same, write.Set)
	if err != nil {
		w.raced("renew finished lease", seen.Key, err)
		return
	}
	w.mu.Lock()
	w.table.row(row, time.Now(), w.evidence)
	w.mu.Unlock()
}

// isForeignLocked reports whether a worker is of another library, as far as can be told: it announces itself as those do, or owns leases
// without a run.
func (w *Worker) isForeignLocked(id core.WorkerID) bool {
	if p := w.table.workers[id]; p != nil {
		return p.every > 0
	}
	for _, r := range w.table.rows {
		if r.lease.Owner == id {
			return r.lease.Run == ""
		}
	}
	return false
}

// formerRunLocked reports whether the run in a row is known to be of another process than the one that announces itself as its owner: such as a worker of
// another library under the id of a former worker of this one, whose run it leaves there.
func (w *Worker) formerRunLocked(l *core.Lease) bool {
	p := w.table.workers[l.Owner]
	if p == nil {
		return false
	}
	process, _, ours := strings.Cut(p.beat.text, ".") // as announce and newRun write them
	return !ours || !strings.HasPrefix(l.Run, core.NewRun(l.Owner, process+"."))
}

// deafLocked reports whether the owner of a lease does not hear that it is asked for it, where workers of another library take: it goes on renewing,
// and has had time to say no. That is one of them, under the id of a former worker of this library. Where workers announce themselves it must
// be known to be.
func (w *Worker) deafLocked(r *sighting, now time.Time) bool {
	f, l := w.foreigners, &r.lease
	if f == nil || !f.Steal || f.Led || l.Next == core.Nobody || l.Owner == w.cfg.ID || now.Sub(r.asking) < w.deafAfter() {
		return false
	}
	return !w.announcedLocked() || w.formerRunLocked(l)
}

// deafAfter is well above the time in which a worker of this library hands over or declines.
func (w *Worker) deafAfter() time.Duration {
	return max(w.handOverDeadline(), 2*w.cfg.HandlerStopTimeout)
}

// announcedLocked reports whether workers are seen to announce themselves, as this one does.
func (w *Worker) announcedLocked() bool { return w.table.workers[w.cfg.ID] != nil }

// noteMeddler notes that a lease held here, and renewed in time, was written by somebody else in this worker's name. Once, that may be an operator's
// rewind or the leader of another library that was mistaken. Again soon, a worker of another library has this worker's id: it writes no run, and
// would go on renewing and reading what is adopted anew here each time. So the lease is left to it until it is silent.
func (w *Worker) noteMeddler(key core.LeaseKey) {
	now := time.Now()
	w.mu.Lock()
	r := w.table.rows[key]
	if r == nil {
		w.mu.Unlock()
		return
	}
	r.meddled = !r.meddler.IsZero() && now.Sub(r.meddler) < 3*w.cfg.LeaseDuration
	r.meddler = now
	meddled := r.meddled
	w.mu.Unlock()
	if meddled {
		w.emit(Event{Kind: TwinSeen, Key: key, Err: core.ErrTwin, Text: "a worker of another library renews the lease under this worker's id"})
		w.noteTwin()
	}
}
