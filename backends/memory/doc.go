// Package memory is a stream in memory, for tests, simulations, benchmarks and programs of one process. It behaves as Kinesis does where
// that matters to a consumer: shards hold ranges of the MD5 of the key, end when they are split or merged, and keep what nobody has read
// yet; children are named at the end of their parents and listed. And it does what a real service does on its bad days, when it is told to.
//
// [New] makes a stream and returns a handle on it, which is a [core.StreamSource]; [Stream.Handle] makes more. Handles share the records,
// and each has faults and counts of its own: one handle for each worker, and one worker's network can be cut while the others go on.
//
//	orders := memory.New("orders", 4)
//	shard, sequence := orders.Put("customer 7", []byte("…"))
//	a, b, err := orders.Split(shard)
//
// A reader blocks until there are records, so ten thousand idle shards cost next to nothing. Pages are slices of what the stream holds: a
// record is written once and never copied. Nothing is kept when the process ends. No lock is held while a call waits, so everything here may
// run in a testing/synctest bubble.
//
// Sequence numbers have 20 digits and grow over the whole stream, so they sort as numbers and as strings alike; a position's token is the
// sequence number of the last record taken, its Sub the place in an aggregated record ([Stream.PutAggregated]).
package memory
