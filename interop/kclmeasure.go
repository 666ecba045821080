package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// measured are the shards of a fleet whose figures are taken, and how long it may take to come to rest, at the KCL's own timers.
const (
	measuredShards = 64
	resting        = 8 * time.Minute
	quiet          = 75 * time.Second // no lease moves for so long: three passes of Java's leader with balancing, and some
	takingOver     = 5 * time.Minute
)

// spreadScenario notes how a mixed fleet of two workers of the KCL and two of ours spreads its leases, and what they ask of DynamoDB once at rest, at
// the defaults of both.
func spreadScenario(ctx context.Context, r *runner, flags ...string) (string, error) {
	f, stop, err := measuredFleet(ctx, r, flags...)
	if err != nil {
		return "", err
	}
	defer func() { _ = stop() }() // what the producer says is in the journal
	if err := f.rest(ctx); err != nil {
		return "", err
	}
	return strings.Join(f.notes, "; "), f.countCalls(ctx)
}

// leadersScenario has a worker of ours in such a fleet stop in order while Java leads. Then Java's leader is killed; who leads then is killed too if it
// is one of ours.
func leadersScenario(ctx context.Context, r *runner) (string, error) {
	f, stop, err := measuredFleet(ctx, r)
	if err != nil {
		return "", err
	}
	defer func() { _ = stop() }() // what the producer says is in the journal
	if err := f.waitFor(ctx, "every worker has a tenth of the leases", func() (string, error) {
		owned, err := f.owned(ctx)
		for _, m := range f.workers {
			if len(owned[m.worker]) < measuredShards/10 {
				return fmt.Sprintf("%s has %d", m.worker, len(owned[m.worker])), err
			}
		}
		return "", err
	}); err != nil {
		return "", err
	}
	go2 := f.workers[3]
	if err := f.leaves(ctx, go2, func() error { return f.stop(ctx, go2) }); err != nil {
		return "", err
	}
	for range 2 {
		leader, err := f.leaderOf(ctx)
		if err != nil {
			return "", err
		}
		if err := f.leaves(ctx, leader, func() error { return f.killNow(ctx, leader) }); err != nil {
			return "", err
		}
		next, err := f.leaderOf(ctx)
		if err != nil || next.kind != goKind {
			return strings.Join(f.notes, "; "), err
		}
	}
	return strings.Join(f.notes, "; "), nil
}

// measuredFleet starts the four workers; the first of Java leads.
func measuredFleet(ctx context.Context, r *runner, flags ...string) (f *kclFleet, stop func() error, err error) {
	if f, err = newKCLFleet(ctx, r, pairing{version: latestKCL, first: javaKind, second: goKind}, measuredShards, stream); err != nil {
		return nil, nil, err
	}
	f.defaults, f.flags = true, flags
	if err := f.seed(ctx); err != nil {
		return nil, nil, err
	}
	stop = f.feed(ctx)
	r.onStop(func() { _ = stop() })
	for _, k := range []kind{javaKind, javaKind, goKind, goKind} {
		m, err := f.start(ctx, k)
		if err != nil {
			return nil, nil, err
		}
		if len(f.workers) > 1 {
			continue
		}
		if err := f.waitFor(ctx, m.worker+" leads and reads", func() (string, error) {
			leader, err := f.leader(ctx)
			if err != nil || leader == m.worker && f.j.of(m.worker) > 0 {
				return "", err
			}
			return fmt.Sprintf("%q leads", leader), nil
		}); err != nil {
			return nil, nil, err
		}
	}
	return f, stop, nil
}

// waitFor waits for something at the pace of the KCL's defaults.
func (f *kclFleet) waitFor(ctx context.Context, what string, ask func() (string, error)) error {
	began := time.Now()
	err := poll(ctx, takingOver, func() (string, error) {
		if err := f.j.health(); err != nil {
			return "", err
		}
		open, err := ask()
		if open != "" {
			open = what + ": " + open
		}
		return open, err
	})
	if err == nil {
		f.note("%s after %.1f s", what, time.Since(began).Seconds())
	}
	return err
}

// rest waits until every lease has an owner, every worker has some, and none has moved for a while; it notes the spread. Figures of a fleet that does not
// come to rest are worth having, too.
func (f *kclFleet) rest(ctx context.Context) error {
	began, since := time.Now(), time.Now()
	last := map[string][]string{}
	counts := map[string]int{}
	err := poll(ctx, 2*resting, func() (string, error) {
		if err := f.j.health(); err != nil {
			return "", err
		}
		owned, err := f.owned(ctx)
		if err != nil {
			return "", err
		}
		for _, keys := range owned {
			slices.Sort(keys)
		}
		if !maps.EqualFunc(owned, last, slices.Equal) {
			last, since = owned, time.Now()
		}
		clear(counts)
		for w, keys := range owned {
			counts[w] = len(keys)
		}
		moving := len(owned[""]) > 0 || len(owned) < len(f.workers) || time.Since(since) < quiet
		if moving && time.Since(began) < resting {
			return fmt.Sprintf("not at rest: %v", counts), nil
		}
		return "", nil
	})
	f.note("leases last moved after %.0f s: %v", since.Sub(began).Seconds(), counts)
	return err
}

