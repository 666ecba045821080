// Package dynamo keeps leases in a DynamoDB table, in rows as the Java Kinesis Client Library (KCL) 2.x and 3.x writes them.
//
//	store := dynamo.New(cfg, "my-application") // cfg is the SDK's aws.Config; the table is called like the application
//
// # The table
//
// The partition key is leaseKey (S), nothing else. [Store.Prepare] creates the table where it is missing: on demand unless [Provisioned], in
// the single-table layout of KCL 3.5. The index LeaseOwnerToLeaseKeyIndex, which only Java workers read, is made in their layouts of 3.x
// alone. A table holds the leases of one stream, or with [SeveralStreams] those of several, in the rows of the KCL's multi-stream mode. One of the other kind is refused.
//
// A lease row (docs/reference/kcl.md 1.2 says more about those of the KCL):
//
//	attribute                            type   of     holds
//	leaseKey                             S      KCL    the shard id; of several streams "account:stream:creationEpoch:shard"
//	leaseOwner                           S      KCL    the owner; while a hand-over is asked for, the next owner. Absent: nobody
//	checkpointOwner                      S      KCL    the owner, while a hand-over is asked for
//	leaseCounter                         N      KCL    grows with each write of an owner and each change of owner
//	checkpoint                           S      KCL    sequence number, or TRIM_HORIZON, LATEST, AT_TIMESTAMP, SHARD_END
//	checkpointSubSequenceNumber          N      KCL
//	ownerSwitchesSinceCheckpoint         N      KCL
//	parentShardId, childShardIds         SS     KCL
//	startingHashKey, endingHashKey       S      KCL    decimal, inclusive
//	pendingCheckpoint                    S      KCL    a prepared checkpoint, with
//	pendingCheckpointSubSequenceNumber   N      KCL    its sub-sequence number and
//	pendingCheckpointState               B      KCL    the application's bytes
//	throughputKBps                       N      KCL    six decimals
//	entityType                           S      KCL    LEASE, on rows made by 3.5 and later, and by us
//	streamName, shardId                  S      KCL    of several streams only: "account:stream:creationEpoch" (not the name), and the shard id
//	sw_stream                            S      ours   the incarnation of the stream, "account:stream:creationEpoch"; where the key does not tell
//	sw_run                               S      ours   which acquisition: "worker id:random". Void once the owner is another
//	sw_ready                             BOOL   ours   the parents no longer matter
//	sw_startAt                           S      ours   RFC 3339: the instant a LATEST or AT_TIMESTAMP checkpoint was resolved to
//	sw_startFor                          S      ours   the checkpoint sw_startAt belongs to. Void once it is another
//	sw_asked                             S      ours   whom the owner is asked to hand it to. Under the rules of KCL 2.x an ask counts only with it
//
// Attributes that the store does not know stay in the row through every write, and are in Raw of a lease, of type [Attributes]. Rows of other
// kinds (entityType other than LEASE, the rows of the KCL's coordinator, what has neither counter nor checkpoint) are skipped.
//
// A worker row stands beside the leases under the worker's id, in the format of the KCL (entityType WORKER_METRIC_STATS, lut, sts, opr, sup,
// slu) with a beat of ours (sw_beat, S, and sw_beat_at, N, the lut that it belongs to) and figures the KCL has no name for (sw_load, M). It is
// written only where no KCL older than 3.5 may
// read the table, which any other kind of row would break: not where a lease row lacks entityType and no row of the KCL's own
// coordinator shows that it is past that, not where the table <application>-CoordinatorState exists, and not where that can't be told. There
// [Store.Announce] does nothing, and workers are counted by the leases they own.
//
// # Sharing it with Java workers
//
// With [Layout] the table is shared with workers of the KCL, by their rules, which [Store.SharedWith] tells the engine after each look: under those of
// 2.x every worker takes leases; under those of 3.x the holder of the lock row Leader assigns them, and [Store] is a [core.LeaderLock]. [Auto]
// finds the rules out by what is in the table, and follows them; [KCL2], [KCL3Tables] and [KCL3Single] are the three layouts there are, and are
// refused where the table says otherwise. Rows go where the layout has them, worker rows of KCL 3.0 to 3.4 into a table of their own.
// [Store.Inspect] shows it all. [Store.PlanMigration] leads from one to the other; no worker does that by itself.
//
// # Calls
//
// Reads are strongly consistent and retried for a short while. Conditional writes are sent once, never again by the SDK; one whose credentials
// were refused as expired is sent again with fresh ones. A look at the table is one scan, in parts side by side where the table is big.
// Errors are [CallError]s that match the kinds of package core.
//
// # Permissions
//
// On arn:aws:dynamodb:REGION:ACCOUNT:table/TABLE:
//
//	always                     dynamodb:Scan GetItem PutItem UpdateItem DeleteItem
//	to see what is there       dynamodb:DescribeTable, also on table/APPLICATION-CoordinatorState (without: no worker rows)
//	with a shared table        dynamodb:GetItem PutItem UpdateItem DeleteItem on table/APPLICATION-CoordinatorState,
//	                           dynamodb:Scan UpdateItem DeleteItem on table/APPLICATION-WorkerMetricStats
//	where the table is missing dynamodb:CreateTable, with Tags also TagResource, with PointInTimeRecovery UpdateContinuousBackups
//
// Prepare tries them, and names all that are missing. docs/dynamodb.md has a policy to copy, costs and advice on throttling.
package dynamo
