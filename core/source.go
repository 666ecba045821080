package core

import (
	"context"
	"time"
)

// StreamSource reads one stream. An adapter implements it together with [ShardReader]; everything else is optional.
//
// All methods are safe for concurrent use, honour ctx promptly, and make their own retries for what passes by itself (throttling, a lost
// connection) as long as ctx lives and their own patience lasts. What they return is mapped to the error kinds of this package, wrapped
// as often as wanted: [ErrThrottled], [ErrUnavailable], [ErrNotFound], [ErrDenied], [ErrExpired], [ErrTrimmed].
type StreamSource interface {
	// Describe says what the stream is. The engine asks at start and compares the id: another id is another incarnation.
	// ErrNotFound where there is no such stream.
	Describe(ctx context.Context) (StreamInfo, error)

	// Shards lists the shards that are open at a position of the stream: Horizon, AtTime, or Latest (with Time set: open at that instant).
	// The zero Position asks for every shard the service knows, closed ones included. The order does not matter.
	//
	// The answer is complete or an error, never a part: nothing is created, deleted or believed missing on the word of half a listing.
	Shards(ctx context.Context, open Position) ([]Shard, error)

	// Open begins to read a shard at a position: Horizon, AtTime, Latest (with Time, where the engine resolved it: then as AtTime), or
	// AfterToken with a token of this source. It must not deliver again what stands before the position, and must not skip what stands
	// behind it. ErrTrimmed where records behind the position are gone; ErrNotFound where the shard is gone altogether.
	//
	// Open may be cheap and leave the first call to Next. s is one that Shards listed, or a child that a reader announced, or made from a
	// lease row (then Closed is unknown and false).
	Open(ctx context.Context, s Shard, at Position) (ShardReader, error)
}

// ShardReader reads one shard. Only one goroutine uses it at a time; Close may come from another and ends a Next that waits.
type ShardReader interface {
	// Next returns the next records, in order. It paces itself within the limits of the service, and blocks until there is an answer to
	// give: records, or an empty page that says "a good read found nothing" (a source that can wait for data should come back with an
	// empty page at least every few seconds, since silence is how the engine tells a stalled shard). The page with End set is the last,
	// with the children the service names; it may hold records too. After that Next is not called again.
	//
	// Once Close was called it returns ctx's error or any other; nobody looks at it.
	//
	// An error does not end the reader unless it is ErrTrimmed, ErrNotFound or ErrDenied: the engine backs off and calls Next again, which
	// must neither repeat nor skip. Expired iterators and the like are the reader's own business.
	Next(ctx context.Context) (*Page, error)

	// Close frees what the reader holds. Pages handed out stay valid until they are released.
	Close() error
}

// Page is what a reader hands to the engine: some records of one shard, in order.
type Page struct {
	Records []Record
	// After says where to resume behind record i. It returns memory of its own. nil: a record's Sequence and Sub are its position.
	After func(i int) Position
	// Next resumes behind the whole page, and may lie further than After of the last record (an iterator that moved over nothing). Zero:
	// After of the last record, and where there is none the position stays as it was.
	Next Position
	// Undecoded says, by index, of which records the adapter could not make sense, and why. Such a record holds its bytes as they came. It is
	// not handed to user code: the attempt to handle it fails with the error, and the error policy decides, for that record alone. nil where
	// all is well. The engine and batches read it as long as the page is not released.
	Undecoded map[int]error
	// Lag is how far the last record (or, without one, the read) is behind the end of the shard. Negative: unknown; a source that never
	// knows sets -1 on each page, since 0 means that nothing is left to read.
	Lag time.Duration
	// End: no more after this page. Children are the shards that go on, with their parents (both, for a merge).
	End      bool
	Children []Shard
	// Bytes is the memory the page holds, for the read-ahead budget. 0: the engine adds up data and keys.
	Bytes int
	// Release gives the page's memory back. The engine calls it once, when no handler can see the records any more. May be nil.
	Release func()
}

// StreamInfo describes a stream.
type StreamInfo struct {
	ID        StreamID
	Name      string        // as the user knows it
	Retention time.Duration // how long records stay; 0 unknown
	Lacks     SourceLacks
}

// SourceLacks are abilities that a source does not have, stated negatively so that the zero value is a source that can do everything.
type SourceLacks struct {
	HashRanges      bool // Shard.Range is nil: holes between shards cannot be seen, only shards without leases
	ChildrenAtEnd   bool // the last page names no children: the engine lists the shards instead
	Lag             bool // Page.Lag is always negative
	RecordPositions bool // a position lies between pages only
	StartTime       bool // AtTime cannot be opened. A Latest start is resolved by Resolver; without that it is refused
}

// HashRange is the part of the key space that a shard holds, both ends inclusive, as 128-bit unsigned numbers with the highest byte
// first (Kinesis: the MD5 of the partition key).
type HashRange struct{ Start, End [16]byte }

// Shard is a shard as its stream lists it. It is a value: who gets one may keep it, and must not change what Parents and Range point to.
type Shard struct {
	ID      ShardID
	Parents []ShardID // none, one (split), or two (merge); also when they are no longer listed
	Range   *HashRange
	Closed  bool // takes no more records. It may well hold some that nobody has read
}

// Resolver is an optional ability of a [StreamSource]: it turns a start (Latest, AtTime) into a token. The engine asks it before it creates
// the lease, where the store cannot hold a start (see [StartHolder]) or the source cannot open one ([SourceLacks]), so that a move before the
// first checkpoint loses nothing.
type Resolver interface {
	Resolve(ctx context.Context, s Shard, start Position) (Position, error)
}

// PositionOrder is an optional ability of a [StreamSource] whose tokens can be compared: the engine then refuses a checkpoint that goes
// backwards even when user code names it.
type PositionOrder interface {
	// Compare is negative, zero or positive as a lies before, at or behind b. Both are of one shard; any anchor may come.
	Compare(a, b Position) int
}

// Clock is an optional ability of a [StreamSource]: the time of the service, against which a Latest start is resolved. Without it the
// local clock serves, and a clock that is ahead can miss records at the very first start of an application.
type Clock interface {
	Now(ctx context.Context) (time.Time, error)
}

// Stream is a stream to consume and where to begin it.
type Stream struct {
	Source StreamSource
	// Start holds where no lease exists yet: Horizon (the zero value means this too), Latest or AtTime. It is resolved once, by the first
	// worker that finds no leases, and stored; later workers use what is stored. Children of a shard that is read begin at their beginning.
	Start Position
}

// Catalog lists the streams that a worker consumes. It is asked at start and then each minute. An error leaves the list as it was.
type Catalog interface {
	Streams(ctx context.Context) ([]Stream, error)
}
