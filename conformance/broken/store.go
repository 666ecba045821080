package broken

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/leasestore/memory"
)

// hooks is a store whose methods are replaced one by one. It has the optional abilities of the table in memory.
type hooks struct {
	*memory.Store
	prepare  func(ctx context.Context) error
	list     func(ctx context.Context, streams ...core.StreamID) iter.Seq2[core.Lease, error]
	get      func(ctx context.Context, key core.LeaseKey) (core.Lease, error)
	create   func(ctx context.Context, l core.Lease) (core.Lease, error)
	update   func(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error)
	remove   func(ctx context.Context, seen core.Lease, same core.Same) error
	announce func(ctx context.Context, w core.WorkerInfo) error
	withdraw func(ctx context.Context, id core.WorkerID) error
	look     func(ctx context.Context, streams ...core.StreamID) (core.Sight, error)
	lead     func(ctx context.Context, seen core.Lock, me core.WorkerID) (core.Lock, error)
	resign   func(ctx context.Context, seen core.Lock) error
	many     func(u core.LeaseUpdate) core.LeaseUpdate
	evidence func(l core.Lease) (subject, beat string)
}

// UpdateMany implements [core.ManyUpdater].
func (s *hooks) UpdateMany(ctx context.Context, u []core.LeaseUpdate) ([]core.Lease, []error) {
	rows, errs := make([]core.Lease, len(u)), make([]error, len(u))
	for i, x := range u {
		if s.many != nil {
			x = s.many(x)
		}
		rows[i], errs[i] = s.Store.Update(ctx, x.Seen, x.Write.Same, x.Write.Set)
	}
	return rows, errs
}

// Evidence implements [core.Evidence].
func (s *hooks) Evidence(l core.Lease) (subject, beat string) {
	if s.evidence != nil {
		return s.evidence(l)
	}
	return l.Key.String(), fmt.Sprint(l.Counter)
}

func (s *hooks) Prepare(ctx context.Context) error {
	if s.prepare != nil {
		return s.prepare(ctx)
	}
	return s.Store.Prepare(ctx)
}

func (s *hooks) List(ctx context.Context, streams ...core.StreamID) iter.Seq2[core.Lease, error] {
	if s.list != nil {
		return s.list(ctx, streams...)
	}
	return s.Store.List(ctx, streams...)
}

func (s *hooks) Get(ctx context.Context, key core.LeaseKey) (core.Lease, error) {
	if s.get != nil {
		return s.get(ctx, key)
	}
	return s.Store.Get(ctx, key)
}

func (s *hooks) Create(ctx context.Context, l core.Lease) (core.Lease, error) {
	if s.create != nil {
		return s.create(ctx, l)
	}
	return s.Store.Create(ctx, l)
}

func (s *hooks) Update(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
	if s.update != nil {
		return s.update(ctx, seen, same, set)
	}
	return s.Store.Update(ctx, seen, same, set)
}

func (s *hooks) Delete(ctx context.Context, seen core.Lease, same core.Same) error {
	if s.remove != nil {
		return s.remove(ctx, seen, same)
	}
	return s.Store.Delete(ctx, seen, same)
}

func (s *hooks) Announce(ctx context.Context, w core.WorkerInfo) error {
	if s.announce != nil {
		return s.announce(ctx, w)
	}
	return s.Store.Announce(ctx, w)
}

func (s *hooks) Withdraw(ctx context.Context, id core.WorkerID) error {
	if s.withdraw != nil {
		return s.withdraw(ctx, id)
	}
	return s.Store.Withdraw(ctx, id)
}

func (s *hooks) Look(ctx context.Context, streams ...core.StreamID) (core.Sight, error) {
	if s.look != nil {
		return s.look(ctx, streams...)
	}
	return s.Store.Look(ctx, streams...)
}

