package conformance

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

var instantZero time.Time

// masks are all conditions that every store can carry.
func masks() []core.Same {
	var out []core.Same
	for m := range core.Ended << 1 {
		if m.Valid() {
			out = append(out, m)
		}
	}
	return out
}

// change is what another worker did to a row since it was read.
type change struct {
	name string
	do   func(l *core.Lease)
}

var changes = []change{
	{"nothing", func(*core.Lease) {}},
	{"its counter grew", func(l *core.Lease) { l.Counter++ }},
	{"its counter fell", func(l *core.Lease) { l.Counter-- }},
	{"its owner", func(l *core.Lease) { l.Owner, l.Run = "worker-C", "" }},
	{"its next owner", func(l *core.Lease) { l.Next = "worker-C" }},
	{"its next owner went", func(l *core.Lease) { l.Next = core.Nobody }},
	{"owner and next went", func(l *core.Lease) { l.Owner, l.Next, l.Run = core.Nobody, core.Nobody, "" }},
	{"its checkpoint", func(l *core.Lease) { l.Checkpoint.Token = sequence(50) }},
	{"the place inside its checkpoint", func(l *core.Lease) { l.Checkpoint.Sub++ }},
	{"it ended", func(l *core.Lease) { l.Checkpoint, l.Pending, l.StartAt = core.AtShardEnd, nil, instantZero }},
	{"throughput, children and the rest", func(l *core.Lease) { l.Throughput, l.Children, l.Switches, l.Pending, l.Ready = 9, nil, 5, nil, false }},
}

// try is one conditional write: a lease as it was read, and the row as it is by now.
type try struct {
	name      string
	same      core.Same
	seen, row core.Lease
}

// tries are all conditions with all changes, where f holds; each on a row of its own, which is made.
func (t *table) tries(f func(same core.Same, seen, row *core.Lease) bool) func(yield func(try) bool) {
	return func(yield func(try) bool) {
		for _, seenAtEnd := range []bool{false, true} {
			for _, ch := range changes {
				for _, same := range masks() {
					seen := t.full()
					if seenAtEnd {
						seen.Checkpoint, seen.StartAt, seen.Pending = core.AtShardEnd, instantZero, nil
					}
					row := seen
					if ch.do(&row); seenAtEnd && row.Checkpoint.Anchor == core.ShardEnd && (row.Checkpoint.Token != "" || row.Checkpoint.Sub != 0) {
						continue // no place inside an end
					}
					if !f(same, &seen, &row) {
						continue
					}
					row = t.create(row)
					name := fmt.Sprintf("condition %q, changed since: %s, read at %s", same, ch.name, place(seen.Checkpoint))
					if !yield(try{name, same, seen, row}) {
						return
					}
				}
			}
		}
	}
}

// refused tries writes that must fail for want of this one bit alone.
func (t *table) refused(bit core.Same, write func(try) error) {
	for x := range t.tries(func(same core.Same, seen, row *core.Lease) bool {
		return same&bit != 0 && !same.Holds(seen, row) && (same&^bit).Holds(seen, row)
	}) {
		err := write(x)
		if err == nil {
			t.errorf("%s: the write went through", x.name)
		} else {
			t.conflict(x.name, err, x.row)
		}
		got, err := t.b.Get(t.ctx, x.row.Key)
		if err != nil {
			t.errorf("%s: Get after it: %v", x.name, err)
			continue
		}
		t.want(x.name+": the row after the refusal", got, x.row)
	}
}

// conflict asks that err is a refusal whose row, if there is one, is the row.
func (t *table) conflict(what string, err error, row core.Lease) {
	if !is(err, core.ErrConflict) {
		t.errorf("%s: %v, want ErrConflict", what, err)
		return
	}
	conflict, ok := errors.AsType[*core.ConflictError](fmt.Errorf("worker: %w", err))
	switch {
	case !ok:
		t.errorf("%s: %v matches ErrConflict and is no *ConflictError", what, err)
	case conflict.Key != row.Key:
		t.errorf("%s: the conflict is about %s, want %s", what, conflict.Key, row.Key)
	}
}

// otherwise is a write that changes things that a condition is about, so that a wrong condition shows.
func (t *table) otherwise(x try) (core.Lease, error) {
	return t.a.Update(t.ctx, x.seen, x.same, core.Set{Bump: true, Owner: new(core.WorkerID("worker-D")), Next: new(core.Nobody), Run: "worker-D:4", Switches: core.SwitchAdd})
}

