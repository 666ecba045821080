package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/balance"
	"github.com/shardwarden/shardwarden/core/lineage"
)

// lookLoop looks at the lease table now and then, and does what follows from it: adopts what was given to this worker, gives what was asked
// for, takes and asks for its share, begins what may begin, and watches for stalls.
func (w *Worker) lookLoop(ctx context.Context) {
	least := w.cfg.LookEvery / 50
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-w.lookNow:
			if wait := least - time.Since(last); wait > 0 && !last.IsZero() {
				timer.Reset(wait)
				continue
			}
		}
		next := w.lookOnce(ctx)
		last = time.Now()
		timer.Reset(max(least, next))
	}
}

// lookOnce is one look. It returns when to look again.
func (w *Worker) lookOnce(ctx context.Context) time.Duration {
	w.announce(ctx) // announce, then look, then plan: else two that start at once both believe themselves alone
	w.strive(ctx)
	ids := w.streamIDs()
	sight, err := w.see(ctx, ids)
	end := time.Now()
	if err != nil {
		return w.lookFailed(ctx, err)
	}
	if len(ids) == 0 {
		sight.Leases, sight.Bad = nil, nil // all streams were retired: what stands there is nobody's business here
	}
	w.count(Looks, core.LeaseKey{}, 1)
	for _, b := range sight.Bad {
		w.emit(Event{Kind: BadRow, Key: b.Key, Text: b.Row, Err: b})
	}
	foreigners := w.sharedWith()
	w.mu.Lock()
	w.table.read(sight, end, w.evidence)
	changed := w.obeyLocked(foreigners)
	clear(w.graphs)
	w.lookErr, w.lookErrs = nil, 0
	w.seeOwnBeat(sight.Workers)
	first := w.table.looks == 1
	todo := w.decideLocked(end)
	w.mu.Unlock()
	if first {
		w.sayWhereItBegins(sight)
	}
	if changed != "" {
		w.emit(Event{Kind: RegimeChanged, Text: changed})
		w.look() // what it asks for is done at once
	}
	if todo.fail != nil {
		w.fail(todo.fail)
		return w.cfg.LookEvery
	}
	w.carryOut(ctx, todo)
	return w.untilNextLook(time.Now())
}

// see reads the table. A reading has more time than a write: nothing is lost while it goes on.
func (w *Worker) see(ctx context.Context, ids []core.StreamID) (core.Sight, error) {
	callCtx, cancel := context.WithTimeoutCause(ctx, max(w.cfg.LeaseDuration, time.Second), core.ErrUnavailable)
	defer cancel()
	return core.See(callCtx, w.store, ids...)
}

// sayWhereItBegins tells once that leases win over a configured start.
func (w *Worker) sayWhereItBegins(s core.Sight) {
	for _, st := range w.streamList() {
		n := 0
		for i := range s.Leases {
			if s.Leases[i].Key.Stream == st.id {
				n++
			}
		}
		if n > 0 && st.start.Anchor != core.Horizon {
			w.log.Info("leases exist: reading goes on where they stand, the configured start holds for none of them", "stream", st.id, "leases", n, "start", st.start.String())
		}
	}
}

func (w *Worker) lookFailed(ctx context.Context, err error) time.Duration {
	if ctx.Err() != nil {
		return time.Hour
	}
	w.count(LookErrors, core.LeaseKey{}, 1)
	err = &core.Error{Op: "read the lease table", Err: err}
	w.mu.Lock()
	w.lookErr = err
	w.lookErrs++
	n, first := w.lookErrs, w.table.looks == 0
	w.mu.Unlock()
	fatal := errors.Is(err, core.ErrOtherStream) || errors.Is(err, core.ErrInvalid)
	if fatal || first && (errors.Is(err, core.ErrDenied) || errors.Is(err, core.ErrNotFound)) {
		w.fail(err)
		return w.cfg.LookEvery
	}
	w.storeError("look", core.LeaseKey{}, err)
	w.lookFailedAsLeader(ctx, n, err)
	return min(w.cfg.LookEvery, w.cfg.LookEvery/8<<min(n, 4))
}

