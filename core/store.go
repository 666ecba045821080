package core

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// LeaseStore is a lease table. An adapter implements these six methods; policy (when to renew, take, give up) is the engine's, and time is
// never judged here: no expiry, no clock, no lease duration.
//
// All methods are safe for concurrent use and honour ctx promptly. A conditional write is sent once, without retries of the service's
// client: a write that is retried below the engine makes "refused" ambiguous. Where the answer to a write is lost the error is
// ErrUnavailable (or ctx's), and the engine finds out by reading. Errors are mapped to the kinds of this package.
type LeaseStore interface {
	// Prepare creates what is missing (tables, indexes) or verifies what is there, and returns when it can be used. It may be called
	// again, and by many workers at once. ErrInvalid: there is something else under that name. ErrDenied names call and permission.
	Prepare(ctx context.Context) error

	// List yields the leases of the streams (none named: of all), in any order. It is complete, or it ends with an error. A row that is a
	// lease and cannot be read is yielded as a *RowError, and the listing goes on; every other error is the last thing yielded. Rows that are
	// no leases are skipped. The rows may be somewhat stale: a write's condition catches that.
	List(ctx context.Context, streams ...StreamID) iter.Seq2[Lease, error]

	// Get reads one lease, strongly consistent: every write that was answered before the call is seen. ErrNotFound where there is none;
	// *RowError where it cannot be read.
	Get(ctx context.Context, key LeaseKey) (Lease, error)

	// Create makes the row unless there is one: ErrExists. Of n at once exactly one succeeds. It returns the row as written. Counter, Owner,
	// Run and the like may be set.
	Create(ctx context.Context, l Lease) (Lease, error)

	// Update is the one compare-and-swap: if the row exists and is as seen in the parts that same names, it changes what set names and
	// returns the row after the write; else it changes nothing and fails with *ConflictError (ErrNotFound instead where the row is known to be
	// gone). Under SameCounter a store whose service does not return the row may return set.Apply(seen). ErrInvalid for a mask that is not Valid.
	Update(ctx context.Context, seen Lease, same Same, set Set) (Lease, error)

	// Delete removes the row under the same condition. A row that is not there is no error.
	Delete(ctx context.Context, seen Lease, same Same) error
}

// ConflictError is a write whose condition did not hold. Row is the row as it was then, nil where the service does not say: Get it. It
// matches [ErrConflict].
type ConflictError struct {
	Key LeaseKey
	Row *Lease
}

// Error shows the row as it was found, where it is known.
func (e *ConflictError) Error() string {
	if e.Row == nil {
		return fmt.Sprintf("lease %s changed", e.Key)
	}
	return fmt.Sprintf("lease %s changed: owner %q, next %q, counter %d, checkpoint %s", e.Key, e.Row.Owner, e.Row.Next, e.Row.Counter, e.Row.Checkpoint)
}

// Is makes it match ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// RowError is a row that is a lease and cannot be read. The engine leaves the lease alone, reports it, and goes on with the others; its
// shard counts as neither missing nor finished.
type RowError struct {
	Key LeaseKey // as far as it could be read
	Row string   // the key of the row as the table has it
	Err error    // which column, what it holds, what was expected
}

// Error names the row and what is wrong with it.
func (e *RowError) Error() string { return fmt.Sprintf("lease row %q: %v", e.Row, e.Err) }

// Unwrap is what errors.Is and errors.As look at next.
func (e *RowError) Unwrap() error { return e.Err }

// Presence is an optional ability of a [LeaseStore]: workers announce themselves apart from what they own, so that one that owns nothing
// yet is counted when shares are worked out. Without it a worker counts itself and those that own leases.
type Presence interface {
	// Announce writes the worker's row, whether or not it exists, with a beat that differs each time.
	Announce(ctx context.Context, w WorkerInfo) error
	// Withdraw removes it. No error where there is none.
	Withdraw(ctx context.Context, id WorkerID) error
	// Look is one reading of the whole table: leases and workers, as complete as List.
	Look(ctx context.Context, streams ...StreamID) (Sight, error)
}

// WorkerInfo is a worker as it announced itself. Beat is opaque: the engine times its changes and never reads a time from it.
type WorkerInfo struct {
	ID   WorkerID
	Beat string
	// Every is how often it announces itself, where it is not of this library: it is silent only after twice as long. 0: as this library does.
	Every time.Duration
	// Load are optional figures by name, "cpu" in percent, and Limits the most that each may be, where that is not 100.
	Load, Limits map[string]float64
}

// Sight is one reading of a lease table.
type Sight struct {
	Leases  []Lease
	Workers []WorkerInfo // empty where the store has no Presence
	Bad     []*RowError
}