func updateRules() []rule[MakeStore] {
	bits := []struct {
		bit        core.Same
		name, says string
	}{
		{core.SameCounter, "counter", "the counter moved"},
		{core.SameOwner, "owner", "the owner is another"},
		{core.SameNext, "next", "the next owner is another"},
		{core.SameCheckpoint, "checkpoint", "the checkpoint, or the place inside it, is another"},
		{core.NotEnded, "not-ended", "the shard has ended"},
		{core.Ended, "ended", "the shard has not ended"},
	}
	var out []rule[MakeStore]
	for _, b := range bits {
		out = append(out, storeRule("update-refused-by-"+b.name, fmt.Sprintf("An update under %q is refused, and changes nothing, where %s.", b.bit, b.says), func(t *table) {
			t.refused(b.bit, func(x try) error { _, err := t.otherwise(x); return err })
		}))
	}
	out = append(out,
		storeRule("update-refused-by-nothing-else", "An update goes through wherever its condition holds: what the condition does not name may have changed.", func(t *table) {
			for x := range t.tries(core.Same.Holds) {
				got, err := t.otherwise(x)
				if err != nil {
					t.errorf("%s: %v", x.name, err)
					continue
				}
				set := core.Set{Bump: true, Owner: new(core.WorkerID("worker-D")), Next: new(core.Nobody), Run: "worker-D:4", Switches: core.SwitchAdd}
				if x.same&core.SameCounter == 0 || differ(x.seen, x.row) == "" { // else the row may be returned as seen and set make it
					t.want(x.name+": row returned", got, set.Apply(x.row))
				}
				t.want(x.name+": row after it", t.get(x.row.Key), set.Apply(x.row))
			}
		}),
		storeRule("update-mask-invalid", "A condition that not every store can carry is refused as ErrInvalid, and nothing is written.", func(t *table) {
			l := t.create(t.full())
			for _, m := range []core.Same{core.SameOwner, core.SameOwner | core.SameCounter, core.Ended | core.NotEnded, core.Ended << 1} {
				if _, err := t.a.Update(t.ctx, l, m, core.Set{Bump: true}); !is(err, core.ErrInvalid) {
					t.errorf("Update under %q (%#x): %v, want ErrInvalid", m, uint16(m), err)
				}
				if err := t.a.Delete(t.ctx, l, m); !is(err, core.ErrInvalid) {
					t.errorf("Delete under %q (%#x): %v, want ErrInvalid", m, uint16(m), err)
				}
			}
			t.want("the row after it", t.get(l.Key), l)
		}),
		storeRule("conflict-carries-row", "A conflict carries the row as it is, where the service gives it; nil where not, and never the row as it was read.", func(t *table) {
			seen := t.create(t.full())
			now, err := t.b.Update(t.ctx, seen, core.SameCounter, core.Set{Bump: true, Owner: new(core.WorkerID("worker-C")), Next: new(core.Nobody), Run: "worker-C:1"})
			if err != nil {
				t.fatalf("Update: %v", err)
			}
			_, err = t.a.Update(t.ctx, seen, core.SameCounter, core.Set{Bump: true})
			for _, err := range []error{err, t.a.Delete(t.ctx, seen, core.SameCounter)} {
				conflict, ok := errors.AsType[*core.ConflictError](fmt.Errorf("worker: %w", err))
				if !ok {
					t.errorf("a lost race: %v, want a *ConflictError", err)
					continue
				}
				if conflict.Row != nil {
					t.want("the row of the conflict", *conflict.Row, now)
				}
			}
		}),
		storeRule("update-never-resurrects", "An update of a row that is gone fails with ErrNotFound or ErrConflict under every condition, and makes no row.", func(t *table) {
			for _, same := range masks() {
				l := t.full()
				if same&core.Ended != 0 {
					l.Checkpoint, l.StartAt, l.Pending = core.AtShardEnd, instantZero, nil
				}
				l = t.create(l)
				if err := t.b.Delete(t.ctx, l, 0); err != nil {
					t.fatalf("Delete: %v", err)
				}
				for _, set := range []core.Set{{Bump: true}, {Children: []core.ShardID{"child-9"}}, {Throughput: new(2.5)}} {
					if _, err := t.a.Update(t.ctx, l, same, set); !is(err, core.ErrNotFound) && !is(err, core.ErrConflict) {
						t.errorf("Update of a deleted row under %q: %v, want ErrNotFound or ErrConflict", same, err)
					}
				}
				if got, err := t.b.Get(t.ctx, l.Key); !is(err, core.ErrNotFound) {
					t.errorf("Get after the update of a deleted row under %q: %v, %v; want ErrNotFound", same, show(got), err)
				}
			}
			if left := t.list(t.b, t.stream); len(left) > 0 {
				t.errorf("the table lists %d rows, %s first; all were deleted", len(left), show(left[0]))
			}
		}),
		storeRule("update-loses-none", "Of updates that race under SameCounter one wins each value of the counter: none is written twice, none is skipped.", noLostUpdate),
		storeRule("bump-is-an-increment", "Bump adds one to the counter that the row has, however old the row was that the caller read.", func(t *table) {
			const n, each = 6, 8
			seen := t.create(t.full())
			var wg sync.WaitGroup
			for i := range n {
				s := []core.LeaseStore{t.a, t.b}[i%2]
				wg.Go(func() {
					defer t.rescue("Update")
					for range each {
						if _, err := s.Update(t.ctx, seen, 0, core.Set{Bump: true}); err != nil {
							t.errorf("Update without a condition: %v", err)
						}
					}
				})
			}
			wg.Wait()
			want := seen
			want.Counter += n * each
			t.want(fmt.Sprintf("row after %d bumps", n*each), t.get(seen.Key), want)
		}),
		storeRule("unknown-attributes-kept", "What an update does not name stays in the row, attributes included that the store does not know.", func(t *table) {
			put := need[AttributePutter](t.checker, t.h, "PutAttribute")
			read := need[AttributeGetter](t.checker, t.h, "Attribute")
			l := t.create(t.full())
			if err := put.PutAttribute(t.ctx, l.Key, "theirs"); err != nil {
				t.fatalf("PutAttribute: %v", err)
			}
			l = t.get(l.Key) // with whatever Raw the store has
			for _, s := range sets(t.starts) {
				var err error
				if l, err = t.a.Update(t.ctx, l, 0, s.set); err != nil {
					t.fatalf("Update of %s: %v", s.name, err)
				}
				got, err := read.Attribute(t.ctx, l.Key)
				if err != nil {
					t.fatalf("Attribute: %v", err)
				}
				if got != "theirs" {
					t.errorf("Update of %s: the attribute is %q after it, want %q", s.name, got, "theirs")
					return
				}
			}
		}),
	)
	return slices.Concat(out, setRules())
}

