package balance

// takeBlocked spreads free leases that wait for a parent by their own number, where caps leave room.
func (f *fleet) takeBlocked(p *Plan) {
	candidates := make([]int32, 0, len(f.workers))
	for _, l := range f.blocked {
		if i := f.claimant(l); i >= 0 && f.workers[i].fits() {
			f.take(p, l, i)
			continue
		}
		candidates = f.least(candidates[:0], -1, func(w *worker) float64 { return float64(w.blocked) })
		if i := f.nearest(l, candidates); i >= 0 {
			f.take(p, l, i)
		}
	}
}

// dropBlocked makes room under caps for leases that can be read.
func (f *fleet) dropBlocked(p *Plan) {
	over := make([]int, len(f.workers))
	for i := range f.workers {
		over[i] = f.workers[i].active + f.workers[i].blocked - f.workers[i].cap
	}
	for i := range f.leases {
		l := &f.leases[i]
		if l.holder < 0 || !l.Blocked || l.moving() || over[l.holder] <= 0 {
			continue
		}
		over[l.holder]--
		p.Drop = append(p.Drop, Move{Lease: l.Key, From: l.Owner})
	}
}
