package balance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shardwarden/shardwarden/core"
	"pgregory.net/rapid"
)

type snapshot struct {
	rows    []Lease
	writes  []int
	workers []Worker
}

// table is a lease table that a fleet works on by its plans, each worker by itself and from looks of its own, as old as they may be.
type table struct {
	rng     *rand.Rand
	rows    []Lease
	writes  []int // of each row: its counter
	workers []Worker
	looks   []snapshot // newest last
	last    map[core.WorkerID]int
	waited  map[core.WorkerID][]int
	sick    core.WorkerID // is present and does nothing

	moves, refused int
}

func newTable(seed uint64, n, m int) *table {
	t := &table{rng: rand.New(rand.NewPCG(seed, 2)), writes: make([]int, n), last: map[core.WorkerID]int{}, waited: map[core.WorkerID][]int{}}
	for i := range n {
		t.rows = append(t.rows, Lease{Key: key(i), Free: true, Movable: true})
	}
	for i := range m {
		t.workers = append(t.workers, Worker{ID: name(i)})
	}
	return t
}

// round lets each worker look and act once, in any order; with a chance it acts on an older look. Owners who are asked hand over at the end.
func (t *table) round(stale float64) {
	t.looks = append(t.looks, snapshot{slices.Clone(t.rows), slices.Clone(t.writes), slices.Clone(t.workers)})
	for _, i := range t.rng.Perm(len(t.workers)) {
		at := len(t.looks) - 1
		if t.rng.Float64() < stale {
			at = max(t.last[t.workers[i].ID], at-1-t.rng.IntN(2)) // nobody looks into its own past
		}
		fresh := at > t.last[t.workers[i].ID]
		t.last[t.workers[i].ID] = at
		if t.workers[i].ID != t.sick {
			t.act(t.workers[i], t.looks[at], fresh)
		}
	}
	for i := range t.rows {
		l := &t.rows[i]
		if l.Next != core.Nobody && !l.Free && t.present(l.Owner) {
			l.Owner, l.Next = l.Next, core.Nobody
			t.writes[i]++
			t.moves++
		}
	}
}

func (t *table) present(id core.WorkerID) bool {
	return slices.ContainsFunc(t.workers, func(w Worker) bool { return w.ID == id })
}

func (t *table) act(w Worker, s snapshot, fresh bool) {
	me, look, counts := w.ID, slices.Clone(s.rows), s.writes
	if !slices.Contains(s.workers, w) {
		s.workers = append(slices.Clone(s.workers), w)
	}
	if t.waited[me] == nil {
		t.waited[me] = make([]int, len(look))
		for i := range t.waited[me] {
			t.waited[me][i] = -1
		}
	}
	for i := range look {
		if w := &t.waited[me][i]; look[i].Free {
			if fresh {
				*w++
			}
			look[i].Waited = *w
		} else {
			*w = -1
		}
	}
	p := Make(Input{Leases: look, Workers: s.workers, Seed: 7}).For(me)
	for _, m := range append(p.Take, p.Ask...) {
		i := slices.IndexFunc(t.rows, func(l Lease) bool { return l.Key == m.Lease })
		l, seen := &t.rows[i], &look[i]
		switch {
		case l.Next == me || !l.Free && l.Owner == me: // it knows what it has written
		case seen.Free && counts[i] == t.writes[i]:
			l.Owner, l.Next, l.Free = me, core.Nobody, false
			t.writes[i]++
			t.moves++
		case !seen.Free && l.Owner == seen.Owner && l.Next == seen.Next && !l.Free:
			l.Next = me
		default:
			t.refused++
		}
	}
}

// leave removes a worker; its leases are free, its id still in the rows (it died) or not (it released them).
func (t *table) leave(id core.WorkerID, died bool) {
	t.workers = slices.DeleteFunc(t.workers, func(w Worker) bool { return w.ID == id })
	for i := range t.rows {
		if l := &t.rows[i]; l.Owner == id {
			l.Free, l.Next = true, core.Nobody
			if !died {
				l.Owner = core.Nobody
				t.writes[i]++
			}
		}
	}
}

// join announces a worker. It looks after that, never before.
func (t *table) join(id core.WorkerID) {
	t.workers = append(t.workers, Worker{ID: id})
	t.last[id] = len(t.looks)
}

func (t *table) loads() []int {
	active, _ := held(Input{Leases: t.rows, Workers: t.workers})
	return sorted(active)
}

