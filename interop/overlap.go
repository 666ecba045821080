package main

import (
	"fmt"
	"slices"
	"time"
)

// stay is what a worker did with a shard from when it began to read it until it read it no more.
type stay struct {
	worker, shard string
	first         delivery  // its first record
	busy          time.Time // the latest moment at which it surely was at a record of the shard
}

// holds numbers the holds of each worker on each shard, by the marks with which it began them, and returns what it did during each. Marks of one
// stream with the records (a worker's pipe) have an index; those read from elsewhere have -1 and are placed by time.
func holds(ds, marks []delivery) []stay {
	type source struct{ worker, shard string }
	begins, ends := map[source][]delivery{}, map[source][]delivery{}
	for _, m := range marks {
		s := source{m.worker, m.shard}
		switch m.mark {
		case began:
			begins[s] = append(begins[s], m)
		case batchEnd:
			ends[s] = append(ends[s], m)
		}
	}
	at := func(s source, d delivery) (hold int) {
		for _, b := range begins[s] {
			if b.index >= 0 && b.index < d.index || b.index < 0 && !b.before.After(d.before) {
				hold++
			}
		}
		return max(0, hold-1)
	}
	type one struct {
		source
		hold int
	}
	found := map[one]*stay{}
	var order []one
	for i := range ds {
		d := &ds[i]
		s := source{d.worker, d.shard}
		d.hold = at(s, *d)
		k := one{s, d.hold}
		if found[k] == nil {
			found[k] = &stay{worker: d.worker, shard: d.shard, first: *d}
			order = append(order, k)
		}
		if d.after.After(found[k].busy) {
			found[k].busy = d.after
		}
	}
	for s, list := range ends {
		for _, e := range list {
			if st := found[one{s, at(s, e)}]; st != nil && e.after.After(st.busy) {
				st.busy = e.after
			}
		}
	}
	var out []stay
	for _, k := range order {
		out = append(out, *found[k])
	}
	return out
}

// overlap is a time in which two workers were at a shard: from began on with its first record, while from was not done.
type overlap struct {
	shard, from, to string
	at              time.Time
	long            time.Duration
}

func (o overlap) String() string {
	return fmt.Sprintf("%s by %s for %.2f s after %s had begun", o.shard, o.from, o.long.Seconds(), o.to)
}

// overlaps finds those that are certain: it goes by what the workers had surely written, and when.
func overlaps(stays []stay) []overlap {
	byShard := map[string][]stay{}
	for _, s := range stays {
		byShard[s.shard] = append(byShard[s.shard], s)
	}
	var out []overlap
	for shard, list := range byShard {
		slices.SortStableFunc(list, func(a, b stay) int { return a.first.before.Compare(b.first.before) })
		for i, a := range list {
			for _, b := range list[i+1:] {
				if long := a.busy.Sub(b.first.before); a.worker != b.worker && long > 0 {
					out = append(out, overlap{shard, a.worker, b.worker, b.first.before, long})
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b overlap) int { return a.at.Compare(b.at) })
	return out
}

// judgeOverlaps complains of those that are longer than the window of the move allows.
func (v *verdict) judgeOverlaps(found []overlap, window func(overlap) time.Duration) {
	var bad []string
	for _, o := range found {
		v.overlap = max(v.overlap, o.long)
		if w := window(o); o.long > w {
			bad = append(bad, fmt.Sprintf("%s, %v is allowed", o, w))
		}
	}
	v.complain("times in which two workers were at one shard", bad)
}
