package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

// memoryTable drives a table in memory.
type memoryTable struct {
	table *store.Store

	mu      sync.Mutex
	handles []*store.Store
}

func makeMemoryTable(opts ...store.Option) MakeStore {
	return func(context.Context) (StoreHarness, error) { return &memoryTable{table: store.New(opts...)}, nil }
}

func (h *memoryTable) Store() core.LeaseStore {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.table.Handle(fmt.Sprint("handle ", len(h.handles)))
	h.handles = append(h.handles, s)
	return s
}

func (h *memoryTable) Close() error   { return nil }
func (h *memoryTable) PageBytes() int { return 64 << 10 } // far more than the rows of a page here

func (h *memoryTable) Break(_ context.Context, f Fault) (func(), error) {
	var fault store.Fault
	switch f {
	case Unavailable:
	case Throttled:
		fault.Err = core.ErrThrottled
	case Silent:
		fault.Hang = true
	case PartList:
		fault.Ops, fault.Skip = []store.Op{store.List, store.Look}, 1
	case LostAnswer:
		fault.Kind = store.Lose
	default:
		return nil, errors.ErrUnsupported
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var heals []func()
	for _, s := range h.handles {
		heals = append(heals, s.Break(fault))
	}
	return func() {
		for _, heal := range heals {
			heal()
		}
	}, nil
}

// memoryStream drives a stream in memory.
type memoryStream struct {
	stream *source.Stream

	mu      sync.Mutex
	handles []*source.Stream
}

func makeMemoryStream(opts ...source.Option) MakeSource {
	return func(context.Context) (SourceHarness, error) {
		return &memoryStream{stream: source.New("orders", 1, append([]source.Option{source.Idle(2 * time.Second)}, opts...)...)}, nil
	}
}

func (h *memoryStream) Source() core.StreamSource {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.stream.Handle()
	h.handles = append(h.handles, s)
	return s
}

func (h *memoryStream) Put(_ context.Context, shard core.ShardID, key string, data []byte) error {
	return h.stream.PutTo(shard, core.Record{Key: key, Data: data})
}

func (h *memoryStream) Split(_ context.Context, shard core.ShardID) error {
	_, _, err := h.stream.Split(shard)
	return err
}

func (h *memoryStream) Merge(_ context.Context, a, b core.ShardID) error {
	_, err := h.stream.Merge(a, b)
	return err
}

func (h *memoryStream) Close() error { return nil }

func (h *memoryStream) Break(_ context.Context, f Fault) (func(), error) {
	var fault source.Fault
	switch f {
	case Unavailable:
	case Throttled:
		fault.Err = core.ErrThrottled
	case Silent:
		fault.Hang = true
	default:
		return nil, errors.ErrUnsupported
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var heals []func()
	for _, s := range h.handles {
		heals = append(heals, s.Break(fault))
	}
	return func() {
		for _, heal := range heals {
			heal()
		}
	}, nil
}
