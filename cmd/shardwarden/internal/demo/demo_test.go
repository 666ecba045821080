package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/shardwarden/shardwarden/core"
)

// The whole demo in fake time, on the stage without a network.
func fake(t *testing.T, on stage, o options) (s summary, text string, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		if on == nil {
			on = newRoom(o.shards)
		}
		s, err = playOn(t.Context(), on, o, &out, slog.New(slog.DiscardHandler))
		text = out.String()
	})
	return s, text, err
}

func TestPlay(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		o := options{backend: "memory", shards: 1 + int(seed), workers: 1 + int(seed)%4, records: 3000, kills: int(seed) % 3, reshards: 3 * int(seed%4), seed: seed}
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			t.Parallel()
			s, text, err := fake(t, nil, o)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			v := s.verdict
			if s.bad() || v.distinct != 3000 || v.stale != 0 || s.played.splits+s.played.merges != o.reshards || len(s.played.cuts) != o.kills || s.played.stopped != 1 {
				t.Errorf("%+v\n%s\n%s", s, text, s.words())
			}
			// A lease duration and two looks, where a worker is left that saw all of it (one that starts meanwhile has its own time to wait), and a
			// hand-over or the next record.
			if o.workers > o.kills+1 && s.failover > 2*leaseDuration {
				t.Errorf("failover took %v with leases of %v\n%s", s.failover, leaseDuration, text)
			}
			for _, c := range s.played.cuts {
				if !strings.Contains(text, "cut "+c.worker+" off") {
					t.Errorf("nothing is said of %s:\n%s", c.worker, text)
				}
			}
		})
	}
}

// Each sabotage is found, and found to be what it is.
func TestPlaySabotage(t *testing.T) {
	t.Parallel()
	for kind, ok := range map[string]func(v verdict) bool{
		skip:       func(v verdict) bool { return v.missing > 0 && v.order+v.parents+v.repeats == 0 },
		repeat:     func(v verdict) bool { return v.repeats > 0 && v.duplicates > 0 && v.missing+v.order+v.parents == 0 },
		reorder:    func(v verdict) bool { return v.order > 0 && v.missing+v.parents+v.repeats == 0 },
		earlyChild: func(v verdict) bool { return v.parents > 0 && v.missing+v.repeats == 0 },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(4) {
				s, text, err := fake(t, nil, options{backend: "memory", shards: 4, workers: 3, records: 6000, kills: 1, reshards: 3, seed: seed, sabotage: kind})
				if err != nil || !s.bad() || !ok(s.verdict) || s.verdict.strangers > 0 || s.spoiled == 0 {
					t.Errorf("seed %d: %+v, %v\n%s\n%s", seed, s.verdict, err, text, s.words())
				}
			}
		})
	}
}

// liar says that it stored a record, and did not.
type liar struct {
	stage
	lied atomic.Bool
}

func (l *liar) put(ctx context.Context, records []outgoing) ([]placed, error) {
	if l.lied.CompareAndSwap(false, true) {
		out, err := l.stage.put(ctx, records[1:])
		return append([]placed{{out[0].shard, "17"}}, out...), err
	}
	return l.stage.put(ctx, records)
}

// What never comes is waited for, within reason, and then missing.
func TestPlayWithALossyStream(t *testing.T) {
	t.Parallel()
	s, text, err := fake(t, &liar{stage: newRoom(2)}, options{backend: "memory", shards: 2, workers: 2, records: 2000, seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	if !s.bad() || s.verdict.missing != 1 || !strings.Contains(s.words(), "1 records never came") {
		t.Errorf("%+v\n%s", s.verdict, text)
	}
}

// broken is a stage on which something fails.
type broken struct {
	stage
	putErr, splitErr, sourceErr error
	closed                      bool
}

func (b *broken) put(ctx context.Context, records []outgoing) ([]placed, error) {
	if b.putErr != nil {
		return nil, b.putErr
	}
	return b.stage.put(ctx, records)
}

func (b *broken) split(ctx context.Context, s shard) error {
	if b.splitErr != nil {
		return b.splitErr
	}
	return b.stage.split(ctx, s)
}

func (b *broken) join(worker string) (seat, error) {
	s, err := b.stage.join(worker)
	if b.sourceErr != nil {
		s.source = deadSource{s.source, b.sourceErr}
	}
	return s, err
}

func (b *broken) close() error {
	b.closed = true
	return b.stage.close()
}

type deadSource struct {
	core.StreamSource
	err error
}

func (d deadSource) Describe(context.Context) (core.StreamInfo, error) {
	return core.StreamInfo{}, d.err
}

// What goes wrong ends the demo with the error that did it, and nothing is left running.
func TestPlayFails(t *testing.T) {
	t.Parallel()
	want := errors.New("it broke")
	for name, b := range map[string]*broken{
		"put":    {putErr: want},
		"split":  {splitErr: want},
		"worker": {sourceErr: fmt.Errorf("%w: %w", core.ErrNotFound, want)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b.stage = newRoom(2)
			_, text, err := fake(t, b, options{backend: "memory", shards: 2, workers: 2, records: 2000, reshards: 1, kills: 1})
			if !errors.Is(err, want) || !b.closed {
				t.Errorf("error %v, closed %v\n%s", err, b.closed, text)
			}
		})
	}
}
