package memory_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/leasestore/memory"
)

func key(shard string) core.LeaseKey {
	return core.LeaseKey{Stream: "s", Shard: core.ShardID(shard)}
}

// full is a lease with something in every field.
func full(shard string) core.Lease {
	return core.Lease{
		Key: key(shard), Owner: "A", Next: "B", Counter: 7, Checkpoint: core.Position{Token: "49", Sub: 3}, StartAt: time.Unix(5, 0),
		Pending: &core.Pending{At: core.Position{Token: "50"}, State: []byte("state")}, Parents: []core.ShardID{"p1", "p2"},
		Children: []core.ShardID{"c1"}, Range: &core.HashRange{End: [16]byte{1}}, Ready: true, Run: "A:1", Throughput: 1.5, Switches: 2,
	}
}

func create(t *testing.T, s core.LeaseStore, l core.Lease) core.Lease {
	t.Helper()
	got, err := s.Create(t.Context(), l)
	if err != nil {
		t.Fatalf("Create(%s): %v", l.Key, err)
	}
	return got
}

func mustGet(t *testing.T, s core.LeaseStore, k core.LeaseKey) core.Lease {
	t.Helper()
	got, err := s.Get(t.Context(), k)
	if err != nil {
		t.Fatalf("Get(%s): %v", k, err)
	}
	return got
}

func wantSame(t *testing.T, what string, got, want core.Lease) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

func TestCreateReturnsAndKeepsEveryField(t *testing.T) {
	s := memory.New()
	want := full("1")
	wantSame(t, "created", create(t, s, want), want)
	wantSame(t, "read back", mustGet(t, s, key("1")), want)
}

// What a lease says of a checkpoint or an owner goes where it belongs.
func TestCreateBinds(t *testing.T) {
	s := memory.New()
	l := core.Lease{Key: key("1"), Owner: "A", Run: "B:1", Checkpoint: core.Position{Anchor: core.Latest, Time: time.Unix(9, 0)}, StartAt: time.Unix(5, 0), Raw: "x"}
	want := core.Lease{Key: key("1"), Owner: "A", Checkpoint: core.FromLatest, StartAt: time.Unix(5, 0)}
	wantSame(t, "created", create(t, s, l), want)
	wantSame(t, "read back", mustGet(t, s, key("1")), want)
}

func TestCreateRefuses(t *testing.T) {
	start := core.Lease{Key: key("1"), Checkpoint: core.FromLatest, StartAt: time.Unix(5, 0)}
	for _, c := range []struct {
		name string
		s    *memory.Store
		l    core.Lease
	}{
		{"no shard", memory.New(), core.Lease{Checkpoint: core.FromHorizon}},
		{"no checkpoint", memory.New(), core.Lease{Key: key("1")}},
		{"an anchor with a token", memory.New(), core.Lease{Key: key("1"), Checkpoint: core.Position{Anchor: core.Horizon, Token: "4"}}},
		{"an anchor with a place inside", memory.New(), core.Lease{Key: key("1"), Checkpoint: core.Position{Anchor: core.ShardEnd, Sub: 4}}},
		{"a start where the table holds none", memory.New(memory.WithoutStarts()), start},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := c.s.Create(t.Context(), c.l); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("Create: %v, want ErrInvalid", err)
			}
			if n := len(c.s.Rows()); n != 0 {
				t.Errorf("%d rows after it", n)
			}
		})
	}
	create(t, memory.New(), start)
}

