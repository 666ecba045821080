package lineage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

var (
	t0     = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	latest = core.Position{Anchor: core.Latest, Time: t0}
	atTime = core.From(t0)
	token  = core.Position{Token: "495"}
)

// shard reads "id", "id<parent", "id<parent+parent", each with a "." behind the id where it is closed.
func shard(s string) core.Shard {
	id, parents, ok := strings.Cut(s, "<")
	out := core.Shard{ID: core.ShardID(strings.TrimSuffix(id, ".")), Closed: strings.HasSuffix(id, ".")}
	if ok {
		for p := range strings.SplitSeq(parents, "+") {
			out.Parents = append(out.Parents, core.ShardID(p))
		}
	}
	return out
}

func listing(s string) []core.Shard {
	var out []core.Shard
	for f := range strings.FieldsSeq(s) {
		out = append(out, shard(f))
	}
	return out
}

func ids(s string) []core.ShardID {
	out := []core.ShardID{}
	for f := range strings.FieldsSeq(s) {
		out = append(out, core.ShardID(f))
	}
	return out
}

// rows reads "shard=checkpoint", the shard as above, or "id>child": H horizon, L latest, L@ latest with an instant, T at time, t a token, E ended; a "!" behind it: ready.
func rows(s string) []core.Lease {
	var out []core.Lease
	for f := range strings.FieldsSeq(s) {
		sh, cp, _ := strings.Cut(f, "=")
		sh, child, named := strings.Cut(sh, ">")
		d := shard(sh)
		l := core.Lease{Key: core.LeaseKey{Stream: "s", Shard: d.ID}, Parents: d.Parents, Ready: strings.HasSuffix(cp, "!")}
		if named {
			l.Children = ids(child)
		}
		switch strings.TrimSuffix(cp, "!") {
		case "H":
			l.Checkpoint = core.FromHorizon
		case "L":
			l.Checkpoint = core.FromLatest
		case "L@":
			l.Checkpoint, l.StartAt = core.FromLatest, t0
		case "T":
			l.Checkpoint, l.StartAt = core.Position{Anchor: core.AtTime}, t0
		case "t":
			l.Checkpoint = token
		case "E":
			l.Checkpoint = core.AtShardEnd
		default:
			panic("row " + f)
		}
		out = append(out, l)
	}
	return out
}

