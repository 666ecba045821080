package balance

import "slices"

// takeWaited names further workers for free leases that nobody took, whatever their shares: after n looks the next 2^n-1 by the hash.
func (f *fleet) takeWaited(p *Plan) {
	var candidates []int32
	for k := range f.taken {
		l, m := f.taken[k], p.Take[k]
		if l.Waited <= 0 {
			continue
		}
		candidates = candidates[:0]
		for i := range f.workers {
			if w := &f.workers[i]; w.id != m.To && w.fits() {
				candidates = append(candidates, int32(i))
			}
		}
		for range 1<<min(l.Waited, 30) - 1 {
			i := f.nearest(l, candidates)
			if i < 0 {
				break
			}
			p.Take = append(p.Take, Move{l.Key, l.Owner, f.workers[i].id})
			candidates = slices.DeleteFunc(candidates, func(j int32) bool { return i == j })
		}
	}
}
