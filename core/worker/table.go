package worker

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// table is what this worker knows of the lease table from looking at it: the rows, and since when each owner and each worker has given no
// sign of life. It is told the time and reads no clock. Time counts from the END of the read that first showed a beat (docs/model, rule 1).
type table struct {
	rows    map[core.LeaseKey]*sighting
	workers map[core.WorkerID]*pulse
	bad     map[core.LeaseKey]*core.RowError
	held    map[core.LeaseKey]*holding // the worker's
	at      time.Time                  // end of the last complete reading
	looks   int
	asked   int         // how often it was asked who is present
	changed bool        // something other than counters and checkpoints has, since the last plan
	order   []*sighting // as the last reading showed them: most readings come in the same order
	owners  map[core.WorkerID]*owner
	byKey   []*sighting // nil: to be sorted anew
}

// pulse is a beat and since when it has been seen unchanged.
type pulse struct {
	beat  beat
	since time.Time
	again bool // a later reading showed it unchanged
	moves int  // how often it was seen to change
	came  bool // of a worker's: it was not there in an earlier reading
	// Of a worker's: how often it announces itself, and when leases of its were found silent.
	every   time.Duration
	doubted time.Time
	load    map[string]float64
	limits  map[string]float64
	mark    int // of a worker's: the number of the reading that last showed it
}

// beat is a sign of life: a lease counter, or what else the store says to watch.
type beat struct {
	counter       int64
	subject, text string
}

func (p *pulse) see(b beat, end time.Time) (moved bool) {
	if p.since.IsZero() {
		*p = pulse{beat: b, since: end}
		return false
	}
	if p.beat != b {
		*p = pulse{beat: b, since: end, moves: p.moves + 1}
		return true
	}
	p.again = true
	return false
}

// owner is a worker that rows name.
type owner struct {
	id   core.WorkerID
	mark int // the last time it was found present
}

// sighting is one row as last seen.
type sighting struct {
	lease core.Lease
	owner *owner
	held  *holding // nil: not by this worker
	// wasFree: the last look found it free for this worker to take.
	wasFree bool
	life    pulse
	// moved are the last two times the lease was seen to go from one owner to another.
	moved [2]time.Time
	// proven: its owner wrote it while we looked.
	proven bool
	// asked is when this worker last asked for the lease.
	asked time.Time
	// ours: a worker of this library has held the row while we looked, so an empty run means "given, not yet accepted".
	ours bool
	// foreign counts renewals by an owner that writes no run, and paces are the times between the last of them.
	foreign int
	paces   [3]time.Duration
	// meddler is when somebody last wrote the row in this worker's name, while it held the lease and without a run; meddled: it was not the first time.
	meddler time.Time
	meddled bool
	// asking is when the row was first seen to be asked for by its Next.
	asking time.Time
	// ended is when the row was first seen at its end, freeSince when it was first seen free, gaveUpOn when this worker gave it up because it
	// could not read it.
	ended, freeSince, gaveUpOn time.Time
	// mark is the number of the reading that last showed the row; behind counts readings that showed an older one.
	mark, behind int
	// anew: at the last reading it was found to be a row that was deleted and made anew.
	anew bool
}

// cool is when the lease may be asked for: not just after I did, and not when it has gone to and fro within the cool-down (rule 5 of the design:
// per lease, three lease durations).
func (r *sighting) cool(coolDown time.Duration) (at time.Time) {
	for _, t := range [...]time.Time{r.asked, r.moved[1]} {
		if t = t.Add(coolDown); t.After(at) {
			at = t
		}
	}
	return at
}

func newTable(held map[core.LeaseKey]*holding) *table {
	return &table{rows: map[core.LeaseKey]*sighting{}, workers: map[core.WorkerID]*pulse{}, bad: map[core.LeaseKey]*core.RowError{}, owners: map[core.WorkerID]*owner{}, held: held}
}

// evidence says what to watch for a lease, as [core.Evidence]; nil: its counter.
type evidence func(core.Lease) (subject, beat string)

func (e evidence) beat(l *core.Lease) beat {
	if e == nil {
		return beat{counter: l.Counter}
	}
	var b beat
	b.subject, b.text = e(*l)
	return b
}

