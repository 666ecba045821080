package worker

import (
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// Status is a snapshot of a worker, for pages and tools. It owns its memory.
type Status struct {
	Worker   core.WorkerID
	State    string // "new", "starting", "running", "stopping", "stopped"
	Lister   bool   // this worker lists shards for all
	Workers  []core.WorkerID
	Shards   []ShardStatus   // every lease of the last look, and those held; sorted by key
	Unserved []core.LeaseKey // that nobody may hold, because of MaxLeases
	LastLook time.Time       // the last good reading of the lease table
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
