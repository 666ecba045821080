package balance

import (
	"math"
	"testing"

	"github.com/shardwarden/shardwarden/core"
	"pgregory.net/rapid"
)

func weights(in Input) map[core.WorkerID]float64 {
	out := map[core.WorkerID]float64{}
	for _, l := range in.Leases {
		if !l.Free && !l.Ended && !l.Blocked {
			out[l.Owner] += l.Weight
		}
	}
	return out
}

// F08: five busy shards and five idle ones on two workers.
func TestWeightsEvenOutThroughput(t *testing.T) {
	for _, free := range []bool{true, false} {
		in := look("A: a b c d e; B: f g h i j")
		in.Weights = true
		for i := range in.Leases {
			in.Leases[i].Free = free
			in.Leases[i].Weight = 10
			if i < 5 {
				in.Leases[i].Weight = 1000
			}
		}
		then := after(in)
		for w, load := range weights(then) {
			if even := 5050.0 / 2; math.Abs(load-even) > 0.2*even {
				t.Errorf("free %v: %s has %.0f, even is %.0f", free, w, load, even)
			}
		}
		if p := Make(then); !p.Empty() {
			t.Errorf("free %v: no rest: %+v", free, p)
		}
		if p := Make(look("A: a b c d e; B: f g h i j")); !p.Empty() {
			t.Errorf("by number there is nothing to do: %+v", p)
		}
	}
}

// Idle shards are spread too, and what is unknown counts as the average.
func TestWeightsOfIdleAndUnknownLeases(t *testing.T) {
	for _, w := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		in := look("A: ; B: ; -: a b c d e f g h")
		in.Weights = true
		for i := range in.Leases {
			in.Leases[i].Weight = w
		}
		active, _ := held(after(in))
		if got := counts(active); got != "A4 B4" {
			t.Errorf("weight %v: %s", w, got)
		}
	}
}

// What gains little is left alone.
func TestWeightsTolerate(t *testing.T) {
	for _, c := range []struct {
		name, look string
		weights    []float64
	}{
		{"loads within the tolerance", "A: a b c d; B: e f g", []float64{10, 10, 10, 1, 10, 10, 9}},
		{"a lease that weighs nearly the whole difference", "A: a b!; B:", []float64{100, 0}},
	} {
		in := look(c.look)
		in.Weights = true
		for i, w := range c.weights {
			in.Leases[i].Weight = w
		}
		if p := Make(in); !p.Empty() {
			t.Errorf("%s: %+v", c.name, p)
		}
	}
}

// With looks of any kind: close to even unless single leases are too heavy, and at rest after a few rounds.
func TestWeightsConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput(false, true).Draw(t, "look")
		in.Weights = true
		then := after(after(after(in)))
		if p := Make(then); !p.Empty() {
			t.Fatalf("no rest: %+v", p)
		}
		f := newFleet(then)
		heaviest, low, high := 0.0, math.Inf(1), 0.0
		for _, l := range f.leases {
			if !l.Blocked {
				heaviest = max(heaviest, l.weight)
			}
		}
		for _, w := range f.workers {
			low, high = min(low, w.load), max(high, w.load)
		}
		if high-low > heaviest+2*tolerance*f.average() {
			t.Fatalf("loads from %.1f to %.1f, the heaviest lease is %.1f", low, high, heaviest)
		}
	})
}