// read takes in a complete reading that ended at end. Rows that are gone are forgotten.
func (t *table) read(s core.Sight, end time.Time, evidence evidence) {
	t.looks++
	t.at = end
	for i := range s.Leases {
		l := &s.Leases[i]
		var r *sighting
		if i < len(t.order) && t.order[i].lease.Key == l.Key {
			r = t.order[i]
		}
		r = t.see(r, l, end, evidence)
		if i < len(t.order) {
			t.order[i] = r
		} else {
			t.order = append(t.order, r)
		}
	}
	t.order = t.order[:len(s.Leases)]
	if len(t.rows) != len(s.Leases) {
		for k, r := range t.rows {
			if r.mark != t.looks {
				delete(t.rows, k)
				t.byKey, t.changed = nil, true
			}
		}
	}
	clear(t.bad)
	for _, b := range s.Bad {
		t.bad[b.Key] = b
	}
	for _, w := range s.Workers {
		p := t.workers[w.ID]
		if p == nil {
			p = &pulse{}
			t.workers[w.ID] = p
		}
		came := p.came || p.since.IsZero() && t.looks > 1
		p.see(beat{text: w.Beat}, end)
		p.mark, p.came, p.every, p.load, p.limits = t.looks, came, w.Every, w.Load, w.Limits
	}
	for id, p := range t.workers {
		if p.mark != t.looks {
			delete(t.workers, id)
		}
	}
}

// row takes in a row that a write of ours left.
func (t *table) row(l core.Lease, end time.Time, evidence evidence) { t.see(nil, &l, end, evidence) }

// see takes in one row. r is where it stands, nil if that is to be found.
func (t *table) see(r *sighting, l *core.Lease, end time.Time, evidence evidence) *sighting {
	if r == nil {
		r = t.rows[l.Key]
	}
	if r == nil {
		r = &sighting{lease: *l, held: t.held[l.Key]}
		t.rows[l.Key] = r
		t.byKey, t.changed = nil, true
	} else if l.Counter < r.lease.Counter && r.behind == 0 {
		// Most likely a reading that began before a write of ours. Twice in a row, it is a row that was deleted and made anew.
		r.behind, r.mark, r.anew = 1, t.looks, false
		return r
	}
	r.behind = 0
	was := &r.lease
	r.anew = l.Counter < was.Counter
	since := r.life.since
	moved := r.life.see(evidence.beat(l), end)
	if l.Owner != was.Owner && l.Owner != core.Nobody && was.Owner != core.Nobody {
		r.moved = [2]time.Time{end, r.moved[0]}
	}
	switch {
	case l.Owner != was.Owner:
		r.proven = l.Run != "" // a take, or the write that accepts; a hand-over is another's
	case moved:
		r.proven = true
	}
	switch {
	case l.Run != "":
		r.ours, r.foreign = true, 0
	case l.Owner == core.Nobody || l.Owner != was.Owner:
		r.foreign, r.paces = 0, [3]time.Duration{}
	case moved && was.Run == "" && !l.Ended(): // who is given a lease writes its run before it renews
		t.changed = t.changed || r.foreign == 0
		r.foreign++
		r.paces = [3]time.Duration{end.Sub(since) / time.Duration(max(l.Counter-was.Counter, 1)), r.paces[0], r.paces[1]}
	}
	switch {
	case l.Next == core.Nobody:
		r.asking = time.Time{}
	case l.Next != was.Next || l.Owner != was.Owner || r.asking.IsZero():
		r.asking = end
	}
	if !l.Ended() {
		r.ended = time.Time{}
	} else if r.ended.IsZero() {
		r.ended = end
	}
	if l.Owner != was.Owner || l.Next != was.Next || l.Ready != was.Ready || l.Ended() != was.Ended() || len(l.Parents) != len(was.Parents) {
		t.changed = true
	}
	if r.owner == nil || r.owner.id != l.Owner {
		r.owner = t.ownerOf(l.Owner)
	}
	r.lease, r.mark = *l, t.looks
	return r
}

// ownerOf is the one owner of that id, so that looking through the rows for who is present compares no names.
func (t *table) ownerOf(id core.WorkerID) *owner {
	o := t.owners[id]
	if o == nil {
		if len(t.owners) > 100+2*len(t.rows) {
			clear(t.owners) // of workers that are gone; that an id is here twice for a while does no harm
		}
		o = &owner{id: id}
		t.owners[id] = o
	}
	return o
}

// sorted are the rows in the order of their keys.
func (t *table) sorted() []*sighting {
	if t.byKey == nil {
		t.byKey = slices.SortedFunc(maps.Values(t.rows), func(a, b *sighting) int {
			if a.lease.Key.Stream != b.lease.Key.Stream {
				return cmp.Compare(a.lease.Key.Stream, b.lease.Key.Stream)
			}
			return cmp.Compare(a.lease.Key.Shard, b.lease.Key.Shard)
		})
	}
	return t.byKey
}

// silent is how long the owner of a row has given no sign of life.
func (r *sighting) silent(now time.Time) time.Duration { return now.Sub(r.life.since) }

