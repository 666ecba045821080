package balance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/shardwarden/shardwarden/core"
)

// look reads "worker:lease lease…" separated by ";", "-" being free leases and "worker/3" a cap. Behind a lease: "." ended, "?" waits for a parent,
// "!" in cool-down, ">w" asked for by w, "=w" free with w still in the row.
func look(s string) Input {
	in := Input{Seed: 1}
	for part := range strings.SplitSeq(s, ";") {
		who, leases, _ := strings.Cut(strings.TrimSpace(part), ":")
		who, bound, _ := strings.Cut(who, "/")
		if who != "-" && who != "stopping" {
			w := Worker{ID: core.WorkerID(who)}
			if bound != "" {
				if _, err := fmt.Sscan(bound, &w.Cap); err != nil {
					panic(fmt.Sprintf("bound %q in %q: %v", bound, s, err))
				}
			}
			in.Workers = append(in.Workers, w)
		}
		for f := range strings.FieldsSeq(leases) {
			l := Lease{Owner: core.WorkerID(who), Movable: true}
			if who == "-" {
				l.Owner, l.Free = core.Nobody, true
			}
			f, owner, _ := strings.Cut(f, "=")
			if owner != "" {
				l.Owner = core.WorkerID(owner)
			}
			f, next, _ := strings.Cut(f, ">")
			l.Next = core.WorkerID(next)
			l.Ended, l.Blocked, l.Movable = strings.Contains(f, "."), strings.Contains(f, "?"), !strings.Contains(f, "!")
			l.Key = core.LeaseKey{Stream: "s", Shard: core.ShardID(strings.TrimRight(f, ".?!"))}
			in.Leases = append(in.Leases, l)
		}
	}
	return in
}

func counts(m map[core.WorkerID]int) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s%d", k, m[k]))
	}
	return strings.Join(out, " ")
}

func TestMake(t *testing.T) {
	for _, c := range []struct {
		name     string
		look     string
		budget   int
		take     int
		ask      int
		drop     int
		active   string // afterwards
		blocked  string
		unserved string
	}{
		{name: "no worker", look: "-: a b", unserved: "a b"},
		{name: "no lease", look: "A: ; B:", active: "A0 B0"},
		{name: "all at once (F06)", look: "A: ; -: a b c d e f g h", take: 8, active: "A8"},
		{name: "expired while the share is met (F01)", look: "A: a b; B: c d; -: e=C f=C", take: 2, active: "A3 B3"},
		{name: "a worker without a lease counts (F02)", look: "A: a b c d; B:", ask: 2, active: "A2 B2"},
		{name: "even within one: rest (F03)", look: "A: a b c; B: d e", active: "A3 B2"},
		{name: "the need in one round, from all (F05)", look: "A: a b c d; B: e f g h; C: i j k l; D:", ask: 3, active: "A3 B3 C3 D3"},
		{name: "within a budget, the fullest first", look: "A: a b c d e f; B: g h i j; C:", budget: 2, ask: 2, active: "A4 B4 C2"},
		{name: "within a budget, the fullest first, again", look: "A: a b c d e f g h i j k l; B: m n o p q r s t u; C:", budget: 3, ask: 3, active: "A9 B9 C3"},
		{name: "ended leases weigh nothing (F07)", look: "A: p. q. r. s.; B: a b c; C: d e f; D: g h", ask: 2, active: "A2 B2 C2 D2"},
		{name: "ended leases take no place (F09)", look: "A/2: a. b.; B/2: ; C/2: ; -: c d e f g h", take: 6, active: "A2 B2 C2"},
		{name: "caps leave one unserved (F09)", look: "A/2: ; B/2: ; C/2: ; -: a b c d e f g y. z.", take: 6, active: "A2 B2 C2", unserved: "?"},
		{name: "a small cap: the others more", look: "A/1: ; B: ; C: ; -: a b c d e f g", take: 7, active: "A1 B3 C3"},
		{name: "waiting for a parent: no load, held all the same (F07)", look: "A: a b; B: c d; -: e? f? g? h?", take: 4, active: "A2 B2", blocked: "A2 B2"},
		{name: "waiting for a parent: not moved while it waits", look: "A: a b c? d? e? f?; B:", ask: 1, active: "A1 B1", blocked: "A4 B0"},
		{name: "waiting for a parent: counts under the cap", look: "A/2: a; -: b? c?", take: 1, active: "A1", blocked: "A1"},
		{name: "waiting for a parent: yields to one that can be read", look: "A/2: a b?; -: c", take: 1, drop: 1, active: "A2", blocked: "A0"},
		{name: "asked for counts for the one who asked", look: "A: a b>B c>B d; B:", active: "A2 B2"},
		{name: "asked for: nobody else asks for it", look: "A: a>B b>B c>B d>B; B: e f; C:", ask: 2, active: "?"},
		{name: "asked for by one that is gone: can be asked for", look: "A: a>X b>X; B:", ask: 1, active: "A1 B1"},
		{name: "in cool-down: stays", look: "A: a! b! c! d!; B:", active: "A4 B0"},
		{name: "in cool-down: only the others move", look: "A: a! b! c! d; B:", ask: 1, active: "A3 B1"},
		{name: "about to stop: gets nothing, keeps what it has", look: "stopping: a b c; B: d; C: ; -: e", take: 1, active: "B1 C1"},
		{name: "about to stop: what it has will fill up those below", look: "stopping: a b c; B: d e f; C: g h i; D:", active: "B3 C3 D0"},
		{name: "free ones fill up before anybody is asked", look: "A: a b c; B: ; -: d e f", take: 3, active: "A3 B3"},
		{name: "free ones fill up, the rest is asked for", look: "A: a b c d e; B: ; -: f", take: 1, ask: 2, active: "A3 B3"},
		{name: "more workers than leases", look: "A: a b; B: ; C:", ask: 1, active: "?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := look(c.look)
			in.Budget = c.budget
			p := Make(in)
			if len(p.Take) != c.take || len(p.Ask) != c.ask || len(p.Drop) != c.drop {
				t.Errorf("takes %d, asks for %d, drops %d; want %d, %d, %d\n%+v", len(p.Take), len(p.Ask), len(p.Drop), c.take, c.ask, c.drop, p)
			}
			if got := len(p.Unserved); c.unserved == "?" && got != 1 || c.unserved != "?" && fmt.Sprint(shards(p.Unserved)) != fmt.Sprint(strings.Fields(c.unserved)) {
				t.Errorf("unserved %v, want %q", p.Unserved, c.unserved)
			}
			active, blocked := held(apply(in, p))
			if got := counts(active); c.active != "?" && got != c.active {
				t.Errorf("afterwards %s, want %s\n%+v", got, c.active, p)
			}
			if got := counts(blocked); c.blocked != "" && got != c.blocked {
				t.Errorf("of those that wait %s, want %s", got, c.blocked)
			}
		})
	}
}