// countCalls counts what each worker asks of DynamoDB for a minute.
func (f *kclFleet) countCalls(ctx context.Context) error {
	before := map[string]map[string]int{}
	for _, m := range f.workers {
		before[m.worker] = f.rec.counted(m.worker)
	}
	began := time.Now()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Minute):
	}
	owned, err := f.owned(ctx)
	if err != nil {
		return err
	}
	for _, m := range f.workers {
		var kinds []string
		calls := 0
		for call, n := range f.rec.counted(m.worker) {
			if n -= before[m.worker][call]; n > 0 {
				calls += n
				kinds = append(kinds, fmt.Sprintf("%s %d", call, n))
			}
		}
		slices.Sort(kinds)
		held := len(owned[m.worker])
		f.note("%s: %.1f calls a minute and held lease (%d leases: %s)", m.worker, float64(calls)/time.Since(began).Minutes()/float64(max(1, held)), held, strings.Join(kinds, ", "))
	}
	return nil
}

func (f *kclFleet) leaderOf(ctx context.Context) (*member, error) {
	leader, err := f.leader(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(f.workers, func(m *member) bool { return m.worker == leader })
	if i < 0 {
		return nil, fmt.Errorf("nobody of the fleet leads, but %q", leader)
	}
	return f.workers[i], nil
}

// leaves has m go, and notes how long it takes until another leads if m did, until the rows of its leases name workers that live, and until these
// deliver from its shards, of those that have records.
func (f *kclFleet) leaves(ctx context.Context, m *member, leave func() error) error {
	owned, err := f.owned(ctx)
	if err != nil {
		return err
	}
	leader, err := f.leader(ctx)
	if err != nil {
		return err
	}
	had := owned[m.worker]
	busy := map[string]bool{}
	for _, d := range f.j.deliveries() {
		busy[d.shard] = busy[d.shard] || slices.Contains(had, d.shard)
	}
	maps.DeleteFunc(busy, func(_ string, is bool) bool { return !is })
	seen := len(f.j.deliveries())
	at := time.Now()
	if err := leave(); err != nil {
		return err
	}
	how := map[bool]string{true: "stopped", false: "killed"}[m.stopped]
	if leader == m.worker {
		if err := f.newLeader(ctx, m, at); err != nil {
			return err
		}
	}
	named, read := map[string]time.Time{}, map[string]time.Time{}
	alive := func(worker string) bool {
		return slices.ContainsFunc(f.workers, func(w *member) bool { return w.worker == worker && !w.stopped && !w.killed.Load() })
	}
	if err := f.waitFor(ctx, fmt.Sprintf("%d leases of %s, which was %s, are read by others", len(had), m.worker, how), func() (string, error) {
		owned, err := f.owned(ctx)
		if err != nil {
			return "", err
		}
		for w, keys := range owned {
			for _, k := range keys {
				if slices.Contains(had, k) && alive(w) && named[k].IsZero() {
					named[k] = time.Now()
				}
			}
		}
		more := f.j.from(seen)
		seen += len(more)
		for _, d := range more {
			if busy[d.shard] && d.worker != m.worker && !d.before.Before(at) && read[d.shard].IsZero() {
				read[d.shard] = d.before
			}
		}
		if len(named) < len(had) || len(read) < len(busy) {
			return fmt.Sprintf("of %d leases %d name a worker that lives, of %d shards with records %d are read", len(had), len(named), len(busy), len(read)), nil
		}
		return "", nil
	}); err != nil {
		return err
	}
	slowest := func(times map[string]time.Time) float64 {
		last := at
		for _, t := range times {
			if t.After(last) {
				last = t
			}
		}
		return last.Sub(at).Seconds()
	}
	f.note("%s %s: rows name workers that live by %.1f s, all read by %.1f s", m.worker, how, slowest(named), slowest(read))
	return nil
}

// newLeader notes how long after at another leads than the one that is dead.
func (f *kclFleet) newLeader(ctx context.Context, dead *member, at time.Time) error {
	leader := ""
	if err := f.waitFor(ctx, "another leads than "+dead.worker, func() (string, error) {
		var err error
		if leader, err = f.leader(ctx); err != nil {
			return "", err
		}
		if leader == dead.worker || leader == "" {
			return "the lock still names " + dead.worker, nil
		}
		return "", nil
	}); err != nil {
		return err
	}
	f.note("%s leads %.1f s after %s was killed", leader, time.Since(at).Seconds(), dead.worker)
	return nil
}