// limits are the lengths of silence after which someone counts as dead.
type limits struct {
	ours    time.Duration // D_obs
	foreign time.Duration // for owners that write no run: the KCL counts from the end of its write, up to a request later
	// shared: such owners may come at any time. finished: and they own, and count, what has ended. kept: so do ours.
	shared, finished, kept bool
	// guess: the table does not tell their lease duration, and one that renews seldom has a longer one than ours: three renewals of the KCL make one.
	guess bool
	// led: leases are given to workers by another, which is no sign of life of theirs.
	led bool
}

func (l limits) of(r *sighting) time.Duration {
	if r.lease.Run == "" && r.lease.Owner != core.Nobody && (l.shared || !r.ours) {
		if l.guess {
			return max(l.foreign, 3*min(r.paces[0], r.paces[1], r.paces[2])+time.Second)
		}
		return l.foreign
	}
	return l.ours
}

// worker is the silence after which a worker that announces itself counts as dead.
func (l limits) worker(p *pulse) time.Duration { return cmp.Or(2*p.every, l.ours) }

// free reports whether anybody may take the row: nobody owns it, or its owner is dead.
func (r *sighting) free(now time.Time, l limits) bool {
	if r.lease.Ended() {
		return false
	}
	return r.lease.Owner == core.Nobody || r.silent(now) >= l.of(r)
}

// present are the workers that count when shares are worked out: those whose own beat, or the beat of a lease of theirs, moved lately. me
// always. Sorted.
func (t *table) present(me core.WorkerID, now time.Time, l limits) []core.WorkerID {
	out := []core.WorkerID{me}
	for id, p := range t.workers {
		if now.Sub(p.since) < l.worker(p) && !p.doubted.After(p.since) {
			out = append(out, id)
		}
	}
	t.asked++
	for _, r := range t.sorted() {
		if r.owner.mark != t.asked && l.alive(r, now) {
			r.owner.mark = t.asked
			out = append(out, r.owner.id)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// proven are those of the workers present that gave a sign of life while this one looked. One that a first reading shows may have died before
// it: it counts when shares are worked out, and is not given anything.
func (t *table) proven(present []core.WorkerID, me core.WorkerID) []core.WorkerID {
	alive := map[core.WorkerID]bool{me: true}
	for id, p := range t.workers {
		alive[id] = p.came || p.moves > 0
	}
	for _, r := range t.rows {
		alive[r.lease.Owner] = alive[r.lease.Owner] || r.proven
	}
	alive[me] = true
	return slices.DeleteFunc(slices.Clone(present), func(id core.WorkerID) bool { return !alive[id] })
}

// alarm is the earliest time at which a lease or a worker that was seen silent by two readings expires; zero where there is none. To look
// again just then, rather than at the next tick, is what keeps failovers short.
func (t *table) alarm(now time.Time, l limits) time.Time {
	var first time.Time
	at := func(x time.Time) {
		if x.After(now) && (first.IsZero() || x.Before(first)) {
			first = x
		}
	}
	for _, r := range t.sorted() {
		if r.life.again && r.lease.Owner != core.Nobody && !r.lease.Ended() && r.held == nil {
			at(r.life.since.Add(l.of(r)))
		}
	}
	for _, p := range t.workers {
		if p.again {
			at(p.since.Add(l.worker(p)))
		}
	}
	return first
}

// ownersNamed are the workers that rows name as owners, dead ones too. Sorted.
func (t *table) ownersNamed() []core.WorkerID {
	named := map[core.WorkerID]bool{}
	for _, r := range t.rows {
		named[r.lease.Owner] = true
	}
	delete(named, core.Nobody)
	return slices.Sorted(maps.Keys(named))
}

// doubt notes that leases of a worker were found silent: until it is seen to live it gets nothing, however seldom it announces itself.
func (t *table) doubt(id core.WorkerID, now time.Time) {
	if p := t.workers[id]; p != nil {
		p.doubted = now
	}
}

// renewed is when each owner was last seen to write a lease.
func (t *table) renewed() map[core.WorkerID]time.Time {
	out := map[core.WorkerID]time.Time{}
	for _, r := range t.rows {
		if r.proven && r.life.since.After(out[r.lease.Owner]) {
			out[r.lease.Owner] = r.life.since
		}
	}
	return out
}

// lively reports whether a worker that announces itself gave a sign of life so lately that it may be given a lease: sooner than it would count
// as dead, since of one that has just died some leases expire before others.
func (t *table) lively(id core.WorkerID, renewed map[core.WorkerID]time.Time, now time.Time, l limits) bool {
	p := t.workers[id]
	if p == nil {
		return false
	}
	last, most := renewed[id], l.ours*3/4
	if last.IsZero() {
		most = cmp.Or(2*p.every, most)
	}
	if p.since.After(last) && !p.doubted.After(p.since) {
		last = p.since
	}
	return now.Sub(last) < most
}
