package core

import (
	"testing"
	"time"
)

// Every conditional write of the two services and of the model can be said with a Same and a Set.
func TestWritesOfOthersFitTheShape(t *testing.T) {
	l := Lease{Key: LeaseKey{"s", "1"}, Owner: "A", Next: "B", Counter: 7, Range: &HashRange{}}
	me, b, none := WorkerID("me"), WorkerID("B"), (*Pending)(nil)
	p, tput := Position{Token: "495"}, 1.5
	pend := &Pending{At: p}
	for _, w := range []struct {
		name string
		same Same
		set  Set
	}{
		// docs/reference/kcl.md 1.4
		{"kcl renew", SameCounter | SameNext, Set{Bump: true, Throughput: &tput}},
		{"kcl renew, hand-over known", SameCounter, Set{Bump: true, Throughput: &tput}},
		{"kcl take", SameCounter, Set{Bump: true, Owner: &me, Next: new(Nobody), Switches: SwitchAdd}},
		{"kcl assign", SameOwner | SameNext, Set{Bump: true, Owner: &b, Next: new(Nobody), Switches: SwitchAdd}},
		{"kcl start hand-over", SameOwner | SameNext, Set{Next: &b}},
		{"kcl evict", SameOwner | SameNext, Set{Bump: true, Owner: new(Nobody), Next: new(Nobody)}},
		{"kcl checkpoint", SameCounter, Set{Bump: true, Checkpoint: &p, Pending: &none, Switches: SwitchZero}},
		{"kcl prepare", SameCounter, Set{Bump: true, Pending: &pend, Switches: SwitchZero}},
		{"kcl children", 0, Set{Children: []ShardID{"2", "3"}}},
		{"kcl hash range", 0, Set{Range: l.Range}},
		// docs/reference/tablestore.md 3.5
		{"ots take", SameCounter, Set{Bump: true, Owner: &me, Next: new(Nobody)}},
		{"ots steal", SameOwner | SameNext, Set{Next: &me}},
		{"ots transfer (the stealer's mark stays)", SameCounter, Set{Bump: true, Owner: &l.Next}},
		// docs/model/README.md 1, the counter being the generation
		{"model checkpoint", SameCounter | SameCheckpoint, Set{Checkpoint: &p}},
		{"model ask", SameCounter | SameNext, Set{Next: &b}},
	} {
		if !w.same.Valid() || w.set.IsZero() {
			t.Errorf("%s: mask %s valid %v, changes nothing %v", w.name, w.same, w.same.Valid(), w.set.IsZero())
		}
	}
}