func TestCreateIsOnceAmongMany(t *testing.T) {
	s := memory.New()
	var won, exists atomic.Int32
	var wg sync.WaitGroup
	for i := range 16 {
		h := s.Handle(fmt.Sprint(i))
		wg.Go(func() {
			_, err := h.Create(t.Context(), core.Lease{Key: key("1"), Owner: core.WorkerID(fmt.Sprint(i)), Checkpoint: core.FromHorizon})
			switch {
			case err == nil:
				won.Add(1)
			case errors.Is(err, core.ErrExists):
				exists.Add(1)
			default:
				t.Errorf("Create: %v", err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || exists.Load() != 15 {
		t.Errorf("%d won and %d heard ErrExists, want 1 and 15", won.Load(), exists.Load())
	}
}

// Each bit of the mask, alone and as the engine's writes combine them, refuses exactly the change it names.
func TestUpdateOnEachBit(t *testing.T) {
	changes := map[string]func(*core.Lease){
		"counter":    func(l *core.Lease) { l.Counter++ },
		"owner":      func(l *core.Lease) { l.Owner, l.Run = "C", "" },
		"next":       func(l *core.Lease) { l.Next = "C" },
		"checkpoint": func(l *core.Lease) { l.Checkpoint = core.Position{Token: "50"} },
		"sub":        func(l *core.Lease) { l.Checkpoint.Sub++ },
		"end":        func(l *core.Lease) { l.Checkpoint = core.AtShardEnd },
		"throughput": func(l *core.Lease) { l.Throughput++ },
	}
	for _, c := range []struct {
		same    core.Same
		refuses []string
	}{
		{0, nil},
		{core.SameCounter, []string{"counter"}},
		{core.SameNext, []string{"next"}},
		{core.SameOwner | core.SameNext, []string{"owner", "next"}},
		{core.SameCheckpoint, []string{"checkpoint", "sub", "end"}},
		{core.NotEnded, []string{"end"}},
		{core.SameCounter | core.SameNext, []string{"counter", "next"}},
		{core.SameCounter | core.NotEnded, []string{"counter", "end"}},
		{core.SameOwner | core.SameNext | core.NotEnded, []string{"owner", "next", "end"}},
	} {
		for name, change := range changes {
			t.Run(c.same.String()+" after change of "+name, func(t *testing.T) {
				s := memory.New()
				seen := full("1")
				row := full("1")
				change(&row)
				create(t, s, row)

				set := core.Set{Bump: true, Next: new(core.WorkerID("D"))}
				got, err := s.Update(t.Context(), seen, c.same, set)
				if !slices.Contains(c.refuses, name) {
					if err != nil {
						t.Fatalf("refused: %v", err)
					}
					want := set.Apply(row)
					wantSame(t, "row returned", got, want)
					wantSame(t, "row after", mustGet(t, s, key("1")), want)
					return
				}
				conflict, ok := errors.AsType[*core.ConflictError](err)
				if !ok || !errors.Is(err, core.ErrConflict) {
					t.Fatalf("error %v, want a *ConflictError", err)
				}
				wantSame(t, "row of the conflict", *conflict.Row, row)
				wantSame(t, "row after", mustGet(t, s, key("1")), row)
			})
		}
	}
	t.Run("ended", func(t *testing.T) {
		s := memory.New()
		l := create(t, s, full("1"))
		if _, err := s.Update(t.Context(), l, core.Ended, core.Set{Bump: true}); !errors.Is(err, core.ErrConflict) {
			t.Errorf("a lease that has not ended: %v, want ErrConflict", err)
		}
	})
}

// Each field of Set changes what it names and nothing else.
func TestUpdateOfEachField(t *testing.T) {
	var none *core.Pending
	end := core.AtShardEnd
	for name, set := range map[string]core.Set{
		"nothing":          {},
		"bump":             {Bump: true},
		"owner":            {Owner: new(core.WorkerID("C"))},
		"no owner":         {Owner: new(core.Nobody)},
		"next":             {Next: new(core.WorkerID("C"))},
		"checkpoint":       {Checkpoint: &core.Position{Token: "99", Sub: 1}},
		"end":              {Checkpoint: &end},
		"start":            {StartAt: new(time.Unix(77, 0))},
		"checkpoint+start": {Checkpoint: new(core.FromLatest), StartAt: new(time.Unix(77, 0))},
		"pending":          {Pending: new(&core.Pending{At: core.Position{Token: "98"}, State: []byte("x")})},
		"no pending":       {Pending: &none},
		"ready":            {Ready: true},
		"run":              {Run: "A:9"},
		"run of another":   {Run: "Z:9"},
		"switch":           {Switches: core.SwitchAdd},
		"switches zero":    {Switches: core.SwitchZero},
		"children":         {Children: []core.ShardID{"c9", "c1", "c0"}},
		"range":            {Range: &core.HashRange{Start: [16]byte{9}}},
		"throughput":       {Throughput: new(9.5)},
	} {
		t.Run(name, func(t *testing.T) {
			s := memory.New()
			row := full("1")
			row.Ready = false
			create(t, s, row)
			got, err := s.Update(t.Context(), row, core.SameCounter, set)
			if err != nil {
				t.Fatal(err)
			}
			want := set.Apply(row)
			wantSame(t, "row returned", got, want)
			wantSame(t, "row after", mustGet(t, s, key("1")), want)
		})
	}
}

func TestUpdateRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		key  core.LeaseKey
		same core.Same
		set  core.Set
		opts []memory.Option
		want error
	}{
		{"a row that is gone", key("2"), 0, core.Set{Bump: true}, nil, core.ErrNotFound},
		{"owner without next", key("1"), core.SameOwner, core.Set{Bump: true}, nil, core.ErrInvalid},
		{"ended and not ended", key("1"), core.Ended | core.NotEnded, core.Set{Bump: true}, nil, core.ErrInvalid},
		{"an empty checkpoint", key("1"), 0, core.Set{Checkpoint: &core.Position{}}, nil, core.ErrInvalid},
		{"a start where the table holds none", key("1"), 0, core.Set{StartAt: new(time.Unix(9, 0))}, []memory.Option{memory.WithoutStarts()}, core.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := memory.New(c.opts...)
			before := create(t, s, core.Lease{Key: key("1"), Checkpoint: core.FromHorizon})
			_, err := s.Update(t.Context(), core.Lease{Key: c.key}, c.same, c.set)
			if !errors.Is(err, c.want) {
				t.Errorf("Update: %v, want %v", err, c.want)
			}
			wantSame(t, "row after", mustGet(t, s, key("1")), before)
		})
	}
}

// Of n writes under the same counter one goes through.
func TestUpdateIsACompareAndSwap(t *testing.T) {
	s := memory.New()
	seen := create(t, s, core.Lease{Key: key("1"), Checkpoint: core.FromHorizon})
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 16 {
		me := core.WorkerID(fmt.Sprint(i))
		w := core.Take(&seen, me, core.NewRun(me, "1"))
		h := s.Handle(string(me))
		wg.Go(func() {
			if _, err := h.Update(t.Context(), seen, w.Same, w.Set); err == nil {
				won.Add(1)
			} else if !errors.Is(err, core.ErrConflict) {
				t.Errorf("Update: %v", err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d of 16 took the lease, want 1", won.Load())
	}
}

func TestDelete(t *testing.T) {
	ended := full("1")
	ended.Checkpoint = core.AtShardEnd
	for _, c := range []struct {
		name string
		row  core.Lease
		same core.Same
		want error
		left int
	}{
		{"ended, as it must be", ended, core.Remove, nil, 0},
		{"not ended", full("1"), core.Remove, core.ErrConflict, 1},
		{"no condition", full("1"), 0, nil, 0},
		{"not there", full("2"), core.Remove, nil, 1},
		{"a mask that is not valid", full("1"), core.SameOwner, core.ErrInvalid, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := memory.New()
			create(t, s, c.row)
			err := s.Delete(t.Context(), core.Lease{Key: key("1")}, c.same)
			if !errors.Is(err, c.want) {
				t.Errorf("Delete: %v, want %v", err, c.want)
			}
			if n := len(s.Rows()); n != c.left {
				t.Errorf("%d rows are left, want %d", n, c.left)
			}
		})
	}
}

func TestListing(t *testing.T) {
	for _, c := range []struct {
		name  string
		opts  []memory.Option
		pages int
	}{
		{"whole", nil, 1},
		{"in pages", []memory.Option{memory.Pages(7)}, 6},
		{"in pages of one", []memory.Option{memory.Pages(1)}, 40},
		{"in pages, just", []memory.Option{memory.Pages(40)}, 1},
		{"shuffled", []memory.Option{memory.Shuffled(1)}, 1},
		{"shuffled in pages", []memory.Option{memory.Shuffled(1), memory.Pages(7)}, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := memory.New(c.opts...)
			want := map[core.LeaseKey]core.Lease{}
			for i := range 40 {
				l := full(fmt.Sprint(i))
				l.Key.Stream = core.StreamID(fmt.Sprint("s", i%4))
				want[l.Key] = create(t, s, l)
			}
			for _, streams := range [][]core.StreamID{nil, {"s1"}, {"s1", "s3"}, {"other"}} {
				got := map[core.LeaseKey]core.Lease{}
				for l, err := range s.List(t.Context(), streams...) {
					if err != nil {
						t.Fatal(err)
					}
					if _, twice := got[l.Key]; twice {
						t.Errorf("%s is listed twice", l.Key)
					}
					got[l.Key] = l
				}
				rest := map[core.LeaseKey]core.Lease{}
				for k, l := range want {
					if len(streams) == 0 || slices.Contains(streams, k.Stream) {
						rest[k] = l
					}
				}
				if !reflect.DeepEqual(got, rest) {
					t.Errorf("List(%v): %d rows, want %d, or they differ", streams, len(got), len(rest))
				}
			}
			if n := s.Calls()[memory.List]; n != 4*c.pages {
				t.Errorf("%d pages were read for four listings, want %d each", n, c.pages)
			}
			n := 0
			for _, err := range s.List(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if n++; n == 3 {
					break // must not panic or go on
				}
			}
		})
	}
}

// A page that cannot be read makes the listing an error, and the error is the last thing.
func TestListingIsWholeOrAnError(t *testing.T) {
	s := memory.New(memory.Pages(3))
	for i := range 9 {
		create(t, s, full(fmt.Sprint(i)))
	}
	s.Break(memory.Fault{Ops: []memory.Op{memory.List, memory.Look}, Skip: 1, Err: core.ErrThrottled, Times: 1})
	var rows int
	var last error
	for _, err := range s.List(t.Context()) {
		if last != nil {
			t.Error("something comes after the error")
		}
		if last = err; err == nil {
			rows++
		}
	}
	if !errors.Is(last, core.ErrThrottled) || rows != 3 {
		t.Errorf("%d rows, then %v; want 3, then ErrThrottled", rows, last)
	}
	s.Break(memory.Fault{Ops: []memory.Op{memory.List, memory.Look}, Skip: 1, Times: 1})
	if sight, err := s.Look(t.Context()); !errors.Is(err, core.ErrUnavailable) || len(sight.Leases) != 0 {
		t.Errorf("Look gives %d leases and %v, want none and ErrUnavailable", len(sight.Leases), err)
	}
}

func TestRowThatCannotBeRead(t *testing.T) {
	s := memory.New()
	for _, n := range []string{"1", "2", "3"} {
		create(t, s, full(n))
	}
	s.Spoil(key("2"), errors.New("column leaseCounter holds \"x\", expected a number"))
	for name, read := range map[string]func() (core.Sight, error){
		"List": func() (core.Sight, error) { return core.Collect(s.List(t.Context())) },
		"Look": func() (core.Sight, error) { return s.Look(t.Context()) },
	} {
		sight, err := read()
		if err != nil || len(sight.Leases) != 2 || len(sight.Bad) != 1 || sight.Bad[0].Key != key("2") {
			t.Errorf("%s: %d leases, bad %v, error %v; want 2, row 2, none", name, len(sight.Leases), sight.Bad, err)
		}
	}
	_, err := s.Get(t.Context(), key("2"))
	if bad, ok := errors.AsType[*core.RowError](err); !ok || bad.Key != key("2") {
		t.Errorf("Get: %v, want a *RowError", err)
	}
	s.Spoil(key("2"), nil)
	mustGet(t, s, key("2"))
}

func TestContextEndsEveryCall(t *testing.T) {
	s := memory.New()
	l := create(t, s, full("1"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range calls(s, l) {
		if err := call(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s under a context that has ended: %v, want context.Canceled", name, err)
		}
	}
	wantSame(t, "row after", mustGet(t, s, key("1")), l)
	if n := len(s.Rows()); n != 1 {
		t.Errorf("%d rows after it, want 1", n)
	}
}

// calls are all calls of a store; those that write change something.
func calls(s *memory.Store, l core.Lease) map[memory.Op]func(context.Context) error {
	return map[memory.Op]func(context.Context) error{
		memory.Prepare: s.Prepare,
		memory.List: func(ctx context.Context) error {
			_, err := core.Collect(s.List(ctx))
			return err
		},
		memory.Get: func(ctx context.Context) error {
			_, err := s.Get(ctx, l.Key)
			return err
		},
		memory.Create: func(ctx context.Context) error {
			_, err := s.Create(ctx, full("new"))
			return err
		},
		memory.Update: func(ctx context.Context) error {
			_, err := s.Update(ctx, l, core.SameCounter, core.Set{Bump: true})
			return err
		},
		memory.Delete:   func(ctx context.Context) error { return s.Delete(ctx, l, 0) },
		memory.Announce: func(ctx context.Context) error { return s.Announce(ctx, core.WorkerInfo{ID: "A", Beat: "1"}) },
		memory.Withdraw: func(ctx context.Context) error { return s.Withdraw(ctx, "A") },
		memory.Look: func(ctx context.Context) error {
			_, err := s.Look(ctx)
			return err
		},
	}
}

func TestPresence(t *testing.T) {
	s := memory.New()
	load := map[string]float64{"cpu": 20}
	for _, w := range []core.WorkerInfo{{ID: "B", Beat: "1"}, {ID: "A", Beat: "1"}, {ID: "B", Beat: "2", Load: load}} {
		if err := s.Announce(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	load["cpu"] = 99
	create(t, s, full("1"))
	want := []core.WorkerInfo{{ID: "A", Beat: "1"}, {ID: "B", Beat: "2", Load: map[string]float64{"cpu": 20}}}
	for range 2 {
		sight, err := core.See(t.Context(), s)
		if err != nil || len(sight.Leases) != 1 || !reflect.DeepEqual(sight.Workers, want) {
			t.Errorf("seen: %+v, %v; want one lease and %+v", sight, err, want)
		}
		sight.Workers[1].Load["cpu"] = 99
	}
	for range 2 {
		if err := s.Withdraw(t.Context(), "B"); err != nil {
			t.Errorf("Withdraw: %v", err)
		}
	}
	sight, err := s.Look(t.Context(), "another stream")
	if err != nil || len(sight.Leases) != 0 || !reflect.DeepEqual(sight.Workers, want[:1]) {
		t.Errorf("seen: %+v, %v; want no lease and %+v", sight, err, want[:1])
	}
}

func TestPlainHasNoMoreThanTheSixMethods(t *testing.T) {
	s := memory.New()
	create(t, s, full("1"))
	if err := s.Announce(t.Context(), core.WorkerInfo{ID: "A"}); err != nil {
		t.Fatal(err)
	}
	sight, err := core.See(t.Context(), s.Plain())
	if err != nil || len(sight.Leases) != 1 || len(sight.Workers) != 0 {
		t.Errorf("seen: %+v, %v; want one lease and no worker", sight, err)
	}
	if _, ok := s.Plain().(core.StartHolder); ok {
		t.Error("Plain is a StartHolder")
	}
}

// What goes in and what comes out is the caller's to change.
func TestNothingIsShared(t *testing.T) {
	spoil := func(l *core.Lease) {
		l.Parents[0], l.Children[0], l.Range.End[0], l.Pending.State[0], l.Pending.At.Sub = "x", "x", 99, 'x', 99
	}
	for _, opts := range [][]memory.Option{nil, {memory.WithoutReturnedRows()}} {
		s := memory.New(opts...)
		in := full("1")
		out := create(t, s, in)
		spoil(&in)
		spoil(&out)
		got := mustGet(t, s, key("1"))
		wantSame(t, "row after creation", got, full("1"))
		spoil(&got)

		set := core.Set{Children: []core.ShardID{"c2"}, Range: &core.HashRange{End: [16]byte{1}}, Pending: new(full("1").Pending)}
		want := set.Apply(full("1"))
		want.Pending = full("1").Pending
		want.Range = new(*want.Range)
		updated, err := s.Update(t.Context(), full("1"), core.SameCounter, set)
		if err != nil {
			t.Fatal(err)
		}
		spoil(&updated)
		set.Children[0], set.Range.End[0], (*set.Pending).State[0] = "x", 99, 'x'
		wantSame(t, "row after update", mustGet(t, s, key("1")), want)
		_, err = s.Update(t.Context(), core.Lease{Key: key("1")}, core.SameCounter, core.Set{Bump: true})
		conflict, _ := errors.AsType[*core.ConflictError](err)
		spoil(conflict.Row)
		for l, err := range s.List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			wantSame(t, "row listed", l, want)
			spoil(&l)
		}
		rows := s.Rows()
		spoil(&rows[0])
		wantSame(t, "row at the end", mustGet(t, s, key("1")), want)
	}
}

func TestTablesThatGiveLess(t *testing.T) {
	t.Run("no row with a conflict", func(t *testing.T) {
		s := memory.New(memory.WithoutConflictRows())
		l := create(t, s, full("1"))
		l.Counter--
		for _, seen := range []core.Lease{l, full("2")} {
			_, err := s.Update(t.Context(), seen, core.SameCounter, core.Set{Bump: true})
			if conflict, ok := errors.AsType[*core.ConflictError](err); !ok || conflict.Row != nil || conflict.Key != seen.Key {
				t.Errorf("Update of %s: %v, want a *ConflictError without a row", seen.Key, err)
			}
		}
	})
	t.Run("no row after an update", func(t *testing.T) {
		s := memory.New(memory.WithoutReturnedRows())
		l := create(t, s, full("1"))
		seen := l
		seen.Throughput = 99 // an older reading
		got, err := s.Update(t.Context(), seen, core.SameCounter, core.Set{Bump: true})
		if err != nil || got.Throughput != 99 || s.Calls()[memory.Get] != 0 {
			t.Errorf("under SameCounter: %+v, %v; want what was seen, merged, without a Get", got, err)
		}
		got, err = s.Update(t.Context(), seen, core.SameOwner|core.SameNext, core.Set{Bump: true})
		if err != nil || got.Throughput != l.Throughput || got.Counter != l.Counter+2 || s.Calls()[memory.Get] != 1 {
			t.Errorf("without SameCounter: %+v, %v; want the row, by one Get", got, err)
		}
	})
	t.Run("no starts", func(t *testing.T) {
		if memory.New(memory.WithoutStarts()).HoldsStart() || !memory.New().HoldsStart() {
			t.Error("HoldsStart does not say what the table does")
		}
	})
}
