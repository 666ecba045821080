package demo

import (
	"context"

	"github.com/shardwarden/shardwarden/core"
)

// stage is a stream and a lease table that the demo plays on. Everything but join is the demo's own way in, past the engine.
type stage interface {
	// join is a worker's own way to stream and table.
	join(worker string) (seat, error)
	// put stores records, at most one of a key, and says where each is: an empty shard stands for one that must be put again.
	put(ctx context.Context, records []outgoing) ([]placed, error)
	// shards lists every shard there is or was.
	shards(ctx context.Context) ([]shard, error)
	// items reads records back. Each must be what a producer wrote, and nothing else.
	items(seed uint64, keys, records int, in []core.Record) []item
	// split and merge return once the new shards take records.
	split(ctx context.Context, s shard) error
	merge(ctx context.Context, a, b shard) error
	close() error
}

// seat is a worker's view of the stage. sever cuts its network: calls hang from then on, those under way too. leave ends what hangs; it may
// be called without sever, and comes last.
type seat struct {
	source       core.StreamSource
	store        core.LeaseStore
	sever, leave func()
}

type outgoing struct {
	id   recordID
	key  string
	data []byte
}

type placed struct{ shard, sequence string }

// shard is a shard as the stream lists it.
type shard struct {
	id      string
	parents []string
	open    bool
	hashes  hashRange
}
