package memory_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/leasestore/memory"
)

// Random calls through several handles, with answers lost, against a map that Same.Holds and Set.Apply are applied to.
func TestAgainstTheMeaningOfSameAndSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		var opts []memory.Option
		if rapid.Bool().Draw(t, "conflicts without rows") {
			opts = append(opts, memory.WithoutConflictRows())
		}
		s := memory.New(opts...)
		handles := []*memory.Store{s, s.Handle("b"), s.Handle("c")}
		want := map[core.LeaseKey]core.Lease{}
		seen := []core.Lease{{Key: key("1")}} // what was read at some time

		shards := rapid.SampledFrom([]core.LeaseKey{key("1"), key("2"), {Stream: "t", Shard: "1"}})
		workers := rapid.SampledFrom([]core.WorkerID{core.Nobody, "A", "B"})
		position := rapid.Custom(func(t *rapid.T) core.Position {
			return rapid.SampledFrom([]core.Position{{Token: "5"}, {Token: "5", Sub: 1}, {Token: "6"}, core.AtShardEnd, core.FromHorizon, core.FromLatest}).Draw(t, "position")
		})
		lease := rapid.Custom(func(t *rapid.T) core.Lease {
			l := core.Lease{Key: shards.Draw(t, "key"), Owner: workers.Draw(t, "owner"), Next: workers.Draw(t, "next"), Counter: int64(rapid.IntRange(0, 2).Draw(t, "counter")), Checkpoint: position.Draw(t, "at")}
			if l.Checkpoint.Anchor == core.Latest {
				l.StartAt = time.Unix(3, 0)
			}
			return l
		})
		set := rapid.Custom(func(t *rapid.T) core.Set {
			maybe := func(what string) bool { return rapid.Bool().Draw(t, what) }
			s := core.Set{Bump: maybe("bump"), Ready: maybe("ready"), Switches: core.SwitchOp(rapid.IntRange(0, 2).Draw(t, "switches"))}
			if maybe("owner") {
				s.Owner = new(workers.Draw(t, "owner"))
			}
			if maybe("next") {
				s.Next = new(workers.Draw(t, "next"))
			}
			if maybe("checkpoint") {
				s.Checkpoint = new(position.Draw(t, "checkpoint"))
			}
			if maybe("start") {
				s.StartAt = new(time.Unix(9, 0))
			}
			if maybe("pending") {
				s.Pending = new(&core.Pending{At: core.Position{Token: "7"}})
			}
			if maybe("run") {
				s.Run = core.NewRun(workers.Draw(t, "run"), "1")
			}
			if maybe("children") {
				s.Children = rapid.SliceOfN(rapid.SampledFrom([]core.ShardID{"c1", "c2", "c3"}), 1, 2).Draw(t, "children")
			}
			return s
		})
		masks := rapid.Uint16Range(0, uint16(core.Ended)<<1)

		// lose decides whether the answer is lost: the error says so, and the effect is there.
		lose := func(h *memory.Store) bool {
			if rapid.IntRange(0, 4).Draw(t, "lost") > 0 {
				return false
			}
			h.Break(memory.Fault{Kind: memory.Lose, Times: 1})
			return true
		}
		check := func(call string, lost bool, err, should error) bool {
			if lost {
				should = core.ErrUnavailable
			}
			if !errors.Is(err, should) {
				t.Fatalf("%s: %v, want %v", call, err, should)
			}
			return !lost && err == nil
		}
		handle := rapid.SampledFrom(handles)
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				rows := s.Rows()
				if len(rows) != len(want) {
					t.Fatalf("%d rows, want %d", len(rows), len(want))
				}
				for _, l := range rows {
					if !reflect.DeepEqual(l, want[l.Key]) {
						t.Fatalf("row\n %+v, want\n %+v", l, want[l.Key])
					}
				}
			},
			"create": func(t *rapid.T) {
				h, l := handle.Draw(t, "handle"), lease.Draw(t, "lease")
				lost := lose(h)
				var should error
				if _, ok := want[l.Key]; ok {
					should = core.ErrExists
				} else {
					want[l.Key] = l
				}
				got, err := h.Create(ctx, l)
				if check("Create", lost, err, should) {
					if !reflect.DeepEqual(got, l) {
						t.Fatalf("created %+v, want %+v", got, l)
					}
					seen = append(seen, got)
				}
			},
			"update": func(t *rapid.T) {
				h, was := handle.Draw(t, "handle"), rapid.SampledFrom(seen).Draw(t, "seen")
				same, set := core.Same(masks.Draw(t, "same")), set.Draw(t, "set")
				if !same.Valid() {
					if _, err := h.Update(ctx, was, same, set); !errors.Is(err, core.ErrInvalid) {
						t.Fatalf("Update under %s: %v, want ErrInvalid", same, err)
					}
					return
				}
				lost := lose(h)
				row, ok := want[was.Key]
				var should error
				switch {
				case !ok && len(opts) > 0, ok && !same.Holds(&was, &row):
					should = core.ErrConflict
				case !ok:
					should = core.ErrNotFound
				default:
					want[was.Key] = set.Apply(row)
				}
				got, err := h.Update(ctx, was, same, set)
				if check("Update", lost, err, should) {
					if !reflect.DeepEqual(got, want[was.Key]) {
						t.Fatalf("updated to\n %+v, want\n %+v", got, want[was.Key])
					}
					seen = append(seen, got)
				}
				if conflict, is := errors.AsType[*core.ConflictError](err); is {
					if (conflict.Row == nil) != (len(opts) > 0) || conflict.Row != nil && !reflect.DeepEqual(*conflict.Row, row) {
						t.Fatalf("conflict with %+v, want %+v", conflict.Row, row)
					}
				}
			},
			"delete": func(t *rapid.T) {
				h, was := handle.Draw(t, "handle"), rapid.SampledFrom(seen).Draw(t, "seen")
				same := core.Same(masks.Draw(t, "same"))
				if !same.Valid() {
					return
				}
				lost := lose(h)
				row, ok := want[was.Key]
				var should error
				if ok && !same.Holds(&was, &row) {
					should = core.ErrConflict
				} else {
					delete(want, was.Key)
				}
				check("Delete", lost, h.Delete(ctx, was, same), should)
			},
			"get": func(t *rapid.T) {
				k := shards.Draw(t, "key")
				got, err := handle.Draw(t, "handle").Get(ctx, k)
				if row, ok := want[k]; !ok && !errors.Is(err, core.ErrNotFound) || ok && !reflect.DeepEqual(got, row) {
					t.Fatalf("Get: %+v, %v; want %+v", got, err, row)
				}
				if err == nil {
					seen = append(seen, got)
				}
			},
		})
	})
}