// noLostUpdate lets many count. Each writes who it is, so that the history can be put together.
func noLostUpdate(t *table) {
	const n, each = 6, 12
	first := t.create(core.Lease{Key: t.fresh(), Checkpoint: core.FromHorizon})
	var mu sync.Mutex
	by := map[int64][]string{}
	var wg sync.WaitGroup
	for i := range n {
		s := []core.LeaseStore{t.a, t.b}[i%2]
		me := core.WorkerID(fmt.Sprint("worker-", i))
		wg.Go(func() {
			defer t.rescue("Update")
			for k := 0; k < each; {
				if t.ctx.Err() != nil {
					return
				}
				seen, err := s.Get(t.ctx, first.Key)
				if err != nil {
					t.errorf("Get: %v", err)
					return
				}
				run := core.NewRun(me, fmt.Sprint(k))
				got, err := s.Update(t.ctx, seen, core.SameCounter, core.Set{Bump: true, Owner: new(me), Run: run})
				switch {
				case err == nil:
					k++
					if got.Counter != seen.Counter+1 || got.Run != run {
						t.errorf("update of counter %d by %s returned counter %d, run %q", seen.Counter, run, got.Counter, got.Run)
					}
					mu.Lock()
					by[seen.Counter+1] = append(by[seen.Counter+1], run)
					mu.Unlock()
				case !is(err, core.ErrConflict):
					t.errorf("a lost race: %v, want ErrConflict", err)
					return
				}
			}
		})
	}
	wg.Wait()
	last := t.get(first.Key)
	if last.Counter != n*each {
		t.errorf("the counter is %d after %d updates that went through", last.Counter, n*each)
	}
	for c := int64(1); c <= n*each; c++ {
		if len(by[c]) != 1 {
			t.errorf("counter %d was won by %d: %v", c, len(by[c]), by[c])
		}
	}
}

func deleteRules() []rule[MakeStore] {
	return []rule[MakeStore]{
		storeRule("delete-refused", "A delete whose condition does not hold fails with ErrConflict and leaves the row, under every condition.", func(t *table) {
			for _, bit := range []core.Same{core.SameCounter, core.SameOwner, core.SameNext, core.SameCheckpoint, core.NotEnded, core.Ended} {
				t.refused(bit, func(x try) error { return t.a.Delete(t.ctx, x.seen, x.same) })
			}
		}),
		storeRule("delete", "A delete whose condition holds removes the row, for every handle and for listings.", func(t *table) {
			for x := range t.tries(core.Same.Holds) {
				if err := t.a.Delete(t.ctx, x.seen, x.same); err != nil {
					t.errorf("%s: %v", x.name, err)
				}
				if _, err := t.b.Get(t.ctx, x.row.Key); !is(err, core.ErrNotFound) {
					t.errorf("%s: Get after Delete: %v, want ErrNotFound", x.name, err)
				}
			}
			t.settle()
			if left := t.list(t.b, t.stream); len(left) > 0 {
				t.errorf("the table lists %d rows, %s first; all were deleted", len(left), show(left[0]))
			}
		}),
		storeRule("delete-of-nothing", "To delete a row that is not there is no error, under any condition.", func(t *table) {
			for _, same := range masks() {
				if err := t.a.Delete(t.ctx, t.full(), same); err != nil {
					t.errorf("Delete under %q: %v", same, err)
				}
			}
		}),
		storeRule("get-of-nothing", "Get of a row that is not there is ErrNotFound.", func(t *table) {
			if _, err := t.a.Get(t.ctx, t.fresh()); !is(err, core.ErrNotFound) {
				t.errorf("Get: %v, want ErrNotFound", err)
			}
		}),
	}
}
