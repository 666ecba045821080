package worker

import (
	"slices"
	"strconv"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// table is what this worker knows of the lease table from looking at it: the rows, and since when each owner and each worker has given no
// sign of life. It is told the time and reads no clock. Time counts from the END of the read that first showed a beat (docs/model, rule 1).
type table struct {
	rows    map[core.LeaseKey]*sighting
	workers map[core.WorkerID]*pulse
	bad     map[core.LeaseKey]*core.RowError
	at      time.Time // end of the last complete reading
	looks   int
}

// pulse is a beat and since when it has been seen unchanged.
type pulse struct {
	beat  string
	since time.Time
	again bool // a later reading showed it unchanged
	moves int  // how often it was seen to change
}

func (p *pulse) see(beat string, end time.Time) (moved bool) {
	if p.since.IsZero() {
		*p = pulse{beat: beat, since: end}
		return false
	}
	if p.beat != beat {
		*p = pulse{beat: beat, since: end, moves: p.moves + 1}
		return true
	}
	p.again = true
	return false
}

// sighting is one row as last seen.
type sighting struct {
	lease core.Lease
	life  pulse
	// moved are the last two times the lease was seen to go from one owner to another.
	moved [2]time.Time
	// asked is when this worker last asked for the lease.
	asked time.Time
	// ours: a worker of this library has held the row while we looked, so an empty run means "given, not yet accepted".
	ours bool
	// foreign counts renewals by an owner that writes no run.
	foreign int
	// ended is when the row was first seen at its end, freeSince when it was first seen free, gaveUpOn when this worker gave it up because it
	// could not read it.
	ended, freeSince, gaveUpOn time.Time
	// mark is the number of the reading that last showed the row; behind counts readings that showed an older one.
	mark, behind int
}

// cool reports whether the lease may be asked for: not by me a moment ago, and not when it has gone to and fro within the cool-down (rule 5 of
// the design: per lease, three lease durations).
func (r *sighting) cool(now time.Time, coolDown time.Duration) bool {
	recently := func(t time.Time) bool { return !t.IsZero() && now.Sub(t) < coolDown }
	return !recently(r.asked) && !recently(r.moved[1])
}

func newTable() *table {
	return &table{rows: map[core.LeaseKey]*sighting{}, workers: map[core.WorkerID]*pulse{}, bad: map[core.LeaseKey]*core.RowError{}}
}

// evidence is what to watch for a lease: subject and beat in one, for a store that does not say otherwise.
func evidence(l core.Lease) (subject, beat string) { return "", strconv.FormatInt(l.Counter, 10) }

// read takes in a complete reading that ended at end. Rows that are gone are forgotten.
func (t *table) read(s core.Sight, end time.Time, evidence func(core.Lease) (string, string)) {
	t.looks++
	t.at = end
	for _, l := range s.Leases {
		t.row(l, end, evidence)
	}
	for k, r := range t.rows {
		if r.mark != t.looks {
			delete(t.rows, k)
		}
	}
	clear(t.bad)
	for _, b := range s.Bad {
		t.bad[b.Key] = b
	}
	here := make(map[core.WorkerID]bool, len(s.Workers))
	for _, w := range s.Workers {
		here[w.ID] = true
		p := t.workers[w.ID]
		if p == nil {
			p = &pulse{}
			t.workers[w.ID] = p
		}
		p.see(w.Beat, end)
	}
	for id := range t.workers {
		if !here[id] {
			delete(t.workers, id)
		}
	}
}

// row takes in one row, from a reading or from a write of ours.
func (t *table) row(l core.Lease, end time.Time, evidence func(core.Lease) (string, string)) *sighting {
	r := t.rows[l.Key]
	if r == nil {
		r = &sighting{lease: l}
		t.rows[l.Key] = r
	} else if l.Counter < r.lease.Counter && r.behind == 0 {
		// Most likely a reading that began before a write of ours. Twice in a row, it is a row that was deleted and made anew.
		r.behind, r.mark = 1, t.looks
		return r
	}
	r.behind = 0
	subject, beat := evidence(l)
	moved := r.life.see(subject+"\x00"+beat, end)
	if l.Owner != r.lease.Owner && l.Owner != core.Nobody && r.lease.Owner != core.Nobody {
		r.moved = [2]time.Time{end, r.moved[0]}
	}
	switch {
	case l.Run != "":
		r.ours, r.foreign = true, 0
	case l.Owner == core.Nobody || l.Owner != r.lease.Owner:
		r.foreign = 0
	case moved && r.lease.Run == "" && !r.ours && !l.Ended():
		r.foreign++
	}
	if !l.Ended() {
		r.ended = time.Time{}
	} else if r.ended.IsZero() {
		r.ended = end
	}
	r.lease, r.mark = l, t.looks
	return r
}

// silent is how long the owner of a row has given no sign of life.
func (r *sighting) silent(now time.Time) time.Duration { return now.Sub(r.life.since) }

// limits are the lengths of silence after which someone counts as dead.
type limits struct {
	ours    time.Duration // D_obs
	foreign time.Duration // for owners that write no run: the KCL counts from the end of its write, up to a request later
}

func (l limits) of(r *sighting) time.Duration {
	if r.lease.Run == "" && r.lease.Owner != core.Nobody && !r.ours {
		return l.foreign
	}
	return l.ours
}

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
	set := map[core.WorkerID]bool{me: true}
	for id, p := range t.workers {
		if now.Sub(p.since) < l.ours {
			set[id] = true
		}
	}
	for _, r := range t.rows {
		if o := r.lease.Owner; o != core.Nobody && !r.lease.Ended() && r.silent(now) < l.of(r) {
			set[o] = true
		}
	}
	out := make([]core.WorkerID, 0, len(set))
	for id := range set {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// alarm is the earliest time at which a lease or a worker that was seen silent by two readings expires; zero where there is none. To look
// again just then, rather than at the next tick, is what keeps failovers short.
func (t *table) alarm(now time.Time, l limits, mine func(core.LeaseKey) bool) time.Time {
	var first time.Time
	at := func(x time.Time) {
		if x.After(now) && (first.IsZero() || x.Before(first)) {
			first = x
		}
	}
	for k, r := range t.rows {
		if r.life.again && r.lease.Owner != core.Nobody && !r.lease.Ended() && !mine(k) {
			at(r.life.since.Add(l.of(r)))
		}
	}
	for _, p := range t.workers {
		if p.again {
			at(p.since.Add(l.ours))
		}
	}
	return first
}
