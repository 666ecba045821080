package worker

import (
	"cmp"
	"slices"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/lineage"
)

// Status is a snapshot of a worker, for pages and tools. It owns its memory.
type Status struct {
	Worker   core.WorkerID
	State    string        // "new", "starting", "running", "stopping", "stopped"
	Lister   bool          // this worker lists shards for all
	Regime   string        // by whose rules the table is used, where other libraries may use it too
	Leader   core.WorkerID // who says who owns what, in a table that is led
	Workers  []core.WorkerID
	Shards   []ShardStatus   // every lease of the last look, and those held; sorted by key
	Unserved []core.LeaseKey // that nobody may hold, because of MaxLeases
	LastLook time.Time       // the last good reading of the lease table
	Twin     bool            // another worker with this worker's id was seen
	Waiting  string          // why nothing is taken, where there is a reason: a start in the future, somebody else's leases
	Err      error           // of the last look or listing, nil when it went well
	Counts   map[Count]int64
}

// ShardState says what happens to a shard, as this worker sees it.
type ShardState string

// The states of a shard.
const (
	Free       ShardState = "free"       // nobody holds it
	Elsewhere  ShardState = "elsewhere"  // another worker holds it
	Waiting    ShardState = "waiting"    // held here, waits for its parents; Why names them
	Starting   ShardState = "starting"   // held here, reading begins
	Reading    ShardState = "reading"    // held here; Lag says how far behind
	Retrying   ShardState = "retrying"   // held here, the handler or the reading fails; Err, Failures
	Ending     ShardState = "ending"     // read to its end, and that is not yet acknowledged or stored
	Draining   ShardState = "draining"   // held here, being given up
	Fenced     ShardState = "fenced"     // held here, but not renewed in time: nothing is delivered
	Halted     ShardState = "halted"     // held here, stopped by the error policy or by ErrDone
	Ended      ShardState = "ended"      // read to its end
	Unreadable ShardState = "unreadable" // its lease row cannot be read; Err
)

// ShardStatus is a shard in a [Status].
type ShardStatus struct {
	Key        core.LeaseKey
	State      ShardState
	Why        string
	Owner      core.WorkerID
	Next       core.WorkerID
	Parents    []core.ShardID
	Children   []core.ShardID
	Checkpoint core.Position // as stored
	Delivered  core.Position // the last position handed to the handler; zero for shards of others
	Pending    *core.Pending // a prepared checkpoint
	Counter    int64         //
	Unchanged  time.Duration // how long the owner has not been seen to renew, by this worker's clock
	Lag        time.Duration // negative: unknown
	LastRead   time.Time     // the last good read, empty or not
	LastWrite  time.Time     // the last renewal that went through
	Buffered   int64         // bytes read ahead
	Records    int64         // delivered under this lease
	Failures   int           // of the batch at hand
	Err        error         // the last error, nil once things go well
}

// Status returns a snapshot.
func (w *Worker) Status() Status {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	s := Status{
		Worker: w.cfg.ID, State: w.state, Workers: slices.Clone(w.present), Unserved: slices.Clone(w.unserved), LastLook: w.table.at,
		Lister: w.listerLocked(), Counts: make(map[Count]int64, counts), Err: w.lookErr, Twin: w.twin,
	}
	if s.Regime = regime(w.foreigners); w.foreigners != nil && w.foreigners.Led {
		s.Leader = w.lead.lock.Owner
	}
	for _, st := range w.streamListLocked() {
		s.Waiting = cmp.Or(s.Waiting, st.waiting)
		s.Err = cmp.Or(s.Err, st.listErr)
	}
	if w.holdOff {
		s.Waiting = "a worker of another library owned leases: waiting to see whether it lives"
	}
	for c := range counts {
		s.Counts[c] = w.counts[c].Load()
	}
	for _, h := range w.held {
		s.Shards = append(s.Shards, h.status(now))
	}
	for k, r := range w.table.rows {
		if w.held[k] == nil {
			s.Shards = append(s.Shards, r.status(now, w.limits, w.graphs[k.Stream]))
		}
	}
	for k, b := range w.table.bad {
		s.Shards = append(s.Shards, ShardStatus{Key: k, State: Unreadable, Err: b, Lag: -1})
	}
	slices.SortFunc(s.Shards, func(a, b ShardStatus) int {
		return cmp.Or(cmp.Compare(a.Key.Stream, b.Key.Stream), cmp.Compare(a.Key.Shard, b.Key.Shard))
	})
	return s
}

// status of a lease that this worker does not hold.
func (r *sighting) status(now time.Time, l limits, g *lineage.Graph) ShardStatus {
	s := rowStatus(&r.lease)
	s.Unchanged = r.silent(now)
	switch {
	case r.lease.Ended():
		s.State = Ended
	case r.free(now, l):
		s.State = Free
		if g != nil && !r.lease.Ready {
			_, s.Why = g.MayStart(r.lease.Key.Shard)
		}
	default:
		s.State = Elsewhere
	}
	return s
}

func rowStatus(l *core.Lease) ShardStatus {
	return ShardStatus{
		Key: l.Key, Owner: l.Owner, Next: l.Next, Parents: slices.Clone(l.Parents), Children: slices.Clone(l.Children),
		Checkpoint: l.From(), Pending: l.Pending, Counter: l.Counter, Lag: -1,
	}
}

// status of a lease that is held.
func (h *holding) status(now time.Time) ShardStatus {
	h.mu.Lock()
	s := rowStatus(&h.lease)
	s.State, s.Why, s.Err, s.LastWrite, s.Unchanged = h.state, h.why, h.err, h.goodAt, now.Sub(h.goodAt)
	if h.fenced {
		s.State = Fenced
	}
	c := h.consumer
	h.mu.Unlock()
	if c == nil {
		return s
	}
	c.reads.mu.Lock()
	s.LastRead, s.Lag = c.reads.lastRead, c.reads.lag
	if s.LastRead.IsZero() {
		s.Lag = -1
	} else if silent := now.Sub(s.LastRead); s.Lag >= 0 && !c.reads.waiting && silent > h.w.cfg.LeaseDuration {
		s.Lag += silent // nothing was heard for a while: it falls behind, whatever it last knew
	}
	if c.reads.err != nil && s.Err == nil {
		s.Err, s.Failures = c.reads.err, c.reads.errs
		if s.State == Reading {
			s.State = Retrying
		}
	}
	c.reads.mu.Unlock()
	s.Buffered, s.Records = c.window.held(), c.records.Load()
	if n := c.failures.Load(); n > 0 {
		s.Failures = int(n)
	}
	if p := c.delivered.Load(); p != nil {
		s.Delivered = *p
	}
	return s
}
