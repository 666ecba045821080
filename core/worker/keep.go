package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/lineage"
)

// keepLoop keeps the set of leases right: it lists shards, creates what is missing, audits and cleans up. One worker does this for all
// (see listerLocked), so that listing costs one call a minute and stream; each of these steps may be done twice without harm. Each stream
// has a keeper of its own: one that is throttled or does not answer keeps no other waiting.
func (w *Worker) keepLoop(ctx context.Context) {
	var keepers sync.WaitGroup
	defer keepers.Wait()
	kept := map[*stream]bool{}
	for {
		for _, st := range w.streamList() {
			if !kept[st] {
				kept[st] = true
				keepers.Go(func() { w.keepStream(ctx, st) })
			}
		}
		maps.DeleteFunc(kept, func(st *stream, _ bool) bool { return isClosed(st.retired) })
		select {
		case <-ctx.Done():
			return
		case <-w.keepNow:
		}
		for _, st := range w.streamList() {
			poke(st.keepNow)
		}
	}
}

// keepStream is the keeper of one stream, until it is retired.
func (w *Worker) keepStream(ctx context.Context, st *stream) {
	timer := time.NewTimer(w.cfg.ListEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-st.retired:
			return
		case <-timer.C:
		case <-st.keepNow:
		}
		timer.Reset(max(w.keep(ctx, st), time.Millisecond))
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// keep is one pass over one stream. It returns when to come again.
func (w *Worker) keep(ctx context.Context, st *stream) time.Duration {
	now := time.Now()
	w.mu.Lock()
	if w.table.looks == 0 || !w.taking {
		w.mu.Unlock()
		return w.cfg.LookEvery
	}
	lister := w.listerLocked()
	alone := len(w.present) <= 1
	in := w.lineageLocked(st)
	wanted := st.wanted
	st.wanted = false
	shardEnded := st.ended
	st.ended = false
	looks := w.table.looks
	w.mu.Unlock()

	bootstrap := len(in.Leases) == 0 && len(in.Bad) == 0
	if bootstrap && !lister && !w.single && now.Sub(st.since) >= 2*w.cfg.ListEvery {
		lister = true // who lists for all has another catalog, as while a deployment is under way: somebody must begin
	}
	audit := lister && (now.Sub(st.audited) >= w.cfg.AuditEvery || shardEnded && w.cfg.AuditAtShardEnd)
	tidy := !lister && w.ownsFinished(st) && now.Sub(st.cleaned) >= w.cfg.CleanupEvery
	due := lister && (bootstrap || audit || !now.Before(st.nextList) || len(st.owed) > 0) || tidy
	if !due && !wanted {
		return w.checkSame(ctx, st, now)
	}
	if !bootstrap {
		st.empty = 0
	} else if st.empty == 0 && !alone {
		// Another has just looked too, and may believe itself the first. One more look, and its leases stand there.
		st.empty = looks
		w.look()
		return w.cfg.LookEvery
	} else if st.empty == looks {
		return w.cfg.LookEvery / 10
	}
	if err := w.list(ctx, st, &in); err != nil {
		return w.keepFailed(ctx, st, err)
	}
	wait, err := w.settleStart(ctx, st, &in)
	switch {
	case err != nil:
		return w.keepFailed(ctx, st, err)
	case wait > 0:
		return wait
	case !lister:
		if tidy {
			st.cleaned = now
			w.cleanUp(ctx, st, lineage.New(in), now)
		}
		w.look()
		return w.cfg.ListEvery
	}
	st.nextList = now.Add(w.cfg.ListEvery)
	graph := lineage.New(in)
	foreigners := w.rules()
	again := w.createOwed(ctx, st, &in, graph, bootstrap)
	if !bootstrap { // those that begin at once must have agreed on the start
		again = min(again, w.createPast(ctx, st, graph))
	} else if foreigners.LeaseListed {
		again, st.nextList = w.cfg.LookEvery, now
	}
	if audit {
		st.audited = now
		w.audit(st, graph)
	}
	if now.Sub(st.cleaned) >= w.cfg.CleanupEvery {
		st.cleaned = now
		w.cleanUp(ctx, st, graph, now)
	}
	return again
}

// listerLocked reports whether this worker lists shards for all: the leader where there is one, whom workers of another library would
// choose of those present where they may be there, else the first of those present, by id.
func (w *Worker) listerLocked() bool {
	if f := w.foreigners; f != nil && f.Led {
		return w.leadsLocked(time.Now())
	} else if f != nil && f.Lister != nil {
		// Those that live: what has ended may name for ever a worker that is gone. To list where one of the others does, too, is no harm.
		owners := slices.DeleteFunc(w.table.ownersNamed(), func(id core.WorkerID) bool { _, here := slices.BinarySearch(w.present, id); return !here })
		if len(owners) > 0 {
			return f.Lister(owners) == w.cfg.ID
		}
	}
	return len(w.present) > 0 && w.present[0] == w.cfg.ID
}

func (w *Worker) keepFailed(ctx context.Context, st *stream, err error) time.Duration {
	if ctx.Err() != nil {
		return w.cfg.ListEvery // the stop ended the call
	}
	err = &core.Error{Op: "list shards", Stream: st.id, Err: err}
	w.mu.Lock()
	st.listErr = err
	only := len(w.streams) <= 1
	w.mu.Unlock()
	w.emit(Event{Kind: ReadError, Key: core.LeaseKey{Stream: st.id}, Err: err})
	if only && errors.Is(err, core.ErrDenied) && w.noLeases() {
		w.fail(err)
	}
	st.nextList = time.Now()
	if errors.Is(err, core.ErrDenied) || errors.Is(err, core.ErrNotFound) {
		return w.cfg.ListEvery // that does not pass within seconds
	}
	return w.cfg.LookEvery
}

// list makes a complete listing of the stream, which must be the one that the worker began with: under the same name there may be another by now,
// with shards of the same ids, and it must not inherit leases.
func (w *Worker) list(ctx context.Context, st *stream, in *lineage.Input) error {
	if err := w.isSame(ctx, st); err != nil {
		return err
	}
	var shards []core.Shard
	err := safely("list shards", func() (err error) { shards, err = st.source.Shards(ctx, core.Position{}); return err })
	if err != nil {
		return err
	}
	w.mu.Lock()
	st.listing, st.listErr = shards, nil
	w.mu.Unlock()
	in.Shards, in.Listed = shards, true
	return nil
}

// isSame reports an error unless the stream is there and is the one that the worker consumes. Of several streams, one that has become another is
// retired, and one that is gone is if nobody reads it here: reads find that out by themselves, and may still find something.
func (w *Worker) isSame(ctx context.Context, st *stream) error {
	var info core.StreamInfo
	err := safely("describe stream", func() (err error) { info, err = st.source.Describe(ctx); return err })
	switch {
	case err == nil && info.ID == st.id:
		return nil
	case err == nil && !w.single:
		w.retire(st, errMadeAnew)
		return fmt.Errorf("the stream was deleted and made again: it was %s, and is %s now: %w", st.id, info.ID, core.ErrOtherStream)
	case err == nil:
		err := fmt.Errorf("the stream was deleted and made again: it was %s, and is %s now; the leases are the former's, so give the new one another application name or delete them: %w", st.id, info.ID, core.ErrOtherStream)
		w.fail(err)
		return err
	case w.goneWith(err) && (errors.Is(err, core.ErrOtherStream) || !w.reads(st)):
		w.retire(st, fmt.Errorf("%w: %w", ErrStreamRetired, err))
	}
	return err
}

// reads reports whether a lease of a stream is held here.
func (w *Worker) reads(st *stream) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.held {
		if h.st == st {
			return true
		}
	}
	return false
}

