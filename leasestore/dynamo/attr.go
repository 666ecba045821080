package dynamo

// Attributes of a lease row as the KCL writes them (docs/reference/kcl.md 1.2).
const (
	attrKey          = "leaseKey"                     // S, the partition key: see key.go
	attrOwner        = "leaseOwner"                   // S, absent: nobody. The next owner while a hand-over is asked for
	attrCurrentOwner = "checkpointOwner"              // S, only while a hand-over is asked for: who still has the lease
	attrCounter      = "leaseCounter"                 // N
	attrCheckpoint   = "checkpoint"                   // S, a sequence number or one of the words of core.Position
	attrSub          = "checkpointSubSequenceNumber"  // N
	attrSwitches     = "ownerSwitchesSinceCheckpoint" // N
	attrParents      = "parentShardId"                // SS, absent: none
	attrChildren     = "childShardIds"                // SS, once the shard was read to its end
	attrRangeStart   = "startingHashKey"              // S, decimal
	attrRangeEnd     = "endingHashKey"                // S, decimal, inclusive
	attrPending      = "pendingCheckpoint"            // S, between prepare and commit
	attrPendingSub   = "pendingCheckpointSubSequenceNumber"
	attrPendingState = "pendingCheckpointState" // B
	attrThroughput   = "throughputKBps"         // N
	attrEntity       = "entityType"             // S, rows made by KCL 3.5 and later, and by us

	// Only in tables of several streams.
	attrMultiStream = "streamName" // S, whatever it is called: account:stream:epoch
	attrMultiShard  = "shardId"    // S
)

// Attributes of ours beside them. Java keeps what it does not know through every write (docs/reference/kcl.md V5), so each that can go
// stale says what it belongs to.
const (
	attrStream   = "sw_stream"   // S, the incarnation of the stream: at creation, and with each take or accepting write
	attrRun      = "sw_run"      // S, "worker id:random" of the acquisition; belongs to the owner it names
	attrReady    = "sw_ready"    // BOOL true; never falls
	attrStartAt  = "sw_startAt"  // S, RFC 3339: the instant a LATEST or AT_TIMESTAMP checkpoint was resolved to
	attrStartFor = "sw_startFor" // S, the checkpoint that attrStartAt belongs to
	attrAsked    = "sw_asked"    // S, whom the owner is asked to hand the lease to; belongs to the leaseOwner it names
	attrBeat     = "sw_beat"     // S, on worker rows: differs at each announcement (lut has seconds only)
	attrBeatAt   = "sw_beat_at"  // N, the lut that it was written with: a Java worker of that id writes lut anew, and leaves the beat of the former one
	attrLoad     = "sw_load"     // M of N, on worker rows: figures the KCL has no name for
)

// Attributes of a worker row (docs/reference/kcl.md 2.2).
const (
	attrUpdated   = "lut" // N, wall clock, seconds
	attrStats     = "sts" // M of L of N
	attrRanges    = "opr" // M of L of N
	attrSupport   = "sup" // N, 1: understands the single-table layout
	attrSupportAt = "slu" // N, wall clock, seconds
	statCPU       = "C"
)

// Values of entityType (docs/reference/kcl.md 2.1). Rows of the KCL's coordinator may lack it and are told by their key.
const (
	entityLease  = "LEASE"
	entityWorker = "WORKER_METRIC_STATS"
)

var (
	coordinatorEntities = map[string]bool{"LEADER": true, "CLIENT_VERSION_MIGRATION": true, "TABLE_MIGRATION": true, "STREAM": true}
	coordinatorKeys     = map[string]bool{keyLeader: true, keyVersion: true, keyTables: true}
)

// leaseAttrs are those that decodeLease understands; the others of a row are kept aside in core.Lease.Raw.
var leaseAttrs = map[string]bool{
	attrKey: true, attrOwner: true, attrCurrentOwner: true, attrCounter: true, attrCheckpoint: true, attrSub: true, attrSwitches: true,
	attrParents: true, attrChildren: true, attrRangeStart: true, attrRangeEnd: true, attrPending: true, attrPendingSub: true,
	attrPendingState: true, attrThroughput: true, attrEntity: true, attrMultiStream: true, attrMultiShard: true,
	attrStream: true, attrRun: true, attrReady: true, attrStartAt: true, attrStartFor: true, attrAsked: true,
}
