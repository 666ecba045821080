package balance

import (
	"cmp"
	"slices"

	"github.com/shardwarden/shardwarden/core"
)

// Worker is a worker that is present.
type Worker struct {
	ID  core.WorkerID
	Cap int // the most leases it holds; 0: no bound
}

// Lease is what counts of a lease. The zero value of the flags is a lease that is held and stays where it is.
type Lease struct {
	Key   core.LeaseKey
	Owner core.WorkerID // as the row has it, also when that worker is dead
	Next  core.WorkerID // who asked for it
	// Free: nobody owns it, or its owner is dead.
	Free bool
	// Waited: how many earlier looks in a row found it free. A worker counts its own looks.
	Waited int
	// Movable: it may be asked for (no cool-down since its last move).
	Movable bool
	// Blocked: it waits for a parent. It is never asked for.
	Blocked bool
	// Ended: it was read to its end. It counts nowhere.
	Ended bool
	// Weight is the load it makes, in any unit (KB/s); negative: unknown, then it counts as the average of those known. Only with
	// Input.Weights.
	Weight float64
}

// Input is one look. It is not changed.
type Input struct {
	Leases []Lease
	// Workers are those present, the one that plans included. A live owner that is not among them (it is about to stop) gets
	// nothing, and what it holds is left alone.
	Workers []Worker
	// Seed settles ties. All workers of a fleet use the same.
	Seed uint64
	// Budget bounds the leases asked for, over the whole fleet; 0: the whole need. Free leases have no bound.
	Budget int
	// Weights: even out Lease.Weight instead of the number of leases.
	Weights bool
}

// Move is a lease and where it goes.
type Move struct {
	Lease core.LeaseKey
	From  core.WorkerID // the owner in the row; may be dead, or Nobody
	To    core.WorkerID // Nobody: released
}

// Plan is what the fleet should do. Its moves stand in order of importance.
type Plan struct {
	// Take: a free lease, and who takes it. One that waited is named again for each further worker that may have it.
	Take []Move
	// Ask: a lease of a live worker, and who asks for it.
	Ask []Move
	// Drop: a lease that waits for a parent, released by its holder so that one that can be read fits under the cap.
	Drop []Move
	// Unserved: leases that can be read and that nobody may hold because of caps, in order of their keys.
	Unserved []core.LeaseKey
}

// For is the part of a worker: what it takes, asks for and drops. Unserved stays.
func (p Plan) For(me core.WorkerID) Plan {
	pick := func(all []Move, mine func(Move) bool) []Move {
		var out []Move
		for _, m := range all {
			if mine(m) {
				out = append(out, m)
			}
		}
		return out
	}
	to := func(m Move) bool { return m.To == me }
	return Plan{Take: pick(p.Take, to), Ask: pick(p.Ask, to), Drop: pick(p.Drop, func(m Move) bool { return m.From == me }), Unserved: p.Unserved}
}

// Empty reports whether there is nothing to do.
func (p Plan) Empty() bool { return len(p.Take)+len(p.Ask)+len(p.Drop) == 0 }

// Make makes the plan. It depends on what is in the look and the seed, not on any order.
func Make(in Input) Plan {
	f := newFleet(in)
	if len(f.workers) == 0 {
		return Plan{Unserved: f.unserved(f.free)}
	}
	n := len(f.free) + len(f.blocked)
	p := Plan{Take: make([]Move, 0, n)}
	f.taken = make([]*lease, 0, n)
	var left []*lease
	if in.Weights {
		left = f.takeByWeight(&p)
		f.askByWeight(&p)
	} else {
		f.share()
		left = f.takeShares(&p)
		f.askForShares(&p)
	}
	p.Unserved = f.unserved(left)
	f.takeBlocked(&p)
	f.dropBlocked(&p)
	f.takeWaited(&p)
	return p
}

// fleet is a look with workers as numbers.
type fleet struct {
	in      Input
	index   map[core.WorkerID]int32
	workers []worker
	leases  []lease
	free    []*lease // can be read, in order of their hash
	blocked []*lease // free and blocked
	taken   []*lease // beside Plan.Take
	// stopping are the leases that can be read of live owners who are not present.
	stopping int
	ended    map[core.LeaseKey]bool
	mean     float64
}

type worker struct {
	id    core.WorkerID
	hash  uint64
	cap   int
	share int
	// What it holds, and gets by the plan.
	active, blocked int
	load            float64 // of the active, by weight
}

// room: one more lease that can be read fits, blocked ones yielding.
func (w *worker) room() bool { return w.active < w.cap }

