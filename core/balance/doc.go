// Package balance decides which worker should hold which lease. It is pure: from one look at the leases and the workers to an ordered list of
// moves, with no clock, no goroutine and no I/O.
//
// Nobody leads. Each worker makes the same [Plan] from its own look and carries out its own part ([Plan.For]): it takes free leases and asks live
// owners for theirs. Looks differ a little, so a plan is made such that small differences stay small: shares follow from counts alone, who holds
// more keeps more, and everything else is settled by a hash of worker and lease (rendezvous hashing), not by a worker's place in a list that shifts
// whenever somebody comes or goes. A move that somebody else made first fails on its condition and costs one refused write.
//
// # Shares
//
// Each worker's share is the number of leases divided by that of workers, rounded up or down; a worker with a cap below that has its cap, and
// the others more. Those rounded up are first those that hold more than the lower number, so a fleet that is even within one never moves anything.
// What no cap leaves room for is named in [Plan.Unserved].
//
// A lease that somebody asked for counts for the one who asked. A lease whose owner died is free, and goes first to a worker of the same id (one that
// came back), then to whoever asked for it, then by hash. Ended leases are not load and take no place. Leases that wait for a parent are no load, but
// somebody must hold them so that they start at once: they are spread by their own number, take a place under a cap, and yield it to a lease that can be
// read ([Plan.Drop]).
//
// # Free leases never wait for a share
//
// A worker takes its share of what is free at once. What is still free at its next look, because the worker that it fell to is gone, slow, or
// cut off, goes to one worker more, then to three more, seven, and so on by rank of the hash ([Lease.Waited]), whatever their shares: doubling finds one
// that works within a few looks without all of them writing to the same rows at once.
//
// # Weights
//
// By default each lease counts as one. With [Input.Weights] what counts is the throughput, see [Lease.Weight].
package balance