// Each write of ours: what it does to a row, and which change of the row by others it refuses.
func TestWrites(t *testing.T) {
	seen := Lease{Owner: "A", Counter: 7, Checkpoint: Position{Token: "5"}, Run: "A:1", Switches: 2}
	asked := seen
	asked.Next = "B"

	moved := func(l Lease) Lease { l.Counter++; return l }
	ended := func(l Lease) Lease { l.Checkpoint = AtShardEnd; return l }
	next := func(l Lease) Lease { l.Next = "C"; return l }
	owner := func(l Lease) Lease { l.Owner = "C"; return l }
	for _, c := range []struct {
		name    string
		w       Write
		seen    Lease
		want    Lease
		refuses []func(Lease) Lease
		bears   []func(Lease) Lease
	}{
		{"renew", Renew(nil), seen, Lease{Owner: "A", Counter: 8, Checkpoint: Position{Token: "5"}, Run: "A:1", Switches: 2}, []func(Lease) Lease{moved, next}, nil},
		{"take", Take(&seen, "D", "D:9"), seen, Lease{Owner: "D", Counter: 8, Checkpoint: Position{Token: "5"}, Run: "D:9", Ready: true, Switches: 3}, []func(Lease) Lease{moved, ended}, []func(Lease) Lease{next}},
		{"take again what was mine", Take(&seen, "A", "A:2"), seen, Lease{Owner: "A", Counter: 8, Checkpoint: Position{Token: "5"}, Run: "A:2", Ready: true, Switches: 2}, []func(Lease) Lease{moved}, nil},
		{"ask", Ask("B"), seen, Lease{Owner: "A", Next: "B", Counter: 7, Checkpoint: Position{Token: "5"}, Run: "A:1", Switches: 2}, []func(Lease) Lease{owner, next, ended}, []func(Lease) Lease{moved}},
		{"ask for another", AskFor("B"), seen, Lease{Owner: "A", Next: "B", Counter: 7, Checkpoint: Position{Token: "5"}, Run: "A:1", Switches: 2}, []func(Lease) Lease{owner, next, ended}, []func(Lease) Lease{moved}},
		{"assign", Assign(&seen, "D"), seen, Lease{Owner: "D", Counter: 8, Checkpoint: Position{Token: "5"}, Switches: 3}, []func(Lease) Lease{moved, ended}, []func(Lease) Lease{next}},
		{"decline", Decline(), asked, Lease{Owner: "A", Counter: 8, Checkpoint: Position{Token: "5"}, Run: "A:1", Switches: 2}, []func(Lease) Lease{moved, next}, nil},
		{"take an ask back", Unask(), asked, Lease{Owner: "A", Counter: 7, Checkpoint: Position{Token: "5"}, Run: "A:1", Switches: 2}, []func(Lease) Lease{owner, next, ended}, []func(Lease) Lease{moved}},
		{"hand over", HandOver("B"), asked, Lease{Owner: "B", Counter: 8, Checkpoint: Position{Token: "5"}, Switches: 3}, []func(Lease) Lease{moved, next}, nil},
		{"release", Release(), asked, Lease{Counter: 8, Checkpoint: Position{Token: "5"}, Switches: 2}, []func(Lease) Lease{moved}, nil},
		{"store", Store(Position{Token: "6", Sub: 2}, nil), asked, Lease{Owner: "A", Next: "B", Counter: 8, Checkpoint: Position{Token: "6", Sub: 2}, Run: "A:1"}, []func(Lease) Lease{moved}, []func(Lease) Lease{next}},
		{"prepare", PrepareStore(&Pending{State: []byte("x")}), seen, Lease{Owner: "A", Counter: 8, Checkpoint: Position{Token: "5"}, Pending: &Pending{State: []byte("x")}, Run: "A:1", Switches: 2}, []func(Lease) Lease{moved}, nil},
		{"children", AddChildren([]ShardID{"c2", "c1"}), seen, Lease{Owner: "A", Counter: 7, Checkpoint: Position{Token: "5"}, Children: []ShardID{"c1", "c2"}, Run: "A:1", Switches: 2}, nil, []func(Lease) Lease{moved, owner}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.w.Set.Apply(c.seen)
			if !sameLease(got, c.want) {
				t.Errorf("row after it: %+v, want %+v", got, c.want)
			}
			if !c.w.Same.Valid() || !c.w.Same.Holds(&c.seen, &c.seen) {
				t.Errorf("mask %s is refused by the row it was made for", c.w.Same)
			}
			for i, f := range c.refuses {
				if row := f(c.seen); c.w.Same.Holds(&c.seen, &row) {
					t.Errorf("change %d by another (%+v) goes unnoticed under %s", i, row, c.w.Same)
				}
			}
			for i, f := range c.bears {
				if row := f(c.seen); !c.w.Same.Holds(&c.seen, &row) {
					t.Errorf("change %d by another (%+v) refuses the write under %s, and need not", i, row, c.w.Same)
				}
			}
		})
	}
}

func TestBoundToTheCheckpoint(t *testing.T) {
	row := Lease{Checkpoint: FromLatest, StartAt: time.Unix(9, 0), Pending: &Pending{State: []byte("s")}}
	if got := row.From(); !got.Equal(Position{Anchor: Latest, Time: time.Unix(9, 0)}) {
		t.Errorf("From() = %+v: a Latest start keeps the instant it was resolved to", got)
	}
	p := Position{Token: "5"}
	got := (&Set{Checkpoint: &p}).Apply(row)
	if !got.StartAt.IsZero() || got.Pending != nil {
		t.Errorf("after another checkpoint: StartAt %v, Pending %v: both belong to the former", got.StartAt, got.Pending)
	}
}

func TestBoundToTheOwner(t *testing.T) {
	for _, c := range []struct {
		run   string
		owner WorkerID
		want  string
	}{{"A:1", "A", "A:1"}, {"A:1", "B", ""}, {"A:1", Nobody, ""}, {"", "A", ""}, {"host:12:ab:1", "host:12:ab", "host:12:ab:1"}, {"plain", "plain", ""}} {
		if got := BoundRun(c.run, c.owner); got != c.want {
			t.Errorf("BoundRun(%q, %q) = %q, want %q", c.run, c.owner, got, c.want)
		}
	}
}

func sameLease(a, b Lease) bool {
	if len(a.Children) != len(b.Children) || (a.Pending == nil) != (b.Pending == nil) {
		return false
	}
	for i := range a.Children {
		if a.Children[i] != b.Children[i] {
			return false
		}
	}
	return a.Owner == b.Owner && a.Next == b.Next && a.Counter == b.Counter && a.Checkpoint.Equal(b.Checkpoint) && a.Ready == b.Ready &&
		a.Run == b.Run && a.Switches == b.Switches
}
