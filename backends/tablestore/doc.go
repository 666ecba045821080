// Package tablestore reads the change stream of Tablestore tables. [Tables] makes the catalog of one or several tables for a worker, [New] the
// [core.StreamSource] of one:
//
//	worker.Config{Streams: tablestore.Tables(tablestore.Instance{Endpoint: url, Name: "inst"}, core.FromHorizon, []string{"orders"})}
//
// Each record is one change of one row. Its Native is a [*Change]; its Data is the same as JSON, without loss ([ParseChange] reads it back);
// its Key is the primary key as text, so changes of one row stay in order; its Sequence is the service's, and sorts as text.
//
// A shard that has records is read as fast as they come; one that is idle is read less than once a second. Pages are kept small by bytes,
// since memory goes with them. A source starts no goroutine.
//
// # Positions
//
// The service gives one iterator behind each batch and none inside it. A position is the iterator that the batch was read with and the number
// of records taken of it: reading resumes by reading so many again, and leaving them out. Iterators do not run out by themselves, but what they
// point at is deleted when the stream's retention is over. The iterator of an idle shard never changes, so one that stood still for a part
// of the retention, while every read found nothing, is replaced by a new one made by time; with checkpoints in automatic mode that is stored,
// and the shard is not lost to its own silence.
//
// Where records were deleted before they were read, the reader returns [core.ErrTrimmed], and the engine reports that and goes on at the
// oldest there is; with [StopWhenTrimmed] the shard stops there instead. Where the reader itself saw that there were none, it goes on
// and says so in the log.
//
// # Switching the stream off and on
//
// That makes a new stream with another id, and deletes what was in the old one. [Tables] then goes on with the new one, from its oldest record,
// and lets the leases of the former end. A source made by [New] reports the new id, which ends a worker with [core.ErrOtherStream].
package tablestore
