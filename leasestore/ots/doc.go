// Package ots keeps leases in a Tablestore status table, in rows as the Java Stream Client of Tablestore writes them.
//
//	store := ots.New(ots.Instance{Endpoint: "https://shop.cn-hangzhou.ots.aliyuncs.com", Name: "shop"}, "orders_status")
//
// # The table
//
// The primary key is StreamId, StatusType, StatusValue, all STRING. [Store.Prepare] creates the table as the Java client does where it is
// missing. One table may serve many streams. A lease row (docs/reference/tablestore.md 3.4 and 3.5 say more about Java's part):
//
//	column                  type      of     holds
//	StreamId                key       Java   the stream id of the data table
//	StatusType              key       Java   the word LeaseKey
//	StatusValue             key       Java   the shard id
//	LeaseCounter            INTEGER   Java   grows with each write of an owner and each change of owner
//	LeaseOwner              STRING    Java   the owner, empty: nobody
//	LeaseStealer            STRING    Java   who wants the lease, empty: nobody. The owner itself: it was handed the lease and has not accepted yet
//	Checkpoint              STRING    Java   TRIM_HORIZON, SHARD_END, or a shard iterator
//	ParentShardIds          STRING    Java   each parent's id and a line feed
//	sw_run                  STRING    ours   which acquisition: "worker id:random". Void once the owner is another
//	sw_ready                BOOLEAN   ours   the parents no longer matter
//	sw_taken                STRING    ours   how many records were taken of the batch that Checkpoint begins
//	sw_start                STRING    ours   RFC 3339: the instant of a LATEST or timed start that Checkpoint was resolved from
//	sw_pending              STRING    ours   a prepared checkpoint: records taken, and the iterator or word
//	sw_pendingState         BINARY    ours   the application's bytes beside it
//	sw_child_…              STRING    ours   a shard that goes on after this one, a column for each
//	sw_switches             INTEGER   ours   changes of owner since the last checkpoint
//	sw_throughput           DOUBLE    ours   KB/s
//	sw_range                STRING    ours   a hash range, for streams that have one
//
// The Java client keeps columns that it does not know, and writes a checkpoint without looking at them. So sw_taken, sw_start and sw_pending
// each begin with a mark of the Checkpoint they belong to (the first 16 hex digits of its SHA-256), and are void beside another. A row that
// the Java client creates anew has none of them.
//
// A worker announces itself in a row of its own, StreamId shardwarden, StatusType WorkerKey, StatusValue its id: sw_beat, sw_load, sw_seen, and
// sw_streams, so that fleets of different streams in one table don't count each other. Java workers announce nothing, and never read it.
//
// Rows of other kinds (another StatusType, as DataX writes) are never looked at or touched. A lease row that can't be read is reported and left
// alone; the others go on.
//
// # Java workers
//
// Whether Java workers may share the table is a setting, [WithJava]. Without it a row that a foreign worker is seen to renew stops the engine with
// core.ErrForeignWorker. Rows are the same either way, and starts always stand as iterators, which Java understands: a source must be able to
// resolve a LATEST or timed start (core.Resolver).
//
// Java workers go on owning and renewing what has ended, and count it in their shares. So, where they may come, does the engine: of six leases, two of
// them finished and a Java worker's, each of two workers has three. After many splits Java workers may hold mostly finished leases, and ours what is
// open. A finished lease stays while its shard is listed, and a shard that was over before a LATEST start is given a lease at its end, since the
// Java client makes a lease at TRIM_HORIZON for every listed shard without one.
//
// A hand-over is Java's: who wants the lease writes itself into LeaseStealer, the counter stays; the owner finishes, and makes the stealer the
// owner; the new owner's first write clears LeaseStealer. A renewal needs the counter and no stealer, so that the owner hears of the
// request by the refusal.
//
// # Calls
//
// Every write is conditional and sent once; creation and deletion too. Reads are strongly consistent and tried again for a short while. Errors
// match the kinds of package core and name the call, the table, and the RAM permission where one is missing:
//
//	always                       ots:GetRange GetRow PutRow UpdateRow DeleteRow, on the status table
//	to see what is there         ots:DescribeTable
//	where the table is missing   ots:CreateTable
package ots