// checkSame asks now and then, on a worker that reads a stream and does not list it, whether it is still the same: altogether the workers ask once
// more a minute than the lister does.
func (w *Worker) checkSame(ctx context.Context, st *stream, now time.Time) time.Duration {
	w.mu.Lock()
	every := time.Duration(max(len(w.present), 1)) * w.cfg.ListEvery
	lister := w.listerLocked()
	w.mu.Unlock()
	if w.single || lister || !w.reads(st) {
		return w.cfg.ListEvery
	}
	if st.checked.IsZero() {
		st.checked = now
	}
	if now.Sub(st.checked) < every {
		return w.cfg.ListEvery
	}
	st.checked = now
	if err := w.isSame(ctx, st); err != nil {
		return w.keepFailed(ctx, st, err)
	}
	return w.cfg.ListEvery
}

// settleStart fixes the instant at which the application begins, once, and finds the shards that were open then. A start in the future is
// waited for.
func (w *Worker) settleStart(ctx context.Context, st *stream, in *lineage.Input) (wait time.Duration, err error) {
	start, resolve := lineage.StartOf(*in)
	if resolve {
		if st.instant.IsZero() {
			st.instant = st.now(ctx)
		}
		start.Time = st.instant
	}
	if d := time.Until(start.Time); start.Anchor == core.AtTime && d > 0 {
		w.setWaiting(st, fmt.Sprintf("%s begins at %s", st.id, start.Time.Format(time.RFC3339)))
		return min(d, w.cfg.ListEvery), nil
	}
	w.setWaiting(st, "")
	in.Start = start
	if lineage.New(*in).NeedsStart() {
		var open []core.Shard
		err = safely("list shards", func() (err error) { open, err = st.source.Shards(ctx, start); return err })
		if err != nil {
			return 0, err
		}
		in.OpenAtStart = lineage.IDs(open)
	}
	w.mu.Lock()
	st.begins, st.openThen = in.Start, in.OpenAtStart
	st.fresh, w.table.changed = true, true
	w.mu.Unlock()
	return 0, nil
}

