package memory

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// Store is a handle on a lease table in memory. It implements [core.LeaseStore], [core.Presence], [core.StartHolder], [core.Sharer] and [core.LeaderLock]. Safe for concurrent
// use. Leases are copied on the way in and on the way out, so that nothing is shared with the caller. Make one with [New].
type Store struct {
	name   string
	table  *table
	faults faults
}

var (
	_ core.LeaseStore  = (*Store)(nil)
	_ core.Presence    = (*Store)(nil)
	_ core.StartHolder = (*Store)(nil)
	_ core.Sharer      = (*Store)(nil)
	_ core.LeaderLock  = (*Store)(nil)
)

// New makes an empty table and returns the first handle on it, whose name is "".
func New(opts ...Option) *Store {
	t := &table{cells: map[core.LeaseKey]*cell{}, spoiled: map[core.LeaseKey]error{}, workers: map[core.WorkerID]core.WorkerInfo{}}
	for _, o := range opts {
		o(t)
	}
	return &Store{table: t}
}

// Handle is another handle on the same rows, with faults and counts of its own. The name is what observers are told.
func (s *Store) Handle(name string) *Store { return &Store{name: name, table: s.table} }

// Plain is the handle without its optional abilities (no [core.Presence]), as a store of six methods.
func (s *Store) Plain() core.LeaseStore { return struct{ core.LeaseStore }{s} }

// OnWrite has f called after each change of a lease, in the order of the changes, one at a time: before is nil for a row that was made, after
// nil for one that was deleted, by names the handle. The call that wrote returns after f has, so what a caller does next never comes before
// what f was told. f must not change the leases, and must not call the table.
func (s *Store) OnWrite(f func(before, after *core.Lease, by string)) {
	s.table.mu.Lock()
	s.table.observers = append(slices.Clone(s.table.observers), f)
	s.table.mu.Unlock()
}

// Rows is the table as it is, by stream and shard, with no faults: for tests and tools.
func (s *Store) Rows() []core.Lease {
	var rows []*core.Lease
	s.table.run(func() { rows = s.table.rows() })
	out := make([]core.Lease, len(rows))
	for i, l := range rows {
		out[i] = clone(l)
	}
	return out
}

// Spoil makes a row unreadable, as a hand-made or damaged row is: reading it gives a [*core.RowError] with this cause until the row is
// deleted or cause is nil. Writes still go by what the row holds, but cannot return it.
func (s *Store) Spoil(key core.LeaseKey, cause error) {
	s.table.run(func() {
		if s.table.spoiled[key] = cause; cause == nil {
			delete(s.table.spoiled, key)
		}
	})
}

// HoldsStart implements [core.StartHolder].
func (s *Store) HoldsStart() bool { return !s.table.noStarts }

// call carries out one call: what the faults make of it, and f under the lock of the table.
func (s *Store) call(ctx context.Context, op Op, key core.LeaseKey, f func() error) error {
	return s.callAged(ctx, op, key, func(time.Duration) error { return f() })
}

// callAged tells f how old a table it is to show.
func (s *Store) callAged(ctx context.Context, op Op, key core.LeaseKey, f func(age time.Duration) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	fate := s.faults.count(op, key.Shard)
	for _, b := range fate.waits {
		if err := b.wait(ctx); err != nil {
			return wrap(op, key, err)
		}
	}
	var err error
	run := func() { err = f(fate.stale) }
	switch {
	case fate.fails == nil:
		s.table.run(run)
		return err
	case fate.fails.Kind == Lose:
		s.table.run(run)
	case fate.fails.Kind == Late:
		s.table.delay(fate.fails.Delay, run)
	}
	return wrap(op, key, fate.fails.fail(ctx))
}

func wrap(op Op, key core.LeaseKey, err error) error {
	return &core.Error{Op: string(op), Stream: key.Stream, Shard: key.Shard, Err: err}
}

