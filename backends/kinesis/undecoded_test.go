package kinesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/backends/kinesis/kpl"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
	leases "github.com/shardwarden/shardwarden/leasestore/memory"
)

// damagedContainer begins as the KPL's do.
const damagedContainer = "\xf3\x89\x9a\xc2 damaged"

// strict are the ways in which a record can make no sense to a source that insists on it, with such a record.
var strict = map[string]struct {
	opts   []Option
	record string
}{
	"a damaged container":         {[]Option{Aggregated(kpl.Config{Strict: true})}, damagedContainer},
	"a decoder that fails":        {[]Option{Decode(undecodable("bad"))}, "bad"},
	"the second of two decoders":  {[]Option{Decode(&troubled{}), Decode(undecodable("d:bad"))}, "bad"},
	"both, containers and schema": {[]Option{Aggregated(kpl.Config{Strict: true}), Decode(undecodable("bad"))}, damagedContainer},
}

// undecodable is a decoder that cannot read one datum.
func undecodable(what string) Decoder {
	return &troubled{fail: func(r *core.Record) error {
		if string(r.Data) == what {
			return fmt.Errorf("%w: no such schema", core.ErrInvalid)
		}
		return nil
	}}
}

// consumed runs a worker over the first shard of a stream with such a record until stop says so. It gives what user code saw, without what decoders
// put before it, the dead letters, and the last status.
func (r *rig) consumed(opts []Option, policy worker.ErrorPolicy, stop func(seen []string, s worker.Status) bool) (seen []string, dead []core.Record, status worker.Status) {
	r.t.Helper()
	var mu sync.Mutex
	if policy.GiveUpAfter > 0 && !policy.Halt {
		policy.DeadLetter = func(_ context.Context, b *core.Batch, cause error) error {
			mu.Lock()
			defer mu.Unlock()
			if !errors.Is(cause, core.ErrInvalid) {
				return cause
			}
			dead = append(dead, b.Records...)
			return nil
		}
	}
	w, err := worker.New(worker.Config{
		Streams: worker.One(r.source("s", opts...), core.FromHorizon), Store: leases.New(), OnError: policy,
		Process: func(_ context.Context, b *core.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			for _, in := range b.Records {
				seen = append(seen, strings.ReplaceAll(string(in.Data), "d:", ""))
			}
			return nil
		},
	})
	r.ok(err)
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Second) {
		mu.Lock()
		status = w.Status()
		enough := stop(seen, status)
		mu.Unlock()
		if enough {
			break
		}
	}
	cancel()
	r.ok(<-done)
	return seen, dead, status
}

func (r *rig) shardOf(s worker.Status) worker.ShardStatus {
	r.t.Helper()
	for _, shard := range s.Shards {
		if shard.Key.Shard == shardID(0) {
			return shard
		}
	}
	r.t.Fatalf("no shard in %+v", s)
	return worker.ShardStatus{}
}

// What makes no sense is treated as a handler's error for that record alone.
func TestRecordsThatMakeNoSenseAreLeftToTheErrorPolicy(t *testing.T) {
	for name, tc := range strict {
		t.Run(name, func(t *testing.T) {
			bubble(t, emulator.Config{NoLimits: true}, func(t *testing.T, r *rig) {
				r.create("s", 1)
				r.putFirst("s", "p", aggregate("a", 2), tc.record, aggregate("b", 2), tc.record, "q")
				before, all := []string{"p", "a-0", "a-1"}, []string{"p", "a-0", "a-1", "b-0", "b-1", "q"}

				seen, dead, _ := r.consumed(tc.opts, worker.ErrorPolicy{GiveUpAfter: 2}, func(seen []string, _ worker.Status) bool { return len(seen) == len(all) })
				if !slices.Equal(seen, all) {
					t.Errorf("dead letters: user code saw %q, want %q", seen, all)
				}
				if !slices.Equal(data(dead), []string{tc.record, tc.record}) {
					t.Errorf("dead letters: %q, want the two records as they came", data(dead))
				}

				seen, _, s := r.consumed(tc.opts, worker.ErrorPolicy{GiveUpAfter: 2, Halt: true}, func(_ []string, s worker.Status) bool {
					return slices.ContainsFunc(s.Shards, func(s worker.ShardStatus) bool { return s.State == worker.Halted })
				})
				if shard := r.shardOf(s); !slices.Equal(seen, before) || shard.State != worker.Halted {
					t.Errorf("halt: user code saw %q, the shard shows %+v", seen, shard)
				}

				seen, _, s = r.consumed(tc.opts, worker.ErrorPolicy{}, func(_ []string, s worker.Status) bool {
					return slices.ContainsFunc(s.Shards, func(s worker.ShardStatus) bool { return s.Failures > 8 })
				})
				if shard := r.shardOf(s); !slices.Equal(seen, before) || shard.State != worker.Retrying || !errors.Is(shard.Err, core.ErrInvalid) {
					t.Errorf("by default: user code saw %q, the shard shows %+v", seen, shard)
				}
			})
		})
	}
}
