package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/balance"
)

// lead is what this worker knows of the leader's lock. Guarded by Worker.mu.
type lead struct {
	lock   core.Lock
	known  bool      // lock is what the last reading or write showed
	mine   bool      // this worker wrote it
	goodAt time.Time // mine: the start of the last write known to have succeeded; else the end of the reading that first showed it
	next   time.Time // when to see to it again
}

// askSeldom bounds how long nobody may lead after a leader has given the lock back.
const askSeldom = 10 * time.Second

// leadsLocked reports whether this worker leads: by its own clock, and well before another may take the lock.
func (w *Worker) leadsLocked(now time.Time) bool {
	return w.lead.mine && now.Sub(w.lead.goodAt) < w.lead.lock.Duration*3/4
}

// strive keeps the leader's lock, or takes it where nobody holds it or its holder is dead.
func (w *Worker) strive(ctx context.Context) {
	now := time.Now()
	w.mu.Lock()
	led := w.foreigners != nil && w.foreigners.Led && w.lock != nil
	l := w.lead
	late := l.mine && !w.leadsLocked(now)
	if l.mine && (!led || late) {
		w.lead = lead{}
	}
	w.mu.Unlock()
	switch {
	case !led:
		if l.mine {
			w.giveLeadBack(ctx, l.lock, errors.New("the table is led no more"))
		}
	case late:
		w.emit(Event{Kind: LeadLost, Err: fmt.Errorf("the lock could not be renewed in time: %w", core.ErrUnavailable)})
		w.look()
	case now.Before(l.next):
	case l.mine:
		w.writeLead(ctx, l.lock, core.Nobody)
	default:
		w.watchLead(ctx, l)
	}
}

// watchLead reads another's lock, and takes it when it has stood unchanged for as long as its holder wrote.
func (w *Worker) watchLead(ctx context.Context, l lead) {
	callCtx, cancel := w.callContext(ctx)
	defer cancel()
	lock, err := w.lock.Leader(callCtx)
	end := time.Now()
	if err != nil {
		w.mu.Lock()
		w.lead.next = end.Add(w.cfg.LookEvery)
		w.mu.Unlock()
		w.storeError("read the leader's lock", core.LeaseKey{}, err)
		return
	}
	if !l.known || lock != l.lock {
		l = lead{lock: lock, known: true, goodAt: end}
	}
	dead := l.goodAt.Add(lock.Duration)
	l.next = end.Add(min(askSeldom, max(lock.Duration/4, w.cfg.LookEvery)))
	if lock.Owner != core.Nobody && dead.Before(l.next) && !w.cfg.NeverLead {
		l.next = dead
	}
	w.mu.Lock()
	w.lead = l
	w.mu.Unlock()
	free := lock.Owner == core.Nobody || !end.Before(dead)
	if free && !w.cfg.NeverLead {
		w.writeLead(ctx, lock, lock.Owner)
	}
}

// writeLead writes the lock, to take or to keep it.
func (w *Worker) writeLead(ctx context.Context, seen core.Lock, from core.WorkerID) {
	start := time.Now()
	callCtx, cancel := w.callContext(ctx)
	defer cancel()
	lock, err := w.lock.Lead(callCtx, seen, w.cfg.ID)
	w.mu.Lock()
	was := w.lead.mine
	switch {
	case err == nil:
		w.lead = lead{lock: lock, known: true, mine: true, goodAt: start, next: start.Add(lock.Duration / 4)}
		w.table.changed = w.table.changed || !was
	case errors.Is(err, core.ErrConflict):
		// An answer may have been lost before: then the lock is this worker's under a version that it does not know, and is taken like a dead one's.
		w.lead = lead{}
	default:
		w.lead.next = time.Now().Add(w.cfg.RenewEvery / 4)
	}
	w.mu.Unlock()
	switch {
	case err == nil && !was:
		w.emit(Event{Kind: LeadTaken, Other: from})
		poke(w.keepNow) // whoever leads lists shards
	case errors.Is(err, core.ErrConflict) && was:
		w.emit(Event{Kind: LeadLost, Err: err})
	case err != nil && !errors.Is(err, core.ErrConflict):
		w.storeError("write the leader's lock", core.LeaseKey{}, err)
	}
}

