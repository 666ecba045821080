package balance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shardwarden/shardwarden/core"
	"pgregory.net/rapid"
)

func key(i int) core.LeaseKey {
	return core.LeaseKey{Stream: "s", Shard: core.ShardID(fmt.Sprintf("shard-%03d", i))}
}
func name(i int) core.WorkerID { return core.WorkerID(fmt.Sprintf("w%d", i)) }

// anyInput draws a look: owners present, dead (free) or about to stop; leases asked for, waiting for a parent, ended, in cool-down; caps.
func anyInput(caps, still bool) *rapid.Generator[Input] {
	return rapid.Custom(func(t *rapid.T) Input {
		in := Input{Seed: rapid.Uint64().Draw(t, "seed")}
		m := rapid.IntRange(1, 9).Draw(t, "workers")
		for i := range m {
			w := Worker{ID: name(i)}
			if caps {
				w.Cap = rapid.IntRange(0, 8).Draw(t, "cap")
			}
			in.Workers = append(in.Workers, w)
		}
		room := make([]int, m)
		for i := range rapid.IntRange(0, 40).Draw(t, "leases") {
			l := Lease{Key: key(i), Movable: true, Weight: float64(rapid.SampledFrom([]int{-1, 0, 1, 1, 2, 3, 50}).Draw(t, "weight"))}
			o := rapid.IntRange(-3, m-1).Draw(t, "owner")
			if o >= 0 && in.Workers[o].Cap > 0 && room[o] >= in.Workers[o].Cap {
				o = -1 // nobody holds more than its cap, as long as all keep to the plan
			}
			switch {
			case o == -3: // came back under its id
				l.Owner, l.Free = name(i%m), true
			case o == -2:
				l.Owner, l.Free = "dead", true
			case o == -1:
				l.Free = true
			default:
				l.Owner = name(o)
				room[o]++
			}
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0:
				l.Ended = true
			case 1, 2:
				l.Blocked = true
			}
			if !still {
				l.Movable = rapid.Bool().Draw(t, "movable")
				switch rapid.IntRange(0, 9).Draw(t, "asked") {
				case 0:
					l.Next = "dead"
				case 1:
					if n := rapid.IntRange(0, m-1).Draw(t, "asker"); in.Workers[n].Cap == 0 {
						l.Next = name(n)
					}
				case 2:
					if !l.Free {
						l.Owner = "stopping"
					}
				}
				if l.Free {
					l.Waited = rapid.IntRange(0, 3).Draw(t, "waited")
				}
			}
			in.Leases = append(in.Leases, l)
		}
		return in
	})
}

// Against the dumb oracle: as even, with as few moves, and as much served, in one round.
func TestAsEvenAsTheOracleByAsFewMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput(rapid.Bool().Draw(t, "caps"), true).Draw(t, "look")
		p := Make(in)
		active, _ := held(apply(in, p))
		loads, asked, unserved := dumb(in)
		if got := sorted(active); !slices.Equal(got, loads) {
			t.Fatalf("loads %v after the plan, the oracle has %v\n%+v", got, loads, p)
		}
		if len(p.Ask) != asked || len(p.Unserved) != unserved {
			t.Fatalf("asks for %d and leaves %d unserved, the oracle %d and %d\n%+v", len(p.Ask), len(p.Unserved), asked, unserved, p)
		}
	})
}

