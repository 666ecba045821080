package conformance

import (
	"context"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// MakeStore makes an empty lease table and the means to drive it. It is called once for each rule. ctx ends with the rule.
type MakeStore func(ctx context.Context) (StoreHarness, error)

// MakeSource makes a stream with at least one open shard and no records, and the means to drive it. It is called once for each rule. ctx ends
// with the rule.
type MakeSource func(ctx context.Context) (SourceHarness, error)

// StoreHarness drives one lease table. What it offers beyond these methods it says by further interfaces: [AttributePutter] and
// [AttributeGetter], [PageLimiter], [Staleness], [Spoiler], [Stranger], [Breaker]. All are called from several goroutines.
type StoreHarness interface {
	// Store is one more handle on the table, independent of the others as those of two processes are: with clients and caches of its own.
	Store() core.LeaseStore
	// Close removes the table and what the harness and its stores hold. Nothing is called after it.
	Close() error
}

// SourceHarness drives one stream. What it offers beyond these methods it says by further interfaces: [Splitter], [Merger], [Trimmer],
// [Forgetter], [Aggregator], [PageLimiter], [Advancer], [Remaker], [Breaker]. All are called from several goroutines.
type SourceHarness interface {
	// Source is one more handle on the stream, independent of the others as those of two processes are.
	Source() core.StreamSource
	// Put adds a record to an open shard, and returns once a reader can get it. Records arrive in the order of the calls.
	Put(ctx context.Context, shard core.ShardID, key string, data []byte) error
	// Close removes the stream and what the harness and its sources hold. Nothing is called after it.
	Close() error
}

// Splitter is a verb of a [SourceHarness]: it ends an open shard and goes on with two children. It returns once they are listed.
type Splitter interface {
	Split(ctx context.Context, shard core.ShardID) error
}

// Merger is a verb of a [SourceHarness]: it ends two open neighbours and goes on with one child. It returns once that is listed. The suite
// merges the children of a split, or where there is no [Splitter] two shards that were open from the start.
type Merger interface {
	Merge(ctx context.Context, a, b core.ShardID) error
}

// Trimmer is a verb of a [SourceHarness]: the service drops every record that the shard has so far.
type Trimmer interface {
	Trim(ctx context.Context, shard core.ShardID) error
}

// Forgetter is a verb of a [SourceHarness]: the service drops a shard that has ended, records and all, and lists it no more.
type Forgetter interface {
	Forget(ctx context.Context, shard core.ShardID) error
}

// Aggregator is a verb of a [SourceHarness]: it puts several records that the service keeps as one, so that they share a token and are told
// apart by Sub.
type Aggregator interface {
	PutAggregated(ctx context.Context, shard core.ShardID, key string, data ...[]byte) error
}

// Remaker is a verb of a [SourceHarness]: it deletes the stream and makes another of the same name. Handles stay.
type Remaker interface {
	Remake(ctx context.Context) error
}

// Advancer is a verb of a [SourceHarness]: it lets time pass for the service, so that iterators and sessions run out. Under [FakeTime] it is
// not needed: the suite sleeps.
type Advancer interface {
	Advance(ctx context.Context, d time.Duration) error
}

// PageLimiter is a verb of both harnesses. Of a source: no page holds more data than so many bytes, unless it is a single record; of a store:
// it lists so many bytes of rows at a time (DynamoDB: 1 MB), and the suite makes more.
type PageLimiter interface{ PageBytes() int }

// AttributePutter is a verb of a [StoreHarness]: it writes an attribute (a column) that the store does not know into the row of a lease.
type AttributePutter interface {
	PutAttribute(ctx context.Context, key core.LeaseKey, value string) error
}

// AttributeGetter is a verb of a [StoreHarness]: it reads what [AttributePutter] wrote, "" where it is gone.
type AttributeGetter interface {
	Attribute(ctx context.Context, key core.LeaseKey) (string, error)
}

// Staleness is a verb of a [StoreHarness]: how old a listing may be. Without it a listing shows what was answered before it began.
type Staleness interface{ Staleness() time.Duration }

// Spoiler is a verb of a [StoreHarness]: it makes the row of a lease unreadable, as one mended by hand may be.
type Spoiler interface {
	Spoil(ctx context.Context, key core.LeaseKey) error
}

// Stranger is a verb of a [StoreHarness]: it puts a row into the table that is no lease.
type Stranger interface {
	PutStranger(ctx context.Context) error
}

// Breaker is a verb of both harnesses: from here on the service is broken in one way for all handles made so far, until heal is called.
// [errors.ErrUnsupported] skips the rules that need this fault.
type Breaker interface {
	Break(ctx context.Context, f Fault) (heal func(), err error)
}

// Fault is a way in which a service can be broken.
type Fault string

const (
	Unavailable Fault = "unavailable" // no request arrives
	Throttled   Fault = "throttled"   // every request is refused as one too many
	Denied      Fault = "denied"      // every request is refused for want of a permission
	Silent      Fault = "silent"      // no request is answered, or carried out, before heal
	PartList    Fault = "part list"   // listings give their first page, and fail as Unavailable after it
	LostAnswer  Fault = "lost answer" // writes of a store are carried out, and not answered
)
