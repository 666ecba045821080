package memory_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
)

// calls are all calls of a source, and of a reader that was opened without faults.
func calls(s *memory.Stream, sh core.Shard, r core.ShardReader) map[memory.Op]func(context.Context) error {
	return map[memory.Op]func(context.Context) error{
		memory.Describe: func(ctx context.Context) error { _, err := s.Describe(ctx); return err },
		memory.Shards:   func(ctx context.Context) error { _, err := s.Shards(ctx, core.Position{}); return err },
		memory.Open:     func(ctx context.Context) error { _, err := s.Open(ctx, sh, core.FromHorizon); return err },
		memory.Next:     func(ctx context.Context) error { _, err := r.Next(ctx); return err },
		memory.Resolve:  func(ctx context.Context) error { _, err := s.Resolve(ctx, sh, core.FromLatest); return err },
		memory.Now:      func(ctx context.Context) error { _, err := s.Now(ctx); return err },
	}
}

func TestEveryCallCanFailAndBeCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := memory.New("s", 1)
		shard := only(t, base)
		for op := range calls(base, shard, nil) {
			h := base.Handle()
			r := open(t, h, shard.ID, core.FromHorizon)
			opened := h.Calls()[memory.Open]
			call := calls(h, shard, r)[op]

			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if err := call(ended); !errors.Is(err, context.Canceled) {
				t.Errorf("%s under a context that has ended: %v, want context.Canceled", op, err)
			}
			for _, kind := range []error{core.ErrThrottled, core.ErrDenied, core.ErrExpired, core.ErrTrimmed, core.ErrNotFound, nil} {
				h.Break(memory.Fault{Ops: []memory.Op{op}, Err: kind, Times: 1, Delay: time.Second})
				if kind == nil {
					kind = core.ErrUnavailable
				}
				began := time.Now()
				if err := call(t.Context()); !errors.Is(err, kind) || time.Since(began) != time.Second {
					t.Errorf("%s: %v after %v, want %v after 1s", op, err, time.Since(began), kind)
				}
			}
			h.Break(memory.Fault{Ops: []memory.Op{op}, Kind: memory.Slow, Hang: true})
			for range 2 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				began := time.Now()
				if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
					t.Errorf("%s that hangs: %v after %v, want the end of its context after a minute", op, err, time.Since(began))
				}
				cancel()
			}
			h.Heal()
			if err := call(t.Context()); err != nil {
				t.Errorf("%s after all is healed: %v", op, err)
			}
			want := map[memory.Op]int{op: 9}
			want[memory.Open] += opened
			if got := h.Calls(); !reflect.DeepEqual(got, want) {
				t.Errorf("calls %v, want %v", got, want)
			}
		}
	})
}

// Errors in the midst of reading neither skip nor repeat.
func TestReadingThroughErrors(t *testing.T) {
	s := memory.New("s", 1, memory.PageRecords(1), memory.Idle(1))
	shard := only(t, s).ID
	if err := s.PutTo(shard, records(0, 200)...); err != nil {
		t.Fatal(err)
	}
	s.Break(memory.Fault{Ops: []memory.Op{memory.Next}, Odds: 0.4, Seed: 3, Err: core.ErrThrottled})
	r := open(t, s, shard, core.FromHorizon)
	var got []string
	failed := 0
	for len(got) < 200 {
		p, err := r.Next(t.Context())
		if err != nil {
			failed++
			continue
		}
		for _, rec := range p.Records {
			got = append(got, string(rec.Data))
		}
	}
	wantData(t, "all", got, numbers(0, 200))
	if failed < 50 {
		t.Errorf("%d reads failed: the fault did not strike", failed)
	}
}

func TestStalledReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New("s", 2)
		shards := list(t, s, core.FromLatest)
		a, b := shards[0].ID, shards[1].ID
		for _, sh := range []core.ShardID{a, b} {
			if err := s.PutTo(sh, records(0, 3)...); err != nil {
				t.Fatal(err)
			}
		}
		heal := s.Break(memory.Fault{Kind: memory.Slow, Hang: true, Ops: []memory.Op{memory.Next}, Shard: a})
		wantData(t, "another shard", first(read(t, open(t, s, b, core.FromHorizon))), numbers(0, 3))
		wantData(t, "another handle", first(read(t, open(t, s.Handle(), a, core.FromHorizon))), numbers(0, 3))
		closed, healed := open(t, s, a, core.FromHorizon), open(t, s, a, core.FromHorizon)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := closed.Next(t.Context()); !errors.Is(err, memory.ErrClosed) {
				t.Errorf("the reader that was closed: %v, want ErrClosed", err)
			}
		})
		var got *core.Page
		wg.Go(func() { got, _ = healed.Next(t.Context()) })
		time.Sleep(time.Hour)
		if got != nil {
			t.Error("a reader came back while it hung")
		}
		_ = closed.Close()
		synctest.Wait()
		heal()
		wg.Wait()
		if got == nil || len(got.Records) != 3 {
			t.Errorf("healed, it reads %+v, want three records", got)
		}
	})
}

func TestReadsThatLie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New("s", 1, memory.PageRecords(2))
		shard := only(t, s).ID
		if err := s.PutTo(shard, records(0, 4)...); err != nil {
			t.Fatal(err)
		}
		r := open(t, s, shard, core.FromHorizon)
		next := func(what string, data []string, end bool, children int) {
			t.Helper()
			p, err := r.Next(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			var got []string
			for _, rec := range p.Records {
				got = append(got, string(rec.Data))
			}
			if !slices.Equal(got, data) || p.End != end || len(p.Children) != children {
				t.Errorf("%s: records %v, end %v, %d children; want %v, %v, %d", what, got, p.End, len(p.Children), data, end, children)
			}
		}
		s.Break(memory.Fault{Kind: memory.Empty, Times: 2})
		began := time.Now()
		next("empty", nil, false, 0)
		next("empty again", nil, false, 0)
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("two empty reads took %v: a source paces itself", took)
		}
		next("then records", numbers(0, 2), false, 0)
		s.Break(memory.Fault{Kind: memory.FalseEnd, Times: 1})
		next("an end that is none", nil, true, 0)
		next("and more behind it", numbers(2, 4), false, 0)
		if _, _, err := s.Split(shard); err != nil {
			t.Fatal(err)
		}
		s.Break(memory.Fault{Kind: memory.Orphans, Times: 1})
		next("an end without children", nil, true, 0)
		next("asked again", nil, true, 2)
	})
}
