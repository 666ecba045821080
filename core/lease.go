package core

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Lease is a row of the lease table: who reads a shard, and how far. It is a value, with every dialect of a store translated away: Owner is
// always the worker that may process now, Next the one that asked for it.
type Lease struct {
	Key   LeaseKey
	Owner WorkerID // who may process; Nobody: free
	Next  WorkerID // whom the owner is asked to hand it to, never the owner; Nobody: no one asked, or there is no owner
	// Counter is the optimistic lock. In counter mode (the default) it grows by one with each write of an owner and each change of owner, so
	// that it is also the owner's sign of life; with stores that have sessions, with each change of owner only.
	Counter    int64
	Checkpoint Position
	// StartAt is the instant that a Latest or AtTime checkpoint was resolved to. Bound to that checkpoint: once another is written it is zero.
	StartAt time.Time
	Pending *Pending // prepared and not committed. Bound to the checkpoint like StartAt
	Parents []ShardID
	// Children are the shards that go on after this one ended, known once it has been read to the end.
	Children []ShardID
	Range    *HashRange
	// Ready: the parents no longer matter: this is where the application began, or somebody has owned it with its parents finished. It
	// never falls.
	Ready bool
	// Run tells apart the acquisitions of a worker and twins of one id: "worker id:random", written with each take or accepting write. Bound
	// to the owner: where the row has the run of another worker than its owner (it was given to Owner, who has not accepted yet), or none
	// (a row of the Java KCL), Run is empty.
	Run        string
	Throughput float64 // KB/s, 1 KB = 1024 bytes, smoothed
	Switches   int64   // changes of owner since the last checkpoint
	// Raw is the store's own view of the row, for tools and for the store itself. It comes back with the lease in Update and Delete.
	Raw any
}

// Ended reports whether the shard has been read to its end and that is stored.
func (l *Lease) Ended() bool { return l.Checkpoint.IsEnd() }

// From is where reading begins under this lease: its checkpoint, with the instant it was resolved to.
func (l *Lease) From() Position {
	p := l.Checkpoint
	if p.Anchor == Latest || p.Anchor == AtTime {
		p.Time = l.StartAt
	}
	return p
}

// NewRun makes a run of a worker: unique must differ at each acquisition.
func NewRun(id WorkerID, unique string) string { return string(id) + ":" + unique }

// RunWorker is the worker a run belongs to; Nobody where s is not a run.
func RunWorker(run string) WorkerID {
	i := strings.LastIndexByte(run, ':')
	if i < 0 {
		return Nobody
	}
	return WorkerID(run[:i])
}

// BoundRun is run as [Lease] shows it: empty once it does not belong to the owner. For stores.
func BoundRun(run string, owner WorkerID) string {
	if owner == Nobody || RunWorker(run) != owner {
		return ""
	}
	return run
}

// Same says which parts of a row must still be as in the lease that was read; a write whose condition does not hold changes nothing and
// fails with [ErrConflict]. That the row exists is always a condition.
type Same uint16

const (
	SameCounter    Same = 1 << iota
	SameOwner           // only together with SameNext: some dialects keep the two in one place
	SameNext            //
	SameCheckpoint      // token and sub-sequence number
	NotEnded            // the checkpoint is not ShardEnd
	Ended               // the checkpoint is ShardEnd
)

// Valid reports whether the mask can be carried by every store.
func (s Same) Valid() bool {
	if s&SameOwner != 0 && s&SameNext == 0 {
		return false
	}
	return s&(NotEnded|Ended) != NotEnded|Ended && s < Ended<<1
}

// Holds reports whether row still fits seen. It is the meaning of a Same, for stores without conditions of their own and for tests.
func (s Same) Holds(seen, row *Lease) bool {
	switch {
	case s&SameCounter != 0 && seen.Counter != row.Counter,
		s&SameOwner != 0 && seen.Owner != row.Owner,
		s&SameNext != 0 && seen.Next != row.Next,
		s&SameCheckpoint != 0 && (seen.Checkpoint.String() != row.Checkpoint.String() || seen.Checkpoint.Sub != row.Checkpoint.Sub),
		s&NotEnded != 0 && row.Ended(),
		s&Ended != 0 && !row.Ended():
		return false
	}
	return true
}

// String names the mask, for errors.
func (s Same) String() string {
	names := []string{"counter", "owner", "next", "checkpoint", "not ended", "ended"}
	var out []string
	for i, n := range names {
		if s&(1<<i) != 0 {
			out = append(out, n)
		}
	}
	return strings.Join(out, "+")
}

// SwitchOp says what a write does to Lease.Switches.
type SwitchOp uint8

const (
	SwitchKeep SwitchOp = iota
	SwitchAdd           // one more
	SwitchZero
)

// Set names what a write changes. What is not named stays as it is, columns that the store does not know included.
type Set struct {
	Bump       bool // Counter + 1: an increment, or seen + 1 under SameCounter; never a value made up otherwise
	Owner      *WorkerID
	Next       *WorkerID
	Checkpoint *Position  // also drops StartAt, unless StartAt is named too; Pending stays only if it is named
	StartAt    *time.Time // the instant the checkpoint the row has after this write was resolved to
	Pending    **Pending  // a pointer to nil drops it
	Ready      bool       // true sets it; it never falls
	Run        string     // empty stays
	Switches   SwitchOp
	Children   []ShardID // added to those the row has
	Range      *HashRange
	Throughput *float64
}

// IsZero reports whether the write would change nothing.
func (s *Set) IsZero() bool {
	return !s.Bump && s.Owner == nil && s.Next == nil && s.Checkpoint == nil && s.StartAt == nil && s.Pending == nil && !s.Ready && s.Run == "" &&
		s.Switches == SwitchKeep && len(s.Children) == 0 && s.Range == nil && s.Throughput == nil
}

// Apply returns row as it is after the write. It is the meaning of a Set, for stores whose service does not return the new row and for tests.
// row is not changed, and the result shares no slices with it.
func (s *Set) Apply(row Lease) Lease {
	row.Parents, row.Children = slices.Clone(row.Parents), slices.Clone(row.Children)
	run := row.Run
	if s.Bump {
		row.Counter++
	}
	if s.Owner != nil {
		row.Owner = *s.Owner
	}
	if s.Next != nil {
		row.Next = *s.Next
	}
	if s.Checkpoint != nil {
		row.Checkpoint, row.StartAt, row.Pending = s.Checkpoint.Clone(), time.Time{}, nil
		row.Checkpoint.Time = time.Time{}
	}
	if s.StartAt != nil {
		row.StartAt = *s.StartAt
	}
	if s.Pending != nil {
		row.Pending = *s.Pending
	}
	row.Ready = row.Ready || s.Ready
	if s.Run != "" {
		run = s.Run
	}
	row.Run = BoundRun(run, row.Owner)
	switch s.Switches {
	case SwitchAdd:
		row.Switches++
	case SwitchZero:
		row.Switches = 0
	}
	row.Children = addShards(row.Children, s.Children)
	if s.Range != nil {
		row.Range = s.Range
	}
	if s.Throughput != nil {
		row.Throughput = *s.Throughput
	}
	return row
}

func addShards(have, more []ShardID) []ShardID {
	if len(more) == 0 {
		return have
	}
	set := make(map[ShardID]bool, len(have)+len(more))
	for _, id := range have {
		set[id] = true
	}
	for _, id := range more {
		set[id] = true
	}
	if len(set) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(set))
}