// createOwed creates the leases that lineage owes. It returns when to come again.
func (w *Worker) createOwed(ctx context.Context, st *stream, in *lineage.Input, g *lineage.Graph, bootstrap bool) time.Duration {
	owed, err := g.Create()
	if err != nil {
		w.emit(Event{Kind: HoleFound, Key: core.LeaseKey{Stream: st.id}, Err: err, Text: "the listing contradicts itself; what can be decided is created"})
	}
	former := st.owed
	st.owed = map[core.ShardID]bool{}
	leased := map[core.ShardID]bool{} // parents of leases that exist
	for i := range in.Leases {
		for _, p := range in.Leases[i].Parents {
			leased[p] = true
		}
	}
	var now []core.Lease
	for _, l := range owed {
		if leased[l.Key.Shard] && !former[l.Key.Shard] {
			// A torn reading may show a child as not begun and its parent as deleted already: the same answer twice, or none.
			st.owed[l.Key.Shard] = true
			continue
		}
		now = append(now, l)
	}
	if err := w.create(ctx, st, now); err != nil && ctx.Err() == nil {
		w.storeError("create leases", core.LeaseKey{Stream: st.id}, err)
		st.nextList = time.Now()
		return w.cfg.LookEvery
	}
	if bootstrap && in.Start.Anchor == core.Latest {
		w.yieldToEarlierStart(ctx, st, in.Start.Time)
	}
	if len(now)+len(st.owed) > 0 {
		w.look()
	}
	if len(st.owed) > 0 {
		return w.cfg.LookEvery
	}
	return w.cfg.ListEvery
}

