package core

import (
	"context"
	"iter"
)

// Processor handles the records of one shard. Calls for one shard never overlap; different shards run side by side.
//
// ctx belongs to this shard under this lease. It is cancelled, with a cause ([context.Cause]: [ErrLeaseLost], [ErrHandOver], [ErrShutdown]),
// the moment the right to process ends; a handler should return then, and whatever it returns, nothing it did after that is acknowledged.
//
// An error never skips records: the same batch is given again after a pause, for ever unless the worker is told otherwise
// ([ErrDone], [ErrRestart] are two errors with a meaning of their own). A panic is an error of that shard only.
type Processor interface {
	Process(ctx context.Context, b *Batch) error
}

// ProcessorFunc is a Processor without state.
type ProcessorFunc func(ctx context.Context, b *Batch) error

// Process calls f.
func (f ProcessorFunc) Process(ctx context.Context, b *Batch) error { return f(ctx, b) }

// ShardEnder is an optional ability of a [Processor]. ShardEnded comes after the last record of a shard that was split or merged. nil lets
// the end be stored, and the children begin; an error is retried like one of Process. In manual mode it is this, or a checkpoint of the last
// record, that ends the shard.
type ShardEnder interface {
	ShardEnded(ctx context.Context) error
}

// Stopper is an optional ability of a [Processor]. Stopping comes once, after the last Process of this lease has returned. why is the cause:
// under [ErrHandOver] and [ErrShutdown] the lease is still held and a checkpoint can be stored (the last chance); under [ErrLeaseLost] it is
// too late. ctx ends when the time for this is over.
type Stopper interface {
	Stopping(ctx context.Context, why error)
}

// Session is one shard under one lease, from the taking to the end. It outlives batches, so a handler that gathers over many keeps it. Safe
// for concurrent use. Once the lease is gone its methods fail with [ErrLeaseLost].
type Session interface {
	Key() LeaseKey
	Fence() uint64   // see Batch.Fence
	Start() Position // where reading began

	// Checkpoint stores that everything up to p is done: a new owner resumes behind it. It returns when the store has it. p must not lie
	// before what is stored or, where the source can tell, behind what was delivered. In automatic mode the engine does this by itself and
	// Checkpoint only says so sooner.
	Checkpoint(ctx context.Context, p Position) error

	// Prepare stores p and some state beside the checkpoint, in manual mode only; Commit then makes p the checkpoint. An owner that comes
	// in between finds both in Pending: for sinks that commit in two phases. state is at most 64 KiB.
	Prepare(ctx context.Context, p Position, state []byte) (Prepared, error)

	// Pending is what an earlier owner prepared and did not commit.
	Pending() (Pending, bool)
}

// Prepared is a checkpoint that waits for its second phase.
type Prepared interface {
	Commit(ctx context.Context) error
}

// Pending is a prepared checkpoint as a lease row holds it.
type Pending struct {
	At    Position
	State []byte
}

// Factory makes the processor of a shard, each time a lease is begun. An error is retried like one of Process.
type Factory func(ctx context.Context, s Session) (Processor, error)

// ShardFunc is the pulled form: it owns the loop over a shard. Returning nil after the last batch ends the shard; returning nil before
// that is [ErrDone]; an error is retried from the last acknowledged record.
type ShardFunc func(ctx context.Context, s PullSession) error

// PullSession is a session whose batches are pulled.
type PullSession interface {
	Session
	// Batches yields the batches in order. Asking for the next acknowledges the last. It ends after the last batch of a shard that ended, or
	// with an error: the cause of ctx, when the right to process has ended.
	Batches(ctx context.Context) iter.Seq2[*Batch, error]
}
