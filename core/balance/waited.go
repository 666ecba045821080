package balance

import (
	"cmp"
	"slices"
)

// mostExtra bounds what a plan grows by when a whole table stays free: the more leases wait, the fewer workers are named for each. Seven at
// least, so that it takes eight workers which are present and take nothing to hold up a lease.
const mostExtra = 50_000

// takeWaited names further workers for free leases that nobody took, whatever their shares: after n looks the next 2^n-1 by the hash.
func (f *fleet) takeWaited(p *Plan) {
	waiting := 0
	for _, l := range f.taken {
		if l.Waited > 0 {
			waiting++
		}
	}
	if waiting == 0 {
		return
	}
	type ranked struct {
		worker int32
		hash   uint64
	}
	bound := max(7, mostExtra/waiting)
	var best []ranked // of one lease, nearest first
	p.Take = slices.Grow(p.Take, waiting)
	for k, l := range f.taken {
		if l.Waited <= 0 {
			continue
		}
		n := min(1<<min(l.Waited, 30)-1, bound)
		best = best[:0]
		first := f.index[p.Take[k].To]
		for i := range f.workers {
			w := &f.workers[i]
			if int32(i) == first || !w.fits() {
				continue
			}
			r := ranked{int32(i), mix(w.hash ^ l.hash)}
			if len(best) == n {
				if r.hash <= best[n-1].hash {
					continue
				}
				best = best[:n-1]
			}
			at, _ := slices.BinarySearchFunc(best, r, func(a, b ranked) int { return cmp.Compare(b.hash, a.hash) })
			best = slices.Insert(best, at, r)
		}
		for _, r := range best {
			p.Take = append(p.Take, Move{l.Key, l.Owner, f.workers[r.worker].id})
		}
	}
}
