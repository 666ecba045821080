package demo

import (
	"context"

	"github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

// room is the stage without any network: stream and lease table in memory.
type room struct {
	plain
	stream *memory.Stream
	table  *store.Store
}

func newRoom(shards int) stage {
	return &room{stream: memory.New(streamName, shards), table: store.New()}
}

func (r *room) join(worker string) (seat, error) {
	stream, table := r.stream.Handle(), r.table.Handle(worker)
	return seat{source: stream, store: table,
		sever: func() {
			stream.Break(memory.Fault{Kind: memory.Fail, Hang: true})
			table.Break(store.Fault{Kind: store.Fail, Hang: true})
		},
		leave: func() { stream.Heal(); table.Heal() },
	}, nil
}

func (r *room) put(_ context.Context, records []outgoing) ([]placed, error) {
	out := make([]placed, len(records))
	for i, rec := range records {
		s, sequence := r.stream.Put(rec.key, rec.data)
		out[i] = placed{string(s), sequence}
	}
	return out, nil
}

func (r *room) shards(ctx context.Context) ([]shard, error) {
	listed, err := r.stream.Shards(ctx, core.Position{})
	if err != nil {
		return nil, err
	}
	out := make([]shard, len(listed))
	for i, s := range listed {
		out[i] = shard{id: string(s.ID), open: !s.Closed, hashes: bytesRange(s.Range)}
		for _, p := range s.Parents {
			out[i].parents = append(out[i].parents, string(p))
		}
	}
	return out, nil
}

func (r *room) split(_ context.Context, s shard) error {
	_, _, err := r.stream.Split(core.ShardID(s.id))
	return err
}

func (r *room) merge(_ context.Context, a, b shard) error {
	_, err := r.stream.Merge(core.ShardID(a.id), core.ShardID(b.id))
	return err
}

func (r *room) close() error { return nil }