// untilNextLook is the time to the next look: the period, shortened at random, or the earliest time at which somebody may have died.
func (w *Worker) untilNextLook(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	period := w.cfg.LookEvery
	if w.cfg.LookUnits > 0 {
		// A consistent scan costs a read unit for each 4 KiB, and a lease row is a few hundred bytes.
		units := (len(w.table.rows)*400 + 4095) / 4096
		period = max(period, time.Duration(units)*time.Second/time.Duration(w.cfg.LookUnits))
	}
	next := period - rand.N(period/5+1)
	if at := w.table.alarm(now, w.limits); !at.IsZero() {
		next = min(next, at.Sub(now)+time.Millisecond)
	}
	if at := w.lead.next; w.foreigners != nil && w.foreigners.Led && w.lock != nil && !at.IsZero() {
		next = min(next, at.Sub(now)+time.Millisecond)
	}
	return next
}

// todo is what a look decided. Pure data: carryOut does it.
type todo struct {
	fail    error
	adopt   []core.Lease // name me, and I do not hold them
	again   []core.Lease // given away by me, and the row does not show it
	verify  []*holding   // held, and the row says otherwise
	asked   []request    // held, and somebody wants them
	decline []*holding   // held, and who wants them is gone
	begin   []*holding
	retired []*holding // their stream is consumed no more, and they are still held
	ready   []*holding // held, waited for their parents, which have finished
	restart []*consumer
	stalled []*holding
	overran []*consumer
	take    []core.Lease
	ask     []core.Lease
	twins   []core.Lease
	// As the leader of a led table.
	assign, askFor []assignment
	complete       []core.Lease // this worker's, wanted by another, and nothing runs for them
	finished       []core.Lease // this worker's, ended, and to be renewed until they are deleted
	keep           bool         // the keeper has something to do: a listing is wanted, or this worker has just become the one who lists
	// unserved is said once a minute while it lasts
	unserved []core.LeaseKey
}

type request struct {
	h    *holding
	from core.WorkerID
}

// decideLocked works out what to do from the table as read and what is held.
func (w *Worker) decideLocked(now time.Time) todo {
	var t todo
	me := w.cfg.ID
	foreign := false
	w.forgetGivenLocked()
	for _, r := range w.table.sorted() {
		if free := r.held == nil && !w.leftToMeLocked(r, now) && r.free(now, w.limits); free != r.wasFree {
			r.wasFree, w.table.changed = free, true
			if free && r.lease.Owner != core.Nobody {
				w.table.doubt(r.lease.Owner, now)
			}
		}
	}
	present := w.table.present(me, now, w.limits)
	w.present = present
	was := w.lists
	w.lists = w.listerLocked()
	t.keep = !was && w.lists || len(w.table.rows) == 0
	here := func(id core.WorkerID) bool { _, ok := slices.BinarySearch(present, id); return ok }
	for _, r := range w.table.sorted() {
		l := &r.lease
		h := r.held
		switch {
		case l.Ended():
			if h == nil && l.Owner == me && w.limits.kept && w.taking && r.silent(now) >= w.cfg.RenewEvery-w.cfg.LookEvery/2 {
				t.finished = append(t.finished, *l)
			}
		case h != nil:
			held, giving := h.peek()
			owner, next := l.Owner, l.Next
			if held.Counter > l.Counter { // a renewal has overtaken the listing, and knows better who asks
				owner, next = held.Owner, held.Next
			}
			switch {
			case l.Counter > held.Counter && (l.Owner != me || l.Run != h.run):
				t.verify = append(t.verify, h)
			case next != core.Nobody && next != me && owner == me && !giving:
				if w.presenceSeenLocked() && !here(next) {
					t.decline = append(t.decline, h)
				} else {
					t.asked = append(t.asked, request{h, next})
				}
			}
		case l.Owner == me && (l.Run == "" || w.myRun(l.Run) || w.leftToMeLocked(r, now)):
			if l.Next != core.Nobody && !w.myRun(l.Run) && w.running[l.Key] == nil {
				t.complete = append(t.complete, *l) // given to me, and wanted by another before I began
			} else if g, gave := w.given[l.Key]; r.meddled && r.silent(now) < w.limits.ours {
				continue // to be left to who writes it
			} else if !gave || l.Counter > g {
				t.adopt = append(t.adopt, *l)
			} else if w.myRun(l.Run) {
				t.again = append(t.again, *l)
			}
		case l.Owner == me && r.life.moves > 0 && (r.life.moves > 1 || !w.limits.led) && r.silent(now) < w.limits.ours: // one may be the leader's
			t.twins = append(t.twins, *l)
		}
		if w.foreigners == nil && l.Owner != core.Nobody && l.Owner != me && l.Run == "" && (!r.ours || r.foreign >= 2) && !l.Ended() && !r.free(now, w.limits) {
			foreign = true
			if r.foreign >= 2 {
				t.fail = &core.Error{Op: "share lease table", Stream: l.Key.Stream, Shard: l.Key.Shard, Err: fmt.Errorf(
					"worker %q renews leases and is not of this library (its rows carry no run); %s: %w", l.Owner, w.foreignHint(), core.ErrForeignWorker)}
				return t
			}
		}
	}
	w.decideHeldLocked(&t, now)
	if !w.taking || foreign {
		// Somebody unknown owns leases: take nothing until it is seen to live (an error) or to be gone (then its leases are free).
		w.holdOff = foreign
		return t
	}
	w.holdOff = false
	if w.table.changed || !now.Before(w.planAt) || !slices.Equal(present, w.plannedFor) {
		w.planLocked(&t, now, present)
	}
	return t
}

