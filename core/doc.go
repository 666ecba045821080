// Package core is the contract of Shardwarden: what users, adapters and the engine say to each other. It holds types and interfaces, no
// goroutine and no I/O.
//
// A stream has shards. A shard has records in order, zero, one or two parents, and ends when it is split or merged. A lease is the row
// that says who reads a shard and how far. A worker is one process's share-taker. A store holds leases.
//
// # Who reads what
//
// Users write a [Processor] (or a [ProcessorFunc], a [Factory], a [ShardFunc]), pick a [StreamSource] and a [LeaseStore], and give them to
// package worker. They meet [Batch], [Record], [Position] and [Session], and the errors.
//
// Adapters for a stream implement [StreamSource] and [ShardReader]: five methods. Adapters for a lease table implement [LeaseStore]: six.
// More abilities are small interfaces that the engine finds once, at construction: [Resolver], [PositionOrder], [Clock] on a source;
// [Presence], [ManyUpdater], [StartHolder], [Evidence], [Sharer], [LeaderLock] on a store. A missing one has a fallback that its comment names. examples/customsource is a source in
// two hundred lines, docs/adapters.md the way to one, and package conformance tells whether it is right.
//
// # The rules an adapter can rely on, and must keep
//
//   - A listing is complete or an error. Nothing is created, deleted or believed missing on the word of half a listing.
//   - Tokens are the source's own. Nobody else compares or parses them.
//   - A store judges no time. The engine watches [Lease.Counter] (or what [Evidence] names) on its own monotonic clock.
//   - A write is sent once. The engine repeats it, reads the row again, and knows what an unknown answer means.
//   - What a write does not name stays as it is, unknown columns included.
//
// # Every conditional write
//
// One compare-and-swap carries them all. [Same] is the condition and [Set] the change; the functions named at the left make them.
//
//	write                condition              change                                     afterwards
//	create               row absent             the row                                    a race is no error
//	Renew                counter, next          counter+1 [throughput]                     refused: read the row, go by owner, counter, run
//	Store (checkpoint)   counter                counter+1, checkpoint, pending dropped     a sign of life too; never goes back
//	Renew+Store          counter, next          both in one write                          how checkpoints are stored as a rule
//	PrepareStore         counter                counter+1, pending
//	Take                 counter, not ended     owner, next none, counter+1, run, ready    begin at the checkpoint in the row after the take
//	Accept               counter, next          counter+1, run [ready]                     before the first record is read
//	MarkReady            counter, next          counter+1, ready                           once every parent has finished
//	Ask                  owner, next, not ended next                                       the owner's next Renew is refused, so it hears
//	AskFor               owner, next, not ended next                                       by the leader of a led table
//	Assign               counter, not ended     owner, next none, counter+1                by the leader of a led table; the owner then accepts
//	Decline              counter, next          counter+1, next none                       kills a hand-over still on its way
//	Unask                owner, next, not ended next none                                  by who asked, before it leaves
//	HandOver             counter, next          owner, next none, counter+1                once sent, never processed under that counter again
//	Release              counter                owner none, next none, counter+1           as HandOver
//	AddChildren          row exists             children                                   after their leases are created, before END
//	FillRange            row exists             hash range
//	FixStart             counter, checkpoint    counter+1, start instant
//	delete               ended                                                             once every child is ready; missing is not ended
//
// The KCL's writes (docs/reference/kcl.md 1.4) and those of the Java Stream Client (docs/reference/tablestore.md 3.5) are values of the same
// shape; writes_test.go builds each. The protocol and what goes wrong without each condition: docs/model/README.md.
//
// # Dialects
//
// A store translates its rows, so that the engine sees one meaning. KCL 3 keeps the next owner in leaseOwner and the current one in
// checkpointOwner while a hand-over is asked for: then Owner is the latter and Next the former. What we add to the rows of others says what it
// belongs to: Sub, Pending and StartAt are those of a checkpoint and are ignored beside another; Run carries its worker id and is ignored
// under another owner (never because the counter moved); Ready stands for the life of the row.
package core
