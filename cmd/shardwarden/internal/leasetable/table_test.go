package leasetable

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

var at = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// A sign of life is a beat that changed, timed by who watches; what never changed was silent at least since it was first seen.
func TestSilence(t *testing.T) {
	t.Parallel()
	key := core.LeaseKey{Shard: "s"}
	look := func(counter int64) *Reading {
		return &Reading{Sight: core.Sight{Leases: []core.Lease{{Key: key, Counter: counter}}}}
	}
	for _, tt := range []struct {
		name string
		see  []*Reading // one each second
		want *Silence   // a second after the last
	}{
		{"never seen", nil, nil},
		{"seen once", []*Reading{look(1)}, &Silence{1, true}},
		{"still", []*Reading{look(1), look(1), look(1)}, &Silence{3, true}},
		{"moved with the last", []*Reading{look(1), look(1), look(2)}, &Silence{1, false}},
		{"moved and then still", []*Reading{look(1), look(2), look(2), look(2)}, &Silence{3, false}},
		{"counted from nothing again", []*Reading{look(7), look(0), look(0)}, &Silence{2, false}},
		{"gone and back", []*Reading{look(1), look(2), {}, look(2)}, &Silence{1, true}},
		{"gone", []*Reading{look(1), look(2), {}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var o Observer
			now := at
			for _, r := range tt.see {
				o.See(r, now)
				now = now.Add(time.Second)
			}
			got := o.silence(leaseSubject(key), now)
			if (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
				t.Errorf("silence %+v, want %+v", got, tt.want)
			}
		})
	}
}

// Of a worker's row and of its leases the newer sign of life counts; one that left a table for another counts once.
func TestWorkers(t *testing.T) {
	t.Parallel()
	lease := func(shard core.ShardID, owner core.WorkerID, run string, counter int64) core.Lease {
		return core.Lease{Key: core.LeaseKey{Shard: shard}, Owner: owner, Run: run, Counter: counter, Checkpoint: core.FromHorizon}
	}
	table := &Table{Service: "dynamodb"}
	reading := func(counter int64) *Reading {
		return &Reading{
			Sight: core.Sight{Leases: []core.Lease{lease("1", "go", "go:1", counter), lease("2", "go", "go:2", 5), lease("3", "java", "", counter), lease("4", "given", "", 1)}},
			KCL:   &KCL{},
			workers: newest([]Worker{
				{ID: "go", Kind: Ours, Row: true, Updated: at.Add(-time.Hour), Table: "old"}, {ID: "go", Kind: Ours, Row: true, Updated: at, Table: "new"},
				{ID: "idle", Kind: Java, Row: true, Updated: at}, {ID: "given", Kind: Ours, Row: true, Updated: at},
			}),
		}
	}
	var o Observer
	now := time.Now()
	o.See(reading(1), now.Add(-2*time.Second))
	o.See(reading(2), now.Add(-time.Second))
	r := table.Report(reading(2), &o)
	type worker struct {
		kind   string
		leases int
		lives  bool
		table  string
	}
	got := map[string]worker{}
	for _, w := range r.Workers {
		got[w.ID] = worker{w.Kind, w.Leases, !w.Silence.AtLeast, w.Table}
	}
	want := map[string]worker{"go": {Ours, 2, true, "new"}, "java": {Java, 1, true, ""}, "idle": {Java, 0, false, ""}, "given": {Ours, 1, false, ""}}
	if len(got) != len(want) || len(r.Workers) != len(want) {
		t.Errorf("workers %+v, want %+v", got, want)
	}
	for id, w := range want {
		if got[id] != w {
			t.Errorf("worker %s is %+v, want %+v", id, got[id], w)
		}
	}
}