// forgetGivenLocked forgets under which counter leases were given away that were deleted since: made anew they count from the beginning.
func (w *Worker) forgetGivenLocked() {
	for k := range w.given {
		if r := w.table.rows[k]; r == nil && w.table.bad[k] == nil || r != nil && r.anew {
			delete(w.given, k)
		}
	}
}

// leftToMeLocked reports whether a row of a led table names this worker by a run of a former process of the same id, which is dead. Its leader may
// go on naming this id, and leaves the former run in the row (the KCL assigns what has expired to the least loaded, who may be who had it): so
// nobody but this worker would ever read the shard.
func (w *Worker) leftToMeLocked(r *sighting, now time.Time) bool {
	l := &r.lease
	return w.limits.led && l.Owner == w.cfg.ID && l.Run != "" && !w.myRun(l.Run) && r.held == nil && r.silent(now) >= w.limits.ours
}

// presenceSeenLocked reports whether workers can be seen before they own anything. A store may have the ability and not use it (a table that an
// older KCL may scan bears no rows of workers): what tells is this worker's own row.
func (w *Worker) presenceSeenLocked() bool {
	asks := w.foreigners != nil && !w.foreigners.Led && !w.foreigners.Steal // and announce nothing
	return !asks && w.announcedLocked()
}

// decideHeldLocked looks after what is held: what may begin, what stalls.
func (w *Worker) decideHeldLocked(t *todo, now time.Time) {
	for _, h := range w.held {
		h.mu.Lock()
		c, idle := h.consumer, h.consumer == nil && h.give == nil && !h.over && !h.fenced && !h.halted
		ready, fenced := h.lease.Ready, h.fenced && !h.over
		h.mu.Unlock()
		if !w.consumesLocked(h.st) {
			t.retired = append(t.retired, h)
			continue
		}
		if fenced {
			t.verify = append(t.verify, h) // the table answers again
		}
		if idle {
			if ready {
				t.begin = append(t.begin, h)
			} else if ok, why := w.graphLocked(h.st).MayStart(h.key.Shard); ok {
				t.ready = append(t.ready, h)
			} else {
				h.set(Waiting, why, nil)
				w.wantListingLocked(h.st, h.key.Shard, t)
			}
			continue
		}
		if c == nil {
			continue
		}
		// Each time StallAfter goes by reading is begun anew; when that did not help, another worker shall try.
		if n := int(c.stalledFor(now) / w.cfg.StallAfter); n > c.reads.restarts() {
			if n >= 2 && len(w.present) > 1 {
				t.stalled = append(t.stalled, h)
			} else {
				t.restart = append(t.restart, c)
			}
		}
	}
	for _, c := range w.running {
		if at := c.stopped.Load(); at != 0 && now.UnixNano()-at > int64(w.cfg.StopMargin) && c.overran.CompareAndSwap(false, true) {
			t.overran = append(t.overran, c)
		}
	}
}

