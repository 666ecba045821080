package lineage

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/shardwarden/shardwarden/core"
)

func TestGate(t *testing.T) {
	for _, c := range []struct {
		name     string
		shards   string
		unlisted bool
		leases   string
		bad      string
		start    core.Position
		open     string
		shard    core.ShardID
		why      string // "": may start
	}{
		{name: "no parents", shards: "a", leases: "a=H", shard: "a"},
		{name: "no lease", shards: "a", shard: "a", why: "it has no lease"},
		{name: "unknown shard", shards: "a", shard: "z", why: "it has no lease"},
		{name: "ended", shards: "a.", leases: "a=E", shard: "a", why: "it has been read to its end"},
		{name: "unreadable", shards: "a", bad: "a", shard: "a", why: "its lease row cannot be read"},
		{name: "parent ended", shards: "a. b<a", leases: "a=E b=H", shard: "b"},
		{name: "parent not ended", shards: "a. b<a", leases: "a=t b=H", shard: "b", why: "waits for a (not ended)"},
		{name: "parent without lease and listed (F32)", shards: "a. b<a", leases: "b=H", shard: "b", why: "waits for a (no lease yet)"},
		{name: "parent without lease and gone", shards: "b<a", leases: "b=H", shard: "b"},
		{name: "parent without lease and no listing", unlisted: true, leases: "b<a=H", shard: "b", why: "waits for a (no lease, and no complete listing yet that tells whether it is gone)"},
		{name: "parent without lease, in a listing that may be older than the child", shards: "x", leases: "b<a=H", shard: "b", why: "waits for a (no lease, and no complete listing yet that tells whether it is gone)"},
		{name: "parent without lease, and both gone, since a child of the child is listed", shards: "c<b", leases: "b<a=H", shard: "b"},
		{name: "parent with an unreadable row", shards: "a. b<a", leases: "b=H", bad: "a", shard: "b", why: "waits for a (its lease row cannot be read)"},
		{name: "parent known from the lease alone", shards: "a. b", leases: "a=t b<a=H", shard: "b", why: "waits for a (not ended)"},
		{name: "parent known from its own row alone", leases: "a>b=t b=H", shard: "b", why: "waits for a (not ended)"},
		{name: "listed twice, once without its parent", shards: "a. b b<a", leases: "a=t b=H", shard: "b", why: "waits for a (not ended)"},
		{name: "merge: neither", shards: "a. b. m<a+b", leases: "a=t b=H m=H", shard: "m", why: "waits for a (not ended) and b (not ended)"},
		{name: "merge: one", shards: "a. b. m<a+b", leases: "a=E b=H m=H", shard: "m", why: "waits for b (not ended)"},
		{name: "merge: the other", shards: "a. b. m<a+b", leases: "a=H b=E m=H", shard: "m", why: "waits for a (not ended)"},
		{name: "merge: both", shards: "a. b. m<a+b", leases: "a=E b=E m=H", shard: "m"},
		{name: "merge: one ended, the other's row missing", shards: "a. b. m<a+b", leases: "a=E m=H", shard: "m", why: "waits for b (no lease yet)"},
		{name: "merge: one ended, the other gone", shards: "a. m<a+b", leases: "a=E m=H", shard: "m"},
		{name: "merge: one parent listed without lease, the other gone (F123)", shards: "b. m<a+b", leases: "m=H", shard: "m", why: "waits for b (no lease yet)"},
		{name: "ready: parents no longer matter", shards: "a. b<a", leases: "b=H!", shard: "b"},
		{name: "ready: not even if the parent has a row", shards: "a. b<a", leases: "a=t b=H!", shard: "b"},
		{name: "ready, without a listing", unlisted: true, leases: "b<a=L@!", shard: "b"},
		{name: "another library's row at a token", shards: "a. b<a", leases: "b=t", shard: "b"},
		{name: "another library's row at LATEST", shards: "a. b<a", leases: "b=L", shard: "b"},
		{name: "another library's row at the horizon where the application began", shards: "a. b<a", leases: "b=H", open: "b", shard: "b"},
		{name: "another library's row at a time where the application began", shards: "a. b<a", leases: "b=T", start: atTime, open: "b", shard: "b"},
		{name: "another library's row at a time, beneath where the application began", shards: "a. b<a", leases: "b=T", start: atTime, open: "a", shard: "b", why: "waits for a (no lease yet)"},
		{name: "another library's row at the horizon is a child beneath a latest start", shards: "a. b<a c<a", leases: "b=H c=L@", start: latest, open: "b c", shard: "b", why: "waits for a (no lease yet)"},
		{name: "open at the start, but the parent is being read", shards: "a. b<a", leases: "a=t b=H", open: "b", shard: "b", why: "waits for a (not ended)"},
		{name: "in a circle", shards: "a.<b b.<a", leases: "a=H b=H", shard: "a", why: "waits for b (not ended)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := Input{Stream: "s", Shards: listing(c.shards), Listed: !c.unlisted, Leases: rows(c.leases), Bad: ids(c.bad), Start: c.start}
			if c.open != "" {
				in.OpenAtStart = ids(c.open)
			}
			ok, why := MayStart(in, c.shard)
			if ok != (c.why == "") || why != c.why {
				t.Errorf("may start: %v, %q; want %q", ok, why, c.why)
			}
		})
	}
}

func TestBlocked(t *testing.T) {
	g := New(Input{Stream: "s", Shards: listing("a. b<a c.<a d<c e"), Listed: true, Leases: rows("b=H c=H d=H! e=H"), Bad: ids("")})
	got := g.Blocked()
	if k := slices.Sorted(maps.Keys(got)); fmt.Sprint(k) != "[b c]" {
		t.Errorf("blocked: %v, want b and c", k)
	}
	for id, w := range got {
		if !slices.Equal(w, []Wait{{"a", NoLease}}) || !slices.Equal(g.Waits(id), w) {
			t.Errorf("%s waits for %v (%v)", id, w, g.Waits(id))
		}
	}
	if w := g.Waits("unknown"); w != nil {
		t.Errorf("an unknown shard waits for %v", w)
	}
}

// Leases of other streams in the look are nobody's parents here.
func TestOtherStreams(t *testing.T) {
	in := Input{Stream: "s", Shards: listing("a. b<a"), Listed: true, Leases: rows("a=E b=H")}
	in.Leases[0].Key.Stream = "t"
	if ok, why := MayStart(in, "b"); ok || !strings.Contains(why, "no lease yet") {
		t.Errorf("a of another stream has ended: b may start: %v, %q", ok, why)
	}
	if got, _ := Create(in); show(got) != "a=H!" {
		t.Errorf("creates %q, want a", show(got))
	}
}

func BenchmarkGate(b *testing.B) {
	in := bigStream(10_000)
	b.ReportAllocs()
	for b.Loop() {
		g := New(in)
		n := 0
		for i := range in.Leases {
			if ok, _ := g.MayStart(in.Leases[i].Key.Shard); ok {
				n++
			}
		}
		if n != 2500 {
			b.Fatal(n)
		}
	}
}
