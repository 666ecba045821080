// Package worker is the engine: a [Worker] takes its share of the leases of some streams, reads the shards and hands their records to user
// code, each shard at one worker at a time, parents before children, every record at least once and in order per key.
package worker