// wantListingLocked asks for a listing when a shard waits for parents that have no lease: only a complete listing tells whether they are gone.
func (w *Worker) wantListingLocked(st *stream, shard core.ShardID, t *todo) {
	for _, p := range w.graphLocked(st).Waits(shard) {
		if p.Why == lineage.Unlisted {
			if now := w.table.at; now.Sub(st.wantedAt) >= w.cfg.LeaseDuration || st.wantedAt.IsZero() {
				st.wanted, st.wantedAt, t.keep = true, now, true
			}
			return
		}
	}
}

// graphLocked is the lineage of a stream as last seen. Built once a look.
func (w *Worker) graphLocked(st *stream) *lineage.Graph {
	if g := w.graphs[st.id]; g != nil {
		return g
	}
	in := w.lineageLocked(st)
	if st.fresh {
		in.Shards, in.Listed = st.listing, true
		in.Start, in.OpenAtStart = st.begins, st.openThen
		st.fresh = false // the next look's leases may be younger than this listing
	}
	g := lineage.New(in)
	w.graphs[st.id] = g
	return g
}

// lineageLocked is the stream's leases as last seen.
func (w *Worker) lineageLocked(st *stream) lineage.Input {
	in := lineage.Input{Stream: st.id, Start: st.start, Lacks: st.lacks, Leases: make([]core.Lease, 0, len(w.table.rows)/max(len(w.streams), 1))}
	for _, r := range w.table.rows {
		if r.lease.Key.Stream == st.id {
			in.Leases = append(in.Leases, r.lease)
		}
	}
	for k := range w.table.bad {
		if k.Stream == st.id || k.Stream == "" {
			in.Bad = append(in.Bad, k.Shard)
		}
	}
	return in
}

