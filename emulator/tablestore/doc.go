// Package tablestore is an in-process Alibaba Cloud Tablestore server for tests, demos and zero-install runs: tables of
// rows, and above all their change streams.
//
// [New] gives an [net/http.Handler] that speaks the service's real wire protocol (protobuf and PlainBuffer in signed
// HTTP requests and answers), so that an unmodified SDK can be pointed at it: serve it with net/http, with httptest,
// or over an in-memory listener. It keeps everything in memory.
//
// # What it is true to
//
// Row writes with existence and column conditions, versions and time to live of cells, auto-increment keys, batches,
// ranges page by page, and the streams: shards that follow the partitions of a table, records with sequence numbers
// and, where a stream asks for them, the columns before the change, iterators by place and time, the end of closed
// shards, retention. Partitions split and merge on command ([Server.Split], [Server.Merge]), as the service does it by
// itself. Signatures are checked and answers are signed.
//
// Times come from [time.Now] alone, so everything that depends on time runs in a testing/synctest bubble.
//
// The service can't be asked here, and parts of its behaviour are not documented. docs/emulator-tablestore.md says
// of each rule where it is from. Where a guess matters to the safety of data, a setting of [Config] has the other
// answer, so that tests can run under both. What the server does not do, and fields that it does not know, are refused
// with OTSParameterInvalid, never passed over.
//
// # Faults
//
// What no polite server does is made on demand with [Fault]: throttling, failures before and after a call was carried
// out, lost and late answers, corrupt rows, empty and partial pages, stale and empty listings. [Server.Trim] and
// [Server.Expire] do at once what otherwise takes days.
package tablestore
