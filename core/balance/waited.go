package balance

import "slices"

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
	bound := max(7, mostExtra/waiting)
	further := func(l *lease) int { return min(1<<min(max(l.Waited, 0), 30)-1, bound) }
	type ranked struct {
		worker int32
		hash   uint64
	}
	// All pairs of leases and workers are looked at: what is read for each stands close together.
	fit := make([]ranked, 0, len(f.workers))
	for i := range f.workers {
		if w := &f.workers[i]; w.fits() {
			fit = append(fit, ranked{int32(i), w.hash})
		}
	}
	more := 0
	for _, l := range f.taken {
		more += min(further(l), len(fit))
	}
	p.Take = slices.Grow(p.Take, more)
	var best []ranked // of one lease, nearest first
	for k, l := range f.taken {
		n := further(l)
		if n == 0 {
			continue
		}
		best = best[:0]
		first, least := f.index[p.Take[k].To], uint64(0)
		for _, w := range fit {
			r := ranked{w.worker, mix(w.hash ^ l.hash)}
			if r.hash <= least && len(best) == n || r.worker == first {
				continue
			}
			if len(best) == n {
				best = best[:n-1]
			}
			best = append(best, r)
			for i := len(best) - 1; i > 0 && best[i-1].hash < r.hash; i-- {
				best[i-1], best[i] = r, best[i-1]
			}
			least = best[len(best)-1].hash
		}
		for _, r := range best {
			p.Take = append(p.Take, Move{l.Key, l.Owner, f.workers[r.worker].id})
		}
	}
}
