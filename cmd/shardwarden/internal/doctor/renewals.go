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
}

// leastRenewals is how many renewals are needed to tell their pace.
const leastRenewals = 2

// renewals works out how often owners renew. It goes by leases whose checkpoint stood still, since a checkpoint moves the counter too, and takes for each owner the
// lease that showed most renewals. Owners that showed too few are left out.
func renewals(samples []Sample) map[string]Renewal {
	type trace struct {
		first, last  Sample // when the counter was first and last seen to move
		from, to     int64
		lease        core.Lease
		moved, spoil bool
	}
	traces := map[core.LeaseKey]*trace{}
	var pitch time.Duration
	for i, s := range samples {
		if i > 0 {
			pitch = max(pitch, s.At.Sub(samples[i-1].At))
		}
		for _, l := range s.Leases {
			t := traces[l.Key]
			if t == nil {
				traces[l.Key] = &trace{lease: l, spoil: l.Owner == core.Nobody || l.Next != core.Nobody || i > 0}
				continue
			}
			t.spoil = t.spoil || l.Owner != t.lease.Owner || l.Next != core.Nobody || l.Run != t.lease.Run || !l.Checkpoint.Equal(t.lease.Checkpoint) || l.Counter < t.lease.Counter
			if l.Counter != t.lease.Counter {
				if !t.moved {
					t.moved, t.first.At, t.from = true, s.At, l.Counter
				}
				t.last.At, t.to = s.At, l.Counter
			}
			t.lease.Counter = l.Counter
		}
	}
	out := map[string]Renewal{}
	most := map[string]int64{}
	for _, t := range traces {
		owner, count := string(t.lease.Owner), t.to-t.from
		if t.spoil || !t.moved || count < leastRenewals || count <= most[owner] {
			continue
		}
		most[owner] = count
		every := t.last.At.Sub(t.first.At) / time.Duration(count)
		out[owner] = newRenewal(t.lease.Run != "", every, pitch/time.Duration(count))
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
