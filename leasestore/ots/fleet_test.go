package ots_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/conformance"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/leasestore/ots"
)

// memoryStream drives a stream in memory, so that what fails is the table's fault.
type memoryStream struct {
	stream *source.Stream

	mu      sync.Mutex
	handles []*source.Stream
}

func newMemoryStream(context.Context) (conformance.SourceHarness, error) {
	return &memoryStream{stream: source.New("orders", 1, source.Idle(2*time.Second))}, nil
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

func (h *memoryStream) Break(_ context.Context, f conformance.Fault) (func(), error) {
	var fault source.Fault
	switch f {
	case conformance.Unavailable:
	case conformance.Throttled:
		fault.Err = core.ErrThrottled
	case conformance.Silent:
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

// Whole fleets, with faults, lost answers and workers that die.
func TestFleet(t *testing.T) {
	for name, opts := range map[string][]ots.Option{"alone": nil, "where Java may come": {ots.WithJava(20 * time.Second)}} {
		t.Run(name, func(t *testing.T) {
			conformance.TestFleet(t, newMemoryStream, newBench(opts...), conformance.FakeTime())
		})
	}
}