// See reads the table once, with whatever the store offers: Look, or List.
func See(ctx context.Context, s LeaseStore, streams ...StreamID) (Sight, error) {
	if p, ok := s.(Presence); ok {
		return p.Look(ctx, streams...)
	}
	return Collect(s.List(ctx, streams...))
}

// Collect gathers a listing.
func Collect(list iter.Seq2[Lease, error]) (Sight, error) {
	var out Sight
	for l, err := range list {
		if err == nil {
			out.Leases = append(out.Leases, l)
			continue
		}
		bad, ok := errors.AsType[*RowError](err)
		if !ok {
			return Sight{}, err
		}
		out.Bad = append(out.Bad, bad)
	}
	return out, nil
}

// ManyUpdater is an optional ability of a [LeaseStore]: many updates in one call, each on its own condition. The suite tries it where it is
// offered; the engine does not use it yet, its renewals go one by one until a table gains from more. The errors stand in the order
// of u, nil for those that went through.
type ManyUpdater interface {
	UpdateMany(ctx context.Context, u []LeaseUpdate) ([]Lease, []error)
}

// LeaseUpdate is one update of many.
type LeaseUpdate struct {
	Seen  Lease
	Write Write
}

// StartHolder is an optional ability of a [LeaseStore]: whether a row can hold a start (Latest, AtTime) and the instant it was resolved to.
// Stores that cannot (HoldsStart false) get a token from the source's [Resolver] instead, beside the instant, which they may leave out: where they
// keep it, workers that begin at once agree on one. Without it a store holds them.
type StartHolder interface{ HoldsStart() bool }

// Sharer is an optional ability of a [LeaseStore] whose table workers of another library may use too, by rules of their own that the engine
// then keeps. It is asked anew after each reading of the table, since the rules can change with what is in it. Without it, and where it
// returns nil, such a worker that is seen to renew a lease ends the engine with [ErrForeignWorker].
type Sharer interface{ SharedWith() *Foreigners }

// Foreigners are workers of another library, as far as the engine must know them. A row that one of them owns carries no Run.
type Foreigners struct {
	// Regime names the rules, for people.
	Regime string
	// LeaseDuration is the silence after which they take a lease, ours too. The engine gives theirs a second more. 0: the table does not
	// tell, and it must be set alike.
	LeaseDuration time.Duration
	// CountFinished: they go on owning leases that have ended, and count them as part of a share.
	CountFinished bool
	// KeepFinished: who owns a lease that has ended goes on renewing it until it is deleted, ours too, and deletes it itself. Else they take
	// it for a dead worker's. It counts as part of a share, ours too.
	KeepFinished bool
	// LeaseListed: they create a lease, at its beginning, for every listed shard that has none. So one that has ended stays while its shard
	// is listed, and a shard that was over before the start is given one at its end.
	LeaseListed bool
	// Steal: they do not hear an [Ask]. What is wanted of one that lives is taken from it, under its counter.
	Steal bool
	// NoThroughput: their rows hold none, so ours don't.
	NoThroughput bool
	// Lister names which of the owners in the table lists shards for all; nil: the engine's own rule. owners is sorted, and has each once.
	Lister func(owners []WorkerID) WorkerID
	// Led: the holder of the store's [LeaderLock] says who owns what, and nobody takes or asks for himself. Workers have a row of their own,
	// and get nothing without.
	Led bool
	// Announce is how often workers of a led table must write that row: one that has not for twice as long gets nothing. 0: as the engine does.
	Announce time.Duration
}

// LeaderLock is an optional ability of a [LeaseStore]: a lock that one worker holds at a time. It judges no time: the engine does, as it does
// for leases. A holder writes it anew well within Lock.Duration; who has watched it unchanged for so long may write it instead.
type LeaderLock interface {
	// Leader reads the lock, strongly consistent. The zero Lock: nobody holds it.
	Leader(ctx context.Context) (Lock, error)
	// Lead makes me the holder with a new version, if the lock is still as seen (zero: if nobody holds it). It returns the lock as written.
	// ErrConflict: it is not. The write is sent once.
	Lead(ctx context.Context, seen Lock, me WorkerID) (Lock, error)
	// Resign gives the lock back if it is still as seen. Where it is not there is nothing to give back, and no error.
	Resign(ctx context.Context, seen Lock) error
}

// Lock is a leader's lock.
type Lock struct {
	Owner    WorkerID
	Version  string        // differs with each write
	Duration time.Duration // as the holder wrote it
}

// Evidence is an optional ability of a [LeaseStore]: what to watch to know that the owner of a lease lives: a subject and its beat. The
// owner lives while the beat changes. Without it the subject is the lease itself and the beat its counter ([LeaseEvidence]).
type Evidence interface {
	Evidence(l Lease) (subject, beat string)
}