func (s *hooks) Lead(ctx context.Context, seen core.Lock, me core.WorkerID) (core.Lock, error) {
	if s.lead != nil {
		return s.lead(ctx, seen, me)
	}
	return s.Store.Lead(ctx, seen, me)
}

func (s *hooks) Resign(ctx context.Context, seen core.Lock) error {
	if s.resign != nil {
		return s.resign(ctx, seen)
	}
	return s.Store.Resign(ctx, seen)
}

// by makes a wrapper out of what it changes.
func by(change func(h *storeHarness, s *hooks)) func(*storeHarness, *memory.Store) core.LeaseStore {
	return func(h *storeHarness, m *memory.Store) core.LeaseStore {
		s := &hooks{Store: m}
		change(h, s)
		return s
	}
}

// updating changes what an update asks for. row is the row as it is.
func updating(change func(row, seen *core.Lease, same *core.Same, set *core.Set)) func(*storeHarness, *memory.Store) core.LeaseStore {
	return by(func(_ *storeHarness, s *hooks) {
		s.update = func(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
			row, err := s.Store.Get(ctx, seen.Key)
			if err != nil || !same.Valid() {
				return s.Store.Update(ctx, seen, same, set)
			}
			change(&row, &seen, &same, &set)
			return s.Store.Update(ctx, seen, same, set)
		}
	})
}

// after changes the row that an update has made.
func after(change func(before, row *core.Lease, set *core.Set)) func(*storeHarness, *memory.Store) core.LeaseStore {
	return by(func(h *storeHarness, s *hooks) {
		s.update = func(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
			before, err := s.Store.Get(ctx, seen.Key)
			if err != nil {
				return s.Store.Update(ctx, seen, same, set)
			}
			row, err := s.Store.Update(ctx, seen, same, set)
			if err != nil {
				return row, err
			}
			change(&before, &row, &set)
			return row, force(ctx, s.Store, row)
		}
	})
}

// force makes row the row.
func force(ctx context.Context, s *memory.Store, row core.Lease) error {
	if err := s.Delete(ctx, row, 0); err != nil {
		return err
	}
	_, err := s.Create(ctx, row)
	return err
}

// listing changes a listing that is complete, or failed.
func listing(change func(rows []core.Lease, err error) ([]core.Lease, error)) func(*storeHarness, *memory.Store) core.LeaseStore {
	return by(func(_ *storeHarness, s *hooks) {
		s.list = func(ctx context.Context, streams ...core.StreamID) iter.Seq2[core.Lease, error] {
			return func(yield func(core.Lease, error) bool) {
				var rows []core.Lease
				var failed error
				for l, err := range s.Store.List(ctx, streams...) {
					if err != nil {
						failed = err
						break
					}
					rows = append(rows, l)
				}
				rows, failed = change(rows, failed)
				for _, l := range rows {
					if !yield(l, nil) {
						return
					}
				}
				if failed != nil {
					yield(core.Lease{}, failed)
				}
			}
		}
	})
}

// mapping gives errors of one kind as another.
func mapping(kind, as error) func(*storeHarness, *memory.Store) core.LeaseStore {
	return by(func(_ *storeHarness, s *hooks) {
		s.get = func(ctx context.Context, key core.LeaseKey) (core.Lease, error) {
			l, err := s.Store.Get(ctx, key)
			if errors.Is(err, kind) {
				err = fmt.Errorf("get: %w (%s)", as, err.Error())
			}
			return l, err
		}
	})
}

