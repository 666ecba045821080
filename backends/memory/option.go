package memory

import (
	"fmt"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// Option is a setting of a stream.
type Option func(*stream)

// WithID fixes the id of the stream, for runs that must repeat to the letter. Default: the name, the instant it was made, and a number, so
// that a stream made again under the same name has another.
func WithID(id core.StreamID) Option { return func(s *stream) { s.id = id } }

// PageRecords bounds the records of a page. Default 1,000.
func PageRecords(n int) Option { return func(s *stream) { s.pageRecords = max(n, 1) } }

// PageBytes bounds data and keys of a page; one record always fits. Default: no bound.
func PageBytes(n int) Option { return func(s *stream) { s.pageBytes = int64(n) } }

// Idle is how long a reader waits for records before it comes back with an empty page. Default 5 s; 0 or less: it waits for ever.
func Idle(d time.Duration) Option { return func(s *stream) { s.idle = d } }

// Retention is how long records stay. They go, oldest first, when the stream is next looked at; a closed shard goes when all of it has. Default 0:
// for ever.
func Retention(d time.Duration) Option { return func(s *stream) { s.retention = max(d, 0) } }

// WithClock is the clock that records arrive by. It may be ahead or behind, as a service's is. Default [time.Now].
func WithClock(now func() time.Time) Option { return func(s *stream) { s.clock = now } }

// ShardNames names shards: n counts from 0 over the life of the stream, and names must differ. Default: as Kinesis does, "shardId-" and 12
// digits.
func ShardNames(name func(n int) core.ShardID) Option { return func(s *stream) { s.shardName = name } }

// Lacking makes a source that can do less, as it says: no hash ranges, no children at the end, no lag, no positions inside a page, no start at
// a time.
func Lacking(l core.SourceLacks) Option { return func(s *stream) { s.lacks = l } }

// Strict hands out copies, and overwrites a page's memory when it is released: a handler that keeps records without [core.Record.Clone] reads
// rubbish, and does so in the first test. Default: pages are slices of what the stream holds, which nobody may change.
func Strict() Option { return func(s *stream) { s.strict = true } }

func defaults(name string) *stream {
	return &stream{
		name:        name,
		pageRecords: 1000,
		idle:        5 * time.Second,
		clock:       time.Now,
		shardName:   func(n int) core.ShardID { return core.ShardID(fmt.Sprintf("shardId-%012d", n)) },
		shards:      map[core.ShardID]*shard{},
	}
}