// planLocked works out this worker's part of an even spread, if anything but counters has changed since the last plan.
func (w *Worker) planLocked(t *todo, now time.Time, present []core.WorkerID) {
	in := balance.Input{Seed: w.seed, Leases: make([]balance.Lease, 0, len(w.table.rows))}
	me := w.cfg.ID
	led := w.foreigners != nil && w.foreigners.Led
	var avoid map[core.LeaseKey]bool // what this worker must not get
	workers := present
	if led {
		if !w.leadsLocked(now) {
			w.planned, w.unserved = nil, nil
			return // another says who gets what
		}
		w.overdueLocked(t, now)
		workers = w.candidatesLocked(present)
		avoid = map[core.LeaseKey]bool{}
	}
	for _, id := range workers {
		in.Workers = append(in.Workers, balance.Worker{ID: id, Cap: w.cfg.MaxLeases})
	}
	// Until planAt nothing but a change of the rows or of who is present can make another plan.
	w.planAt, w.plannedFor, w.table.changed = now.Add(w.cfg.LeaseDuration), present, false
	by := func(t time.Time) {
		if t.Before(w.planAt) {
			w.planAt = t
		}
	}
	for _, r := range w.table.sorted() {
		l := &r.lease
		st := w.streams[l.Key.Stream]
		if st != nil && l.Ended() && !led && w.limits.alive(r, now) {
			in.Leases = append(in.Leases, balance.Lease{Key: l.Key, Owner: l.Owner}) // a part of the other library's share
		}
		if st == nil || l.Ended() {
			continue
		}
		b := balance.Lease{Key: l.Key, Owner: l.Owner, Next: l.Next}
		deaf := w.deafLocked(r, now)
		if deaf {
			b.Next = core.Nobody
		}
		if w.cfg.Utilization != nil {
			if b.Weight = l.Throughput; b.Weight == 0 {
				b.Weight = -1 // nothing was ever delivered, or nobody said
			}
		}
		if r.wasFree {
			if !l.Ready {
				if ok, _ := w.graphLocked(st).MayStart(l.Key.Shard); !ok {
					w.wantListingLocked(st, l.Key.Shard, t)
					continue
				}
			}
			by(now)
			if w.running[l.Key] != nil { // a handler of a former lease still runs here: somebody else must take it
				if !led {
					continue
				}
				avoid[l.Key] = true
			}
			b.Free = true
			if r.freeSince.IsZero() {
				r.freeSince = now
			}
			b.Waited = int(now.Sub(r.freeSince) / (w.cfg.LookEvery * 4 / 5)) // looks come at least that often; a poke is no look
		} else {
			r.freeSince = time.Time{}
			if !l.Ready && len(l.Parents) > 0 {
				ok, _ := w.graphLocked(st).MayStart(l.Key.Shard)
				b.Blocked = !ok // held by whoever it was given to, and no load until it begins
			}
			cool := r.cool(3 * w.cfg.LeaseDuration)
			b.Movable = !now.Before(cool) && b.Next == core.Nobody
			if w.foreigners != nil && w.foreigners.Steal && l.Run == "" { // by force, once it is known that its owner does not hear
				b.Movable = !now.Before(cool) && r.foreign > 0
			}
			if now.Before(cool) {
				by(cool)
			}
			if w.foreigners != nil && w.foreigners.Steal && l.Next != core.Nobody && !deaf {
				by(r.asking.Add(w.deafAfter()))
			}
		}
		if !r.gaveUpOn.IsZero() && now.Sub(r.gaveUpOn) < 2*w.cfg.StallAfter && len(present) > 1 {
			by(r.gaveUpOn.Add(2 * w.cfg.StallAfter))
			if !led { // it stalled here a moment ago: another shall try
				continue
			}
			avoid[l.Key] = true
		}
		in.Leases = append(in.Leases, b)
	}
	evens := led && w.cfg.Utilization != nil && !now.Before(w.balanceAt)
	if w.planned != nil && !evens && slices.Equal(in.Leases, w.planned) && slices.Equal(in.Workers, w.plannedBy) {
		return
	}
	w.planned, w.plannedBy = in.Leases, in.Workers
	plan := w.makePlanLocked(in, led, now)
	if led && w.cfg.Utilization != nil {
		by(w.balanceAt)
	}
	if w.unserved = plan.Unserved; len(w.unserved) > 0 && now.Sub(w.unservedAt) >= time.Minute {
		w.unservedAt = now
		t.unserved = slices.Clone(w.unserved)
	}
	if led {
		w.leadLocked(t, in, plan, avoid)
	} else {
		w.followLocked(t, plan.For(me), now)
	}
	if len(t.take)+len(t.ask)+len(t.assign)+len(t.askFor) > 0 {
		w.planned, w.planAt = nil, now // what comes of it may fail: plan again at the next look
	}
}

// followLocked is this worker's own part of a plan.
func (w *Worker) followLocked(t *todo, mine balance.Plan, now time.Time) {
	for _, m := range mine.Take {
		t.take = append(t.take, w.table.rows[m.Lease].lease)
	}
	for _, m := range mine.Ask {
		r := w.table.rows[m.Lease]
		r.asked = now
		if w.foreigners != nil && w.foreigners.Steal && r.lease.Run == "" {
			t.take = append(t.take, r.lease) // its owner would not hear
		} else if w.deafLocked(r, now) {
			t.take = append(t.take, r.lease) // nor has it heard
		} else {
			t.ask = append(t.ask, r.lease)
		}
	}
}

