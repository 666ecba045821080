package core

import "time"

// Write is a conditional write of a lease: what must still hold, and what changes. The functions below make every write the engine sends,
// so the protocol (docs/model, and the table in this package's comment) stands in one place, and a store need not know any of it.
type Write struct {
	Same Same
	Set  Set
}

// Renew is the owner's sign of life. It fails where the row was taken, and where somebody asks for the lease: that is how the owner hears.
func Renew(throughput *float64) Write {
	return Write{SameCounter | SameNext, Set{Bump: true, Throughput: throughput}}
}

// Take makes me the owner of a lease that is free or whose owner is dead.
func Take(seen *Lease, me WorkerID, run string) Write {
	s := Set{Bump: true, Owner: new(me), Next: new(Nobody), Run: run, Ready: true}
	if seen.Owner != me {
		s.Switches = SwitchAdd
	}
	return Write{SameCounter | NotEnded, s}
}

// Accept is a new owner's first write on a lease it was given (handed over, assigned, or found to be its own). It stands before the first
// record is read. ready: the parents have finished.
func Accept(run string, ready bool) Write {
	return Write{SameCounter | SameNext, Set{Bump: true, Run: run, Ready: ready}}
}

// MarkReady is the first write after the parents finished, on a lease that is already held.
func MarkReady() Write { return Write{SameCounter | SameNext, Set{Bump: true, Ready: true}} }

// Ask asks the owner to hand the lease to me. The counter stays: it moves too often for the one who asks.
func Ask(me WorkerID) Write { return AskFor(me) }

// AskFor asks the owner to hand the lease to another: what the leader of a led table does.
func AskFor(to WorkerID) Write {
	return Write{SameOwner | SameNext | NotEnded, Set{Next: new(to)}}
}

// Assign makes to the owner of a lease that is free or whose owner is dead: what the leader of a led table does. to accepts before it reads.
// The counter as read is a condition, beyond what the KCL asks for: an owner that has come back keeps the lease.
func Assign(seen *Lease, to WorkerID) Write {
	s := Set{Bump: true, Owner: new(to), Next: new(Nobody)}
	if seen.Owner != to {
		s.Switches = SwitchAdd
	}
	return Write{SameCounter | NotEnded, s}
}

// Decline is the owner's no. It bumps the counter, which kills a hand-over that is still on its way.
func Decline() Write {
	return Write{SameCounter | SameNext, Set{Bump: true, Next: new(Nobody)}}
}

// Unask takes an ask back, by who asked. The counter stays, as with Ask; a hand-over that answers the ask is refused from then on.
func Unask() Write { return Write{SameOwner | SameNext | NotEnded, Set{Next: new(Nobody)}} }

// HandOver makes to the owner, in one write, after user code has returned and the checkpoint is in. Once sent, the lease is never processed
// again under the counter it was sent with. It fails where who asked has taken that back: it may be gone, and the lease would wait to expire.
func HandOver(to WorkerID) Write {
	return Write{SameCounter | SameNext, Set{Bump: true, Owner: new(to), Next: new(Nobody), Switches: SwitchAdd}}
}

// Release makes the lease free, under the same rule as HandOver.
func Release() Write {
	return Write{SameCounter, Set{Bump: true, Owner: new(Nobody), Next: new(Nobody)}}
}

// Store stores a checkpoint. It is a sign of life too. It drops what was prepared.
func Store(p Position, throughput *float64) Write {
	var none *Pending
	return Write{SameCounter, Set{Bump: true, Checkpoint: new(p), Pending: new(none), Switches: SwitchZero, Throughput: throughput}}
}

// PrepareStore stores a prepared checkpoint beside the checkpoint.
func PrepareStore(p *Pending) Write {
	return Write{SameCounter, Set{Bump: true, Pending: new(p)}}
}

// AddChildren records the children on a parent that was read to its end; before the end is stored, and after their leases are created.
func AddChildren(children []ShardID) Write { return Write{0, Set{Children: children}} }

// FillRange adds the hash range that an older row lacks.
func FillRange(r *HashRange) Write { return Write{0, Set{Range: r}} }

// FixStart stores the instant that a start without one (a row of the KCL) is resolved to, by the owner, before the first record.
func FixStart(at time.Time) Write {
	return Write{SameCounter | SameCheckpoint, Set{Bump: true, StartAt: new(at)}}
}

// Remove is the condition on which a finished lease is deleted.
const Remove = Ended