// Stores are all of them.
func Stores() []Store {
	return []Store{
		{"forgets the condition on the counter", "update-refused-by-counter", updating(func(_, _ *core.Lease, same *core.Same, _ *core.Set) { *same &^= core.SameCounter })},
		{"forgets the condition on the owner", "update-refused-by-owner", updating(func(_, _ *core.Lease, same *core.Same, _ *core.Set) { *same &^= core.SameOwner })},
		{"forgets the condition on the next owner", "update-refused-by-next", updating(func(row, seen *core.Lease, _ *core.Same, _ *core.Set) { seen.Next = row.Next })},
		{"forgets the condition on the checkpoint", "update-refused-by-checkpoint", updating(func(_, _ *core.Lease, same *core.Same, _ *core.Set) { *same &^= core.SameCheckpoint })},
		{"compares checkpoints without the place inside", "update-refused-by-checkpoint", updating(func(row, seen *core.Lease, _ *core.Same, _ *core.Set) { seen.Checkpoint.Sub = row.Checkpoint.Sub })},
		{"forgets that the shard must not have ended", "update-refused-by-not-ended", updating(func(_, _ *core.Lease, same *core.Same, _ *core.Set) { *same &^= core.NotEnded })},
		{"forgets that the shard must have ended", "update-refused-by-ended", updating(func(_, _ *core.Lease, same *core.Same, _ *core.Set) { *same &^= core.Ended })},
		{"takes a counter that grew for the same", "update-refused-by-counter", updating(func(row, seen *core.Lease, _ *core.Same, _ *core.Set) { seen.Counter = max(seen.Counter, row.Counter) })},
		{"asks for the counter whatever the condition", "update-refused-by-nothing-else", updating(func(_, _ *core.Lease, same *core.Same, _ *core.Set) { *same |= core.SameCounter })},
		{"checks and writes in two steps", "update-loses-none", by(func(_ *storeHarness, s *hooks) {
			s.update = func(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
				row, err := s.Store.Get(ctx, seen.Key)
				if err != nil || !same.Valid() {
					return s.Store.Update(ctx, seen, same, set)
				}
				if !same.Holds(&seen, &row) {
					return core.Lease{}, &core.ConflictError{Key: seen.Key, Row: &row}
				}
				rest(100 * time.Microsecond)
				return s.Store.Update(ctx, seen, 0, set)
			}
		})},
		{"writes the counter as a value", "bump-is-an-increment", by(func(h *storeHarness, s *hooks) {
			s.update = func(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
				h.mu.Lock()
				defer h.mu.Unlock()
				row, err := s.Store.Update(ctx, seen, same, set)
				if err == nil && set.Bump && same == 0 {
					row.Counter = seen.Counter + 1
					err = force(ctx, s.Store, row)
				}
				return row, err
			}
		})},
		{"brings a deleted row back with an update", "update-never-resurrects", by(func(_ *storeHarness, s *hooks) {
			s.update = func(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
				row, err := s.Store.Update(ctx, seen, same, set)
				if errors.Is(err, core.ErrNotFound) {
					return s.Store.Create(ctx, set.Apply(seen))
				}
				return row, err
			}
		})},
		{"returns the row as it was read, not as it is", "update-refused-by-nothing-else", by(func(_ *storeHarness, s *hooks) {
			s.update = func(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
				if _, err := s.Store.Update(ctx, seen, same, set); err != nil {
					return core.Lease{}, err
				}
				return seen, nil
			}
		})},
		{"sends a write again whose answer was lost", "write-sent-once", by(func(_ *storeHarness, s *hooks) {
			s.update = func(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
				row, err := s.Store.Update(ctx, seen, same, set)
				if errors.Is(err, core.ErrUnavailable) {
					return s.Store.Update(ctx, seen, same, set)
				}
				return row, err
			}
		})},
		{"puts the whole row, and with it wipes what it does not know", "unknown-attributes-kept", by(func(h *storeHarness, s *hooks) {
			s.update = func(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
				row, err := s.Store.Update(ctx, seen, same, set)
				if err == nil {
					h.mu.Lock()
					delete(h.attributes, seen.Key)
					h.mu.Unlock()
				}
				return row, err
			}
		})},
		{"forgets the next owner", "set-next", updating(func(_, _ *core.Lease, _ *core.Same, set *core.Set) { set.Next = nil })},
		{"lets ready fall when the owner changes", "set-ready", after(func(_, row *core.Lease, set *core.Set) {
			if set.Owner != nil && !set.Ready {
				row.Ready = false
			}
		})},
		{"replaces the children instead of adding to them", "set-children", after(func(_, row *core.Lease, set *core.Set) {
			if len(set.Children) > 0 {
				row.Children = set.Children
			}
		})},
		{"counts changes of owner from one each time", "set-switches", after(func(_, row *core.Lease, set *core.Set) {
			if set.Switches == core.SwitchAdd {
				row.Switches = 1
			}
		})},
		{"keeps the start instant beside another checkpoint", "start-bound", after(func(before, row *core.Lease, set *core.Set) {
			if set.StartAt == nil {
				row.StartAt = before.StartAt
			}
		})},
		{"keeps what was pending beside another checkpoint", "pending-bound", after(func(before, row *core.Lease, set *core.Set) {
			if set.Pending == nil {
				row.Pending = before.Pending
			}
		})},
		{"shows a run beside another owner", "run-bound", by(func(_ *storeHarness, s *hooks) {
			var mu sync.Mutex
			last := map[core.LeaseKey]string{}
			show := func(l core.Lease, err error) (core.Lease, error) {
				mu.Lock()
				defer mu.Unlock()
				if l.Run == "" {
					l.Run = last[l.Key]
				}
				last[l.Key] = l.Run
				return l, err
			}
			s.get = func(ctx context.Context, key core.LeaseKey) (core.Lease, error) { return show(s.Store.Get(ctx, key)) }
			s.update = func(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
				_, _ = show(seen, nil)
				return show(s.Store.Update(ctx, seen, same, set))
			}
		})},
		{"gives the row as it was read with a conflict", "conflict-carries-row", by(func(_ *storeHarness, s *hooks) {
			s.update = func(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
				row, err := s.Store.Update(ctx, seen, same, set)
				if conflict, ok := errors.AsType[*core.ConflictError](err); ok {
					conflict.Row = &seen
				}
				return row, err
			}
		})},
		{"loses the type of a conflict in wrapping", "conflict-carries-row", by(func(_ *storeHarness, s *hooks) {
			s.update = func(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
				row, err := s.Store.Update(ctx, seen, same, set)
				if errors.Is(err, core.ErrConflict) {
					err = fmt.Errorf("update: %w (%s)", core.ErrConflict, err.Error())
				}
				return row, err
			}
		})},
		{"deletes without a condition", "delete-refused", by(func(_ *storeHarness, s *hooks) {
			s.remove = func(ctx context.Context, seen core.Lease, _ core.Same) error { return s.Store.Delete(ctx, seen, 0) }
		})},
		{"calls it an error to delete what is not there", "delete-of-nothing", by(func(_ *storeHarness, s *hooks) {
			s.remove = func(ctx context.Context, seen core.Lease, same core.Same) error {
				if _, err := s.Store.Get(ctx, seen.Key); err != nil {
					return err
				}
				return s.Store.Delete(ctx, seen, same)
			}
		})},
		{"creates over a row that exists", "create-once", by(func(_ *storeHarness, s *hooks) {
			s.create = func(ctx context.Context, l core.Lease) (core.Lease, error) {
				row, err := s.Store.Create(ctx, l)
				if errors.Is(err, core.ErrExists) {
					return s.Store.Update(ctx, l, 0, core.Set{Owner: &l.Owner})
				}
				return row, err
			}
		})},
		{"changes a row that it says exists", "create-changes-nothing", by(func(_ *storeHarness, s *hooks) {
			s.create = func(ctx context.Context, l core.Lease) (core.Lease, error) {
				row, err := s.Store.Create(ctx, l)
				if errors.Is(err, core.ErrExists) {
					_, _ = s.Store.Update(ctx, l, 0, core.Set{Owner: &l.Owner})
				}
				return row, err
			}
		})},
		{"gives an empty lease for a row that is not there", "get-of-nothing", by(func(_ *storeHarness, s *hooks) {
			s.get = func(ctx context.Context, key core.LeaseKey) (core.Lease, error) {
				l, err := s.Store.Get(ctx, key)
				if errors.Is(err, core.ErrNotFound) {
					return core.Lease{Key: key}, nil
				}
				return l, err
			}
		})},
		{"serves a reading from its cache as fresh", "get-fresh", by(func(_ *storeHarness, s *hooks) {
			var cache sync.Map
			s.get = func(ctx context.Context, key core.LeaseKey) (core.Lease, error) {
				if l, ok := cache.Load(key); ok {
					return l.(core.Lease), nil
				}
				l, err := s.Store.Get(ctx, key)
				if err == nil {
					cache.Store(key, l)
				}
				return l, err
			}
		})},
		{"lists the table as it was at the listing before", "list-fresh", func() func(*storeHarness, *memory.Store) core.LeaseStore {
			var mu sync.Mutex
			former := map[*memory.Store][]core.Lease{}
			return func(h *storeHarness, m *memory.Store) core.LeaseStore {
				return listing(func(rows []core.Lease, err error) ([]core.Lease, error) {
					mu.Lock()
					defer mu.Unlock()
					was := former[m]
					former[m] = rows
					return was, err
				})(h, m)
			}
		}()},
		{"lists the first page only", "list-complete", listing(func(rows []core.Lease, err error) ([]core.Lease, error) { return rows[:min(len(rows), page)], err })},
		{"lists the first row of a page again", "list-complete", listing(func(rows []core.Lease, err error) ([]core.Lease, error) {
			if len(rows) > page {
				rows = append(rows, rows[page])
			}
			return rows, err
		})},
		{"ends a listing early without an error", "list-or-error", listing(func(rows []core.Lease, _ error) ([]core.Lease, error) { return rows, nil })},
		{"lists all streams whichever are asked for", "list-by-stream", by(func(_ *storeHarness, s *hooks) {
			s.list = func(ctx context.Context, _ ...core.StreamID) iter.Seq2[core.Lease, error] { return s.Store.List(ctx) }
		})},
		{"skips rows that it cannot read", "unreadable-rows", by(func(_ *storeHarness, s *hooks) {
			s.list = func(ctx context.Context, streams ...core.StreamID) iter.Seq2[core.Lease, error] {
				return func(yield func(core.Lease, error) bool) {
					for l, err := range s.Store.List(ctx, streams...) {
						if _, bad := errors.AsType[*core.RowError](err); !bad && !yield(l, err) {
							return
						}
					}
				}
			}
		})},
		{"loses the kind of an error in wrapping", "error-throttled", by(func(_ *storeHarness, s *hooks) {
			s.get = func(ctx context.Context, key core.LeaseKey) (core.Lease, error) {
				l, err := s.Store.Get(ctx, key)
				if err != nil && !errors.Is(err, core.ErrNotFound) {
					err = errors.New("get: " + err.Error())
				}
				return l, err
			}
		})},
		{"writes although its context has ended", "cancelled-before", by(func(_ *storeHarness, s *hooks) {
			s.update = func(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
				return s.Store.Update(context.WithoutCancel(ctx), seen, same, set)
			}
		})},
		{"waits on although its context has ended", "cancelled-during", by(func(_ *storeHarness, s *hooks) {
			s.get = func(ctx context.Context, key core.LeaseKey) (core.Lease, error) {
				return s.Store.Get(context.WithoutCancel(ctx), key)
			}
		})},
		{"keeps 32 bits of the place inside a token", "values-kept", by(func(_ *storeHarness, s *hooks) {
			s.create = func(ctx context.Context, l core.Lease) (core.Lease, error) {
				l.Checkpoint.Sub = uint64(uint32(l.Checkpoint.Sub))
				return s.Store.Create(ctx, l)
			}
		})},
		{"keeps 255 bytes of a token", "values-updated", updating(func(_, _ *core.Lease, _ *core.Same, set *core.Set) {
			if p := set.Checkpoint; p != nil && len(p.Token) > 255 {
				set.Checkpoint = &core.Position{Token: p.Token[:255], Sub: p.Sub}
			}
		})},
		{"shares its memory with the caller", "values-are-own", by(func(h *storeHarness, s *hooks) {
			var cache sync.Map
			s.create = func(ctx context.Context, l core.Lease) (core.Lease, error) {
				got, err := s.Store.Create(ctx, l)
				if err == nil {
					cache.Store(l.Key, got)
				}
				return got, err
			}
			s.update = func(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
				cache.Delete(seen.Key)
				return s.Store.Update(ctx, seen, same, set)
			}
			s.list = func(ctx context.Context, streams ...core.StreamID) iter.Seq2[core.Lease, error] {
				return func(yield func(core.Lease, error) bool) {
					for l, err := range s.Store.List(ctx, streams...) {
						if own, ok := cache.Load(l.Key); ok {
							l.Pending = own.(core.Lease).Pending
						}
						if !yield(l, err) {
							return
						}
					}
				}
			}
			s.get = func(ctx context.Context, key core.LeaseKey) (core.Lease, error) {
				l, err := s.Store.Get(ctx, key)
				if own, ok := cache.LoadOrStore(key, l); ok && err == nil {
					l.Pending = own.(core.Lease).Pending
				}
				return l, err
			}
		})},
		{"empties the table when it is prepared", "prepare-again", by(func(h *storeHarness, s *hooks) {
			s.prepare = func(ctx context.Context) error {
				for _, l := range h.table.Rows() {
					if err := s.Store.Delete(ctx, l, 0); err != nil {
						return err
					}
				}
				return nil
			}
		})},
		{"fails where another prepares at the same time", "prepare-at-once", func() func(*storeHarness, *memory.Store) core.LeaseStore {
			var busy sync.Map
			return by(func(h *storeHarness, s *hooks) {
				s.prepare = func(context.Context) error {
					if _, there := busy.LoadOrStore(h, true); there {
						return fmt.Errorf("table is being made: %w", core.ErrConflict)
					}
					defer busy.Delete(h)
					rest(10 * time.Millisecond)
					return nil
				}
			})
		}()},
		{"announces each time with the same beat", "presence-beat-differs", by(func(_ *storeHarness, s *hooks) {
			s.announce = func(ctx context.Context, w core.WorkerInfo) error {
				w.Beat = "here"
				return s.Store.Announce(ctx, w)
			}
		})},
		{"announces only who was not there before", "presence-announced", by(func(_ *storeHarness, s *hooks) {
			s.look = func(ctx context.Context, streams ...core.StreamID) (core.Sight, error) {
				sight, err := s.Store.Look(ctx, streams...)
				sight.Workers = sight.Workers[:min(1, len(sight.Workers))]
				return sight, err
			}
		})},
		{"withdraws nobody", "presence-withdrawn", by(func(_ *storeHarness, s *hooks) {
			s.withdraw = func(context.Context, core.WorkerID) error { return nil }
		})},
		{"looks at the first page only", "presence-look", by(func(_ *storeHarness, s *hooks) {
			s.look = func(ctx context.Context, streams ...core.StreamID) (core.Sight, error) {
				sight, err := s.Store.Look(ctx, streams...)
				sight.Leases = sight.Leases[:min(page, len(sight.Leases))]
				return sight, err
			}
		})},
		{"gives the lock to whoever asks", "leader-once", by(func(_ *storeHarness, s *hooks) {
			s.lead = func(ctx context.Context, _ core.Lock, me core.WorkerID) (core.Lock, error) {
				now, err := s.Store.Leader(ctx)
				if err != nil {
					return now, err
				}
				return s.Store.Lead(ctx, now, me)
			}
		})},
		{"lets a leader that was replaced go on", "leader-kept", by(func(_ *storeHarness, s *hooks) {
			s.lead = func(ctx context.Context, seen core.Lock, me core.WorkerID) (core.Lock, error) {
				if now, err := s.Store.Leader(ctx); err == nil && seen != (core.Lock{}) {
					seen = now
				}
				return s.Store.Lead(ctx, seen, me)
			}
		})},
		{"takes the lock back from whoever has it by now", "leader-resigned", by(func(_ *storeHarness, s *hooks) {
			s.resign = func(ctx context.Context, _ core.Lock) error {
				now, err := s.Store.Leader(ctx)
				if err != nil {
					return err
				}
				return s.Store.Resign(ctx, now)
			}
		})},
		{"keeps of a deleted row that it was ready", "create-after-delete", by(func(h *storeHarness, s *hooks) {
			s.remove = func(ctx context.Context, seen core.Lease, same core.Same) error {
				h.mu.Lock()
				h.attributes[seen.Key] = fmt.Sprint(seen.Ready)
				h.mu.Unlock()
				return s.Store.Delete(ctx, seen, same)
			}
			s.create = func(ctx context.Context, l core.Lease) (core.Lease, error) {
				h.mu.Lock()
				l.Ready = l.Ready || h.attributes[l.Key] == "true"
				h.mu.Unlock()
				return s.Store.Create(ctx, l)
			}
		})},
		{"carries out a condition on the owner alone", "update-mask-invalid", by(func(_ *storeHarness, s *hooks) {
			s.update = func(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
				if !same.Valid() && same < core.Ended<<1 {
					same = 0
				}
				return s.Store.Update(ctx, seen, same, set)
			}
		})},
		{"counts a write twice", "set-bump", after(func(_, row *core.Lease, set *core.Set) {
			if set.Bump {
				row.Counter++
			}
		})},
		{"forgets the throughput with a new owner", "set-owner", after(func(_, row *core.Lease, set *core.Set) {
			if set.Owner != nil {
				row.Throughput = 0
			}
		})},
		{"forgets the place inside a token", "set-checkpoint", updating(func(_, _ *core.Lease, _ *core.Same, set *core.Set) {
			if p := set.Checkpoint; p != nil {
				set.Checkpoint = &core.Position{Anchor: p.Anchor, Token: p.Token}
			}
		})},
		{"forgets the instant of a start", "set-start", updating(func(_, _ *core.Lease, _ *core.Same, set *core.Set) { set.StartAt = nil })},
		{"cannot drop what is pending", "set-pending", updating(func(_, _ *core.Lease, _ *core.Same, set *core.Set) {
			if set.Pending != nil && *set.Pending == nil {
				set.Pending = nil
			}
		})},
		{"forgets the run", "set-run", updating(func(_, _ *core.Lease, _ *core.Same, set *core.Set) { set.Run = "" })},
		{"keeps 64 bits of a range", "set-range", updating(func(_, _ *core.Lease, _ *core.Same, set *core.Set) {
			if set.Range != nil {
				r := *set.Range
				clear(r.End[8:])
				set.Range = &r
			}
		})},
		{"takes no throughput for none said", "set-throughput", updating(func(_, _ *core.Lease, _ *core.Same, set *core.Set) {
			if set.Throughput != nil && *set.Throughput == 0 {
				set.Throughput = nil
			}
		})},
		{"forgets the children beside a checkpoint", "set-together", updating(func(_, _ *core.Lease, _ *core.Same, set *core.Set) {
			if set.Checkpoint != nil {
				set.Children = nil
			}
		})},
		{"refuses a write that changes nothing", "set-nothing", by(func(_ *storeHarness, s *hooks) {
			s.update = func(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
				if set.IsZero() {
					return core.Lease{}, fmt.Errorf("update expression is empty: %w", core.ErrInvalid)
				}
				return s.Store.Update(ctx, seen, same, set)
			}
		})},
		{"says that it deleted what it did not", "delete", by(func(_ *storeHarness, s *hooks) {
			s.remove = func(ctx context.Context, seen core.Lease, same core.Same) error {
				if same == core.SameCheckpoint|core.Ended {
					return nil
				}
				return s.Store.Delete(ctx, seen, same)
			}
		})},
		{"lists what fits into so many bytes", "list-complete-above-page-bytes", listing(func(rows []core.Lease, err error) ([]core.Lease, error) {
			size := 0
			for i := range rows {
				if rows[i].Pending != nil {
					size += len(rows[i].Pending.State)
				}
				if size > rowBytes {
					return rows[:i], err
				}
			}
			return rows, err
		})},
		{"finds the next page by counting rows", "list-while-written", by(func(h *storeHarness, s *hooks) {
			s.list = func(context.Context, ...core.StreamID) iter.Seq2[core.Lease, error] {
				return func(yield func(core.Lease, error) bool) {
					for from := 0; ; from += page {
						rows := h.table.Rows()
						for i := from; i < min(from+page, len(rows)); i++ {
							if !yield(rows[i], nil) {
								return
							}
						}
						if from+page >= len(rows) {
							return
						}
					}
				}
			}
		})},
		{"yields on to who has left", "list-can-be-left", by(func(_ *storeHarness, s *hooks) {
			s.list = func(ctx context.Context, streams ...core.StreamID) iter.Seq2[core.Lease, error] {
				return func(yield func(core.Lease, error) bool) {
					for l, err := range s.Store.List(ctx, streams...) {
						yield(l, err)
					}
				}
			}
		})},
		{"lists rows that are no leases", "strange-rows", by(func(h *storeHarness, s *hooks) {
			s.list = func(ctx context.Context, streams ...core.StreamID) iter.Seq2[core.Lease, error] {
				return func(yield func(core.Lease, error) bool) {
					h.mu.Lock()
					strange := h.strange
					h.mu.Unlock()
					if strange && !yield(core.Lease{Key: core.LeaseKey{Shard: "Leader"}}, nil) {
						return
					}
					for l, err := range s.Store.List(ctx, streams...) {
						if !yield(l, err) {
							return
						}
					}
				}
			}
		})},
		{"ends a listing without a word when its context has ended", "cancelled-listing", by(func(_ *storeHarness, s *hooks) {
			s.list = func(ctx context.Context, streams ...core.StreamID) iter.Seq2[core.Lease, error] {
				return func(yield func(core.Lease, error) bool) {
					for l, err := range s.Store.List(ctx, streams...) {
						if ctx.Err() != nil || !yield(l, err) {
							return
						}
					}
				}
			}
		})},
		{"calls a service that is not there an invalid answer", "error-unavailable", mapping(core.ErrUnavailable, core.ErrInvalid)},
		{"takes a refusal for a lease that is not there", "error-denied", mapping(core.ErrDenied, core.ErrNotFound)},
		{"sends many updates without their conditions", "update-many", by(func(_ *storeHarness, s *hooks) {
			s.many = func(u core.LeaseUpdate) core.LeaseUpdate {
				u.Write.Same = 0
				return u
			}
		})},
		{"shows the owner as evidence, whose life does not show there", "evidence-moves", by(func(_ *storeHarness, s *hooks) {
			s.evidence = func(l core.Lease) (string, string) { return l.Key.String(), string(l.Owner) }
		})},
		{"leaves a goroutine behind with each listing", "no-goroutine-left", by(func(_ *storeHarness, s *hooks) {
			s.list = func(ctx context.Context, streams ...core.StreamID) iter.Seq2[core.Lease, error] {
				go rest(3 * time.Second) // longer than the suite waits
				return s.Store.List(ctx, streams...)
			}
		})},
	}
}

// rest does nothing for a while, so that others come between.
func rest(d time.Duration) { <-time.NewTimer(d).C }
