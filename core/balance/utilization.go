package balance

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/shardwarden/shardwarden/core"
)

// Utilization is the rule by which the KCL 3 evens out what workers are busy with rather than how many leases they have
// (WORKER_UTILIZATION_AWARE, its default; docs/reference/kcl.md 3.3). It is for one who plans for all: it needs every worker's figures, and
// stops short of even on purpose.
type Utilization struct {
	// Usage is how busy each worker is, by figure ("cpu"). A worker without figures counts by the throughput of its leases.
	Usage map[core.WorkerID]map[string]Usage
	// Balance: leases of live workers are moved too. The KCL does so in every third of its passes, a minute apart.
	Balance bool
	// Threshold is how far from the average of all a worker may be, in percent; 0: 10.
	Threshold float64
	// Dampening is which part of what is too much is moved at once, in percent; 0: 60.
	Dampening float64
	// MaxThroughput bounds the throughput of one worker, in KB/s; 0: no bound.
	MaxThroughput float64
	// NoOvershoot: where every lease is more than what should move, none is. Else the smallest is.
	NoOvershoot bool
}

// Usage is a figure of a worker, in percent, and the most it may be; Limit 0 is 100.
type Usage struct{ Value, Limit float64 }

// byThroughput is the figure of workers that have none of their own: their throughput, 100 being the average.
const byThroughput = "throughput"

// utilized is a worker with what the plan makes of its figures.
type utilized struct {
	*worker
	usage      map[string]Usage
	throughput float64
}

type utilization struct {
	*fleet
	Utilization
	busy    []utilized
	average map[string]float64 // of each figure
	target  float64            // throughput of a worker, if all had the same
	share   float64            // leases of a worker, if all had as many
}

// MakeByUtilization makes the plan of that rule. Leases keep their weights in KB/s; Input.Weights need not be set. What is blocked is given to
// whoever has the fewest such, as by [Make].
func MakeByUtilization(in Input, rule Utilization) Plan {
	in.Weights = true
	f := newFleet(in)
	if len(f.workers) == 0 {
		return Plan{Unserved: f.unserved(f.free)}
	}
	u := newUtilization(f, rule)
	p := Plan{}
	left := u.assign(&p)
	if rule.Balance && len(left) == 0 {
		u.even(&p)
	}
	p.Unserved = f.unserved(left)
	f.takeBlocked(&p)
	return p
}

func newUtilization(f *fleet, rule Utilization) *utilization {
	rule.Threshold = cmp.Or(rule.Threshold, 10)
	rule.Dampening = cmp.Or(rule.Dampening, 60)
	u := &utilization{fleet: f, Utilization: rule, busy: make([]utilized, len(f.workers)), average: map[string]float64{}}
	total, known, n := 0.0, 0, 0
	for i := range f.leases {
		if l := &f.leases[i]; !l.Blocked {
			if n++; l.Weight >= 0 && !math.IsInf(l.Weight, 0) {
				total += l.Weight
				known++
			}
		}
	}
	mean := 0.0
	if known > 0 {
		mean = total / float64(known)
	}
	u.target = mean * float64(n) / float64(len(f.workers))
	u.share = float64(n) / float64(len(f.workers))
	for i := range f.workers {
		u.busy[i] = utilized{worker: &f.workers[i], usage: map[string]Usage{}}
	}
	for i := range f.leases {
		l := &f.leases[i]
		if l.weight = l.Weight; !(l.Weight >= 0 && !math.IsInf(l.Weight, 0)) {
			l.weight = mean
		}
		if l.holder >= 0 && !l.Blocked {
			u.busy[l.holder].throughput += l.weight
		}
	}
	// Figures that only some have compare nobody with the others: where one has none, all are compared by throughput too. By the KCL's rule such a
	// worker stays without leases beside busy ones that have figures.
	mixed := false
	for i := range f.workers {
		mixed = mixed || len(rule.Usage[f.workers[i].id]) == 0
	}
	sum, count := map[string]float64{}, map[string]float64{}
	for i := range u.busy {
		b := &u.busy[i]
		for name, v := range rule.Usage[b.id] {
			v.Limit = cmp.Or(v.Limit, 100)
			b.usage[name] = v
		}
		if mixed {
			v := Usage{Limit: 100}
			switch {
			case u.target > 0:
				v.Value = 100 * b.throughput / u.target
			case u.share > 0:
				v.Value = 100 * float64(b.active) / u.share
			}
			b.usage[byThroughput] = v
		}
		for name, v := range b.usage {
			sum[name] += v.Value
			count[name]++
		}
	}
	for name, s := range sum {
		u.average[name] = s / count[name]
	}
	return u
}

// room is how far below the average the busiest of a worker's figures is, as a part of it. An idle worker has more than any other; the KCL takes
// 1 for it, and so prefers one that is at a third of the average.
func (u *utilization) room(b *utilized) float64 {
	least := math.Inf(1)
	for name, v := range b.usage {
		r := math.MaxFloat64
		if v.Value > 0 {
			r = (u.average[name] - v.Value) / v.Value
		}
		least = min(least, r)
	}
	return least
}