func show(leases []core.Lease) string {
	var out []string
	for _, l := range leases {
		s := string(l.Key.Shard) + "=" + map[core.Anchor]string{core.Horizon: "H", core.Latest: "L", core.AtTime: "T"}[l.Checkpoint.Anchor]
		if l.Checkpoint.Anchor != core.Horizon && l.StartAt.Equal(t0) {
			s += "@"
		}
		if l.Ready {
			s += "!"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func TestCreate(t *testing.T) {
	const splitTwice = "a. b.<a c.<a d<b e<b f<c g<c" // a became b and c, these d e and f g
	for _, c := range []struct {
		name   string
		shards string
		leases string
		bad    string
		start  core.Position
		open   string // "-": not at hand
		want   string
		errs   []string
	}{
		{name: "nothing there", want: ""},
		{name: "bootstrap at horizon: the oldest", shards: splitTwice, open: "a", want: "a=H!"},
		{name: "bootstrap at horizon: not what was trimmed", shards: splitTwice, open: "b c", want: "b=H! c=H!"},
		{name: "bootstrap at horizon without a second listing: those without listed parents", shards: "d.<gone e<d f<gone", open: "-", want: "d=H! f=H!"},
		{name: "bootstrap at latest: the open ones, resharded before", shards: splitTwice, start: latest, open: "d e f g", want: "d=L@! e=L@! f=L@! g=L@!"},
		{name: "bootstrap at latest: resharded between the instant and the listing", shards: splitTwice, start: latest, open: "b c", want: "b=L@! c=L@!"},
		{name: "bootstrap at a time in between", shards: splitTwice, start: atTime, open: "b f g", want: "b=T@! f=T@! g=T@!"},
		{name: "bootstrap with a finished shard that nothing follows", shards: "old. new", start: latest, open: "new", want: "new=L@!"},
		{name: "bootstrap: all closed before", shards: "old.", start: latest, open: "", want: ""},
		{name: "bootstrap cannot go without the shards open at the start", shards: "a", start: latest, open: "-", errs: []string{"a: has no lease, and it is not known"}},
		{name: "bootstrap of a merge whose one parent is gone (F123)", shards: "m<a+b", open: "-", want: "m=H!"},
		{name: "bootstrap of a merge whose one parent is listed (F123)", shards: "m<a+b b.", open: "-", want: "b=H!"},
		{name: "bootstrap of a merge whose other parent is listed (F123)", shards: "a. m<a+b", open: "-", want: "a=H!"},

		{name: "all there", shards: "a b", leases: "a=t b=H!", want: ""},
		{name: "bootstrap broke off: the rest, at the same instant", shards: splitTwice, leases: "b=L@!", start: latest, open: "b c", want: "c=L@!"},
		{name: "bootstrap broke off, and one that is left was split since", shards: "p. q. r<q s<q", leases: "p=t!", start: atTime, open: "p q", want: "q=T@!"},
		{name: "children come when the parent ends", shards: splitTwice, leases: "a=t", want: ""},
		{name: "children that were not listed when the parent ended (F33)", shards: splitTwice, leases: "a=E", want: "b=H c=H"},
		{name: "grandchildren of an ended parent come through their parents", shards: splitTwice, leases: "a=E b=E c=t", want: "d=H e=H"},
		{name: "children after a latest start begin at their beginning", shards: "a. b<a c<a", leases: "a=E!", start: latest, open: "a", want: "b=H c=H"},
		{name: "children start at their beginning even if the start is later", shards: "a. b<a c<a", leases: "a=E!", start: core.From(t0.Add(time.Hour)), open: "b c", want: "b=H c=H"},
		{name: "merge: one parent ended, the other not", shards: "a. b. m<a+b", leases: "a=E b=t", want: "m=H"},
		{name: "merge: both read on", shards: "a. b. m<a+b", leases: "a=t b=t", want: ""},
		{name: "rows of children without their parent's (F32): ancestors first", shards: splitTwice, leases: "b<a=H c<a=H", want: "a=H!"},
		{name: "rows of grandchildren only (F32): ancestors first", shards: splitTwice, leases: "d<b=H", want: "a=H! b=H"},
		{name: "row of a child in a latest application: its parent at its beginning", shards: splitTwice, leases: "d<b=H g=t e=t", start: latest, open: "d e f g", want: "b=H! f=H!"},
		{name: "row of another library where it began at a time: no ancestors", shards: splitTwice, leases: "b<a=T c<a=T", start: atTime, open: "b c", want: ""},
		{name: "one parent of a merge was never created", shards: "a. b. m<a+b", leases: "m<a+b=H a=E", want: "b=H!"},
		{name: "read, deleted and still listed (F37)", shards: splitTwice, leases: "b<a=H! c<a=t!", want: ""},
		{name: "read, deleted and still listed, two generations", shards: splitTwice, leases: "d<b=H! e<b=H! f<c=t g<c=t", want: ""},
		{name: "read, deleted, and the listing older than the split", shards: "a", leases: "b<a=H! c<a=H!", want: ""},
		{name: "ended, and the listing older than the split", shards: "a", leases: "a=E b<a=H c<a=H", want: ""},
		{name: "ended, and the listing shows it open beside one child", shards: "a b<a", leases: "a=E", want: "b=H"},
		{name: "read, deleted, and the listing shows it open beside one child", shards: "a b<a", leases: "c<a=t", want: "b=H!"},
		{name: "before a latest start, and the rows have moved on", shards: splitTwice, leases: "d=t! e=t! f=E! g=t!", start: latest, open: "-", want: ""},
		{name: "an open shard's row was lost", shards: splitTwice, leases: "d=t! e=t! f=t!", open: "-", want: "g=H!"},
		{name: "an open shard's row was lost in a latest application", shards: splitTwice, leases: "d=t! e=t! f=t!", start: latest, open: "-", want: "g=H!"},
		{name: "shards without parents appear", shards: "a b c.", leases: "a=t", open: "-", want: "b=H! c=H!"},
		{name: "shards without parents appear after a latest start, between many that ended before", shards: "a b c. d. e.<d", leases: "a=L@!", start: latest, open: "a", want: "b=H!"},
		{name: "bootstrap at a time whose shards are forgotten", shards: "x.<gone1 y<gone2 z<x", start: atTime, open: "", want: "x=H! y=H!"},
		{name: "lineage expired while nobody ran (F103): the rest at its beginning", shards: "x<gone1 y<gone2", leases: "old=t", start: latest, open: "-", want: "x=H! y=H!"},
		{name: "lease of a parent whose data is gone before its children have leases", shards: "x<old y<old", leases: "old=t", want: "x=H y=H"},

		{name: "unreadable: nothing in its place", shards: "a b", leases: "a=t", bad: "b", want: ""},
		{name: "unreadable alone is no empty table: it may hold the start, so nothing is skipped", shards: "a b", bad: "b", start: latest, open: "a b", want: "a=H!"},
		{name: "unreadable, and it alone would tell whether its parent was read", shards: "a. b<a c<a", bad: "b", start: latest, open: "b c", want: ""},
		{name: "unreadable parent: children come when it can be read", shards: "a. b<a c<a", bad: "a", want: ""},
		{name: "unreadable child: its parent is not read again for it", shards: "a. b<a", bad: "b", want: ""},

		{name: "unreadable grandchild: it may have begun or not", shards: "p. a.<p b<a c.<p d<c", bad: "b", leases: "x=t", want: ""},
		{name: "unreadable grandchild beside one that has begun", shards: "p. a.<p b<a c<p", bad: "b", leases: "c=t", want: ""},
		{name: "child of an open parent", shards: "a b<a c", open: "a b c", want: "a=H! c=H!", errs: []string{"b: its parent a is listed open"}},
		{name: "child of an open parent: nor what is below", shards: "a b.<a d<b c", open: "a c", want: "a=H! c=H!", errs: []string{"b: its parent a is listed open"}},
		{name: "its own parent", shards: "a<a b", open: "a b", want: "b=H!", errs: []string{"a: it is, or stands below, its own ancestor"}},
		{name: "in a circle", shards: "a.<c b.<a c.<b d<c e", open: "e", want: "e=H!", errs: []string{"a: it is", "b: it is", "c: it is", "d: it is"}},
		{name: "open at the start and not listed", shards: "a", open: "a b", want: "a=H!", errs: []string{"b: it is open at the start and not in the listing"}},
		{name: "listed twice", shards: "a a. b<a", open: "a", want: "a=H!"},
		{name: "start not resolved", shards: "a", start: core.FromLatest, open: "a", errs: []string{"LATEST has no instant"}},
		{name: "start that is none", shards: "a", start: token, open: "a", errs: []string{"495 is not a start"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := Input{Stream: "s", Shards: listing(c.shards), Listed: true, Leases: rows(c.leases), Bad: ids(c.bad), Start: c.start, OpenAtStart: ids(c.open)}
			if c.open == "-" || c.open == "" && c.start.IsZero() {
				in.OpenAtStart = nil
			}
			for range 10 { // in any order of the input
				got, err := Create(in)
				if show(got) != c.want {
					t.Fatalf("creates %q, want %q (error %v)", show(got), c.want, err)
				}
				if err == nil && c.errs != nil || err != nil && c.errs == nil {
					t.Fatalf("error %v, want one that names %q", err, c.errs)
				}
				for _, want := range c.errs {
					if !strings.Contains(strings.ReplaceAll(err.Error(), " of s", ""), want) || !errors.Is(err, core.ErrInvalid) {
						t.Errorf("error %v, want one that says %q", err, want)
					}
				}
				in.Shards, in.Leases = slices.Clone(in.Shards), slices.Clone(in.Leases)
				rand.Shuffle(len(in.Shards), func(i, j int) { in.Shards[i], in.Shards[j] = in.Shards[j], in.Shards[i] })
				rand.Shuffle(len(in.Leases), func(i, j int) { in.Leases[i], in.Leases[j] = in.Leases[j], in.Leases[i] })
			}
		})
	}
}

func TestCreateNeedsAListing(t *testing.T) {
	got, err := Create(Input{Stream: "s", Shards: listing("a b"), OpenAtStart: ids("a b")})
	if len(got) != 0 || err != nil {
		t.Errorf("without a complete listing: %s, error %v: want nothing", show(got), err)
	}
}

func TestCreatedLease(t *testing.T) {
	r := &core.HashRange{End: maxKey}
	in := Input{Stream: "s", Shards: []core.Shard{{ID: "m", Parents: ids("a b"), Range: r}}, Listed: true, Start: latest, OpenAtStart: ids("m")}
	got, err := Create(in)
	if err != nil || len(got) != 1 {
		t.Fatalf("got %v, %v", got, err)
	}
	l := got[0]
	want := core.LeaseKey{Stream: "s", Shard: "m"}
	if l.Key != want || !slices.Equal(l.Parents, ids("a b")) || l.Range == nil || *l.Range != *r || l.Owner != core.Nobody || l.Counter != 0 {
		t.Errorf("lease %+v", l)
	}
	if !l.From().Equal(latest) || !l.Checkpoint.Time.IsZero() || !l.StartAt.Equal(t0) {
		t.Errorf("begins at %+v (checkpoint %+v, instant %v): want the start's instant in StartAt", l.From(), l.Checkpoint, l.StartAt)
	}
	if l.Range == r || &l.Parents[0] == &in.Shards[0].Parents[0] {
		t.Error("the lease shares memory with the listing")
	}
}

func TestNeedsStart(t *testing.T) {
	for _, c := range []struct {
		name, shards, leases string
		start                core.Position
		want                 bool
		bad                  string
	}{
		{"horizon never", "a b", "", core.FromHorizon, false, ""},
		{"latest bootstrap", "a b", "", latest, true, ""},
		{"latest, all have leases", "a b", "a=L@! b=L@!", latest, false, ""},
		{"latest, one has none", "a b", "a=L@!", latest, true, ""},
		{"latest, one has none, long after", "a b", "a=t!", latest, false, ""},
		{"latest, children of a shard that is read", "a. b<a", "a=L@!", latest, false, ""},
		{"at time, row of another library beneath a parent without one", "a. b<a c<a", "b<a=T c<a=T", atTime, true, ""},
		{"at time, what would tell cannot be read", "a. b<a c<a", "x=t", atTime, true, "b"},
		{"at time, what began long ago", "a. b<a c<a", "b<a=t c<a=t", atTime, false, ""},
	} {
		in := Input{Stream: "s", Shards: listing(c.shards), Listed: true, Leases: rows(c.leases), Bad: ids(c.bad), Start: c.start}
		if got := New(in).NeedsStart(); got != c.want {
			t.Errorf("%s: needs the shards open at the start: %v, want %v", c.name, got, c.want)
		}
		in.OpenAtStart = ids("")
		if New(in).NeedsStart() {
			t.Errorf("%s: asks again for what it was given", c.name)
		}
	}
}

func TestStartOf(t *testing.T) {
	later := rows("b=L@!")
	later[0].StartAt = t0.Add(time.Second)
	other := rows("a=L@!")
	other[0].Key.Stream = "t"
	for _, c := range []struct {
		name    string
		leases  []core.Lease
		bad     string
		asked   core.Position
		want    core.Position
		resolve bool
	}{
		{"zero is horizon", nil, "", core.Position{}, core.FromHorizon, false},
		{"a time stays", rows("a=t"), "", atTime, atTime, false},
		{"latest, nobody began", nil, "", core.FromLatest, core.FromLatest, true},
		{"latest, resolved by the caller", nil, "", latest, latest, false},
		{"latest, stored", rows("a=t b=L@! c=E"), "", core.FromLatest, latest, false},
		{"latest, stored twice: the earlier", append(later, rows("a=L@!")...), "", core.FromLatest, latest, false},
		{"latest, stored: not what the caller resolved", rows("a=L@!"), "", core.Position{Anchor: core.Latest, Time: t0.Add(time.Hour)}, latest, false},
		{"latest, rows of the KCL without an instant", rows("a=L"), "", core.FromLatest, core.FromLatest, true},
		{"latest, begun long ago", rows("a=t b=H c=E"), "", core.Position{Anchor: core.Latest, Time: t0}, core.FromLatest, false},
		{"latest, only other streams have begun", other, "", core.FromLatest, core.FromLatest, true},
		{"latest, rows that cannot be read", nil, "a", core.FromLatest, core.FromLatest, false},
	} {
		got, resolve := StartOf(Input{Stream: "s", Leases: c.leases, Bad: ids(c.bad), Start: c.asked})
		if !got.Equal(c.want) || resolve != c.resolve {
			t.Errorf("%s: %+v, resolve %v; want %+v, %v", c.name, got, resolve, c.want, c.resolve)
		}
	}
}

func BenchmarkCreate(b *testing.B) {
	in := bigStream(10_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Create(in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCreateAll(b *testing.B) {
	in := bigStream(10_000)
	in.Leases = nil
	b.ReportAllocs()
	for b.Loop() {
		if got, err := Create(in); err != nil || len(got) == 0 {
			b.Fatal(len(got), err)
		}
	}
}

// bigStream is a stream of n shards in three generations, with a lease each.
func bigStream(n int) Input {
	in := Input{Stream: "123456789012:stream:1700000000", Listed: true}
	for i := range n {
		s := core.Shard{ID: core.ShardID(fmt.Sprintf("shardId-%012d", i)), Closed: i < n-n/4, Range: &core.HashRange{End: maxKey}}
		if i >= n/4 {
			s.Parents = []core.ShardID{core.ShardID(fmt.Sprintf("shardId-%012d", i-n/4))}
		}
		in.Shards = append(in.Shards, s)
		l := core.Lease{Key: core.LeaseKey{Stream: in.Stream, Shard: s.ID}, Parents: s.Parents, Range: s.Range, Checkpoint: core.FromHorizon}
		if i < n/4 {
			l.Checkpoint = token
		}
		in.Leases = append(in.Leases, l)
	}
	rand.Shuffle(n, func(i, j int) { in.Shards[i], in.Shards[j] = in.Shards[j], in.Shards[i] })
	return in
}
