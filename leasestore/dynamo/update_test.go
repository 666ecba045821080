package dynamo_test

import (
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
)

// A start that is stored anew has not been resolved yet: the instant of the former goes, though the word is the same.
func TestStartStoredAnew(t *testing.T) {
	srv := serve(t, emulator.Config{})
	s := srv.ready(t)
	l := lease("1")
	l.Checkpoint, l.StartAt = core.FromLatest, time.Unix(1, 0)
	l, err := s.Create(t.Context(), l)
	must(t, err)
	w := core.Store(core.FromLatest, nil)
	l, err = s.Update(t.Context(), l, w.Same, w.Set)
	must(t, err)
	if !l.StartAt.IsZero() {
		t.Errorf("start is %v, want none", l.StartAt)
	}
	w = core.FixStart(time.Unix(2, 0))
	l, err = s.Update(t.Context(), l, w.Same, w.Set)
	must(t, err)
	if !l.StartAt.Equal(time.Unix(2, 0)) {
		t.Errorf("start is %v after it was fixed", l.StartAt)
	}
}

// A row without a sub-sequence number reads as 0, and is the same checkpoint.
func TestCheckpointWithoutSub(t *testing.T) {
	srv := serve(t, emulator.Config{})
	s := srv.ready(t)
	srv.put(t, `{"leaseKey":{"S":"1"},"leaseCounter":{"N":"1"},"checkpoint":{"S":"LATEST"}}`)
	l, err := s.Get(t.Context(), core.LeaseKey{Stream: stream, Shard: "1"})
	must(t, err)
	w := core.FixStart(time.Unix(2, 0))
	l, err = s.Update(t.Context(), l, w.Same, w.Set)
	must(t, err)
	if l.Counter != 2 || l.Switches != 0 || !l.StartAt.Equal(time.Unix(2, 0)) {
		t.Errorf("row is %+v", l)
	}
}

// Owner and next owner share a column. A write that names one of them goes by what it saw of the other, and is refused where that has
// changed, rather than losing it.
func TestWriteThatNamesOneOfTheOwners(t *testing.T) {
	for _, c := range []struct {
		name string
		set  core.Set
		same core.Same
		meet func(l *core.Lease) core.Write // what comes between
	}{
		{"an owner, while somebody asks", core.Set{Owner: new(core.WorkerID("C"))}, core.SameCounter, func(*core.Lease) core.Write { return core.Ask("B") }},
		{"a next one, while the owner changes", core.Set{Next: new(core.WorkerID("B"))}, 0, func(l *core.Lease) core.Write { return core.Take(l, "C", "C:1") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			s := srv.ready(t)
			l := lease("1")
			l.Owner = "A"
			l, err := s.Create(t.Context(), l)
			must(t, err)
			between := c.meet(&l)
			_, err = s.Update(t.Context(), l, between.Same, between.Set)
			must(t, err)
			before := srv.row(t, "1")
			_, err = s.Update(t.Context(), l, c.same, c.set)
			expect(t, "the write", err, core.ErrConflict)
			if row := srv.row(t, "1"); row != before {
				t.Errorf("row was %s, is %s", before, row)
			}
		})
	}
}

// Every reading shows every write that was answered before it.
func TestReadsAreConsistent(t *testing.T) {
	srv := serve(t, emulator.Config{EventualLag: time.Hour})
	s := srv.ready(t)
	for i := range 20 {
		l, err := s.Create(t.Context(), lease("1"))
		must(t, err)
		sight, err := s.Look(t.Context(), stream)
		must(t, err)
		if len(sight.Leases) != 1 {
			t.Fatalf("round %d: a look shows %d leases after one was created", i, len(sight.Leases))
		}
		if _, err := s.Get(t.Context(), l.Key); err != nil {
			t.Fatal(err)
		}
		must(t, s.Delete(t.Context(), l, 0))
		sight, err = s.Look(t.Context(), stream)
		must(t, err)
		if len(sight.Leases) != 0 {
			t.Fatalf("round %d: a look shows %d leases after the only one was deleted", i, len(sight.Leases))
		}
	}
}
