package balance

import (
	"cmp"
	"math"
	"slices"
)

const (
	// tolerance is how far loads may lie from their average: below it, a move costs more than it gains (the KCL's
	// reBalanceThresholdPercentage, 10).
	tolerance = 0.1
	// base is what a lease costs apart from its throughput, as a part of the average: a thousand idle shards are work too.
	base = 0.1
)

// weigh sets what each lease counts for.
func (f *fleet) weigh() {
	known := func(w float64) bool { return w >= 0 && !math.IsInf(w, 0) } // not NaN
	sum, n := 0.0, 0
	for i := range f.leases {
		if l := &f.leases[i]; !l.Blocked && known(l.Weight) {
			sum += l.Weight
			n++
		}
	}
	mean := 1.0
	if sum > 0 {
		mean = sum / float64(n)
	}
	for i := range f.leases {
		l := &f.leases[i]
		l.weight = mean * base
		switch {
		case !known(l.Weight):
			l.weight += mean
		case sum > 0:
			l.weight += l.Weight
		}
	}
	f.mean = mean
}

// average is the load that each worker would have.
func (f *fleet) average() float64 {
	var sum float64
	for i := range f.workers {
		sum += f.workers[i].load
	}
	for _, l := range f.free {
		sum += l.weight
	}
	return sum / float64(len(f.workers))
}

// takeByWeight gives the heaviest free lease to the least loaded worker, and so on, and returns what no cap leaves room for.
func (f *fleet) takeByWeight(p *Plan) (left []*lease) {
	average := f.average()
	byWeight := slices.Clone(f.free)
	slices.SortStableFunc(byWeight, func(a, b *lease) int { return cmp.Compare(b.weight, a.weight) })
	for _, l := range byWeight {
		to := f.claimant(l)
		if to < 0 || !f.workers[to].room() || f.workers[to].load >= average {
			to = f.lightest(l)
		}
		if to < 0 {
			left = append(left, l)
			continue
		}
		f.take(p, l, to)
	}
	return left
}

// lightest is the worker with the least load that has room, -1 if none has; ties by the hash with the lease.
func (f *fleet) lightest(l *lease) int32 {
	best := int32(-1)
	for i := range f.workers {
		w := &f.workers[i]
		if !w.room() {
			continue
		}
		if best >= 0 {
			b := &f.workers[best]
			if w.load > b.load || w.load == b.load && mix(w.hash^l.hash) <= mix(b.hash^l.hash) {
				continue
			}
		}
		best = int32(i)
	}
	return best
}

// askByWeight moves leases from the most to the least loaded worker while they differ by more than the tolerance allows and a move brings them
// closer.
func (f *fleet) askByWeight(p *Plan) {
	gap := 2 * tolerance * (f.average() - f.freeWeight()/float64(len(f.workers)))
	offers := make([][]*lease, len(f.workers))
	for i := range f.leases {
		if l := &f.leases[i]; l.holder >= 0 && !l.Blocked && l.Movable && !l.moving() {
			offers[l.holder] = append(offers[l.holder], l)
		}
	}
	for i := range offers {
		slices.SortStableFunc(offers[i], func(a, b *lease) int { return cmp.Compare(a.weight, b.weight) })
	}
	stuck := make([]bool, len(f.workers))
	for f.in.Budget <= 0 || len(p.Ask) < f.in.Budget {
		from := int32(-1)
		for i := range f.workers {
			if !stuck[i] && len(offers[i]) > 0 && (from < 0 || f.workers[i].load > f.workers[from].load) {
				from = int32(i)
			}
		}
		if from < 0 {
			return
		}
		// Any lease will do for the tie: the middle one.
		to := f.lightest(offers[from][len(offers[from])/2])
		if to < 0 || f.workers[from].load-f.workers[to].load <= gap {
			return
		}
		// The lease that brings them closest together. One that weighs nearly the whole difference would only turn it round.
		apart := f.workers[from].load - f.workers[to].load
		at := closest(offers[from], apart/2)
		for at >= 0 && offers[from][at].weight > apart-gap/2 {
			at--
		}
		if at < 0 {
			stuck[from] = true
			continue
		}
		l := offers[from][at]
		offers[from] = slices.Delete(offers[from], at, at+1)
		f.ask(p, l, to)
	}
}

func (f *fleet) freeWeight() (sum float64) {
	for _, l := range f.free {
		sum += l.weight
	}
	return sum
}

// closest is the place in sorted of the lease whose weight is closest to w; sorted is not empty.
func closest(sorted []*lease, w float64) int {
	i, _ := slices.BinarySearchFunc(sorted, w, func(l *lease, w float64) int { return cmp.Compare(l.weight, w) })
	if i == len(sorted) || i > 0 && w-sorted[i-1].weight <= sorted[i].weight-w {
		i--
	}
	return i
}
