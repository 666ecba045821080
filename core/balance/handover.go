package balance

import "github.com/shardwarden/shardwarden/core"

// LeastLoaded is whom to hand a lease to: the worker that asked for it, else the one with the least load that may hold one more. Not except, which
// gives it up. false: nobody, so release it.
func LeastLoaded(in Input, except core.WorkerID, key core.LeaseKey) (core.WorkerID, bool) {
	to, ok := Spread(in, except, []core.LeaseKey{key})[key]
	return to, ok
}

// Spread is whom to hand many leases to at once, as [LeastLoaded] for each, the loads growing with each. Leases that nobody may hold are not in
// it: release them. Leases that are not in the look count as one that can be read.
func Spread(in Input, except core.WorkerID, keys []core.LeaseKey) map[core.LeaseKey]core.WorkerID {
	f := newFleet(in)
	giver := f.find(except)
	wanted := make(map[core.LeaseKey]bool, len(keys))
	for _, k := range keys {
		wanted[k] = true
	}
	out := make(map[core.LeaseKey]core.WorkerID, len(keys))
	candidates := make([]int32, 0, len(f.workers))
	hand := func(l *lease) {
		to := f.find(l.Next)
		if to < 0 || to == giver || l.holder != to { // else it counts for the one who asked already
			candidates = f.least(candidates[:0], giver, func(w *worker) float64 {
				switch {
				case l.Blocked:
					return float64(w.blocked)
				case in.Weights:
					return w.load
				}
				return float64(w.active)
			})
			if to = f.nearest(l, candidates); to < 0 {
				return
			}
			f.give(l, to)
		}
		out[l.Key] = f.workers[to].id
	}
	// In the order of the hash, which is that of no list.
	for i := range f.leases {
		if l := &f.leases[i]; wanted[l.Key] {
			delete(wanted, l.Key)
			hand(l)
		}
	}
	for _, k := range keys {
		if wanted[k] && !f.ended[k] {
			delete(wanted, k)
			hand(&lease{Lease: &Lease{Key: k}, hash: f.hash(k), holder: -1, owner: -1, weight: f.mean})
		}
	}
	return out
}

// least are the workers, other than one, with the least of something that fit one more lease.
func (f *fleet) least(out []int32, except int32, of func(*worker) float64) []int32 {
	var best float64
	for i := range f.workers {
		w := &f.workers[i]
		if int32(i) == except || !w.fits() {
			continue
		}
		n := of(w)
		if len(out) > 0 && n > best {
			continue
		}
		if len(out) > 0 && n < best {
			out = out[:0]
		}
		best, out = n, append(out, int32(i))
	}
	return out
}