// Prepare implements [core.LeaseStore]. There is nothing to prepare.
func (s *Store) Prepare(ctx context.Context) error {
	return s.call(ctx, Prepare, core.LeaseKey{}, func() error { return nil })
}

// List implements [core.LeaseStore].
func (s *Store) List(ctx context.Context, streams ...core.StreamID) iter.Seq2[core.Lease, error] {
	return s.list(ctx, List, streams, new(map[core.WorkerID]core.WorkerInfo))
}

// list reads the table page by page, each page as a call of op. workers are those of the last page's instant.
func (s *Store) list(ctx context.Context, op Op, streams []core.StreamID, workers *map[core.WorkerID]core.WorkerInfo) iter.Seq2[core.Lease, error] {
	return func(yield func(core.Lease, error) bool) {
		t := s.table
		var from core.LeaseKey // the key of the last row read
		for first, more := true, true; more; first = false {
			var page []*core.Lease
			bad := map[core.LeaseKey]error{}
			err := s.callAged(ctx, op, core.LeaseKey{}, func(age time.Duration) error {
				page, *workers = t.at(age)
				if !first {
					page = slices.DeleteFunc(page, func(l *core.Lease) bool { return compareKeys(l.Key, from) <= 0 })
				}
				if more = t.page > 0 && len(page) > t.page; more {
					page = page[:t.page]
				}
				maps.Copy(bad, t.spoiled)
				return nil
			})
			if err != nil {
				yield(core.Lease{}, err)
				return
			}
			if len(page) > 0 {
				from = page[len(page)-1].Key
			}
			if t.shuffle != nil {
				t.shuffle.shuffle(page)
			}
			for _, l := range page {
				if len(streams) > 0 && !slices.Contains(streams, l.Key.Stream) {
					continue
				}
				if err := ctx.Err(); err != nil {
					yield(core.Lease{}, err)
					return
				}
				var ok bool
				if cause := bad[l.Key]; cause != nil {
					ok = yield(core.Lease{}, rowError(l.Key, cause))
				} else {
					ok = yield(clone(l), nil)
				}
				if !ok {
					return
				}
			}
		}
	}
}

func rowError(key core.LeaseKey, cause error) *core.RowError {
	return &core.RowError{Key: key, Row: key.String(), Err: cause}
}

// Get implements [core.LeaseStore].
func (s *Store) Get(ctx context.Context, key core.LeaseKey) (core.Lease, error) {
	var row *core.Lease
	err := s.call(ctx, Get, key, func() error {
		if row = s.table.find(key); row == nil {
			return wrap(Get, key, core.ErrNotFound)
		}
		return s.table.unreadable(key)
	})
	if err != nil {
		return core.Lease{}, err
	}
	return clone(row), nil
}

// Create implements [core.LeaseStore].
func (s *Store) Create(ctx context.Context, l core.Lease) (core.Lease, error) {
	row := new(clone(&l))
	row.Raw = nil
	row.Run = core.BoundRun(row.Run, row.Owner)
	row.Checkpoint.Time = time.Time{} // the instant stands in StartAt
	if s.table.noStarts && row.Checkpoint.Anchor == core.AfterToken {
		row.StartAt = time.Time{} // what the token was resolved from
	}
	if err := s.valid(row.Key, &row.Checkpoint, row.StartAt); err != nil {
		return core.Lease{}, wrap(Create, row.Key, err)
	}
	err := s.call(ctx, Create, row.Key, func() error {
		if s.table.find(row.Key) != nil {
			return wrap(Create, row.Key, core.ErrExists)
		}
		s.table.put(row.Key, nil, row, s.name)
		return nil
	})
	if err != nil {
		return core.Lease{}, err
	}
	return clone(row), nil
}