// What holds for every plan, whatever the look.
func TestEveryPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput(rapid.Bool().Draw(t, "caps"), false).Draw(t, "look")
		in.Weights = rapid.Bool().Draw(t, "weights")
		in.Budget = rapid.IntRange(0, 5).Draw(t, "budget")
		p := Make(in)

		shuffled := in
		shuffled.Leases, shuffled.Workers = slices.Clone(in.Leases), slices.Clone(in.Workers)
		rng := rand.New(rand.NewPCG(in.Seed, 1))
		rng.Shuffle(len(in.Leases), func(i, j int) {
			shuffled.Leases[i], shuffled.Leases[j] = shuffled.Leases[j], shuffled.Leases[i]
		})
		rng.Shuffle(len(in.Workers), func(i, j int) {
			shuffled.Workers[i], shuffled.Workers[j] = shuffled.Workers[j], shuffled.Workers[i]
		})
		if q := Make(shuffled); fmt.Sprint(p) != fmt.Sprint(q) {
			t.Fatalf("another plan for the same look in another order:\n%+v\n%+v", p, q)
		}

		rows := map[core.LeaseKey]Lease{}
		for _, l := range in.Leases {
			rows[l.Key] = l
		}
		present := func(id core.WorkerID) bool {
			return slices.ContainsFunc(in.Workers, func(w Worker) bool { return w.ID == id })
		}
		before, beforeBlocked := held(in)
		seen := map[core.LeaseKey]int{}
		for _, m := range p.Take {
			if l := rows[m.Lease]; !l.Free || l.Ended || m.From != l.Owner || !present(m.To) {
				t.Fatalf("takes %+v by %+v", l, m)
			}
			seen[m.Lease]++
		}
		for _, m := range p.Ask {
			l := rows[m.Lease]
			if l.Free || l.Ended || l.Blocked || !l.Movable || m.From != l.Owner || m.To == m.From || !present(m.To) || !present(m.From) {
				t.Fatalf("asks for %+v by %+v", l, m)
			}
			if present(l.Next) && l.Next != l.Owner {
				t.Fatalf("asks for %+v, which a worker that is present has asked for", l)
			}
			if seen[m.Lease]++; seen[m.Lease] > 1 {
				t.Fatalf("asks twice for %+v", l)
			}
		}
		for _, m := range p.Drop {
			if l := rows[m.Lease]; l.Free || l.Ended || !l.Blocked || m.From != l.Owner || m.To != core.Nobody {
				t.Fatalf("drops %+v by %+v", l, m)
			}
		}
		if in.Budget > 0 && len(p.Ask) > in.Budget {
			t.Fatalf("asks for %d, the budget is %d", len(p.Ask), in.Budget)
		}
		served := 0
		for _, l := range in.Leases {
			if l.Free && !l.Ended && !l.Blocked && seen[l.Key] == 0 {
				served--
				if !slices.Contains(p.Unserved, l.Key) {
					t.Fatalf("free, can be read, and nobody takes it: %+v", l)
				}
			}
			if most := 1 << max(l.Waited, 0); seen[l.Key] > most {
				t.Fatalf("%d workers take %+v, at most %d may", seen[l.Key], l, most)
			}
		}
		if served != -len(p.Unserved) {
			t.Fatalf("unserved are %d, named %d", -served, len(p.Unserved))
		}

		then := apply(in, p)
		now, nowBlocked := held(then)
		for _, w := range in.Workers {
			if w.Cap == 0 {
				continue
			}
			was := before[w.ID] + beforeBlocked[w.ID]
			if n := now[w.ID] + nowBlocked[w.ID]; n > max(w.Cap, was) || now[w.ID] > max(w.Cap, before[w.ID]) {
				t.Fatalf("%s holds %d and %d that wait, its cap is %d, before it held %d", w.ID, now[w.ID], nowBlocked[w.ID], w.Cap, was)
			}
			if len(p.Unserved) > 0 && now[w.ID] < w.Cap {
				t.Fatalf("%v unserved while %s holds %d of %d", p.Unserved, w.ID, now[w.ID], w.Cap)
			}
		}
		if len(p.Unserved) > 0 && slices.ContainsFunc(in.Workers, func(w Worker) bool { return w.Cap == 0 }) {
			t.Fatalf("%v unserved, and a worker has no cap", p.Unserved)
		}

		var parts Plan
		for _, w := range in.Workers {
			q := p.For(w.ID)
			parts.Take, parts.Ask, parts.Drop = append(parts.Take, q.Take...), append(parts.Ask, q.Ask...), append(parts.Drop, q.Drop...)
		}
		// Drops of a lease asked for by its holder but owned by another are that owner's.
		if len(parts.Take) != len(p.Take) || len(parts.Ask) != len(p.Ask) || len(parts.Drop) != len(p.Drop) {
			t.Fatalf("the parts of all workers are not the plan: %+v of %+v", parts, p)
		}

		// It settles.
		for range 12 {
			then = after(then)
		}
		if q := Make(then); len(q.Take)+len(q.Ask)+len(q.Drop) > 0 && (in.Budget == 0 || len(q.Ask) == 0) {
			t.Fatalf("no rest after 12 rounds: %+v", q)
		}
	})
}

// Leases that wait for a parent are spread by themselves.
func TestBlockedAreSpreadEvenly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput(false, true).Draw(t, "look")
		for i := range in.Leases {
			if in.Leases[i].Blocked {
				in.Leases[i].Owner, in.Leases[i].Free = core.Nobody, true
			}
		}
		active, blocked := held(after(in))
		for what, n := range map[string][]int{"can be read": sorted(active), "wait": sorted(blocked)} {
			if n[len(n)-1]-n[0] > 1 {
				t.Fatalf("leases that %s: %v", what, n)
			}
		}
	})
}