func shards(keys []core.LeaseKey) []string {
	out := []string{}
	for _, k := range keys {
		out = append(out, string(k.Shard))
	}
	return out
}

// A worker that came back under its id gets its own leases; one that asked gets what it asked for when the owner dies.
func TestClaims(t *testing.T) {
	in := look("A: ; B: ; C: ; -: a=A b=B c=C d=A e=B f=C g=A")
	for _, m := range Make(in).Take {
		if m.To != m.From {
			t.Errorf("%s of %s goes to %s", m.Lease.Shard, m.From, m.To)
		}
	}
	in = look("A: ; B: ; C: ; -: a>B=X b>B=X c=X d=X e=X f=X")
	for _, m := range Make(in).Take {
		if asked := m.Lease.Shard == "a" || m.Lease.Shard == "b"; asked && m.To != "B" {
			t.Errorf("%s, for which B asked, goes to %s", m.Lease.Shard, m.To)
		}
	}
	// Not beyond the share: the rest of the fleet works too.
	active, _ := held(after(look("A: ; B: ; -: a=A b=A c=A d=A")))
	if got := counts(active); got != "A2 B2" {
		t.Errorf("four leases of A, who came back: %s", got)
	}
}

func TestFor(t *testing.T) {
	p := Make(look("A/4: a b c d? x?; B: ; -: e f g h"))
	a, b := p.For("A"), p.For("B")
	if len(a.Take)+len(b.Take) != 4 || len(a.Ask) != 0 || len(a.Drop) != len(p.Drop) || len(b.Drop) != 0 {
		t.Errorf("parts of %+v:\nA %+v\nB %+v", p, a, b)
	}
	for _, m := range b.Take {
		if m.To != "B" {
			t.Errorf("part of B: %+v", m)
		}
	}
	if c := p.For("C"); !c.Empty() {
		t.Errorf("part of a worker that has none: %+v", c)
	}
}

// A lease that stays free is everybody's in the end, and by then nobody's share counts.
func TestWaited(t *testing.T) {
	for waited, want := range []int{1, 2, 4, 8, 10, 10} {
		in := look("A: ; B: ; C: ; D: ; E: ; F: ; G: ; H: ; I: ; J: ; -: a")
		in.Leases[0].Waited = waited
		p := Make(in)
		takers := map[core.WorkerID]bool{}
		for _, m := range p.Take {
			takers[m.To] = true
		}
		if len(p.Take) != want || len(takers) != want {
			t.Errorf("free for %d looks: taken by %v", waited, p.Take)
		}
	}
	in := look("A/1: x; B/1: ; -: a")
	in.Leases[1].Waited = 5
	if p := Make(in); len(p.Take) != 1 || p.Take[0].To != "B" {
		t.Errorf("A is at its cap: %+v", p.Take)
	}
}

