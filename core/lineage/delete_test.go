package lineage

import (
	"fmt"
	"slices"
	"testing"

	"github.com/shardwarden/shardwarden/core"
)

func TestDelete(t *testing.T) {
	for _, c := range []struct {
		name     string
		shards   string
		unlisted bool
		leases   string
		bad      string
		gone     string
		keep     bool
		want     string
		garbage  string
	}{
		{name: "nothing ended", shards: "a. b<a", leases: "a=t b=H"},
		{name: "children ready", shards: "a. b<a c<a", leases: "a=E b=H! c=t!", want: "a"},
		{name: "one child not ready", shards: "a. b<a c<a", leases: "a=E b=H! c=H"},
		{name: "one child without lease", shards: "a. b<a c<a", leases: "a=E b=H!"},
		{name: "one child's row cannot be read", shards: "a. b<a c<a", leases: "a=E b=H!", bad: "c"},
		{name: "rows of others: past their start", shards: "a. b<a c<a d<a", leases: "a=E b=t c=E d=L", want: "a"},
		{name: "rows of others: at the horizon", shards: "a. b<a c<a", leases: "a=E b=t c=H"},
		{name: "rows of others: at a time", shards: "a. b<a c<a", leases: "a=E b=t c=T"},
		{name: "no children known yet", shards: "a.", leases: "a=E"},
		{name: "children named by its row", unlisted: true, leases: "a>b=E b<a=H!", want: "a"},
		{name: "children known from their own rows alone: there may be more", unlisted: true, leases: "a=E b<a=H! c<a=t"},
		{name: "the listing shows it open: there may be more children", shards: "a b<a", leases: "a=E b=t"},
		{name: "the listing may be older than it: there may be more children", shards: "x", leases: "a=E b<a=t x=t"},
		{name: "expired, and the children are listed", shards: "b<a c<a", leases: "a=E b=t c=t", want: "a"},
		{name: "children listed, rows don't name their parent", shards: "a. b<a", leases: "a=E b=H!", want: "a"},
		{name: "merge: both parents go", shards: "a. b. m<a+b", leases: "a=E b=E m=H!", want: "a b"},
		{name: "merge: the parent that has not ended stays", shards: "a. b. m<a+b", leases: "a=E b=t m=t", want: "a"},
		{name: "two generations: the older first", shards: "a. b.<a c<b", leases: "a=E b=E c=H!", want: "a"},
		{name: "two generations: then the younger", shards: "a. b.<a c<b", leases: "b=E c=H!", want: "b"},
		{name: "a parent's row cannot be read: all below stays", shards: "a. b.<a c<b", leases: "b=E c=H!", bad: "a"},
		{name: "listed still, where others create a lease for what is listed", shards: "a. b<a", leases: "a=E b=t", keep: true},
		{name: "gone from one listing, where others create", shards: "b<a", leases: "a=E b=t", keep: true},
		{name: "gone from two, where others create", shards: "b<a", leases: "a=E b=t", keep: true, gone: "a", want: "a"},
		{name: "gone from two and listed again", shards: "a. b<a", leases: "a=E b=t", keep: true, gone: "a"},
		{name: "gone from two, children not ready", shards: "b<a", leases: "a=E b<a=H", keep: true, gone: "a"},
		{name: "a whole lineage that is gone: the older first", shards: "x", leases: "a=E b<a=E x=t", gone: "a b", want: "a"},
		{name: "ended, without children, gone", shards: "x", leases: "a=E x=t", gone: "a", want: "a"},
		{name: "ended, without children, missing once", shards: "x", leases: "a=E x=t"},
		{name: "its child is known from the row alone, and the parent still listed", shards: "a. x", leases: "a>b=E x=t"},
		{name: "its child is known from the row alone, and the parent missing once", shards: "x", leases: "a>b=E x=t"},
		{name: "one child is known from the row alone, and the parent still listed", shards: "a. b<a", leases: "a>c=E b=t"},
		{name: "its child is known from the row alone, and both gone", shards: "x", leases: "a>b=E x=t", gone: "a", want: "a"},
		{name: "not ended, gone: garbage", shards: "x", leases: "a=t x=t", gone: "a", garbage: "a"},
		{name: "not ended, gone, and a child was read and deleted", shards: "b.<a c<b", leases: "a=t c=t", gone: "a", garbage: "a"},
		{name: "not ended, missing once", shards: "x", leases: "a=t x=t"},
		{name: "gone on the word of no listing", unlisted: true, leases: "a=t b=E", gone: "a b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := Input{Stream: "s", Shards: listing(c.shards), Listed: !c.unlisted, Leases: rows(c.leases), Bad: ids(c.bad)}
			finished, garbage := Delete(in, DeleteOptions{GoneTwice: ids(c.gone), KeepWhileListed: c.keep})
			if got := names(finished); got != fmt.Sprint(ids(c.want)) {
				t.Errorf("deletes %s, want %s", got, c.want)
			}
			if got := names(garbage); got != fmt.Sprint(ids(c.garbage)) {
				t.Errorf("garbage %s, want %s", got, c.garbage)
			}
		})
	}
}

func names(keys []core.LeaseKey) string {
	out := []core.ShardID{}
	for _, k := range keys {
		out = append(out, k.Shard)
	}
	return fmt.Sprint(out)
}

// A row of a shard whose data is gone goes only when its children have leases: they begin where nothing else would lead to them.
func TestGarbageWaitsForItsChildren(t *testing.T) {
	in := Input{Stream: "s", Shards: listing("b<a"), Listed: true, Leases: rows("a=t")}
	opt := DeleteOptions{GoneTwice: ids("a")}
	if _, garbage := Delete(in, opt); len(garbage) > 0 {
		t.Fatalf("garbage %v while its child has no lease", garbage)
	}
	created, err := Create(in)
	if err != nil || show(created) != "b=H" {
		t.Fatalf("creates %s, error %v; want b at its beginning", show(created), err)
	}
	in.Leases = append(in.Leases, created...)
	if ok, why := MayStart(in, "b"); ok {
		t.Fatalf("b starts while its parent's row stands, not ended (%s)", why)
	}
	if _, garbage := Delete(in, opt); names(garbage) != "[a]" {
		t.Fatalf("garbage %v, want a", garbage)
	}
	in.Leases = created
	if ok, why := MayStart(in, "b"); !ok {
		t.Errorf("b does not start after its parent's row is gone: %s", why)
	}
}

func TestMissing(t *testing.T) {
	in := Input{Stream: "s", Shards: listing("a b<x"), Listed: true, Leases: rows("b=t z=E c=H a=t"), Bad: ids("y")}
	if got := New(in).Missing(); !slices.Equal(got, ids("c z")) {
		t.Errorf("missing %v, want c and z", got)
	}
	in.Listed = false
	if got := New(in).Missing(); got != nil {
		t.Errorf("missing without a listing: %v", got)
	}
}

func BenchmarkDelete(b *testing.B) {
	in := bigStream(10_000)
	for i := range in.Leases {
		in.Leases[i].Ready = true
		if i < len(in.Leases)/4 {
			in.Leases[i].Checkpoint = core.AtShardEnd
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if finished, _ := Delete(in, DeleteOptions{}); len(finished) != 2500 {
			b.Fatal(len(finished))
		}
	}
}