// best is the worker with the most room that may have one more lease, -1 if none may; ties by the hash with the lease.
func (u *utilization) best(l *lease, but func(*utilized) bool) int32 {
	best, most := int32(-1), 0.0
	for i := range u.busy {
		b := &u.busy[i]
		if !b.worker.room() || u.MaxThroughput > 0 && b.throughput > u.MaxThroughput || but != nil && but(b) {
			continue
		}
		r := u.room(b)
		if best < 0 || r > most || r == most && mix(b.hash^l.hash) > mix(u.busy[best].hash^l.hash) {
			best, most = int32(i), r
		}
	}
	return best
}

// with are a worker's figures once it has one lease more.
func (u *utilization) with(b *utilized, l *lease) map[string]Usage {
	out := map[string]Usage{}
	for name, v := range b.usage {
		switch average := cmp.Or(u.average[name], v.Limit); {
		case u.target > 0:
			v.Value += l.weight * average / u.target
		case u.share > 0:
			v.Value += average / u.share
		}
		out[name] = v
	}
	return out
}

func (u *utilization) add(b *utilized, l *lease) {
	b.usage = u.with(b, l)
	b.throughput += l.weight
}

// assign gives what is free to who has the most room, the longest free first. There is no average that it must keep below.
func (u *utilization) assign(p *Plan) (left []*lease) {
	free := slices.Clone(u.free)
	slices.SortStableFunc(free, func(a, b *lease) int { return cmp.Compare(b.Waited, a.Waited) })
	for _, l := range free {
		to := u.best(l, nil)
		if to < 0 {
			left = append(left, l)
			continue
		}
		u.add(&u.busy[to], l)
		u.take(p, l, to)
	}
	return left
}

// even moves leases away from workers that are busier than the others, by the figure that asks for the most.
func (u *utilization) even(p *Plan) {
	var need float64
	var from map[int32]float64
	for _, name := range slices.Sorted(maps.Keys(u.average)) {
		donors, sum := u.donors(name)
		if from == nil && len(donors) > 0 || sum > need {
			need, from = sum, donors
		}
	}
	for _, i := range slices.Sorted(maps.Keys(from)) {
		budget := from[i]
		for _, l := range u.offers(i, budget) {
			to := u.best(l, func(b *utilized) bool { return b == &u.busy[i] || b.id == l.Owner })
			if to < 0 || u.over(&u.busy[to], l) {
				continue // a lighter one may do
			}
			u.add(&u.busy[to], l)
			u.ask(p, l, to)
		}
	}
}

// donors are the workers that should give something away by one figure, and how much throughput; none unless somebody is out of bounds.
func (u *utilization) donors(name string) (out map[int32]float64, sum float64) {
	average := u.average[name]
	upper, lower := average*(1+u.Threshold/100), average*(1-u.Threshold/100)
	out = map[int32]float64{}
	uneven, most := false, int32(-1)
	for i := range u.busy {
		v, ok := u.busy[i].usage[name]
		if !ok {
			continue
		}
		uneven = uneven || v.Value > upper || v.Value < lower || v.Value > v.Limit
		if v.Value >= upper && v.Value > average || v.Value > v.Limit {
			out[int32(i)] = 0
		}
		if v.Value > average && (most < 0 || v.Value > u.busy[most].usage[name].Value) {
			most = int32(i)
		}
	}
	if !uneven {
		return nil, 0
	}
	if len(out) == 0 && most >= 0 {
		out[most] = 0
	}
	for i := range out {
		b := &u.busy[i]
		v := b.usage[name].Value
		excess := max(v-average, v-b.usage[name].Limit)
		if v <= 0 || excess <= 0 {
			delete(out, i)
			continue
		}
		out[i] = b.throughput * excess / v * u.Dampening / 100
		sum += out[i]
	}
	return out, sum
}

// offers are the leases that a worker gives away, at most so much throughput.
func (u *utilization) offers(from int32, budget float64) (out []*lease) {
	var all []*lease
	for i := range u.leases {
		if l := &u.leases[i]; l.holder == from && !l.Blocked && l.Movable && !l.moving() {
			all = append(all, l)
		}
	}
	if len(all) == 0 || u.busy[from].active < 2 { // the only one would come back
		return nil
	}
	if u.busy[from].throughput <= 0 {
		return all[:1] // nothing tells them apart: one will do
	}
	left := budget
	for _, l := range all { // in order of their hash, which is as good as random
		if l.weight < left {
			out = append(out, l)
			left -= l.weight
		}
	}
	if len(out) == 0 && !u.NoOvershoot {
		out = append(out, slices.MinFunc(all, func(a, b *lease) int { return cmp.Compare(a.weight, b.weight) }))
	}
	return out
}

// over reports whether a worker would be busier than the average, or than it may be, with one lease more. One that has none may have one all the same:
// by the KCL's rule a few heavy shards stay together for ever.
func (u *utilization) over(b *utilized, l *lease) bool {
	if b.active == 0 {
		return false
	}
	for name, v := range u.with(b, l) {
		if v.Value > u.average[name] || v.Value > v.Limit {
			return true
		}
	}
	return false
}
