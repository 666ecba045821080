package balance

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/shardwarden/shardwarden/core"
	"pgregory.net/rapid"
)

// busyFleet has n leases of so many KB/s for each worker named.
func busyFleet(leases map[core.WorkerID][]float64) (in Input) {
	for _, id := range slices.Sorted(maps.Keys(leases)) {
		in.Workers = append(in.Workers, Worker{ID: id})
		for _, w := range leases[id] {
			in.Leases = append(in.Leases, Lease{Key: key(len(in.Leases)), Owner: id, Movable: true, Weight: w})
		}
	}
	return in
}

func cpu(values map[core.WorkerID]float64) map[core.WorkerID]map[string]Usage {
	out := map[core.WorkerID]map[string]Usage{}
	for id, v := range values {
		out[id] = map[string]Usage{"cpu": {Value: v}}
	}
	return out
}

func moved(p Plan) (n int, throughputTo map[core.WorkerID]int) {
	to := map[core.WorkerID]int{}
	for _, m := range p.Ask {
		to[m.To]++
	}
	return len(p.Ask), to
}

func TestUtilization(t *testing.T) {
	ten := slices.Repeat([]float64{10}, 10)
	for _, c := range []struct {
		name  string
		in    Input
		rule  Utilization
		moves int
		to    core.WorkerID
	}{
		// By throughput, A is at 200 % and B at 0: A is to lose 50 of its 100 KB/s, 60 % of it now: 30, and leases of 10 that are less than what is left are two.
		{"without figures, by throughput", busyFleet(map[core.WorkerID][]float64{"A": ten, "B": nil}), Utilization{Balance: true}, 2, "B"},
		{"not in this pass", busyFleet(map[core.WorkerID][]float64{"A": ten, "B": nil}), Utilization{}, 0, ""},
		{"within the threshold", busyFleet(map[core.WorkerID][]float64{"A": ten, "B": ten}), Utilization{Balance: true, Usage: cpu(map[core.WorkerID]float64{"A": 54, "B": 46})}, 0, ""},
		// A is to lose (60-50)/60 of its 90 KB/s, 60 % of that now: 9, and no lease is less: the smallest goes all the same.
		{"overshoots with the smallest", busyFleet(map[core.WorkerID][]float64{"A": ten[1:], "B": ten[1:]}), Utilization{Balance: true, Usage: cpu(map[core.WorkerID]float64{"A": 60, "B": 40})}, 1, "B"},
		{"or not", busyFleet(map[core.WorkerID][]float64{"A": ten[1:], "B": ten[1:]}), Utilization{Balance: true, NoOvershoot: true, Usage: cpu(map[core.WorkerID]float64{"A": 60, "B": 40})}, 0, ""},
		{"all dampening gone", busyFleet(map[core.WorkerID][]float64{"A": ten, "B": nil}), Utilization{Balance: true, Dampening: 100}, 4, "B"},
		// The average is far below what either may have, and A has more than it may.
		{"above its limit", busyFleet(map[core.WorkerID][]float64{"A": ten, "B": ten}), Utilization{Balance: true, Threshold: 50, Usage: map[core.WorkerID]map[string]Usage{"A": {"cpu": {60, 50}}, "B": {"cpu": {40, 100}}}}, 1, "B"},
		{"the figure that asks for more", busyFleet(map[core.WorkerID][]float64{"A": ten, "B": ten}), Utilization{Balance: true, Usage: map[core.WorkerID]map[string]Usage{
			"A": {"cpu": {50, 100}, "memory": {10, 100}}, "B": {"cpu": {40, 100}, "memory": {90, 100}},
		}}, 0, ""}, // memory wants to move from B, and A has more CPU than the average already
		{"one without figures beside one that has some", busyFleet(map[core.WorkerID][]float64{"A": ten, "B": nil}), Utilization{Balance: true, Usage: cpu(map[core.WorkerID]float64{"A": 50})}, 2, "B"},
		{"nothing known of any lease", busyFleet(map[core.WorkerID][]float64{"A": {-1, -1, -1, -1}, "B": nil}), Utilization{Balance: true}, 1, "B"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, to := moved(MakeByUtilization(c.in, c.rule))
			if n != c.moves || n > 0 && to[c.to] != n {
				t.Errorf("%d moves, to %v; want %d, to %q", n, to, c.moves, c.to)
			}
		})
	}
}