// carryOut does what a look decided. Writes of different leases go out side by side.
func (w *Worker) carryOut(ctx context.Context, t todo) {
	for _, l := range t.twins {
		w.emit(Event{Kind: TwinSeen, Key: l.Key, Counter: l.Counter, Err: core.ErrTwin, Text: "a lease of this worker's id is renewed under run " + l.Run})
		w.noteTwin()
	}
	if len(t.unserved) > 0 {
		e := Event{Kind: Unserved, Key: t.unserved[0], Records: len(t.unserved), Text: fmt.Sprintf("%d leases are over what all workers present may hold (MaxLeases %d): %v", len(t.unserved), w.cfg.MaxLeases, t.unserved[:min(len(t.unserved), 10)])}
		w.emit(e)
	}
	for _, h := range t.verify {
		w.renewer.now(h)
	}
	for _, q := range t.asked {
		w.giveAway(q.h, giving{why: core.ErrHandOver, to: q.from})
	}
	for _, h := range t.decline {
		w.wg.Go(func() { w.decline(h, "it is no longer present") })
	}
	for _, h := range t.retired {
		w.giveAway(h, giving{why: errUnlisted})
	}
	for _, c := range t.restart {
		n := c.reads.stalled()
		w.emit(Event{Kind: ShardStalled, Key: c.h.key, Failures: n, Err: core.ErrStalled, Text: "reading is begun anew"})
		c.restartReading()
	}
	for _, h := range t.stalled {
		w.mu.Lock()
		if r := w.table.rows[h.key]; r != nil {
			r.gaveUpOn = time.Now()
		}
		to := w.spreadLocked([]core.LeaseKey{h.key})[h.key]
		w.mu.Unlock()
		w.emit(Event{Kind: ShardStalled, Key: h.key, Other: to, Err: core.ErrStalled, Text: "given up to another worker"})
		w.giveAway(h, giving{why: core.ErrStalled, to: to})
	}
	for _, c := range t.overran {
		w.emit(Event{Kind: HandlerOverran, Key: c.h.key, Err: context.Cause(c.ctx), Text: "the handler still runs though its right to process has ended; what it does counts for nothing"})
	}
	for _, h := range t.begin {
		w.begin(h)
	}
	// What is sent is sent: a stop waits for the answer (each call is bounded), so that what was taken can be released. What is not sent yet is not.
	var g group
	each := func(leases []core.Lease, f func(context.Context, core.Lease)) {
		for _, l := range leases {
			if ctx.Err() == nil {
				g.do(func() { f(w.base, l) })
			}
		}
	}
	for _, h := range t.ready {
		g.do(func() { w.markReady(w.base, h) })
	}
	each(t.adopt, w.adopt)
	each(t.again, func(ctx context.Context, l core.Lease) { _ = w.releaseAgain(ctx, l) })
	each(t.take, w.take)
	each(t.ask, w.askFor)
	each(t.complete, func(ctx context.Context, l core.Lease) { _ = w.passOn(ctx, l, l.Next) })
	each(t.finished, w.renewFinished)
	for _, a := range t.assign {
		g.do(func() { w.assign(w.base, a) })
	}
	for _, a := range t.askFor {
		g.do(func() { w.askForAnother(w.base, a) })
	}
	g.wait()
	if t.keep {
		poke(w.keepNow)
	}
}

// group runs functions side by side, so many at a time.
type group struct {
	wg    sync.WaitGroup
	slots chan struct{}
}

func (g *group) do(f func()) {
	if g.slots == nil {
		g.slots = make(chan struct{}, 64)
	}
	g.slots <- struct{}{}
	g.wg.Go(func() { defer func() { <-g.slots }(); f() })
}

func (g *group) wait() { g.wg.Wait() }

// take makes this worker the owner of a free lease, and begins at the checkpoint in the row after the take.
func (w *Worker) take(ctx context.Context, seen core.Lease) {
	run := w.newRun()
	start := time.Now()
	callCtx, cancel := w.callContext(ctx)
	defer cancel()
	write := core.Take(&seen, w.cfg.ID, run)
	row, err := w.store.Update(callCtx, seen, write.Same, write.Set)
	if err != nil {
		w.raced("take lease", seen.Key, err)
		return
	}
	w.hold(row, run, start, LeaseTaken, seen.Owner)
}

// adopt accepts a lease that names this worker: a write first, before the first record is read (docs/model, C-kcl-discover-run).
func (w *Worker) adopt(ctx context.Context, seen core.Lease) {
	run := w.newRun()
	w.mu.Lock()
	ready := seen.Ready
	if st := w.streams[seen.Key.Stream]; st != nil && !ready {
		ready, _ = w.graphLocked(st).MayStart(seen.Key.Shard)
	}
	w.mu.Unlock()
	start := time.Now()
	callCtx, cancel := w.callContext(ctx)
	defer cancel()
	write := core.Accept(run, ready)
	row, err := w.store.Update(callCtx, seen, write.Same, write.Set)
	if err != nil {
		w.raced("accept lease", seen.Key, err)
		return
	}
	w.hold(row, run, start, LeaseAccepted, core.Nobody)
}