// fits: one more lease of any kind fits.
func (w *worker) fits() bool { return w.active+w.blocked < w.cap }

type lease struct {
	*Lease
	hash   uint64
	owner  int32 // -1 if not present
	holder int32 // worker it counts for; -1 free, or neither the owner nor who asked is present
	weight float64
}

// moving: it counts for another than its owner already.
func (l *lease) moving() bool { return l.holder != l.owner }

const noCap = int(^uint(0) >> 1)

func newFleet(in Input) *fleet {
	f := &fleet{in: in, index: make(map[core.WorkerID]int32, len(in.Workers)), workers: make([]worker, 0, len(in.Workers)), leases: make([]lease, 0, len(in.Leases))}
	for _, w := range in.Workers {
		if _, twice := f.index[w.ID]; twice || w.ID == core.Nobody {
			continue
		}
		f.workers = append(f.workers, worker{id: w.ID, hash: mix(hashString(in.Seed, string(w.ID))), cap: cmp.Or(w.Cap, noCap)})
		f.index[w.ID] = 0
	}
	slices.SortFunc(f.workers, func(a, b worker) int { return cmp.Compare(a.id, b.id) })
	for i := range f.workers {
		f.index[f.workers[i].id] = int32(i)
	}
	for i := range in.Leases {
		if l := &in.Leases[i]; !l.Ended {
			f.leases = append(f.leases, lease{Lease: l, hash: f.hash(l.Key), owner: f.find(l.Owner), holder: -1})
		} else {
			if f.ended == nil {
				f.ended = map[core.LeaseKey]bool{}
			}
			f.ended[l.Key] = true
		}
	}
	// One order for all: that of the input must not matter.
	slices.SortFunc(f.leases, func(a, b lease) int {
		if a.hash != b.hash {
			return cmp.Compare(a.hash, b.hash)
		}
		return compareKeys(a.Key, b.Key)
	})
	if in.Weights {
		f.weigh()
	}
	for i := range f.leases {
		l := &f.leases[i]
		if l.Free {
			if l.Blocked {
				f.blocked = append(f.blocked, l)
			} else {
				f.free = append(f.free, l)
			}
			continue
		}
		if l.holder = f.find(l.Next); l.holder < 0 {
			l.holder = l.owner
		}
		switch {
		case l.holder >= 0:
			f.give(l, l.holder)
		case !l.Blocked:
			f.stopping++
		}
	}
	return f
}

// find is a worker's number, -1 if it is not present.
func (f *fleet) find(id core.WorkerID) int32 {
	if id != core.Nobody {
		if i, ok := f.index[id]; ok {
			return i
		}
	}
	return -1
}

// give counts a lease for a worker.
func (f *fleet) give(l *lease, to int32) {
	w := &f.workers[to]
	if l.Blocked {
		w.blocked++
		return
	}
	w.active++
	w.load += l.weight
}

// claimant is the worker that a free lease goes to before all others: the owner come back, or who asked for it; -1 none.
func (f *fleet) claimant(l *lease) int32 {
	if l.owner >= 0 {
		return l.owner
	}
	return f.find(l.Next)
}

// nearest is the candidate that the hash gives the lease to, -1 of none.
func (f *fleet) nearest(l *lease, candidates []int32) int32 {
	best, most := int32(-1), uint64(0)
	for _, i := range candidates {
		if h := mix(f.workers[i].hash ^ l.hash); best < 0 || h > most {
			best, most = i, h
		}
	}
	return best
}

func (f *fleet) hash(k core.LeaseKey) uint64 {
	return mix(hashString(hashString(f.in.Seed, string(k.Stream)), string(k.Shard)))
}

func (f *fleet) all() []int32 {
	out := make([]int32, len(f.workers))
	for i := range out {
		out[i] = int32(i)
	}
	return out
}

func (f *fleet) take(p *Plan, l *lease, to int32) {
	f.give(l, to)
	f.taken = append(f.taken, l)
	p.Take = append(p.Take, Move{l.Key, l.Owner, f.workers[to].id})
}

func (f *fleet) unserved(left []*lease) []core.LeaseKey {
	var out []core.LeaseKey
	for _, l := range left {
		out = append(out, l.Key)
	}
	slices.SortFunc(out, compareKeys)
	return out
}

func compareKeys(a, b core.LeaseKey) int {
	if a.Stream != b.Stream {
		return cmp.Compare(a.Stream, b.Stream)
	}
	return cmp.Compare(a.Shard, b.Shard)
}
