package lineage

import (
	"slices"
	"testing"

	"github.com/shardwarden/shardwarden/core"
)

func TestPast(t *testing.T) {
	for _, c := range []struct {
		name, shards, leases, bad string
		start                     core.Position
		open                      string
		unlisted                  bool
		want                      string
	}{
		{name: "over before the start", shards: "a. b<a", start: latest, open: "b", want: "a"},
		{name: "over before the start, the open one is leased", shards: "a. b<a", leases: "b=L@!", start: latest, open: "b", want: "a"},
		{name: "its lease was deleted after it was read", shards: "a. b<a", leases: "b=t!", want: "a"},
		{name: "two generations, the older first", shards: "a. b.<a c<b", leases: "c=t!", want: "a b"},
		{name: "both parents of a merge", shards: "a. b. m<a+b", leases: "m=t!", want: "a b"},
		{name: "the child of one that is read", shards: "a. b<a", leases: "a=t"},
		{name: "the child of one that has ended is owed", shards: "a. b<a", leases: "a=E"},
		{name: "a child waits for it", shards: "a. b<a", leases: "b=H"},
		{name: "its row can't be read", shards: "a. b<a", leases: "b=t!", bad: "a"},
		{name: "a child's row can't be read", shards: "a. b<a", bad: "b", start: latest, open: ""},
		{name: "all is owed", shards: "a. b<a c<a"},
		{name: "none is listed", unlisted: true, leases: "b<a=t!"},
		{name: "gone from the listing", shards: "b<a", leases: "b<a=t!"},
		{name: "it is not known what was open at the start", shards: "a. b<a x", leases: "x=L@!", start: latest, open: "-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := Input{Stream: "s", Shards: listing(c.shards), Listed: !c.unlisted, Leases: rows(c.leases), Bad: ids(c.bad), Start: c.start, OpenAtStart: ids(c.open)}
			if c.open == "-" || c.start.IsZero() {
				in.OpenAtStart = nil
			}
			var got []core.ShardID
			for _, l := range New(in).Past() {
				got = append(got, l.Key.Shard)
				if !l.Ended() || l.Key.Stream != "s" || l.Owner != core.Nobody || l.Counter != 0 || !l.StartAt.IsZero() {
					t.Errorf("lease %+v: expected nobody's, at the end", l)
				}
			}
			if !slices.Equal(got, ids(c.want)) && len(got)+len(ids(c.want)) > 0 {
				t.Errorf("past are %v, want %v", got, ids(c.want))
			}
		})
	}
}

// What is past is owed no lease, whatever the history, and an end written for it changes nothing of what is owed.
func TestPastIsNeverOwed(t *testing.T) {
	for _, shards := range []string{"a. b<a", "a. b.<a c<b", "a. b. m<a+b", "a. b<a c<a", "a. b.<a c.<a d<b+c"} {
		all := listing(shards)
		for mask := range 1 << (2 * len(all)) { // each shard without a lease, at the beginning, ready behind it, or ended
			in := Input{Stream: "s", Shards: all, Listed: true}
			for i, s := range all {
				l := core.Lease{Key: core.LeaseKey{Stream: "s", Shard: s.ID}, Parents: s.Parents}
				switch mask >> (2 * i) & 3 {
				case 0:
					continue
				case 1:
					l.Checkpoint = core.FromHorizon
				case 2:
					l.Checkpoint, l.Ready = token, true
				case 3:
					l.Checkpoint = core.AtShardEnd
				}
				in.Leases = append(in.Leases, l)
			}
			g := New(in)
			owed, _ := g.Create()
			past := g.Past()
			for _, p := range past {
				if slices.ContainsFunc(owed, func(o core.Lease) bool { return o.Key == p.Key }) {
					t.Fatalf("%s with %d leases: %s is past and owed", shards, len(in.Leases), p.Key.Shard)
				}
			}
			in.Leases = slices.Concat(in.Leases, past)
			after, _ := Create(in)
			for _, o := range owed {
				if !slices.ContainsFunc(after, func(a core.Lease) bool { return a.Key == o.Key }) {
					t.Fatalf("%s, %v: %s was owed, and is not with the end of %v written", shards, in.Leases, o.Key.Shard, past)
				}
			}
		}
	}
}

// A start that was resolved to tokens is one instant too, as long as a row stands at it.
func TestStartOfTokens(t *testing.T) {
	at := func(l core.Lease) core.Lease { l.StartAt = t0; return l }
	ask := Input{Stream: "s", Start: core.FromLatest, Leases: []core.Lease{rows("x=t!")[0], at(rows("a=t!")[0])}}
	if got, resolve := StartOf(ask); resolve || !got.Equal(latest) {
		t.Errorf("start is %v at %v (to be resolved: %v), want LATEST at %v", got, got.Time, resolve, t0)
	}
	ask.Leases = rows("x=t! a=t!")
	if got, resolve := StartOf(ask); resolve || !got.Time.IsZero() {
		t.Errorf("start is %v at %v (to be resolved: %v), want LATEST without an instant: all have gone on", got, got.Time, resolve)
	}
	ended := at(rows("a=E")[0])
	ask.Leases = []core.Lease{ended}
	if got, resolve := StartOf(ask); resolve || !got.Time.IsZero() {
		t.Errorf("start is %v at %v (to be resolved: %v): what has ended stands at no start", got, got.Time, resolve)
	}
}
