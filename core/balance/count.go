package balance

import (
	"cmp"
	"slices"
)

// share sets each worker's share: water poured into vessels as high as their caps.
func (f *fleet) share() {
	// What a worker about to stop still holds will come to the others: nobody is asked now for what comes by itself soon.
	total := len(f.free) + f.stopping
	for i := range f.workers {
		total += f.workers[i].active
	}
	byCap := make([]*worker, len(f.workers))
	for i := range byCap {
		byCap[i] = &f.workers[i]
	}
	slices.SortFunc(byCap, func(a, b *worker) int { return cmp.Compare(a.cap, b.cap) })
	// Those with small caps are full; the others share the rest.
	for len(byCap) > 0 && byCap[0].cap <= total/len(byCap) {
		byCap[0].share = byCap[0].cap
		total -= byCap[0].cap
		byCap = byCap[1:]
	}
	if len(byCap) == 0 {
		return
	}
	low, more := total/len(byCap), total%len(byCap)
	// One more for some: those who hold more already, since each of them saves a move; then those with a lease to come back to.
	claims := make([]int, len(f.workers))
	for _, l := range f.free {
		if i := f.claimant(l); i >= 0 {
			claims[i]++
		}
	}
	rank := func(w *worker) int {
		switch {
		case w.active > low:
			return 0
		case w.active+claims[f.index[w.id]] > low:
			return 1
		}
		return 2
	}
	slices.SortFunc(byCap, func(a, b *worker) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.hash, a.hash)) })
	for i, w := range byCap {
		w.share = low
		if i < more {
			w.share++
		}
	}
}

// below are the workers that hold less than their share.
func (f *fleet) below() []int32 {
	out := f.all()
	return slices.DeleteFunc(out, func(i int32) bool { return f.workers[i].active >= f.workers[i].share })
}

// takeShares gives out what is free, up to each share, and returns what is left.
func (f *fleet) takeShares(p *Plan) (left []*lease) {
	var rest []*lease
	for _, l := range f.free {
		if i := f.claimant(l); i >= 0 && f.workers[i].active < f.workers[i].share {
			f.take(p, l, i)
		} else {
			rest = append(rest, l)
		}
	}
	hungry := f.below()
	for _, l := range rest {
		i := f.nearest(l, hungry)
		if i < 0 {
			left = append(left, l)
			continue
		}
		f.take(p, l, i)
		if w := &f.workers[i]; w.active >= w.share {
			hungry = slices.DeleteFunc(hungry, func(j int32) bool { return i == j })
		}
	}
	return left
}

// askForShares moves what live workers hold beyond their share to those below theirs.
func (f *fleet) askForShares(p *Plan) {
	hungry := f.below()
	if len(hungry) == 0 {
		return
	}
	type offer struct {
		*lease
		excess int // how far its holder is above its share before this one goes
	}
	excess := make([]int, len(f.workers))
	for i := range f.workers {
		excess[i] = f.workers[i].active - f.workers[i].share
	}
	var offers []offer
	for i := range f.leases {
		l := &f.leases[i]
		if l.holder < 0 || l.Blocked || !l.Movable || l.moving() || excess[l.holder] <= 0 {
			continue
		}
		offers = append(offers, offer{l, excess[l.holder]})
		excess[l.holder]--
	}
	// Under a budget the fullest give first.
	slices.SortStableFunc(offers, func(a, b offer) int { return cmp.Compare(b.excess, a.excess) })
	for _, o := range offers {
		i := f.nearest(o.lease, hungry)
		if i < 0 || f.in.Budget > 0 && len(p.Ask) == f.in.Budget {
			return
		}
		f.ask(p, o.lease, i)
		if w := &f.workers[i]; w.active >= w.share {
			hungry = slices.DeleteFunc(hungry, func(j int32) bool { return i == j })
		}
	}
}

func (f *fleet) ask(p *Plan, l *lease, to int32) {
	from := &f.workers[l.holder]
	from.active--
	from.load -= l.weight
	f.give(l, to)
	p.Ask = append(p.Ask, Move{l.Key, from.id, f.workers[to].id})
	l.holder = to
}
