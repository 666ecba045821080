package conformance

import (
	"fmt"
	"slices"

	"github.com/shardwarden/shardwarden/core"
)

// part is a value for one field of a Set.
type part struct {
	field, name string
	set         core.Set
}

// sets are values for each field of [core.Set].
func sets(starts bool) []part {
	var none *core.Pending
	end := core.AtShardEnd
	all := []part{
		{"bump", "bump", core.Set{Bump: true}},
		{"owner", "owner", core.Set{Owner: new(core.WorkerID("worker-C"))}},
		{"next", "next", core.Set{Next: new(core.WorkerID("worker-E"))}},
		{"next", "no next", core.Set{Next: new(core.Nobody)}},
		{"checkpoint", "checkpoint", core.Set{Checkpoint: &core.Position{Token: sequence(99), Sub: 1}}},
		{"checkpoint", "checkpoint without sub", core.Set{Checkpoint: &core.Position{Token: sequence(98)}}},
		{"checkpoint", "horizon", core.Set{Checkpoint: new(core.FromHorizon)}},
		{"checkpoint", "end", core.Set{Checkpoint: &end}},
		{"pending", "pending", core.Set{Pending: new(&core.Pending{At: core.Position{Token: sequence(97), Sub: 2}, State: []byte{0, 1, 255}})}},
		{"pending", "no pending", core.Set{Pending: &none}},
		{"ready", "ready", core.Set{Ready: true}},
		{"run", "run", core.Set{Run: "worker-A:9"}},
		{"run", "run of the next owner", core.Set{Run: "worker-C:9"}},
		{"switches", "one switch more", core.Set{Switches: core.SwitchAdd}},
		{"switches", "no switches", core.Set{Switches: core.SwitchZero}},
		{"children", "children", core.Set{Children: []core.ShardID{"child-9", "child-1", "child-0"}}},
		{"children", "a child more", core.Set{Children: []core.ShardID{"child-4"}}},
		{"range", "range", core.Set{Range: &core.HashRange{Start: [16]byte{7}, End: [16]byte{255, 15: 255}}}},
		{"throughput", "throughput", core.Set{Throughput: new(9.25)}},
		{"throughput", "no throughput", core.Set{Throughput: new(0.0)}},
	}
	if starts {
		all = append(all,
			part{"start", "start", core.Set{StartAt: new(instant(77))}},
			part{"start", "another start and its instant", core.Set{Checkpoint: new(core.FromLatest), StartAt: new(instant(78))}},
			part{"checkpoint", "a start without its instant", core.Set{Checkpoint: new(core.FromLatest)}})
	}
	return all
}

// rows are those that a Set is tried on.
func (t *table) rows() []core.Lease {
	full, free, bare := t.full(), t.full(), t.plain()
	full.Ready = false
	free.Owner, free.Next, free.Run = core.Nobody, core.Nobody, ""
	bare.Owner = "worker-A"
	rows := []core.Lease{full, free, bare}
	if t.starts {
		start := t.plain()
		start.Owner, start.Checkpoint, start.StartAt = "worker-A", core.FromLatest, instant(3)
		start.Pending = &core.Pending{At: core.Position{Token: sequence(4)}, State: []byte("x")}
		rows = append(rows, start)
	}
	return rows
}

// apply makes a row, changes it, and compares.
func (t *table) apply(what string, row core.Lease, set core.Set, same core.Same) {
	row.Key = t.fresh()
	row = t.create(row)
	want := set.Apply(row)
	if want.Next != core.Nobody && (want.Owner == core.Nobody || want.Owner == want.Next) {
		return // no dialect says it, and no write makes it: only an owner is asked, and not by itself
	}
	got, err := t.a.Update(t.ctx, row, same, set)
	if err != nil {
		t.errorf("%s on %s: %v", what, show(row), err)
		return
	}
	t.want(what+": row returned", got, want)
	t.want(what+": row after it", t.get(row.Key), want)
}