func (t *table) even() bool {
	for _, l := range t.rows {
		if l.Free || l.Next != core.Nobody {
			return false
		}
	}
	n := t.loads()
	return n[len(n)-1]-n[0] <= 1
}

// F03: any number of shards and workers, joining one by one, with up to half of the looks old: within one, and then at rest for ever.
func TestConvergesAndThenRests(t *testing.T) {
	for n := range 41 {
		for m := 1; m <= 9; m++ {
			stale := float64((n+m)%6) / 10
			f := newTable(uint64(100*n+m), n, 1)
			f.round(stale)
			for i := 1; i < m; i++ {
				f.join(name(i))
				f.round(stale)
			}
			rounds := 0
			for ; !f.even(); rounds++ {
				if rounds == 12 {
					t.Fatalf("%d leases, %d workers, %.0f %% old looks: loads %v after %d rounds", n, m, 100*stale, f.loads(), rounds)
				}
				f.round(stale)
			}
			for range 3 { // old looks have passed
				f.round(0)
			}
			moves := f.moves
			for range 100 {
				f.round(stale)
			}
			if f.moves != moves || !f.even() {
				t.Fatalf("%d leases, %d workers: %d moves at rest, loads %v", n, m, f.moves-moves, f.loads())
			}
		}
	}
}

// With looks of now, one round is enough: everybody's part fits everybody else's.
func TestOneRoundAndNoCollision(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n, m := rapid.IntRange(0, 60).Draw(r, "leases"), rapid.IntRange(1, 9).Draw(r, "workers")
		f := newTable(rapid.Uint64().Draw(r, "seed"), n, 1)
		f.round(0)
		for i := 1; i < m; i++ {
			f.join(name(i))
		}
		dead := rapid.Bool().Draw(r, "first dies")
		if dead && m > 1 {
			f.leave(name(0), true)
		}
		before := f.moves
		f.round(0)
		if !f.even() || f.refused > 0 {
			r.Fatalf("%d leases, %d workers: loads %v, %d writes refused", n, m, f.loads(), f.refused)
		}
		if !dead && f.moves-before != n-share(n, m) {
			r.Fatalf("%d moves to spread %d leases of one worker over %d, want %d", f.moves-before, n, m, n-share(n, m))
		}
	})
}

func share(n, m int) int { return (n + m - 1) / m }

// F11: a worker is replaced by another, again and again: little moves, little is refused.
func TestReplacedWorkerMovesLittle(t *testing.T) {
	for _, died := range []bool{true, false} {
		for _, stale := range []float64{0, 0.3} {
			for _, size := range []struct{ n, m int }{{8, 4}, {10, 4}, {64, 5}, {7, 3}, {3, 5}} {
				t.Run(fmt.Sprintf("%d leases %d workers died %v stale %v", size.n, size.m, died, stale), func(t *testing.T) {
					const times = 20
					f := newTable(3, size.n, size.m)
					for range 4 {
						f.round(0)
					}
					f.refused = 0
					for i := range times {
						f.moves = 0
						f.leave(f.workers[f.rng.IntN(len(f.workers))].ID, died)
						f.join(name(100 + i))
						for range 4 {
							f.round(stale)
						}
						if limit := share(size.n, size.m) + 1; f.moves > limit {
							t.Fatalf("replacement %d moved %d leases, at most %d should", i, f.moves, limit)
						}
						if !f.even() {
							t.Fatalf("replacement %d: loads %v", i, f.loads())
						}
					}
					if limit := 2 * times; stale == 0 && f.refused > 0 || f.refused > limit {
						t.Errorf("%d writes refused in %d replacements", f.refused, times)
					}
				})
			}
		}
	}
}

// A worker that is present and takes nothing keeps nobody from reading what falls to it.
func TestFreeLeasesDoNotWaitForAWorkerThatTakesNothing(t *testing.T) {
	f := newTable(5, 40, 10)
	f.sick = name(4)
	f.round(0)
	if free := len(f.free()); free != 4 {
		t.Fatalf("%d free after one look, the sick worker's share is 4", free)
	}
	f.round(0)
	f.round(0)
	if free := f.free(); len(free) > 0 {
		t.Fatalf("%v free after three looks", free)
	}
	if f.refused > 4 {
		t.Errorf("%d writes refused for 4 leases: the fleet runs for the same rows", f.refused)
	}
}

func (t *table) free() (out []core.LeaseKey) {
	for _, l := range t.rows {
		if l.Free {
			out = append(out, l.Key)
		}
	}
	return out
}