// yieldToEarlierStart withdraws the leases of this worker's bootstrap if another's shows an earlier instant: two that begin at once must agree,
// or a shard and its children begin side by side. Only leases that nobody has touched go; what is missing then is created anew.
func (w *Worker) yieldToEarlierStart(ctx context.Context, st *stream, mine time.Time) {
	callCtx, cancel := w.callContext(ctx)
	defer cancel()
	sight, err := core.See(callCtx, w.store, st.id)
	if err != nil {
		if ctx.Err() == nil {
			w.storeError("look", core.LeaseKey{Stream: st.id}, err)
		}
		return
	}
	earlier := slices.ContainsFunc(sight.Leases, func(l core.Lease) bool { return !l.StartAt.IsZero() && l.StartAt.Before(mine) })
	if !earlier {
		return
	}
	for _, l := range sight.Leases {
		if l.Counter == 0 && l.Owner == core.Nobody && l.StartAt.Equal(mine) {
			if err := w.store.Delete(callCtx, l, core.SameCounter|core.NotEnded); err != nil && !errors.Is(err, core.ErrConflict) {
				w.storeError("delete lease", l.Key, err)
			}
		}
	}
	st.nextList = time.Time{}
}

// create makes leases, each once; that another was quicker is no error. Errors of many are gathered.
func (w *Worker) create(ctx context.Context, st *stream, leases []core.Lease) error {
	holds := true
	if s, ok := w.store.(core.StartHolder); ok {
		holds = s.HoldsStart()
	}
	var g group
	errs := make([]error, len(leases))
	for i, l := range leases {
		g.do(func() {
			start := l.Checkpoint.Anchor == core.Latest || l.Checkpoint.Anchor == core.AtTime
			if start && st.fixer != nil && (!holds || st.lacks.StartTime) {
				at, err := st.fixer.Resolve(ctx, core.Shard{ID: l.Key.Shard, Parents: l.Parents, Range: l.Range}, l.From())
				if err != nil {
					errs[i] = &core.Error{Op: "resolve start", Stream: l.Key.Stream, Shard: l.Key.Shard, Err: err}
					return
				}
				l.Checkpoint = at // StartAt stays: others begin their part at the same instant
			}
			callCtx, cancel := w.callContext(ctx)
			defer cancel()
			row, err := w.store.Create(callCtx, l)
			switch {
			case err == nil:
				w.emit(Event{Kind: LeaseCreated, Key: row.Key, Position: row.From(), Counter: row.Counter})
			case !errors.Is(err, core.ErrExists):
				errs[i] = &core.Error{Op: "create lease", Stream: l.Key.Stream, Shard: l.Key.Shard, Err: err}
			}
		})
	}
	g.wait()
	return multierror.Append(nil, errs...).ErrorOrNil()
}

// listing is one that several wait for.
type listing struct {
	began  time.Time     // or will
	done   chan struct{} // closed when what follows is known
	shards []core.Shard
	err    error
}

