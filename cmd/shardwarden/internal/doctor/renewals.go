package doctor

import (
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// Sample is the leases at a moment.
type Sample struct {
	At     time.Time
	Leases []core.Lease
}

// Renewal is how often an owner was seen to renew, and what that says of its settings.
type Renewal struct {
	Ours  bool
	Every time.Duration
	// Lease is the lease duration that goes with it, and Give by how much it may be wrong.
	Lease, Give time.Duration
	// AtLeast: it may also be longer, since some of what was counted may have been no renewal.
	AtLeast bool
}

// clearer reports whether it tells more than another of the same owner.
func (r Renewal) clearer(than Renewal) bool {
	switch {
	case r.AtLeast != than.AtLeast:
		return than.AtLeast
	case r.AtLeast:
		return r.Lease > than.Lease
	}
	return r.Give < than.Give
}

// leastRenewals is how many renewals are needed to tell their pace.
const leastRenewals = 2

// trace is what was seen of a lease.
type trace struct {
	lease       core.Lease // as it was last
	first, last time.Time  // when it was first and last seen to be renewed and nothing else
	sure        int64      // renewals after the first, up to the last
	maybe, open int64      // what may be renewals: up to the last, and after it
	busy, spoil bool       // its checkpoint moved; it cannot be told by
}

// see takes in how the lease was found at a time. A checkpoint moves the counter as a renewal does. Of ours it is one, which checkpoints ride on. Java stores it by a write of its own, so
// that a counter that moved alone was renewed, and one that moved by two with the checkpoint may have been.
func (t *trace) see(l *core.Lease, at time.Time) {
	moved := l.Counter - t.lease.Counter
	stored := !l.Checkpoint.Equal(t.lease.Checkpoint) || (l.Pending == nil) != (t.lease.Pending == nil)
	ours := l.Run != ""
	t.spoil = t.spoil || l.Owner != t.lease.Owner || l.Next != core.Nobody || l.Run != t.lease.Run || moved < 0
	t.busy = t.busy || stored
	t.lease = *l
	switch {
	case moved == 0:
	case stored && !ours:
		t.open += moved - 1
		t.spoil = t.spoil || moved > 2
	case t.first.IsZero():
		t.first, t.last, t.open = at, at, 0
	default:
		t.last, t.sure, t.maybe, t.open = at, t.sure+moved, t.maybe+t.open, 0
	}
}

func (t *trace) renewal(pitch time.Duration) (r Renewal, told bool) {
	if t.spoil || t.sure < leastRenewals {
		return r, false
	}
	took, count := t.last.Sub(t.first), time.Duration(t.sure+t.maybe)
	r = newRenewal(t.lease.Run != "", took/count, pitch/count+took/time.Duration(t.sure)-took/count)
	r.AtLeast = r.Ours && t.busy
	return r, true
}

// renewals works out how often owners renew, for each by the lease that tells it best. Owners that showed too little are left out.
func renewals(samples []Sample) map[string]Renewal {
	traces := map[core.LeaseKey]*trace{}
	var pitch time.Duration
	for i, s := range samples {
		if i > 0 {
			pitch = max(pitch, s.At.Sub(samples[i-1].At))
		}
		for j := range s.Leases {
			l := &s.Leases[j]
			if t := traces[l.Key]; t != nil {
				t.see(l, s.At)
				continue
			}
			traces[l.Key] = &trace{lease: *l, spoil: l.Owner == core.Nobody || l.Next != core.Nobody || i > 0}
		}
	}
	out := map[string]Renewal{}
	for _, t := range traces {
		r, told := t.renewal(pitch)
		if best, any := out[string(t.lease.Owner)]; told && (!any || r.clearer(best)) {
			out[string(t.lease.Owner)] = r
		}
	}
	return out
}

// Java renews each third of its lease duration less 25 ms (docs/reference/kcl.md 1.5), ours each 0.4 of it (worker.Config.RenewEvery).
func newRenewal(ours bool, every, give time.Duration) Renewal {
	if ours {
		return Renewal{Ours: true, Every: every, Lease: every * 5 / 2, Give: give * 5 / 2}
	}
	return Renewal{Every: every, Lease: 3 * (every + 25*time.Millisecond), Give: 3 * give}
}