// resign gives the lead back at a stop, so that another has it at once.
func (w *Worker) resign(ctx context.Context) {
	w.mu.Lock()
	l := w.lead
	w.lead = lead{}
	w.mu.Unlock()
	if l.mine {
		w.giveLeadBack(ctx, l.lock, nil)
	}
}

func (w *Worker) giveLeadBack(ctx context.Context, lock core.Lock, why error) {
	callCtx, cancel := w.callContext(ctx)
	defer cancel()
	if err := w.lock.Resign(callCtx, lock); err != nil {
		w.storeError("give the lead back", core.LeaseKey{}, err)
	}
	w.emit(Event{Kind: LeadLost, Err: why})
}

// leadFails gives the lead up after so many looks in a row that failed, as the KCL does: who can't read the table can't lead.
const leadFails = 3

func (w *Worker) lookFailedAsLeader(ctx context.Context, n int, err error) {
	w.mu.Lock()
	l := w.lead
	give := l.mine && n >= leadFails
	if give {
		w.lead = lead{next: time.Now().Add(l.lock.Duration)}
	}
	w.mu.Unlock()
	if give {
		w.giveLeadBack(ctx, l.lock, fmt.Errorf("%d readings of the table in a row failed: %w", n, err))
	}
}

// assignment is a lease and whom the leader gives it to.
type assignment struct {
	lease core.Lease
	to    core.WorkerID
}

// candidatesLocked are the workers that leases may be given to without their asking: those known to live, and, where the table is led, that
// have a row of their own. Workers of another library that only take hear nothing of what they are given.
func (w *Worker) candidatesLocked(present []core.WorkerID) []core.WorkerID {
	f := w.foreigners
	proven := w.table.proven(present, w.cfg.ID)
	if f == nil {
		return proven
	}
	renewed := w.table.renewed()
	now := time.Now()
	return slices.DeleteFunc(proven, func(id core.WorkerID) bool {
		switch {
		case id == w.cfg.ID:
			return false
		case f.Led:
			return !w.table.lively(id, renewed, now, w.limits)
		}
		return f.Steal && w.isForeignLocked(id)
	})
}

// makePlanLocked makes the plan of a look.
func (w *Worker) makePlanLocked(in balance.Input, led bool, now time.Time) balance.Plan {
	if !led || w.cfg.Utilization == nil {
		return balance.Make(in)
	}
	rule := *w.cfg.Utilization
	if rule.Balance = !now.Before(w.balanceAt); rule.Balance {
		w.balanceAt = now.Add(6 * w.cfg.LeaseDuration) // as the KCL: each third pass, and a pass each two lease durations
	}
	rule.Usage = map[core.WorkerID]map[string]balance.Usage{}
	for _, x := range in.Workers {
		p := w.table.workers[x.ID]
		if p == nil {
			continue
		}
		usage := map[string]balance.Usage{}
		for name, v := range p.load {
			usage[name] = balance.Usage{Value: v, Limit: p.limits[name]}
		}
		rule.Usage[x.ID] = usage
	}
	return balance.MakeByUtilization(in, rule)
}