// freshShards is a complete listing that began after the call. Shards that end together share one, and there is one in LookEvery at most (field
// case F62).
func (w *Worker) freshShards(ctx context.Context, st *stream) ([]core.Shard, error) {
	since := time.Now()
	for {
		w.mu.Lock()
		l := st.shared
		mine := l == nil
		if !mine && l.began.Before(since) || !mine && l.err != nil {
			select {
			case <-l.done:
				mine = true
			default: // too early for this end: the next one, when this one is done
			}
		}
		if mine {
			l = &listing{began: since, done: make(chan struct{})}
			if former := st.shared; former != nil && former.began.Add(w.cfg.LookEvery).After(since) {
				l.began = former.began.Add(w.cfg.LookEvery)
			}
			st.shared = l
		}
		w.mu.Unlock()
		if mine {
			shards, err := w.listAt(ctx, st, l.began)
			w.mu.Lock()
			l.shards, l.err = shards, err
			w.mu.Unlock()
			close(l.done)
			return shards, err
		}
		select {
		case <-l.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if l.err == nil && !l.began.Before(since) {
			return l.shards, nil
		}
	}
}

// listAt lists when the time has come.
func (w *Worker) listAt(ctx context.Context, st *stream, at time.Time) ([]core.Shard, error) {
	if wait := time.Until(at); wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	var in lineage.Input
	err := w.list(ctx, st, &in)
	return in.Shards, err
}

// childrenOf finds the children of a shard that ended, where its reader did not name them.
func (w *Worker) childrenOf(ctx context.Context, h *holding) ([]core.Shard, error) {
	shards, err := w.freshShards(ctx, h.st)
	if err != nil {
		return nil, err
	}
	var out []core.Shard
	open := false
	for _, s := range shards {
		if slices.Contains(s.Parents, h.key.Shard) {
			out = append(out, s)
		}
		open = open || s.ID == h.key.Shard && !s.Closed
	}
	if open && len(out) == 0 {
		return nil, &core.Error{Op: "list children", Stream: h.key.Stream, Shard: h.key.Shard, Err: fmt.Errorf("its reader says it has ended, and the listing shows it open: the listing is older than its end, or the reader is wrong: %w", core.ErrUnavailable)}
	}
	return out, nil
}

// createChildren creates the leases of a shard's children, at their beginning.
func (w *Worker) createChildren(ctx context.Context, h *holding, children []core.Shard) error {
	w.mu.Lock()
	in := w.lineageLocked(h.st)
	h.st.ended = true
	w.mu.Unlock()
	return w.create(ctx, h.st, lineage.ChildLeases(in, h.key.Shard, children))
}

// shardGone reports whether a complete listing no longer shows the shard.
func (w *Worker) shardGone(ctx context.Context, h *holding) bool {
	var in lineage.Input
	if err := w.list(ctx, h.st, &in); err != nil {
		if w.goneWith(err) {
			w.retire(h.st, fmt.Errorf("%w: %w", ErrStreamRetired, err))
		}
		return false
	}
	return !slices.ContainsFunc(in.Shards, func(s core.Shard) bool { return s.ID == h.key.Shard })
}

// audit counts the holes that no lease covers, and reports those seen often enough. What repairs them is the listing each minute.
func (w *Worker) audit(st *stream, g *lineage.Graph) {
	seen := map[lineage.Hole]int{}
	for _, hole := range g.Audit() {
		n := st.holes[hole] + 1
		seen[hole] = n
		if n >= w.cfg.AuditConfirm {
			w.emit(Event{Kind: HoleFound, Key: core.LeaseKey{Stream: st.id, Shard: hole.Shard}, Failures: n, Text: hole.String()})
		}
	}
	st.holes = seen
	w.mu.Lock()
	if w.consumesLocked(st) {
		w.holes[st.id] = len(seen)
	}
	w.mu.Unlock()
}

// cleanUp deletes finished leases that nothing depends on any more, and those whose shards the service has forgotten.
func (w *Worker) cleanUp(ctx context.Context, st *stream, g *lineage.Graph, now time.Time) {
	missing := map[core.ShardID]bool{}
	var twice []core.ShardID
	for _, id := range g.Missing() {
		missing[id] = true
		if st.missing[id] {
			twice = append(twice, id)
		}
	}
	st.missing = missing
	finished, garbage := g.Delete(lineage.DeleteOptions{GoneTwice: twice, KeepWhileListed: w.rules().LeaseListed})
	if w.cfg.KeepFinished {
		finished = nil
	}
	if now.Sub(st.gone) < w.cfg.CleanupGone {
		garbage = nil
	} else {
		st.gone = now
	}
	for _, k := range finished {
		w.remove(ctx, k, core.Remove, func(r *sighting) bool { return now.Sub(r.ended) >= w.cfg.CleanupFinished }, "finished")
	}
	for _, k := range garbage {
		w.remove(ctx, k, core.SameCounter, func(r *sighting) bool { return r.lease.Owner == core.Nobody }, "the service no longer has the shard; what was not read is gone")
	}
}

func (w *Worker) remove(ctx context.Context, k core.LeaseKey, same core.Same, ok func(*sighting) bool, text string) {
	w.mu.Lock()
	r := w.table.rows[k]
	if r == nil || !ok(r) {
		w.mu.Unlock()
		return
	}
	row := r.lease
	w.mu.Unlock()
	callCtx, cancel := w.callContext(ctx)
	defer cancel()
	if err := w.store.Delete(callCtx, row, same); err != nil {
		w.raced("delete lease", k, err)
		return
	}
	w.emit(Event{Kind: LeaseDeleted, Key: k, Position: row.Checkpoint, Text: text})
}