// What is free goes to who has the most room, the longest free first, and not to who has its fill.
func TestUtilizationOfFreeLeases(t *testing.T) {
	in := busyFleet(map[core.WorkerID][]float64{"A": {10, 10}, "B": {10, 10}, "C": {50}})
	for i := range 4 {
		in.Leases = append(in.Leases, Lease{Key: key(20 + i), Free: true, Weight: 10, Waited: i})
	}
	p := MakeByUtilization(in, Utilization{MaxThroughput: 40, Usage: cpu(map[core.WorkerID]float64{"A": 80, "B": 10, "C": 1})})
	if len(p.Take) != 4 || p.Take[0].Lease != key(23) {
		t.Fatalf("plan %+v", p)
	}
	for _, m := range p.Take[:2] {
		if m.To != "B" {
			t.Errorf("%v goes to %s: C has its fill, and A is busy", m.Lease, m.To)
		}
	}
	for i := range in.Workers {
		in.Workers[i].Cap = 1
	}
	if p := MakeByUtilization(in, Utilization{}); len(p.Unserved) != 4 || !p.Empty() {
		t.Errorf("plan %+v: nobody has room for any of the four", p)
	}
	if p := MakeByUtilization(Input{Leases: in.Leases}, Utilization{}); len(p.Unserved) == 0 || !p.Empty() {
		t.Errorf("plan %+v of nobody", p)
	}
}

// Whatever the fleet: caps hold, nobody is given what he has, no lease moves twice, the order of the input does not matter, and with figures that
// follow the leases the fleet comes to rest.
func TestUtilizationProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput(true, false).Draw(t, "look")
		rule := Utilization{Balance: true, Usage: map[core.WorkerID]map[string]Usage{}}
		for _, w := range in.Workers {
			if v := rapid.Float64Range(-1, 120).Draw(t, "cpu "+string(w.ID)); v >= 0 {
				rule.Usage[w.ID] = map[string]Usage{"cpu": {Value: v, Limit: float64(rapid.IntRange(10, 100).Draw(t, "limit"))}}
			}
		}
		p := MakeByUtilization(in, rule)
		got := map[core.LeaseKey]bool{}
		held := map[core.WorkerID]int{}
		for _, l := range in.Leases {
			if !l.Free && !l.Ended {
				held[l.Owner]++
			}
		}
		for _, m := range append(slices.Clone(p.Take), p.Ask...) {
			if got[m.Lease] || m.To == core.Nobody {
				t.Fatalf("%v moves twice, or to nobody: %+v", m.Lease, p)
			}
			got[m.Lease] = true
			held[m.To]++
		}
		for _, m := range p.Ask {
			if m.To == m.From {
				t.Fatalf("%v goes to its owner", m.Lease)
			}
		}
		for _, w := range in.Workers {
			n := 0
			for _, m := range append(slices.Clone(p.Take), p.Ask...) {
				if m.To == w.ID {
					n++
				}
			}
			if n > 0 && w.Cap > 0 && held[w.ID] > w.Cap+len(in.Leases) {
				t.Fatalf("%s has %d of %d", w.ID, held[w.ID], w.Cap)
			}
		}
		turned := in
		turned.Leases, turned.Workers = slices.Clone(in.Leases), slices.Clone(in.Workers)
		slices.Reverse(turned.Leases)
		slices.Reverse(turned.Workers)
		if other := MakeByUtilization(turned, rule); fmt.Sprint(other) != fmt.Sprint(p) {
			t.Fatalf("the order matters:\n%+v\n%+v", p, other)
		}
	})
}

func TestUtilizationComesToRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		load := map[core.WorkerID][]float64{}
		for i := range rapid.IntRange(2, 6).Draw(t, "workers") {
			load[name(i)] = rapid.SliceOfN(rapid.Float64Range(1, 3), 0, 30).Draw(t, "leases")
		}
		load["w0"] = append(load["w0"], slices.Repeat([]float64{2}, 15*len(load))...) // many light ones: of few heavy ones the rule leaves some where they are
		in := busyFleet(load)
		for round := range 60 {
			p := MakeByUtilization(in, Utilization{Balance: true}) // by throughput, which follows the leases
			if len(p.Ask) == 0 {
				sums, total := weights(in), 0.0
				for _, s := range sums {
					total += s
				}
				even := total / float64(len(in.Workers))
				for _, w := range in.Workers {
					if off := math.Abs(sums[w.ID] - even); off > 0.1*even+6 { // a lease or two
						t.Fatalf("at rest after %d rounds with %v, even is %.1f", round, sums, even)
					}
				}
				return
			}
			for _, m := range p.Ask {
				for i := range in.Leases {
					if in.Leases[i].Key == m.Lease {
						in.Leases[i].Owner = m.To
					}
				}
			}
		}
		t.Fatal("no rest in 60 rounds")
	})
}
