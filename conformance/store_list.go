package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/shardwarden/shardwarden/core"
)

// many is more rows than one page of any service in the suite's reach, unless it pages by bytes ([PageLimiter]).
const many = 320

// fill creates leases side by side, and returns them by key.
func (t *table) fill(n int, change func(i int, l *core.Lease)) map[core.LeaseKey]core.Lease {
	out := map[core.LeaseKey]core.Lease{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	work := make(chan core.Lease)
	for i := range 8 {
		s := []core.LeaseStore{t.a, t.b}[i%2]
		wg.Go(func() {
			defer t.rescue("Create")
			for l := range work {
				got, err := s.Create(t.ctx, l)
				if err != nil {
					t.errorf("Create(%s): %v", l.Key, err)
					continue
				}
				mu.Lock()
				out[got.Key] = got
				mu.Unlock()
			}
		})
	}
	for i := range n {
		l := t.plain()
		if change != nil {
			change(i, &l)
		}
		work <- l
	}
	close(work)
	wg.Wait()
	return out
}

// complete compares a listing with what must be in it.
func (t *table) complete(what string, got []core.Lease, want map[core.LeaseKey]core.Lease) {
	seen := map[core.LeaseKey]bool{}
	for _, l := range got {
		if seen[l.Key] {
			t.errorf("%s: %s is listed twice", what, l.Key)
		}
		seen[l.Key] = true
		w, ok := want[l.Key]
		if !ok {
			t.errorf("%s: %s is listed, and there is no such lease", what, l.Key)
			continue
		}
		t.want(fmt.Sprintf("%s: %s", what, l.Key), l, w)
	}
	missing := 0
	for k := range want {
		if !seen[k] {
			if missing++; missing == 1 {
				t.errorf("%s: %s is not listed", what, k)
			}
		}
	}
	if missing > 1 {
		t.errorf("%s: %d of %d leases are not listed", what, missing, len(want))
	}
}

func listRules() []rule[MakeStore] {
	return []rule[MakeStore]{
		storeRule("list-complete", "A listing shows every lease once, also above one page, as it is.", func(t *table) {
			t.settle()
			if got := t.list(t.b, t.stream); len(got) > 0 {
				t.errorf("an empty table lists %d leases", len(got))
			}
			all := t.fill(many, func(i int, l *core.Lease) {
				if i%3 == 0 {
					l.Owner, l.Run, l.Counter, l.Ready = "worker-A", fmt.Sprint("worker-A:", i), int64(i), true
				}
			})
			t.settle()
			t.complete("List", t.list(t.b, t.stream), all)
			t.complete("List of all streams", t.list(t.a), all)
		}),
		storeRule("list-complete-above-page-bytes", "A listing is complete where the rows are more bytes than one page of the service.", func(t *table) {
			limit := need[PageLimiter](t.checker, t.h, "PageBytes").PageBytes()
			const state = 50_000
			all := t.fill(limit/state*2+2, func(i int, l *core.Lease) {
				l.Owner = "worker-A"
				l.Pending = &core.Pending{At: core.Position{Token: sequence(i)}, State: bytes.Repeat([]byte{byte(i)}, state)}
			})
			t.settle()
			t.complete("List", t.list(t.b, t.stream), all)
		}),
		storeRule("list-while-written", "A lease that is there from before a listing to behind it is listed, whatever is written meanwhile.", func(t *table) {
			var leave []core.Lease // whose going shifts the others, where a store counts rows
			for range 20 {
				leave = append(leave, t.create(t.plain()))
			}
			stay := t.fill(150, nil)
			t.settle()
			seen := map[core.LeaseKey]bool{}
			for l, err := range t.b.List(t.ctx, t.stream) {
				if err != nil {
					t.fatalf("List: %v", err)
				}
				seen[l.Key] = true
				if len(seen)%10 == 5 && len(leave) > 0 {
					t.create(t.plain())
					if _, err := t.a.Update(t.ctx, l, 0, core.Set{Bump: true}); err != nil && !is(err, core.ErrNotFound) && !is(err, core.ErrConflict) {
						t.fatalf("Update of what is being listed: %v", err)
					}
					if err := t.a.Delete(t.ctx, leave[0], 0); err != nil {
						t.fatalf("Delete: %v", err)
					}
					leave = leave[1:]
				}
			}
			for k := range stay {
				if !seen[k] {
					t.errorf("%s was there all the time, and is not listed", k)
				}
			}
		}),
		storeRule("list-by-stream", "A listing shows the leases of the streams it is asked for, and no others.", func(t *table) {
			streams := []core.StreamID{t.stream, "123456789012:other:1700000001", "123456789012:third:1700000002"}
			of := map[core.StreamID]map[core.LeaseKey]core.Lease{}
			for i, id := range streams {
				of[id] = map[core.LeaseKey]core.Lease{}
				for n := range 20 {
					l := core.Lease{Key: core.LeaseKey{Stream: id, Shard: core.ShardID(fmt.Sprint("shard-", n))}, Checkpoint: core.Position{Token: sequence(i)}}
					got, err := t.a.Create(t.ctx, l)
					if i > 0 && n == 0 && (is(err, core.ErrInvalid) || is(err, core.ErrOtherStream)) {
						t.skip("ability to hold the leases of several streams")
					}
					if err != nil {
						t.fatalf("Create(%s): %v", l.Key, err)
					}
					of[id][l.Key] = got
				}
			}
			t.settle()
			all := map[core.LeaseKey]core.Lease{}
			for _, id := range streams {
				t.complete("List of "+string(id), t.list(t.b, id), of[id])
				maps.Copy(all, of[id])
			}
			t.complete("List of all", t.list(t.b), all)
			t.complete("List of three", t.list(t.b, streams...), all)
			t.complete("List of an unknown stream", t.list(t.b, "123456789012:unknown:1"), nil)
		}),
		storeRule("list-or-error", "A listing that cannot be read to its end ends with an error, which is the last thing it yields.", func(t *table) {
			b := need[Breaker](t.checker, t.h, "Break")
			t.fill(many, nil)
			t.settle()
			heal := t.breakdown(b, PartList)
			defer heal()
			rows, failed := 0, false
			for _, err := range t.b.List(t.ctx, t.stream) {
				if failed {
					t.errorf("List yields more after its error")
				}
				if err != nil {
					failed = true
					if !is(err, core.ErrUnavailable) {
						t.errorf("List: %v, want ErrUnavailable", err)
					}
					continue
				}
				rows++
			}
			if !failed {
				t.errorf("a listing of %d leases gave %d and no error, while pages behind the first failed", many, rows)
			}
			if _, err := core.See(t.ctx, t.b, t.stream); err == nil {
				t.errorf("a look at the table went well while pages behind the first failed")
			}
		}),
		storeRule("list-can-be-left", "A listing that is left half-way disturbs neither the next one nor the caller.", func(t *table) {
			all := t.fill(40, nil)
			t.settle()
			for range 3 {
				for _, err := range t.b.List(t.ctx, t.stream) {
					if err != nil {
						t.fatalf("List: %v", err)
					}
					break
				}
			}
			list := t.b.List(t.ctx, t.stream)
			for range 2 { // an iterator may be used again
				sight, err := core.Collect(list)
				if err != nil {
					t.fatalf("List: %v", err)
				}
				t.complete("List after others were left", sight.Leases, all)
			}
		}),
		storeRule("list-fresh", "A listing shows what was answered before it began, or before the staleness that the harness declares.", func(t *table) {
			l := t.create(t.plain())
			for i := range 20 {
				var err error
				if l, err = t.a.Update(t.ctx, l, core.SameCounter, core.Set{Bump: true, Checkpoint: &core.Position{Token: sequence(i)}}); err != nil {
					t.fatalf("Update: %v", err)
				}
				t.settle()
				t.complete(fmt.Sprintf("List after write %d", i), t.list(t.b, t.stream), map[core.LeaseKey]core.Lease{l.Key: l})
			}
		}),
		storeRule("get-fresh", "Get sees every write that was answered before it was called, through whatever handle.", func(t *table) {
			l := t.create(t.plain())
			t.want("Get after Create", t.get(l.Key), l)
			for i := range 30 {
				w, r := t.a, t.b
				if i%2 == 1 {
					w, r = t.b, t.a
				}
				next, err := w.Update(t.ctx, l, core.SameCounter, core.Set{Bump: true, Checkpoint: &core.Position{Token: sequence(i)}})
				if err != nil {
					t.fatalf("Update %d, through the handle that did not write last: %v", i, err)
				}
				got, err := r.Get(t.ctx, l.Key)
				if err != nil {
					t.fatalf("Get: %v", err)
				}
				if !t.want(fmt.Sprintf("Get after write %d", i), got, next) {
					return
				}
				l = next
			}
		}),
		storeRule("unreadable-rows", "A lease that cannot be read is a *RowError that names it, in a listing that goes on and in Get.", func(t *table) {
			spoil := need[Spoiler](t.checker, t.h, "Spoil")
			good := t.fill(20, nil)
			bad := t.create(t.plain())
			if err := spoil.Spoil(t.ctx, bad.Key); err != nil {
				t.fatalf("Spoil: %v", err)
			}
			t.settle()
			sight, err := core.Collect(t.b.List(t.ctx, t.stream))
			if err != nil {
				t.fatalf("List with an unreadable row: %v", err)
			}
			t.complete("List", sight.Leases, good)
			if len(sight.Bad) != 1 || sight.Bad[0].Key.Shard != bad.Key.Shard {
				t.errorf("unreadable rows: %v, want one of %s", sight.Bad, bad.Key)
			}
			_, err = t.b.Get(t.ctx, bad.Key)
			if _, ok := errors.AsType[*core.RowError](fmt.Errorf("worker: %w", err)); !ok {
				t.errorf("Get of it: %v, want a *RowError", err)
			}
		}),
		storeRule("strange-rows", "Rows that are no leases are skipped.", func(t *table) {
			s := need[Stranger](t.checker, t.h, "PutStranger")
			all := t.fill(5, nil)
			if err := s.PutStranger(t.ctx); err != nil {
				t.fatalf("PutStranger: %v", err)
			}
			t.settle()
			t.complete("List", t.list(t.b, t.stream), all)
		}),
		storeRule("cancelled-listing", "A listing whose context ends says so; it is never just shorter.", func(t *table) {
			t.fill(100, nil)
			t.settle()
			ctx, cancel := context.WithCancel(t.ctx)
			defer cancel()
			n := 0
			var last error
			for _, err := range t.b.List(ctx, t.stream) {
				if last = err; err == nil {
					if n++; n == 5 {
						cancel()
					}
				}
			}
			switch {
			case last == nil && n < 100:
				t.errorf("the context ended, and the listing ended after %d of 100 leases without an error", n)
			case last != nil && !ended(ctx, last):
				t.errorf("the context ended: %v, want its error or ErrUnavailable", last)
			}
		}),
	}
}

// breakdown breaks the service; where the harness cannot do that in this way the rule is skipped.
func (c *checker) breakdown(b Breaker, f Fault) (heal func()) {
	mend, err := b.Break(c.ctx, f)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		c.skip(fmt.Sprintf("verb Break (%s)", f))
	case err != nil:
		c.fatalf("Break(%s): %v", f, err)
	}
	heal = sync.OnceFunc(mend)
	c.cleanup(heal)
	return heal
}

// ended reports whether err is what a call may say whose context has ended.
func ended(ctx context.Context, err error) bool {
	return is(err, ctx.Err()) || is(err, context.Cause(ctx)) || is(err, core.ErrUnavailable)
}
