package lineage

import (
	"slices"
	"testing"

	"github.com/shardwarden/shardwarden/core"
)

func TestChildLeases(t *testing.T) {
	for _, c := range []struct {
		name, shards, leases, bad string
		children                  string
		want                      string
		parents                   map[core.ShardID]string
	}{
		{name: "split", leases: "a=t", children: "c<a b<a", want: "b=H c=H", parents: map[core.ShardID]string{"b": "a", "c": "a"}},
		{name: "merge", leases: "a=t b=t", children: "m<b+a", want: "m=H", parents: map[core.ShardID]string{"m": "a b"}},
		{name: "merge, announced with one parent, listed with both", shards: "a. b. m<a+b", leases: "a=t b=t", children: "m<a", want: "m=H", parents: map[core.ShardID]string{"m": "a b"}},
		{name: "merge, the other parent created it (F31)", leases: "a=t b=E m<a+b=H", children: "m<a+b"},
		{name: "one exists", leases: "a=t c<a=t", children: "b<a c<a", want: "b=H"},
		{name: "a row that cannot be read exists", leases: "a=t", bad: "c", children: "b<a c<a", want: "b=H"},
		{name: "none named, none known", leases: "a=t"},
		{name: "none named, but listed", shards: "a. b<a c<a d<b", leases: "a=t", want: "b=H c=H"},
		{name: "parents not named", leases: "a=t", children: "b", want: "b=H", parents: map[core.ShardID]string{"b": "a"}},
		{name: "named twice", leases: "a=t", children: "b<a b<a", want: "b=H"},
		{name: "names itself", leases: "a=t", children: "a<a b<a", want: "b=H"},
		{name: "no lease of its own", children: "b<a", want: "b=H"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := Input{Stream: "s", Shards: listing(c.shards), Listed: c.shards != "", Leases: rows(c.leases), Bad: ids(c.bad), Start: latest}
			got := ChildLeases(in, "a", listing(c.children))
			if show(got) != c.want {
				t.Fatalf("%q, want %q", show(got), c.want)
			}
			for _, l := range got {
				if want, ok := c.parents[l.Key.Shard]; ok && !slices.Equal(l.Parents, ids(want)) {
					t.Errorf("%s has parents %v, want %s", l.Key.Shard, l.Parents, want)
				}
				if l.Key.Stream != "s" {
					t.Errorf("key %v", l.Key)
				}
			}
		})
	}
}

func TestChildLeasesKeepTheRange(t *testing.T) {
	r := &core.HashRange{End: maxKey}
	got := ChildLeases(Input{Stream: "s"}, "a", []core.Shard{{ID: "b", Range: r}})
	if len(got) != 1 || got[0].Range == nil || *got[0].Range != *r || got[0].Range == r {
		t.Errorf("%+v", got)
	}
}