// Update implements [core.LeaseStore].
func (s *Store) Update(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
	key := seen.Key
	if !same.Valid() {
		return core.Lease{}, wrap(Update, key, fmt.Errorf("condition %q: %w: owner only together with next, and not both ended and not ended", same, core.ErrInvalid))
	}
	var at time.Time
	if set.StartAt != nil {
		at = *set.StartAt
	}
	if err := s.valid(key, set.Checkpoint, at); err != nil {
		return core.Lease{}, wrap(Update, key, err)
	}
	set = own(set) // what the caller changes while the write is on its way is not in it
	var row *core.Lease
	err := s.call(ctx, Update, key, func() error {
		before, err := s.table.match(Update, &seen, same)
		if err != nil {
			return err
		}
		row = new(set.Apply(*before)) // shares with before and set what nobody changes
		s.table.put(key, before, row, s.name)
		return s.table.unreadable(key)
	})
	switch {
	case err != nil:
		return core.Lease{}, err
	case !s.table.noReturnedRows:
		return clone(row), nil
	case same&core.SameCounter != 0:
		return clone(new(set.Apply(seen))), nil
	}
	return s.Get(ctx, key)
}

// own is set with memory of its own.
func own(set core.Set) core.Set {
	set.Owner, set.Next, set.Checkpoint = copied(set.Owner), copied(set.Next), copied(set.Checkpoint)
	set.StartAt, set.Range, set.Throughput = copied(set.StartAt), copied(set.Range), copied(set.Throughput)
	set.Children = slices.Clone(set.Children)
	if set.Pending != nil {
		p := copied(*set.Pending)
		if p != nil {
			p.State = slices.Clone(p.State)
		}
		set.Pending = &p
	}
	return set
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

// Delete implements [core.LeaseStore].
func (s *Store) Delete(ctx context.Context, seen core.Lease, same core.Same) error {
	key := seen.Key
	if !same.Valid() {
		return wrap(Delete, key, fmt.Errorf("condition %q: %w: owner only together with next, and not both ended and not ended", same, core.ErrInvalid))
	}
	return s.call(ctx, Delete, key, func() error {
		if s.table.find(key) == nil {
			return nil
		}
		before, err := s.table.match(Delete, &seen, same)
		if err == nil {
			s.table.put(key, before, nil, s.name)
		}
		return err
	})
}

// match is the row that seen was, if the condition holds.
func (t *table) match(op Op, seen *core.Lease, same core.Same) (*core.Lease, error) {
	row := t.find(seen.Key)
	switch {
	case row == nil && t.noConflictRows:
		return nil, &core.ConflictError{Key: seen.Key}
	case row == nil:
		return nil, wrap(op, seen.Key, core.ErrNotFound)
	case same.Holds(seen, row):
		return row, nil
	case t.noConflictRows || t.spoiled[seen.Key] != nil:
		return nil, &core.ConflictError{Key: seen.Key}
	}
	return nil, &core.ConflictError{Key: seen.Key, Row: new(clone(row))}
}

func (t *table) unreadable(key core.LeaseKey) error {
	if cause := t.spoiled[key]; cause != nil {
		return rowError(key, cause)
	}
	return nil
}

// valid refuses what no real table could hold.
func (s *Store) valid(key core.LeaseKey, p *core.Position, startAt time.Time) error {
	switch {
	case key.Shard == "":
		return fmt.Errorf("the lease names no shard: %w", core.ErrInvalid)
	case p != nil && p.Anchor == core.AfterToken && p.Token == "":
		return fmt.Errorf("the checkpoint is empty: %w: a token, or one of the anchors", core.ErrInvalid)
	case p != nil && p.Anchor != core.AfterToken && (p.Token != "" || p.Sub != 0):
		return fmt.Errorf("checkpoint %s with token %q and sub-sequence number %d: %w: only a position behind a token has them", p, p.Token, p.Sub, core.ErrInvalid)
	case s.table.noStarts && (!startAt.IsZero() || p != nil && (p.Anchor == core.Latest || p.Anchor == core.AtTime)):
		return fmt.Errorf("this table cannot hold the instant of a start: %w: resolve it to a token", core.ErrInvalid)
	}
	return nil
}
