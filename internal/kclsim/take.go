package kclsim

import (
	"context"
	"slices"
	"strings"
	"time"
)

// taker is what DynamoDBLeaseTaker remembers between its scans.
type taker struct {
	seen map[string]sighting
}

// sighting is when a lease's counter was last seen to move. The zero time: never, it had no owner when it was first seen.
type sighting struct {
	counter int64
	at      time.Time
}

// sight notes what a scan shows (3.2 step 1, 3.3 step 5).
func sight(former map[string]sighting, leases []lease, now time.Time, actual func(*lease) string) map[string]sighting {
	seen := make(map[string]sighting, len(leases))
	for i := range leases {
		l := &leases[i]
		old, known := former[l.key]
		switch {
		case known && old.counter == l.counter:
			seen[l.key] = old
		case !known && actual(l) == "":
			seen[l.key] = sighting{counter: l.counter}
		default:
			seen[l.key] = sighting{l.counter, now}
		}
	}
	return seen
}

// takeOnce is one round of the taker.
func (w *Worker) takeOnce(ctx context.Context) {
	began := time.Now()
	all, err := w.list(ctx)
	if err != nil {
		return
	}
	now := time.Now()
	w.taker.seen = sight(w.taker.seen, all, now, func(l *lease) string { return l.owner })
	age := func(l *lease) time.Duration { return now.Sub(w.taker.seen[l.key].at) }
	var free, old []lease
	load := map[string]int{w.s.ID: 0}
	owned := map[string][]lease{}
	for _, l := range all {
		if l.owner == "" || age(&l) > w.s.Failover {
			free = append(free, l)
			if age(&l) > 3*w.s.Failover {
				old = append(old, l)
			}
			continue
		}
		load[l.owner]++
		owned[l.owner] = append(owned[l.owner], l)
	}
	most := w.s.MaxLeases
	if most == 0 {
		most = len(all)
	}
	mine := load[w.s.ID]
	take := func(from []lease, n int) {
		w.shuffle(from)
		for _, l := range from[:max(0, min(n, len(from)))] {
			w.takeLease(ctx, l)
		}
	}
	if len(old) > 0 { // enablePriorityLeaseAssignment
		take(old, most-mine)
		return
	}
	target := min(share(len(all), len(load)), most)
	need := target - mine
	if need <= 0 {
		return
	}
	if len(free) > 0 {
		take(free, need)
		return
	}
	victim := ""
	for id, n := range load {
		if id != w.s.ID && (victim == "" || n > load[victim] || n == load[victim] && id < victim) {
			victim = id
		}
	}
	if victim == "" {
		return
	}
	n := min(need, load[victim]-target)
	if n <= 0 {
		if n = 0; need > 1 {
			n = 1
		}
	}
	n = min(n, 1) // maxLeasesToStealAtOneTime
	steal := owned[victim]
	if time.Since(began) > w.s.renewEvery()/2 { // their counters have moved since
		for i := range steal {
			if l, err := w.lease(ctx, steal[i].key); err == nil && l != nil {
				steal[i] = *l
			}
		}
	}
	take(steal, n)
}

// share is how many leases a worker shall have (3.2 step 4).
func share(leases, workers int) int {
	if workers >= leases {
		return 1
	}
	return (leases + workers - 1) / workers
}

func (w *Worker) takeLease(ctx context.Context, l lease) {
	ok, err := w.take(ctx, &l)
	if err != nil || !ok {
		return
	}
	from := l.owner
	l.owner, l.checkpointOwner, l.counter = w.s.ID, "", l.counter+1
	w.mu.Lock()
	delete(w.held, l.key) // one that it had lost without knowing
	w.mu.Unlock()
	w.hold(l, "took from "+map[bool]string{true: "nobody", false: from}[from == ""])
}

func (w *Worker) shuffle(l []lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortFunc(l, func(a, b lease) int { return strings.Compare(a.key, b.key) }) // the seed shall say what is chosen
	w.rng.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
}
