package core

import (
	"errors"
	"fmt"
)

// Why the right to process a shard ended: the causes of a handler's context, and what [Stopper] is told.
var (
	// ErrLeaseLost: another worker has the shard, or may have it by now. What is done under the lease from here on counts for nothing.
	ErrLeaseLost = errors.New("lease lost")
	// ErrHandOver: another worker asked for the shard and gets it once the handler has returned.
	ErrHandOver = errors.New("lease is being handed over")
	// ErrShutdown: this worker stops.
	ErrShutdown = errors.New("worker is shutting down")
	// ErrStalled: no good read of the shard for too long; reading starts again, or the shard is given to another worker.
	ErrStalled = errors.New("shard stalled: no good read for too long")
)

// What a handler may return to mean more than "try again".
var (
	// ErrDone: this application wants no more of the shard. It is kept, unread, and shown as done until the worker restarts.
	ErrDone = errors.New("handler wants no more of this shard")
	// ErrRestart: end this processor and begin the shard again at its checkpoint, with a new processor.
	ErrRestart = errors.New("handler asks to begin again at the checkpoint")
)

// Kinds of error that adapters map the errors of their service to. They may be wrapped any number of times.
var (
	// ErrThrottled: the service asks for less. Trying again later helps.
	ErrThrottled = errors.New("throttled")
	// ErrUnavailable: the service did not answer, or failed by itself. Whether a write took place is not known.
	ErrUnavailable = errors.New("service unavailable")
	// ErrDenied: the credentials do not allow the call. The error around it names the call and the permission.
	ErrDenied = errors.New("access denied")
	// ErrNotFound: there is no such stream, shard, table or lease.
	ErrNotFound = errors.New("not found")
	// ErrExists: there is such a lease already.
	ErrExists = errors.New("exists already")
	// ErrConflict: the condition of a write did not hold. It comes as *ConflictError.
	ErrConflict = errors.New("lease changed")
	// ErrExpired: an iterator, token or session of the service has run out; a new one is needed.
	ErrExpired = errors.New("expired")
	// ErrTrimmed: records behind the position are no longer kept by the service.
	ErrTrimmed = errors.New("records were trimmed by the service")
	// ErrInvalid: a setting, or what a service answered, makes no sense. The error around it names it.
	ErrInvalid = errors.New("invalid")
)

// What ends a worker, because going on would harm.
var (
	// ErrOtherStream: the lease table belongs to another stream, or to a former one of the same name.
	ErrOtherStream = errors.New("lease table belongs to another stream")
	// ErrForeignWorker: a worker that is not ours keeps leases in the table, and sharing it is not yet safe.
	ErrForeignWorker = errors.New("lease table is in use by a worker of another library")
	// ErrTwin: another worker runs with this worker's id. It is reported; it ends the shard it is about, not the worker.
	ErrTwin = errors.New("another worker runs with the same worker id")
)

// Error says what was done to which shard when Err happened.
type Error struct {
	Op     string // "renew", "take", "list shards", …
	Stream StreamID
	Shard  ShardID // empty where it is about the stream or the table
	Err    error
}

// Error says what was done to what, and what came of it.
func (e *Error) Error() string {
	switch {
	case e.Shard != "":
		return fmt.Sprintf("%s shard %s of %s: %v", e.Op, e.Shard, e.Stream, e.Err)
	case e.Stream != "":
		return fmt.Sprintf("%s %s: %v", e.Op, e.Stream, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.Op, e.Err)
}

// Unwrap is what errors.Is and errors.As look at next.
func (e *Error) Unwrap() error { return e.Err }
