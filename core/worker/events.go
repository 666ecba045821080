package worker

import (
	"fmt"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// Kind says what an [Event] is about.
type Kind string

// The kinds of events. Shard and Stream are set where a kind is about a lease.
const (
	WorkerStarted   Kind = "worker started"
	WorkerStopped   Kind = "worker stopped" // Err: why Run returned, nil after a clean stop
	LeaseCreated    Kind = "lease created"
	LeaseTaken      Kind = "lease taken"       // it was free, or its owner (Other) was silent for too long
	LeaseAccepted   Kind = "lease accepted"    // it was given to this worker
	LeaseAsked      Kind = "lease asked"       // this worker asked Other for it
	LeaseDeclined   Kind = "lease declined"    // this worker keeps what Other asked for
	LeaseHandedOver Kind = "lease handed over" // to Other
	LeaseReleased   Kind = "lease released"
	LeaseLost       Kind = "lease lost" // Err says how that was noticed
	LeaseDeleted    Kind = "lease deleted"
	ShardWaiting    Kind = "shard waiting" // held, and its parents are not finished; Text names them
	ShardStarted    Kind = "shard started" // Position: where reading begins
	ShardEnded      Kind = "shard ended"   // read to its end, and that is stored
	ShardStopped    Kind = "shard stopped" // this worker reads it no more; Err: why
	ShardStalled    Kind = "shard stalled" // no good read for too long; Text: what is done about it
	ShardHalted     Kind = "shard halted"  // by the error policy; Err: the handler's error
	ShardTrimmed    Kind = "shard trimmed" // records were gone before they were read; Position: where reading stood
	Checkpoint      Kind = "checkpoint"    // Position was stored
	HandlerError    Kind = "handler error" // the batch will be tried again; Failures counts
	DeadLettered    Kind = "dead letter"   // the dead-letter function took Records records
	ReadError       Kind = "read error"
	StoreError      Kind = "store error"
	BadRow          Kind = "bad lease row"
	HoleFound       Kind = "hole found" // part of the stream that no lease covers; Text names it
	Unserved        Kind = "unserved"   // leases nobody may hold, for MaxLeases; Text names them
	TwinSeen        Kind = "twin"       // another worker with this id
	HandlerOverran  Kind = "handler overran"
	StreamAdded     Kind = "stream added"   // the worker consumes it from now on; Text: its name, Position: where it begins if it has no leases
	RegimeChanged   Kind = "regime changed" // the table is used by other rules from now on; Text names them
	LeadTaken       Kind = "lead taken"     // this worker says who owns what from now on; Other: who did before
	LeadLost        Kind = "lead lost"      // it does so no more; Err: why, nil where it gave the lead back
	LeaseAssigned   Kind = "lease assigned" // by this worker, which leads, to Other
	StreamRetired   Kind = "stream retired" // the worker consumes it no more; Err: why, Records: how many leases it held
)

// Event is something that happened. It owns its memory. docs/events.md says which fields come with which kind.
type Event struct {
	Time     time.Time
	Kind     Kind
	Worker   core.WorkerID // this worker
	Key      core.LeaseKey // zero where it is about the worker or the table; Shard empty where it is about the stream
	Other    core.WorkerID // the other worker of a move: who had it, who asked, who gets it
	Position core.Position // where reading begins or stands, or what was stored
	Counter  int64         // of the lease, where known
	Failures int           // in a row, of what Err is about
	Records  int           // of a dead letter; of "unserved" the leases
	Text     string        // more, for people
	Err      error         // what went wrong, or why something ended
}

// EventHook is told of every event, in order for each shard. It is called by the engine's own goroutines and must not block.
type EventHook interface{ OnEvent(Event) }

// EventFunc is a function as an EventHook.
type EventFunc func(Event)

// OnEvent calls f.
func (f EventFunc) OnEvent(e Event) { f(e) }

// Count names a counter.
type Count uint8

// The counters. They only grow.
const (
	RecordsDelivered Count = iota // to handlers, those given again included
	BytesDelivered
	BatchesDelivered
	Reads      // good reads, empty ones included
	EmptyReads //
	ReadErrors
	HandlerErrors
	Renewals
	RenewErrors // failed or unanswered
	Checkpoints
	Taken // taken or accepted
	Lost
	HandedOver
	Looks // readings of the lease table
	LookErrors
	counts
)

var countNames = [counts]string{"records delivered", "bytes delivered", "batches delivered", "reads", "empty reads", "read errors", "handler errors",
	"renewals", "renew errors", "checkpoints", "taken", "lost", "handed over", "looks", "look errors"}

// String is the counter's name.
func (c Count) String() string {
	if c >= counts {
		return fmt.Sprintf("count %d", uint8(c))
	}
	return countNames[c]
}

// CountHook is told when a counter grows by n. It is called by the engine's own goroutines, often, and must not block.
type CountHook interface {
	OnCount(c Count, key core.LeaseKey, n int64)
}