func TestLives(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		w    Worker
		want bool
	}{
		{"moved", Worker{Silence: &Silence{Seconds: 3}}, true},
		{"not watched", Worker{Silence: &Silence{AtLeast: true}}, true},
		{"silent", Worker{Silence: &Silence{Seconds: 7, AtLeast: true}}, false},
		{"silent, row just written", Worker{Silence: &Silence{Seconds: 7, AtLeast: true}, Updated: at.Add(-30 * time.Second)}, true},
		{"silent, row old", Worker{Silence: &Silence{Seconds: 7, AtLeast: true}, Updated: at.Add(-2 * time.Minute)}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.w.Lives(at); got != tt.want {
				t.Errorf("lives: %v, want %v", got, tt.want)
			}
		})
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	r := Of(at, []core.Lease{
		{Key: core.LeaseKey{Stream: "a", Shard: "1"}}, {Key: core.LeaseKey{Stream: "a", Shard: "2"}}, {Key: core.LeaseKey{Stream: "b", Shard: "1"}},
	})
	for _, tt := range []struct{ key, want, err string }{
		{"2", "a/2", ""},
		{"a/1", "a/1", ""},
		{"b:1", "b/1", ""},
		{"1", "", "2 streams have a shard 1"},
		{"3", "", "has no lease 3, of 3"},
		{"", "", "has no lease"},
	} {
		t.Run(tt.key, func(t *testing.T) {
			l, err := r.Find(tt.key)
			switch {
			case tt.err != "":
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want one that says %q", err, tt.err)
				}
			case err != nil || l.Name() != tt.want:
				t.Errorf("%+v, %v; want %s", l, err, tt.want)
			}
		})
	}
	if _, err := r.Find("3"); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("a lease that is not there: %v", err)
	}
}

// What a lease waits for are parents that have leases; what only a listing can tell is left out.
func TestWaiting(t *testing.T) {
	t.Parallel()
	l := func(id core.ShardID, at core.Position, ready bool, parents ...core.ShardID) core.Lease {
		return core.Lease{Key: core.LeaseKey{Stream: "s", Shard: id}, Checkpoint: at, Ready: ready, Parents: parents}
	}
	got := waiting(core.Sight{
		Leases: []core.Lease{
			l("open", core.Position{Token: "1"}, true), l("over", core.AtShardEnd, true),
			l("child", core.FromHorizon, false, "over", "open"), l("of the past", core.FromHorizon, false, "deleted"),
			l("begun", core.FromHorizon, true, "open"), l("of a bad one", core.FromHorizon, false, "bad"),
		},
		Bad: []*core.RowError{{Key: core.LeaseKey{Stream: "s", Shard: "bad"}}},
	})
	want := map[core.ShardID][]string{"child": {"open"}, "of a bad one": {"bad"}}
	if len(got) != len(want) {
		t.Errorf("waiting: %v, want %v", got, want)
	}
	for id, parents := range want {
		if !slices.Equal(got[core.LeaseKey{Stream: "s", Shard: id}], parents) {
			t.Errorf("%s waits for %v, want %v", id, got[core.LeaseKey{Stream: "s", Shard: id}], parents)
		}
	}
}

// A row of a table of one stream is the same lease before and after it got the name of the stream; where rows name several, they keep them.
func TestOneStream(t *testing.T) {
	t.Parallel()
	read := func(ids ...core.StreamID) *Reading {
		r := &Reading{}
		for i, id := range ids {
			r.Sight.Leases = append(r.Sight.Leases, core.Lease{Key: core.LeaseKey{Stream: id, Shard: core.ShardID(rune('a' + i))}})
		}
		r.unname()
		return r
	}
	table := &Table{Service: "dynamodb"}
	for _, tt := range []struct {
		name   string
		ids    []core.StreamID
		stream string
		key    string
	}{
		{"named by nobody", []core.StreamID{"", ""}, "", "b"},
		{"named by some", []core.StreamID{"", "s"}, "s", "b"},
		{"named by all", []core.StreamID{"s", "s"}, "s", "b"},
		{"named differently", []core.StreamID{"s", "former"}, "", "former/b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := table.Report(read(tt.ids...), &Observer{})
			l, err := r.Find("b")
			if err != nil || r.Stream != tt.stream || l.Name() != tt.key {
				t.Errorf("stream %q, lease %+v, %v; want stream %q, lease %s", r.Stream, l, err, tt.stream, tt.key)
			}
			if tt.stream != "" {
				if _, err := r.Find(tt.stream + "/b"); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