// A table that stays free as a whole does not make a plan without end.
func TestWaitedIsBounded(t *testing.T) {
	in := allFree(busy(10_000, 100))
	for i := range in.Leases {
		in.Leases[i].Waited = 30
	}
	if n := len(Make(in).Take); n != 8*10_000 {
		t.Errorf("%d takes for 10,000 leases, want eight each", n)
	}
	in.Leases = in.Leases[:10]
	if n := len(Make(in).Take); n != 100*10 {
		t.Errorf("%d takes for 10 leases, want all 100 workers for each", n)
	}
}

// Another seed or another worker changes ties only for the leases it concerns.
func TestTiesDependOnWorkerAndLease(t *testing.T) {
	where := func(in Input) map[core.LeaseKey]core.WorkerID {
		out := map[core.LeaseKey]core.WorkerID{}
		for _, m := range Make(in).Take {
			out[m.Lease] = m.To
		}
		return out
	}
	in := Input{Workers: []Worker{{ID: "A"}, {ID: "B"}, {ID: "C"}, {ID: "D"}}}
	for i := range 400 {
		in.Leases = append(in.Leases, Lease{Key: key(i), Free: true})
	}
	one := where(in)
	in.Seed = 1
	other := where(in)
	same := 0
	for k := range one {
		if one[k] == other[k] {
			same++
		}
	}
	if same > 200 {
		t.Errorf("another seed leaves %d of 400 where they were", same)
	}
	for range 10 {
		in.Workers = append(in.Workers, Worker{ID: core.WorkerID(fmt.Sprint("more", len(in.Workers)))})
		more := where(in)
		same = 0
		for k := range other {
			if other[k] == more[k] {
				same++
			}
		}
		if n := len(in.Workers); same < 400*(n-1)/n*4/5 { // a share must go to the new one
			t.Errorf("worker %d leaves only %d of 400 where they were", n, same)
		}
		other = more
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		name, look, from, keys, want string
		left                         string
	}{
		{name: "to the emptiest", look: "A: a b; B: c d e; C: f", from: "A", keys: "a b", want: "C2"},
		{name: "evenly", look: "A: a b c d e f; B: g; C: h; D:", from: "A", keys: "a b c d e f", want: "B2 C2 D2"},
		{name: "within caps", look: "A: a b c; B/1: ; C/1:", from: "A", keys: "a b c", want: "B1 C1", left: "1"},
		{name: "to who asked", look: "A: a>B b>B c; B: d e f g; C:", from: "A", keys: "a b c", want: "B2 C1"},
		{name: "asked for by one that is gone", look: "A: a>X; B: ", from: "A", keys: "a", want: "B1"},
		{name: "asked for by the giver itself", look: "A: a>A; B: ", from: "A", keys: "a", want: "B1"},
		{name: "those that wait by themselves", look: "A: a? b? c? d?; B: e f g; C: h?", from: "A", keys: "a b c d", want: "?"},
		{name: "nobody else", look: "A: a", from: "A", keys: "a", left: "1"},
		{name: "giver has withdrawn", look: "stopping: a b; B: ; C:", from: "stopping", keys: "a b", want: "B1 C1"},
		{name: "ended ones stay", look: "A: a. b; B:", from: "A", keys: "a b", want: "B1", left: "1"},
		{name: "unknown to the look", look: "A: ; B:", from: "A", keys: "new", want: "B1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := look(c.look)
			var keys []core.LeaseKey
			for f := range strings.FieldsSeq(c.keys) {
				keys = append(keys, core.LeaseKey{Stream: "s", Shard: core.ShardID(f)})
			}
			for _, in.Weights = range []bool{false, true} {
				out := Spread(in, core.WorkerID(c.from), keys)
				n := map[core.WorkerID]int{}
				for _, to := range out {
					n[to]++
				}
				if got := counts(n); c.want != "?" && got != c.want {
					t.Errorf("weights %v: to %s, want %s", in.Weights, got, c.want)
				}
				if left := len(keys) - len(out); fmt.Sprint(left) != cmp.Or(c.left, "0") {
					t.Errorf("weights %v: %d left, want %s: %v", in.Weights, left, cmp.Or(c.left, "0"), out)
				}
			}
		})
	}
	in := look("A: a b; B: c; C: ")
	if to, ok := LeastLoaded(in, "A", in.Leases[0].Key); !ok || to != "C" {
		t.Errorf("least loaded: %s, %v", to, ok)
	}
	if to, ok := LeastLoaded(look("A: a"), "A", in.Leases[0].Key); ok {
		t.Errorf("least loaded where nobody else is: %s", to)
	}
}
