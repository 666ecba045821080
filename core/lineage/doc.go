// Package lineage answers, from one look at a stream and its leases, four questions: which leases to create, which shards may be read now,
// which leases may be deleted, and what is missing. It is pure: no clock, no goroutine, no I/O. What it is given it does not change.
//
// A stream's shards form a graph: a split makes two children of one parent, a merge one child of two. Records with the same key go on from
// parent to child, so a child is read only after its parents, both of a merge. The rows of the lease table are the only memory there is of
// what has been read, and they come and go: rows of finished shards are deleted, others were lost, or written by another library. From this
// come the rules.
//
// # The gate
//
// A lease may be read when it is ready, or when every parent has finished ([Graph.Waits] says what holds it). Ready says that the parents no
// longer matter, and never falls: [core.Lease.Ready], and for rows that another library wrote a checkpoint that shows they were read
// before: a token, LATEST, or the end. A parent that has a lease has finished when its checkpoint is the end. A parent without a lease has
// finished when a complete listing no longer shows it; while it is listed it holds its children back, and [Create] makes its lease. Not seen
// is not finished: without a listing, or with one so old that it shows neither the child nor what came of it, such a parent holds back too, and so does
// one whose row cannot be read.
//
// The flag is what makes this safe over time. A stream that was split before an application began at LATEST has parents that are listed,
// unread, and will never be read: the shards open at the start are created ready. A finished parent's row is deleted while the service still
// lists it: by then each of its children is ready, so none waits for it, and that is also how Create knows not to make it again.
//
// # Where a lease begins
//
// A shard open at the start begins at the start, ready. What grew out of it begins at its beginning, never at LATEST, since all of it arrived
// after the start. What ended before the start gets no lease. See [Input.Start] for which instant that is.
//
// # Deleting
//
// An ended lease goes once each of its children has a lease that is ready, and none of its parents has one any more: what is deleted is always
// the oldest, so a child without a lease beneath a parent with one was never created, and can be created without reading anything twice.
//
// Snapshots may be older than each other. Leases name parents and children too, and count as well as the listing, so a listing that is
// older than the leases (still shows a parent as open that has been read and deleted) creates nothing. A scan that is torn by writes can still
// show a parent gone and its child not yet ready: see [Create].
package lineage
