package dynamo_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

var (
	anyWorker   = rapid.SampledFrom([]core.WorkerID{"", "A", "B", "C"})
	anyPosition = rapid.SampledFrom([]core.Position{core.FromHorizon, core.FromLatest, {Anchor: core.AtTime}, core.AtShardEnd, {Token: "495"}, {Token: "495", Sub: 2}, {Token: "496"}})
	anyInstant  = rapid.SampledFrom([]time.Time{time.Unix(1, 5).UTC(), time.Unix(2, 0).UTC()})
	anyPending  = rapid.SampledFrom([]*core.Pending{nil, {At: core.Position{Token: "497", Sub: 1}, State: []byte("x")}, {At: core.AtShardEnd}})
)

// Any condition and any change, on any row, mean what core.Same and core.Set say, write after write: the store writes exactly when
// Same.Holds, and the row afterwards is Set.Apply's. The one difference is that a write which names only one of owner and next, which share
// a column in this dialect, needs the other to be as seen.
func TestUpdateMeansWhatTheContractSays(t *testing.T) {
	for _, k := range []dynamo.LayoutKind{dynamo.Native, dynamo.KCL2} {
		t.Run(k.String(), func(t *testing.T) { testUpdateMeans(t, k) })
	}
}

func testUpdateMeans(t *testing.T, k dynamo.LayoutKind) {
	srv := serve(t, emulator.Config{})
	s := srv.ready(t, dynamo.Layout(k))
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		row := drawLease(rt, core.ShardID(fmt.Sprint(n)))
		_, err := s.Create(t.Context(), row)
		must(t, err)
		for range 4 {
			seen := row
			if rapid.Bool().Draw(rt, "stale") {
				seen = drawLease(rt, row.Key.Shard)
				if seen.Owner != row.Owner && seen.Counter == row.Counter {
					seen.Counter++ // the counter moves with each change of owner
				}
			}
			same, set := drawWrite(rt, &seen)
			got, err := s.Update(t.Context(), seen, same, set)
			after, getErr := s.Get(t.Context(), row.Key)
			must(t, getErr)
			want := row
			switch {
			case !same.Valid(), unrepresentable(&seen, &set):
				if !errors.Is(err, core.ErrInvalid) {
					rt.Fatalf("error %v, want ErrInvalid", err)
				}
			case !same.Holds(&seen, &row), (set.Owner == nil) != (set.Next == nil) && !(core.SameOwner|core.SameNext).Holds(&seen, &row):
				conflict, ok := errors.AsType[*core.ConflictError](err)
				if !ok || conflict.Row == nil || !reflect.DeepEqual(*conflict.Row, row) {
					rt.Fatalf("%q does not hold\nseen %+v\nrow  %+v\nerror %v, want a conflict with the row", same, seen, row, err)
				}
			default:
				if err != nil {
					rt.Fatalf("%q holds: %v", same, err)
				}
				if want = set.Apply(row); !reflect.DeepEqual(got, want) {
					rt.Fatalf("%+v on\n%+v returned\n%+v, want\n%+v", set, row, got, want)
				}
			}
			if !reflect.DeepEqual(after, want) {
				rt.Fatalf("after %q %+v (error %v) the row is\n%+v, want\n%+v", same, set, err, after, want)
			}
			row = after
		}
	})
}

func drawLease(rt *rapid.T, shard core.ShardID) core.Lease {
	l := core.Lease{
		Key: core.LeaseKey{Stream: stream, Shard: shard}, Owner: anyWorker.Draw(rt, "owner"), Next: anyWorker.Draw(rt, "next"),
		Counter: rapid.Int64Range(0, 2).Draw(rt, "counter"), Checkpoint: anyPosition.Draw(rt, "checkpoint"), Pending: anyPending.Draw(rt, "pending"),
		Ready: rapid.Bool().Draw(rt, "ready"), Switches: rapid.Int64Range(0, 2).Draw(rt, "switches"),
	}
	if l.Owner == core.Nobody || l.Next == l.Owner {
		l.Next = core.Nobody
	}
	if l.Owner != core.Nobody && rapid.Bool().Draw(rt, "has run") {
		l.Run = core.NewRun(l.Owner, "r")
	}
	if rapid.Bool().Draw(rt, "has start") {
		l.StartAt = anyInstant.Draw(rt, "start")
	}
	if rapid.Bool().Draw(rt, "has child") {
		l.Children = []core.ShardID{"c1"}
	}
	return l
}

func drawWrite(rt *rapid.T, seen *core.Lease) (core.Same, core.Set) {
	var set core.Set
	maybe := func(name string) bool { return rapid.IntRange(0, 2).Draw(rt, "set "+name) == 0 }
	same := core.Same(rapid.IntRange(0, 63).Draw(rt, "same"))
	set.Bump = rapid.Bool().Draw(rt, "bump")
	if maybe("owner") {
		set.Owner = new(anyWorker.Draw(rt, "to owner"))
	}
	if maybe("next") {
		set.Next = new(anyWorker.Draw(rt, "to next"))
	}
	if owner := *cmpOr(set.Owner, &seen.Owner); owner != core.Nobody && maybe("run") {
		set.Run = core.NewRun(owner, "n")
	}
	if set.Run != "" || set.Owner != nil {
		same |= core.SameCounter // as every write of package core that makes an owner or accepts
	}
	if maybe("checkpoint") {
		set.Checkpoint = new(anyPosition.Draw(rt, "to checkpoint"))
	}
	if maybe("start") {
		set.StartAt = new(anyInstant.Draw(rt, "to start"))
	}
	if maybe("pending") {
		set.Pending = new(anyPending.Draw(rt, "to pending"))
	}
	set.Ready = maybe("ready")
	set.Switches = core.SwitchOp(rapid.IntRange(0, 2).Draw(rt, "switch"))
	if maybe("children") {
		set.Children = []core.ShardID{"c2", "c1"}
	}
	if maybe("range") {
		set.Range = &core.HashRange{End: [16]byte{9}}
	}
	if maybe("throughput") {
		set.Throughput = new(0.25)
	}
	return same, set
}

func cmpOr[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

// unrepresentable is a next owner of nobody's, or one that is the owner.
func unrepresentable(seen *core.Lease, set *core.Set) bool {
	owner, next := *cmpOr(set.Owner, &seen.Owner), *cmpOr(set.Next, &seen.Next)
	return (set.Owner != nil || set.Next != nil) && next != core.Nobody && (owner == core.Nobody || owner == next)
}