func setRules() []rule[MakeStore] {
	says := map[string]string{
		"bump":       "the counter",
		"owner":      "the owner, and drops the run of another",
		"next":       "the next owner",
		"checkpoint": "the checkpoint, and drops start instant and what was pending beside the former",
		"start":      "the instant that the start was resolved to",
		"pending":    "what is pending, or drops it",
		"ready":      "that the lease is ready",
		"run":        "the run, shown only where it is the owner's",
		"switches":   "the number of changes of owner",
		"children":   "the children, added to those the row has",
		"range":      "the hash range",
		"throughput": "the throughput",
	}
	var out []rule[MakeStore]
	for _, field := range []string{"bump", "owner", "next", "checkpoint", "start", "pending", "ready", "run", "switches", "children", "range", "throughput"} {
		out = append(out, storeRule("set-"+field, fmt.Sprintf("A write that names it sets %s, and nothing else.", says[field]), func(t *table) {
			parts := slices.DeleteFunc(sets(t.starts), func(p part) bool { return p.field != field })
			if len(parts) == 0 {
				t.skip("ability to hold the instant of a start")
			}
			for _, p := range parts {
				for _, row := range t.rows() {
					for _, same := range []core.Same{0, core.SameCounter} {
						t.apply(p.name, row, p.set, same)
					}
				}
			}
			if field == "ready" {
				t.readyStays()
			}
		}))
	}
	return append(out,
		storeRule("set-together", "A write that names several things sets all of them.", func(t *table) {
			all := sets(t.starts)
			for i, a := range all {
				for _, b := range all[i+1:] {
					if a.field != b.field && !(a.field == "start" && b.field == "checkpoint") && !(a.field == "checkpoint" && b.field == "start") {
						t.apply(a.name+" and "+b.name, t.rows()[(i+len(b.name))%len(t.rows())], join(a.set, b.set), core.SameCounter)
					}
				}
			}
			seen := t.full()
			for _, w := range writes(&seen) {
				t.apply(w.name, seen, w.Set, w.Same&^(core.Ended|core.NotEnded))
			}
		}),
		storeRule("set-nothing", "A write that names nothing returns the row, and leaves it as it is.", func(t *table) {
			for _, row := range t.rows() {
				t.apply("nothing", row, core.Set{}, core.SameCounter)
			}
		}),
	)
}

// readyStays tries every write on a lease that is ready.
func (t *table) readyStays() {
	for _, p := range sets(t.starts) {
		row := t.full()
		t.apply(p.name+" on a lease that is ready", row, p.set, core.SameCounter)
	}
	l := t.full()
	l.Owner, l.Next, l.Run = core.Nobody, core.Nobody, ""
	l = t.create(l)
	for _, w := range writes(&l) {
		got, err := t.a.Update(t.ctx, t.get(l.Key), 0, w.Set)
		if err != nil {
			t.errorf("%s: %v", w.name, err)
		} else if !got.Ready || !t.get(l.Key).Ready {
			t.errorf("%s: the lease is no longer ready", w.name)
		}
	}
}

// named is a write of the engine.
type named struct {
	name string
	core.Write
}

// writes are those of the engine, in an order in which they can come: a lease that is free is taken before anybody asks for it.
func writes(seen *core.Lease) []named {
	p := core.Position{Token: sequence(60), Sub: 4}
	return []named{
		{"take", core.Take(seen, "worker-C", "worker-C:2")}, {"accept", core.Accept("worker-C:3", true)}, {"mark ready", core.MarkReady()}, {"renew", core.Renew(new(2.5))},
		{"ask", core.Ask("worker-D")}, {"decline", core.Decline()}, {"checkpoint", core.Store(p, new(3.5))}, {"prepare", core.PrepareStore(&core.Pending{At: p, State: []byte("s")})},
		{"add children", core.AddChildren([]core.ShardID{"child-5", "child-1"})}, {"ask again", core.Ask("worker-B")}, {"hand over", core.HandOver("worker-B")}, {"release", core.Release()},
	}
}

// join is a Set that names what a and b name; they name different fields.
func join(a, b core.Set) core.Set {
	a.Bump = a.Bump || b.Bump
	a.Owner, a.Next, a.Checkpoint, a.StartAt = either(a.Owner, b.Owner), either(a.Next, b.Next), either(a.Checkpoint, b.Checkpoint), either(a.StartAt, b.StartAt)
	a.Pending, a.Range, a.Throughput = either(a.Pending, b.Pending), either(a.Range, b.Range), either(a.Throughput, b.Throughput)
	a.Ready = a.Ready || b.Ready
	a.Run += b.Run
	a.Switches += b.Switches
	a.Children = slices.Concat(a.Children, b.Children)
	return a
}

func either[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}
