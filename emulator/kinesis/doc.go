// Package kinesis is an in-process Kinesis Data Streams server for tests, demos and zero-install runs.
//
// [New] gives an [net/http.Handler] that speaks the service's real wire protocols, JSON 1.1 and CBOR 1.1, so that
// an unmodified SDK of any language can be pointed at it: serve it with net/http, with httptest, or over an
// in-memory listener. It starts no goroutine and keeps everything in memory.
//
// # What it is true to
//
// Shard trees (split, merge, uniform scaling), the listing filters, iterators and their expiry, child shards at the
// end of a closed shard, retention, the limits per shard, stream states and the shapes of errors. Times come from
// [time.Now] alone, so everything that depends on time runs in a testing/synctest bubble. States that last a while
// on the service last as long as [Config] says, and are entered and left by looking at the clock, not by a timer.
//
// Anything it does not do is refused with UnknownOperationException rather than half done. The service's limits on
// calls per account (not per shard) are not enforced.
//
// # Faults
//
// What no polite server does is made on demand with [Fault]: throttling, failures, denied calls, slow or lost
// answers ("applied, then the answer was lost"), expired iterators, partial pages, stale listings. [Server.Trim] and
// [Server.ExpireIterators] do at once what otherwise takes hours.
package kinesis
