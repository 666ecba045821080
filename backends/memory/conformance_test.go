package memory_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/conformance"
	"github.com/shardwarden/shardwarden/core"
)

// rig drives a stream for the conformance suite.
type rig struct {
	stream *memory.Stream
	plain  bool // hand out sources without the optional abilities
	bytes  int

	mu      sync.Mutex
	handles []*memory.Stream
}

func (r *rig) Source() core.StreamSource {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.stream.Handle()
	r.handles = append(r.handles, h)
	if r.plain {
		return h.Plain()
	}
	return h
}

func (r *rig) Put(_ context.Context, shard core.ShardID, key string, data []byte) error {
	return r.stream.PutTo(shard, core.Record{Key: key, Data: data})
}

func (r *rig) PutAggregated(_ context.Context, shard core.ShardID, _ string, data ...[]byte) error {
	key := "key" // finds the shard where there is but one; else one is looked for
	for i := 0; ; i++ {
		if to, err := r.owner(key); err != nil || to == shard {
			if err == nil {
				r.stream.PutAggregated(key, data...)
			}
			return err
		}
		key += string(rune('a' + i%26))
	}
}

// owner is the open shard of a key: on a stream without records nothing says so but the ranges.
func (r *rig) owner(string) (core.ShardID, error) {
	open, err := r.stream.Shards(context.Background(), core.FromLatest)
	if err != nil {
		return "", err
	}
	if len(open) != 1 {
		return "", errors.ErrUnsupported
	}
	return open[0].ID, nil
}

func (r *rig) Split(_ context.Context, shard core.ShardID) error {
	_, _, err := r.stream.Split(shard)
	return err
}

func (r *rig) Merge(_ context.Context, a, b core.ShardID) error {
	_, err := r.stream.Merge(a, b)
	return err
}

func (r *rig) Trim(_ context.Context, shard core.ShardID) error { return r.stream.Trim(shard, 1<<30) }

func (r *rig) Forget(_ context.Context, shard core.ShardID) error { return r.stream.Forget(shard) }

func (r *rig) Close() error {
	if n := r.stream.Held(); n < 0 {
		return errors.New("a page was released twice")
	}
	return nil
}

func (r *rig) Break(_ context.Context, f conformance.Fault) (func(), error) {
	var fault memory.Fault
	switch f {
	case conformance.Unavailable:
	case conformance.Throttled:
		fault.Err = core.ErrThrottled
	case conformance.Denied:
		fault.Err = core.ErrDenied
	case conformance.Silent:
		fault.Hang = true
	default: // a listing is one page
		return nil, errors.ErrUnsupported
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var heals []func()
	for _, h := range append(r.handles, r.stream) {
		heals = append(heals, h.Break(fault))
	}
	return func() {
		for _, heal := range heals {
			heal()
		}
	}, nil
}

// limited is a rig whose stream bounds its pages.
type limited struct{ *rig }

func (l limited) PageBytes() int { return l.bytes }

func TestConformance(t *testing.T) {
	for name, c := range map[string]struct {
		plain bool
		bytes int
		opts  []memory.Option
	}{
		"whole":               {},
		"strict, small pages": {opts: []memory.Option{memory.Strict(), memory.PageRecords(4)}},
		"pages of bytes":      {bytes: 1000, opts: []memory.Option{memory.Strict(), memory.PageBytes(1000)}},
		"three methods":       {plain: true},
		"nothing but to read": {plain: true, opts: []memory.Option{memory.PageRecords(5), memory.Lacking(core.SourceLacks{HashRanges: true, ChildrenAtEnd: true, Lag: true, RecordPositions: true, StartTime: true})}},
		"positions of pages":  {opts: []memory.Option{memory.PageRecords(5), memory.Lacking(core.SourceLacks{RecordPositions: true})}},
	} {
		t.Run(name, func(t *testing.T) {
			conformance.TestSource(t, func(context.Context) (conformance.SourceHarness, error) {
				r := &rig{stream: memory.New("conformance", 1, c.opts...), plain: c.plain, bytes: c.bytes}
				if c.bytes > 0 {
					return limited{r}, nil
				}
				return r, nil
			}, conformance.FakeTime())
		})
	}
}