// leadLocked turns a plan into what the leader of a table does for all of its workers.
func (w *Worker) leadLocked(t *todo, in balance.Input, plan balance.Plan, avoid map[core.LeaseKey]bool) {
	me := w.cfg.ID
	done := map[core.LeaseKey]bool{}
	for _, m := range plan.Take {
		r := w.table.rows[m.Lease]
		l := r.lease
		if done[m.Lease] {
			continue // named again for who may have it too
		}
		done[m.Lease] = true
		to := m.To
		if to == l.Owner && w.table.at.Sub(r.freeSince) < 2*w.cfg.LookEvery {
			continue // it has come back, and goes on by itself
		}
		if to == l.Owner || to == me && avoid[m.Lease] {
			var ok bool
			if to, ok = balance.LeastLoaded(in, to, m.Lease); !ok || to == l.Owner {
				continue
			}
		}
		if to == me {
			t.take = append(t.take, l)
		} else {
			t.assign = append(t.assign, assignment{l, to})
		}
	}
	for _, m := range plan.Ask {
		r := w.table.rows[m.Lease]
		if m.To == me && avoid[m.Lease] {
			continue
		}
		r.asked = w.table.at
		t.askFor = append(t.askFor, assignment{r.lease, m.To})
	}
}

// handOverDeadline is how long the leader waits for a worker of another library to hand over what it was asked for: the KCL's own
// gracefulLeaseHandoffTimeoutMillis, and a lease duration. Workers of this library say no themselves.
func (w *Worker) handOverDeadline() time.Duration { return 30*time.Second + w.cfg.LeaseDuration }

// overdueLocked finds leases whose hand-over has not come about: who was to get them gets them now. Nobody may be reading them for the owner, as
// in a row that is stuck with checkpointOwner.
func (w *Worker) overdueLocked(t *todo, now time.Time) {
	var overdue []*core.Lease
	var lost []core.LeaseKey // who was to get them is gone
	for _, r := range w.table.sorted() {
		l := &r.lease
		if r.wasFree || l.Next == core.Nobody || l.Ended() || l.Owner == w.cfg.ID || r.asking.IsZero() || now.Sub(r.asking) < w.handOverDeadline() {
			continue
		}
		if l.Run != "" && !w.formerRunLocked(l) {
			continue
		}
		overdue = append(overdue, l)
		if w.table.workers[l.Next] == nil {
			lost = append(lost, l.Key)
		}
	}
	if len(overdue) == 0 {
		return
	}
	others := w.spreadButLocked(core.Nobody, lost)
	for _, l := range overdue {
		to := l.Next
		if w.table.workers[to] == nil {
			to = others[l.Key]
		}
		switch {
		case to == core.Nobody || to == l.Owner:
		case to != w.cfg.ID:
			t.assign = append(t.assign, assignment{*l, to})
		case w.mayStartLocked(l):
			t.take = append(t.take, *l)
		}
	}
}

// mayStartLocked reports whether the parents of a lease's shard are known to be finished.
func (w *Worker) mayStartLocked(l *core.Lease) bool {
	st := w.streams[l.Key.Stream]
	if l.Ready || st == nil {
		return l.Ready
	}
	ok, _ := w.graphLocked(st).MayStart(l.Key.Shard)
	return ok
}

// assign gives a lease to another worker: one that is free, or, late, one that was asked for in vain.
func (w *Worker) assign(ctx context.Context, a assignment) {
	callCtx, cancel := w.callContext(ctx)
	defer cancel()
	write := core.Assign(&a.lease, a.to)
	row, err := w.store.Update(callCtx, a.lease, write.Same, write.Set)
	if err != nil {
		w.raced("assign lease", a.lease.Key, err)
		return
	}
	w.emit(Event{Kind: LeaseAssigned, Key: row.Key, Other: a.to, Counter: row.Counter})
}

// askForAnother asks the owner of a lease to hand it to another worker.
func (w *Worker) askForAnother(ctx context.Context, a assignment) {
	callCtx, cancel := w.callContext(ctx)
	defer cancel()
	write := core.AskFor(a.to)
	if _, err := w.store.Update(callCtx, a.lease, write.Same, write.Set); err != nil {
		w.raced("ask for lease", a.lease.Key, err)
		return
	}
	w.emit(Event{Kind: LeaseAsked, Key: a.lease.Key, Other: a.lease.Owner, Counter: a.lease.Counter, Text: "for " + string(a.to)})
}
