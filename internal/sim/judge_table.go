package sim

import (
	"slices"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// attempt notes a write on its way: the right to process that comes of it counts from its start.
func (j *Judge) attempt(m *Member, seen *core.Lease, start time.Time) {
	j.mu.Lock()
	j.shard(seen.Key.Shard).attempts[m] = attempt{start, seen.Counter}
	j.mu.Unlock()
}

// write judges a change of the table. It is told of each in order, before the call that made it returns.
func (j *Judge) write(before, after *core.Lease, by string) {
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stats.Writes++
	m := j.members[by]
	var s *shardLog
	if after != nil {
		s = j.shard(after.Key.Shard)
	} else {
		s = j.shard(before.Key.Shard)
	}
	if !j.tainted && m != nil {
		switch {
		case before == nil:
			j.created(s, m, after)
		case after == nil:
			j.deleted(s, m, before)
		default:
			j.updated(s, m, before, after, now)
		}
	}
	s.row = after
	switch {
	case before == nil:
		s.existed, s.wrote = true, now
	case after == nil:
		s.done = before.Ended()
		s.holder, s.last, s.lastOwner = nil, 0, nil // fences begin anew with the row
	default:
		j.follow(s, m, before, after, now)
	}
}

// follow keeps track of who may deliver, and since when.
func (j *Judge) follow(s *shardLog, m *Member, before, after *core.Lease, now time.Time) {
	if after.Counter != before.Counter {
		s.wrote = now
	}
	if m != nil && after.Owner == m.ID() {
		start := now
		if a, ok := s.attempts[m]; ok && a.counter == before.Counter {
			start = a.start
		}
		s.right[m] = start
	}
	switch {
	case after.Run == "":
		s.holder = nil
	case after.Run != before.Run:
		s.holder, s.fence = m, uint64(after.Counter)
		s.base, _ = j.place(after.Checkpoint)
		s.ownAcked = s.base
		if j.runs[after.Run] == nil {
			j.runs[after.Run] = m
		}
	}
}

// place is how many records of its shard lie before a checkpoint.
func (j *Judge) place(p core.Position) (n int, known bool) {
	switch p.Anchor {
	case core.ShardEnd:
		return 1 << 40, true
	case core.AfterToken:
		i, ok := j.bySeq[p.Token]
		if !ok {
			return 0, false
		}
		return j.records[i].at + 1, true
	}
	return 0, true
}

func (j *Judge) created(s *shardLog, m *Member, after *core.Lease) {
	if s.done {
		j.bad(s.id, "T1: %s makes the lease anew, which was deleted after END: all of it would come again", m.Name)
	}
	if after.Owner != core.Nobody || after.Next != core.Nobody || after.Run != "" || after.Counter != 0 {
		j.bad(s.id, "T2: %s creates the lease with owner %q, next %q, run %q, counter %d", m.Name, after.Owner, after.Next, after.Run, after.Counter)
	}
	if n, _ := j.place(after.Checkpoint); n > s.acked {
		j.bad(s.id, "T3: %s creates the lease at %s, behind %d records; %d are done", m.Name, after.Checkpoint, n, s.acked)
	}
	if after.Ready {
		j.parentsDone(s, m)
	}
}

// parentsDone judges that Ready may be set: each parent was read to its end, or ended before the application began.
func (j *Judge) parentsDone(s *shardLog, m *Member) {
	for _, id := range s.parents {
		p := j.byID[id]
		switch {
		case p.row != nil && p.row.Ended(), p.row == nil && p.done:
		case !p.existed && p.closed && p.acked == len(p.records):
		default:
			j.bad(s.id, "T4: %s sets Ready though its parent %s is not finished", m.Name, id)
		}
	}
}

func (j *Judge) deleted(s *shardLog, m *Member, before *core.Lease) {
	if !before.Ended() {
		if before.Owner != core.Nobody || before.Counter != 0 {
			j.bad(s.id, "T5: %s deletes the lease at %s, owner %q", m.Name, before.Checkpoint, before.Owner)
		}
		return
	}
	for _, id := range s.children {
		if c := j.byID[id]; !(c.row != nil && c.row.Ready || c.done) {
			j.bad(s.id, "T5: %s deletes the finished lease before its child %s is ready", m.Name, id)
		}
	}
}

func (j *Judge) updated(s *shardLog, m *Member, before, after *core.Lease, now time.Time) {
	me := m.ID()
	bump := after.Counter - before.Counter
	if bump < 0 || bump > 1 {
		j.bad(s.id, "T6: %s moves the counter from %d to %d", m.Name, before.Counter, after.Counter)
	}
	if before.Ready && !after.Ready {
		j.bad(s.id, "T7: %s takes Ready away", m.Name)
	}
	if after.Ready && !before.Ready {
		j.parentsDone(s, m)
	}
	if !after.Checkpoint.Equal(before.Checkpoint) {
		j.checkpoint(s, m, before, after)
	}
	owner, next, run := after.Owner != before.Owner, after.Next != before.Next, after.Run != before.Run && after.Run != ""
	if bump == 0 {
		// An ask, or columns that say nothing about the right to process.
		switch {
		case owner, run, after.Ready != before.Ready, !after.Checkpoint.Equal(before.Checkpoint):
			j.bad(s.id, "T6: %s writes owner %q -> %q, run %q -> %q, checkpoint %s -> %s and leaves the counter at %d", m.Name, before.Owner, after.Owner, before.Run, after.Run, before.Checkpoint, after.Checkpoint, before.Counter)
		case next && before.Next == me && before.Owner != me && after.Next == core.Nobody: // its own ask, taken back
		case next && m.fleet.Led && before.Next == core.Nobody && after.Next != before.Owner: // by who leads, for another
			j.stats.Asks++
		case next && (before.Next != core.Nobody || after.Next != me):
			j.bad(s.id, "T8: %s sets next from %q to %q without the counter: only an ask for itself, or its end, may do that", m.Name, before.Next, after.Next)
		case next:
			j.stats.Asks++
		}
		return
	}
	switch {
	case owner && after.Owner == me, !owner && run && !j.mine(before, m):
		j.taken(s, m, before, after, now, owner)
	case owner && m.fleet.Led && before.Owner != me && after.Owner != core.Nobody:
		j.assigned(s, m, before, after, now)
	case owner:
		j.given(s, m, before, after, now)
	case before.Owner != me:
		j.bad(s.id, "T9: %s writes counter %d of a lease that is %q's", m.Name, after.Counter, before.Owner)
	case run:
		j.stats.Accepts++
	case next && after.Next == core.Nobody:
		j.stats.Declines++
	case next:
		j.bad(s.id, "T8: %s sets next of its own lease to %q", m.Name, after.Next)
	}
}

// mine: the row names m, and it was given to m and not yet accepted, or the acquisition is one of m's own.
func (j *Judge) mine(row *core.Lease, m *Member) bool {
	return row.Owner == m.ID() && (row.Run == "" || j.runs[row.Run] == m)
}

// taken judges that a lease may be taken.
func (j *Judge) taken(s *shardLog, m *Member, before, after *core.Lease, now time.Time, owner bool) {
	if before.Ended() {
		j.bad(s.id, "T10: %s takes the lease, which has ended", m.Name)
	}
	if after.Next != core.Nobody || after.Run == "" || !after.Ready {
		j.bad(s.id, "T10: %s takes the lease and leaves next %q, run %q, ready %v", m.Name, after.Next, after.Run, after.Ready)
	}
	if before.Owner == core.Nobody {
		j.stats.Takes++
		return
	}
	j.stats.Failovers++
	if d := now.Sub(s.wrote); d < m.lease {
		j.bad(s.id, "T11: %s takes the lease from %s %v after it was last written; by its clock that takes %v", m.Name, before.Owner, d, m.lease)
	}
}

// assigned judges that who leads may give a lease to another: as if that one took it.
func (j *Judge) assigned(s *shardLog, m *Member, before, after *core.Lease, now time.Time) {
	if before.Ended() {
		j.bad(s.id, "T10: %s gives %q the lease, which has ended", m.Name, after.Owner)
	}
	if after.Next != core.Nobody || after.Run != "" {
		j.bad(s.id, "T10: %s gives %q the lease and leaves next %q, run %q", m.Name, after.Owner, after.Next, after.Run)
	}
	if before.Owner == core.Nobody {
		j.stats.Takes++
		return
	}
	j.stats.Failovers++
	if d := now.Sub(s.wrote); d < m.lease {
		j.bad(s.id, "T11: %s gives %q the lease of %s %v after it was last written; by its clock that takes %v", m.Name, after.Owner, before.Owner, d, m.lease)
	}
}

// given judges a hand-over or a release.
func (j *Judge) given(s *shardLog, m *Member, before, after *core.Lease, now time.Time) {
	if before.Owner != m.ID() {
		j.bad(s.id, "T9: %s gives away a lease that is %q's", m.Name, before.Owner)
		return
	}
	if after.Owner == core.Nobody {
		j.stats.Releases++
	} else {
		j.stats.HandOvers++
	}
	if after.Next != core.Nobody {
		j.bad(s.id, "T12: %s gives the lease to %q and leaves next %q", m.Name, after.Owner, after.Next)
	}
	for c := range s.running {
		if c.m == m {
			j.bad(s.id, "T12: %s gives the lease to %q while its handler still runs under fence %d", m.Name, after.Owner, c.fence)
		}
	}
	if !m.whole || s.holder != m || s.lastAck.Equal(now) {
		return
	}
	// What it acknowledged while it was trusted is in, or the next owner repeats it for nothing.
	if n, _ := j.place(after.Checkpoint); n < s.ownAcked {
		j.bad(s.id, "T12: %s gives the lease to %q at checkpoint %s, behind %d records; %d are done", m.Name, after.Owner, after.Checkpoint, n, s.ownAcked)
	}
}

// checkpoint judges that a checkpoint may be stored.
func (j *Judge) checkpoint(s *shardLog, m *Member, before, after *core.Lease) {
	was, _ := j.place(before.Checkpoint)
	is, known := j.place(after.Checkpoint)
	switch {
	case !known:
		j.bad(s.id, "C1: %s stores checkpoint %s, which is no record of the shard", m.Name, after.Checkpoint)
	case is < was:
		j.bad(s.id, "C2: %s moves the checkpoint back from %s to %s", m.Name, before.Checkpoint, after.Checkpoint)
	case after.Owner != before.Owner || before.Owner != m.ID():
		j.bad(s.id, "C3: %s stores a checkpoint in a lease of %q", m.Name, before.Owner)
	case after.Ended():
		j.ended(s, m, after)
	case is > s.acked:
		j.bad(s.id, "C4: %s stores checkpoint %s, behind %d records; %d are done", m.Name, after.Checkpoint, is, s.acked)
	case j.runs[before.Run] != m:
		j.bad(s.id, "C3: %s stores a checkpoint under the run %s of another", m.Name, before.Run)
	}
}

// ended judges that END may be stored.
func (j *Judge) ended(s *shardLog, m *Member, after *core.Lease) {
	if !s.closed {
		j.bad(s.id, "C5: %s stores END of a shard that is open", m.Name)
	}
	if s.acked < len(s.records) {
		j.bad(s.id, "C5: %s stores END, and %d of %d records are done", m.Name, s.acked, len(s.records))
	}
	for _, id := range s.children {
		if c := j.byID[id]; !c.existed {
			j.bad(s.id, "C6: %s stores END before its child %s has a lease", m.Name, id)
		}
		if !slices.Contains(after.Children, id) {
			j.bad(s.id, "C6: %s stores END before its child %s stands in the row", m.Name, id)
		}
	}
}
