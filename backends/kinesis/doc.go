// Package kinesis reads Kinesis data streams, by polling or, with [FanOut], pushed. [New] makes a [core.StreamSource] from an aws.Config and the
// stream's name or ARN, [Streams] a [core.Catalog] of many:
//
//	cfg, err := config.LoadDefaultConfig(ctx)
//	source := kinesis.New(cfg, "orders")
//
// A source is one stream in one region; by polling it starts no goroutine. Each shard is read with GetRecords within the service's limits: once a
// second when caught up, up to five times a second while behind, and no more than 2 MB a second. Iterators that run out are made again from
// the last record that was delivered, so nothing is repeated or skipped. A shard ends with the children that the service names; where it
// names none (some emulators) the listing is asked.
//
// Pages are decoded into memory that is used again once the engine has released them: what a handler keeps of a record it must clone
// ([core.Record.Clone]). A build with the tag poisonpages overwrites released pages, which shows who does not.
//
// A position's token is a sequence number. The service does not say when a sequence number lies before its oldest record: it goes on with
// the oldest it has. A reader opened at such a position warns in the log, since records may have been lost in between; it cannot tell
// whether there were any.
//
// Records that a KPL producer aggregated are opened ([Aggregated]); other formats are for a [Decoder], such as that of package glue.
//
// Permissions, settings and what emulators do otherwise: docs/kinesis.md.
package kinesis