// releaseAgain repeats a release whose answer was lost, under the counter it was sent with.
func (w *Worker) releaseAgain(ctx context.Context, seen core.Lease) error {
	callCtx, cancel := w.callContext(ctx)
	defer cancel()
	write := core.Release()
	_, err := w.store.Update(callCtx, seen, write.Same, write.Set)
	if err != nil {
		w.raced("release lease", seen.Key, err)
	}
	return err
}

// askFor asks the owner of a lease to hand it over.
func (w *Worker) askFor(ctx context.Context, seen core.Lease) {
	callCtx, cancel := w.callContext(ctx)
	defer cancel()
	write := core.Ask(w.cfg.ID)
	if _, err := w.store.Update(callCtx, seen, write.Same, write.Set); err != nil {
		w.raced("ask for lease", seen.Key, err)
		return
	}
	w.emit(Event{Kind: LeaseAsked, Key: seen.Key, Other: seen.Owner, Counter: seen.Counter})
}

// passOn hands on a lease that was given to this worker before anything ran for it here: a row that nobody would take a step further otherwise.
func (w *Worker) passOn(ctx context.Context, seen core.Lease, to core.WorkerID) error {
	callCtx, cancel := w.callContext(ctx)
	defer cancel()
	write := core.HandOver(to)
	row, err := w.store.Update(callCtx, seen, write.Same, write.Set)
	if err != nil {
		w.raced("hand lease over", seen.Key, err)
		return err
	}
	w.gaveUp(seen.Key, seen.Counter)
	w.count(HandedOver, seen.Key, 1)
	w.emit(Event{Kind: LeaseHandedOver, Key: seen.Key, Other: to, Counter: row.Counter, Text: "nothing ran for it"})
	return nil
}

// raced notes a write of the look that did not go through. That another was quicker is an outcome, not an error.
func (w *Worker) raced(op string, key core.LeaseKey, err error) {
	if errors.Is(err, core.ErrConflict) || errors.Is(err, core.ErrNotFound) || w.base.Err() != nil {
		return
	}
	w.storeError(op, key, err)
}

// hold begins to hold a lease that a write made this worker's.
func (w *Worker) hold(row core.Lease, run string, start time.Time, kind Kind, from core.WorkerID) {
	st := w.stream(row.Key.Stream)
	if st == nil {
		return
	}
	h := &holding{
		w: w, st: st, key: row.Key, run: run, fence: uint64(row.Counter), lease: row, goodAt: start, state: Starting,
		token: make(chan struct{}, 1), parked: make(chan struct{}),
		// The first renewal comes early by chance, so that leases taken together are not renewed together for ever.
		retryAt: start.Add(w.cfg.RenewEvery/2 + rand.N(w.cfg.RenewEvery/2+1)),
	}
	h.throughput.since = start
	if row.Throughput > 0 {
		h.throughput.kbps, h.throughput.any = row.Throughput, true
	}
	w.mu.Lock()
	if w.held[row.Key] != nil || w.state == stateStopped {
		w.mu.Unlock()
		return
	}
	w.held[row.Key] = h
	w.table.row(row, time.Now(), w.evidence)
	w.table.rows[row.Key].held = h
	w.mu.Unlock()
	w.count(Taken, row.Key, 1)
	w.emit(Event{Kind: kind, Key: row.Key, Other: from, Counter: row.Counter, Position: row.From()})
	w.renewer.schedule(h)
	if row.Ready {
		w.begin(h)
	} else {
		w.look()
	}
}

// markReady notes on the row that the parents have finished, before the first record, and begins.
func (w *Worker) markReady(ctx context.Context, h *holding) {
	err := h.update(ctx, func(l *core.Lease) (core.Write, bool) { return core.MarkReady(), !l.Ready })
	if err != nil {
		w.raced("mark lease ready", h.key, err)
		return
	}
	w.begin(h)
}
