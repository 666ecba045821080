package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// join has another join, and leases go to it while their handlers are at a batch: handed over in the KCL 3.x, taken in 2.x. It stops in order, in the
// middle of batches too; one more joins and is killed. The first has everything in between, and in the end.
func join(ctx context.Context, f *kclFleet) error {
	a, err := f.begin(ctx)
	if err != nil {
		return err
	}
	b, err := f.join(ctx, f.second, a)
	if err != nil {
		return err
	}
	if err := f.moved(ctx, a, b); err != nil {
		return err
	}
	if err := f.stopAndTake(ctx, b, a); err != nil {
		return err
	}
	if b, err = f.join(ctx, f.second, a); err != nil {
		return err
	}
	return f.killAndTake(ctx, b, a)
}

// succeed: one joins; the first, who leads, stops in order; another of the first kind joins; the one that leads now is killed.
func succeed(ctx context.Context, f *kclFleet) error {
	a, err := f.begin(ctx)
	if err != nil {
		return err
	}
	b, err := f.join(ctx, f.second, a)
	if err != nil {
		return err
	}
	if err := f.stopAndTake(ctx, a, b); err != nil {
		return err
	}
	if a, err = f.join(ctx, f.first, b); err != nil {
		return err
	}
	return f.killAndTake(ctx, b, a)
}

// reshard splits all shards of the first, so that it cannot read all children and keep to its share, and merges two shards, of different workers if
// there are such. Then a shard of the second is split, and the second killed as soon as the end of that is stored: the first reads the children.
func reshard(ctx context.Context, f *kclFleet) error {
	a, err := f.begin(ctx)
	if err != nil {
		return err
	}
	b, err := f.join(ctx, f.second, a)
	if err != nil {
		return err
	}
	if err := f.splitAllOf(ctx, a); err != nil {
		return err
	}
	if err := f.mergeTwo(ctx); err != nil {
		return err
	}
	return f.leaveChildren(ctx, b, a)
}

// leaveChildren splits a shard of m and kills m in the moment in which the end of that is stored. heir must read the children.
func (f *kclFleet) leaveChildren(ctx context.Context, m, heir *member) error {
	p := f.ps[0]
	var parent shard
	if err := f.until(ctx, m.worker+" owns an open shard", func(owned map[string][]string) string {
		shards, err := p.shards(ctx)
		if err != nil {
			return err.Error()
		}
		i := slices.IndexFunc(shards, func(s shard) bool { return !s.closed && slices.Contains(owned[m.worker], s.id) })
		if i < 0 {
			return "it owns none"
		}
		parent = shards[i]
		return ""
	}); err != nil {
		return err
	}
	dead := f.rec.killWhen(m, func(key string, row item) bool { return key == parent.id && row.str("checkpoint") == "SHARD_END" })
	if err := p.cut(ctx, parent); err != nil {
		return fmt.Errorf("split %s: %w", parent.id, err)
	}
	limit := time.NewTimer(stepTime)
	defer limit.Stop()
	select {
	case <-dead:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-limit.C:
		return fmt.Errorf("%s did not store the end of %s", m.worker, parent.id)
	}
	if err := f.noteKill(ctx, m); err != nil {
		return err
	}
	if m.kind == javaKind {
		if err := m.ever(ctx, m.worker+" ends "+parent.id, javaEnded); err != nil {
			return err
		}
	}
	if err := f.begun(ctx, parent.id); err != nil {
		return err
	}
	if err := f.inherits(ctx, heir); err != nil {
		return err
	}
	shards, err := p.shards(ctx)
	if err != nil {
		return err
	}
	first, last := map[string]string{}, map[string]string{}
	for _, d := range f.j.deliveries() {
		if first[d.shard] == "" {
			first[d.shard] = d.worker
		}
		last[d.shard] = d.worker
	}
	for _, s := range shards {
		if slices.Contains(s.parents, parent.id) && (last[parent.id] != m.worker || first[s.id] != heir.worker) {
			return fmt.Errorf("%s was read by %s, its child %s by %s; wanted were %s and %s", parent.id, last[parent.id], s.id, first[s.id], m.worker, heir.worker)
		}
	}
	f.note("%s ended by %s, which was killed then; its children read by %s", parent.id, m.worker, heir.worker)
	return nil
}

// splitAllOf splits the shards that m reads, and waits until all children are read.
func (f *kclFleet) splitAllOf(ctx context.Context, m *member) error {
	p := f.ps[0]
	shards, err := p.shards(ctx)
	if err != nil {
		return err
	}
	owned, err := f.owned(ctx)
	if err != nil {
		return err
	}
	shards = slices.DeleteFunc(shards, func(s shard) bool { return s.closed || !slices.Contains(owned[m.worker], s.id) })
	if len(shards) == 0 {
		return fmt.Errorf("%s owns no open shard: %v", m.worker, owned)
	}
	for _, s := range shards {
		if err := p.cut(ctx, s); err != nil {
			return fmt.Errorf("split %s: %w", s.id, err)
		}
	}
	began := time.Now()
	for _, s := range shards {
		if err := f.begun(ctx, s.id); err != nil {
			return err
		}
	}
	f.note("%d shards of %s split, children read after %.1f s", len(shards), m.worker, time.Since(began).Seconds())
	return nil
}

// begun waits until every child of the parent was delivered from.
func (f *kclFleet) begun(ctx context.Context, parent string) error {
	shards, err := f.ps[0].shards(ctx)
	if err != nil {
		return err
	}
	var open []string
	for _, s := range shards {
		if slices.Contains(s.parents, parent) {
			open = append(open, s.id)
		}
	}
	if len(open) == 0 {
		return fmt.Errorf("%s has no children", parent)
	}
	seen := 0
	return f.j.until(ctx, stepTime, fmt.Sprintf("%v read", open), func() bool {
		more := f.j.from(seen)
		seen += len(more)
		for _, d := range more {
			open = slices.DeleteFunc(open, func(id string) bool { return id == d.shard })
		}
		return len(open) == 0
	})
}

// mergeTwo merges two neighbours, of different workers if there are such, and waits until their child is read.
func (f *kclFleet) mergeTwo(ctx context.Context) error {
	p := f.ps[0]
	shards, err := p.shards(ctx)
	if err != nil {
		return err
	}
	owned, err := f.owned(ctx)
	if err != nil {
		return err
	}
	owner := map[string]string{}
	for w, keys := range owned {
		for _, k := range keys {
			owner[k] = w
		}
	}
	var pair []shard
	for _, a := range shards {
		for _, b := range shards {
			if neighbours(a, b) && (pair == nil || owner[a.id] != owner[b.id]) {
				pair = []shard{a, b}
			}
		}
	}
	if pair == nil {
		return errors.New("no two open shards are neighbours")
	}
	if err := p.join(ctx, pair[0], pair[1]); err != nil {
		return fmt.Errorf("merge %s and %s: %w", pair[0].id, pair[1].id, err)
	}
	f.note("merged %s of %s and %s of %s", pair[0].id, owner[pair[0].id], pair[1].id, owner[pair[1].id])
	return f.begun(ctx, pair[0].id)
}

// moved waits until a lease has gone from one to the other in the way of the fleet's regime, while from was at a batch; each Java worker's log must
// show its side.
func (f *kclFleet) moved(ctx context.Context, from, to *member) error {
	how := "handed over"
	if !f.led() {
		how = "taken"
	}
	what := fmt.Sprintf("a lease of %s %s to %s in the middle of a batch", from.worker, how, to.worker)
	began := time.Now()
	var seen move
	err := poll(ctx, stepTime, func() (string, error) {
		if err := f.j.health(); err != nil {
			return "", err
		}
		rows, err := f.rec.written()
		if err != nil {
			return "", err
		}
		marks := f.j.marked()
		for _, m := range moves(rows) {
			if m.from == from.worker && m.to == to.worker && m.given == f.led() && busyAt(marks, m.from, f.shardOf(m.key), told(rows[m.key], m), f.slow) {
				seen = m
				return "", nil
			}
		}
		return what + ": not seen", nil
	})
	if err != nil {
		return err
	}
	f.note("%s after %.1f s", what, time.Since(began).Seconds())
	if from.kind == javaKind {
		if err := from.ever(ctx, from.worker+" gives "+seen.key+" up", naming(javaGives, seen.key)); err != nil {
			return err
		}
	}
	if to.kind == javaKind {
		return to.ever(ctx, to.worker+" takes "+seen.key, naming(javaTook, seen.key))
	}
	return nil
}

// told is when the row first said that the lease was to move: when the hand-over was asked for, else when it was taken.
func told(states []rowState, m move) time.Time {
	at := m.at
	for i := len(states) - 1; i >= 0; i-- {
		if s := states[i]; s.at.Before(m.at) {
			if s.str("checkpointOwner") != m.from || s.str("leaseOwner") != m.to {
				break
			}
			at = s.at
		}
	}
	return at
}

// busyAt reports whether the worker surely was in the middle of a batch of the shard, one of those that take a handler so long.
func busyAt(marks []delivery, worker, shard string, at time.Time, long time.Duration) bool {
	return slices.ContainsFunc(marks, func(m delivery) bool {
		return m.mark == batchEnd && m.worker == worker && m.shard == shard && m.after.After(at) && !m.before.Add(-long).After(at)
	})
}

// resume has the first store a place within an aggregated record of each shard and be killed, and the second resume there.
func resume(ctx context.Context, f *kclFleet) error {
	f.midway = true
	a, err := f.begin(ctx)
	if err != nil {
		return err
	}
	if err := f.midways(ctx); err != nil {
		return err
	}
	if err := f.killNow(ctx, a); err != nil {
		return err
	}
	f.midway = false
	at := f.kills[0]
	b, err := f.start(ctx, f.second)
	if err != nil {
		return err
	}
	if err := f.inherits(ctx, b); err != nil {
		return err
	}
	first := map[string]delivery{}
	seen := 0
	if err := f.j.until(ctx, stepTime, "every shard read on", func() bool {
		more := f.j.from(seen)
		seen += len(more)
		for _, d := range more {
			if _, ok := first[d.shard]; d.worker == b.worker && !ok {
				first[d.shard] = d
			}
		}
		return len(first) == len(at.checkpoints)
	}); err != nil {
		return err
	}
	for shard, d := range first {
		if d.seq != at.checkpoints[shard] || d.sub != at.subs[shard]+1 {
			return fmt.Errorf("%s resumed %s at %s sub %d; stored was %s sub %d", b.worker, shard, d.seq, d.sub, at.checkpoints[shard], at.subs[shard])
		}
	}
	f.note("%d shards resumed within an aggregated record", len(first))
	return nil
}

// midways waits until the checkpoint of every lease stands within an aggregated record.
func (f *kclFleet) midways(ctx context.Context) error {
	return poll(ctx, stepTime, func() (string, error) {
		if err := f.j.health(); err != nil {
			return "", err
		}
		t, err := readTable(ctx, f.d, app)
		if err != nil {
			return "", err
		}
		for _, i := range t.Items {
			if isLease(i.str("entityType")) && (!isToken(i.str("checkpoint")) || i.str("checkpointSubSequenceNumber") == "0") {
				return fmt.Sprintf("lease %s is at %s sub %s", i.str("leaseKey"), i.str("checkpoint"), i.str("checkpointSubSequenceNumber")), nil
			}
		}
		return "", nil
	})
}

// rolling replaces two workers of the first kind by two of the second, one by one, and these by two of the first again.
func rolling(ctx context.Context, f *kclFleet) error {
	a, err := f.begin(ctx)
	if err != nil {
		return err
	}
	b, err := f.join(ctx, f.first, a)
	if err != nil {
		return err
	}
	old := []*member{a, b}
	for _, k := range []kind{f.second, f.first} {
		for i := range old {
			m, err := f.start(ctx, k)
			if err != nil {
				return err
			}
			if err := f.holds(ctx, m); err != nil {
				return err
			}
			if err := f.stop(ctx, old[i]); err != nil {
				return err
			}
			if err := f.none(ctx, old[i]); err != nil {
				return err
			}
			old[i] = m
		}
		if err := f.divided(ctx, old); err != nil {
			return err
		}
	}
	return nil
}

// holds waits until m has a lease and reads it.
func (f *kclFleet) holds(ctx context.Context, m *member) error {
	if err := f.until(ctx, m.worker+" has leases", func(owned map[string][]string) string {
		if len(owned[m.worker]) == 0 {
			return "it has none"
		}
		return ""
	}); err != nil {
		return err
	}
	if err := f.reads(ctx, m); err != nil {
		return err
	}
	return f.took(ctx, m)
}

// none waits until m has no lease any more, and every lease has an owner.
func (f *kclFleet) none(ctx context.Context, m *member) error {
	return f.until(ctx, "nothing is left of "+m.worker, func(owned map[string][]string) string {
		if len(owned[m.worker]) > 0 || len(owned[""]) > 0 {
			return "not all leases are of others"
		}
		return ""
	})
}

// divided waits until each of them has a lease.
func (f *kclFleet) divided(ctx context.Context, all []*member) error {
	return f.until(ctx, all[0].worker+" and "+all[1].worker+" share the leases", func(owned map[string][]string) string {
		for _, m := range all {
			if len(owned[m.worker]) == 0 {
				return m.worker + " has none"
			}
		}
		if len(owned) != len(all) {
			return "others have some"
		}
		return ""
	})
}

// begin starts the first worker and waits until it has all leases.
func (f *kclFleet) begin(ctx context.Context) (*member, error) {
	if f.first == javaKind {
		if err := f.seed(ctx); err != nil {
			return nil, err
		}
	}
	a, err := f.start(ctx, f.first)
	if err != nil {
		return nil, err
	}
	if err := f.alone(ctx, a); err != nil {
		return nil, err
	}
	if !f.midway { // else it stops at its first batch
		if err := f.reads(ctx, a); err != nil {
			return nil, err
		}
	}
	if err := f.took(ctx, a); err != nil {
		return nil, err
	}
	return a, f.leads(ctx, a)
}

// leads waits until m holds the lock of the fleet's leader, where there is one; Java's log must say so.
func (f *kclFleet) leads(ctx context.Context, m *member) error {
	if !f.led() {
		return nil
	}
	began := time.Now()
	err := poll(ctx, stepTime, func() (string, error) {
		if err := f.j.health(); err != nil {
			return "", err
		}
		leader, err := f.leader(ctx)
		if err != nil || leader == m.worker {
			return "", err
		}
		return fmt.Sprintf("%s does not lead, but %q", m.worker, leader), nil
	})
	if err != nil {
		return err
	}
	f.note("%s leads after %.1f s more", m.worker, time.Since(began).Seconds())
	if m.kind != javaKind {
		return nil
	}
	return m.ever(ctx, m.worker+" leads", javaLeads)
}

// took has Java's log show that it was given leases, and reads them.
func (f *kclFleet) took(ctx context.Context, m *member) error {
	if m.kind != javaKind {
		return nil
	}
	return m.saw(ctx, m.worker+" takes leases", javaTook, javaReads)
}

// join starts another worker and waits until it shares the leases with old.
func (f *kclFleet) join(ctx context.Context, k kind, old *member) (*member, error) {
	b, err := f.start(ctx, k)
	if err != nil {
		return nil, err
	}
	if err := f.share(ctx, b, old); err != nil {
		return nil, err
	}
	if err := f.reads(ctx, b); err != nil {
		return nil, err
	}
	return b, f.took(ctx, b)
}

// stopAndTake stops m in order, and waits until rest has everything, and leads.
func (f *kclFleet) stopAndTake(ctx context.Context, m, rest *member) error {
	if err := f.stop(ctx, m); err != nil {
		return err
	}
	return f.inherits(ctx, rest)
}

// killAndTake kills m, and waits until rest has everything, and leads.
func (f *kclFleet) killAndTake(ctx context.Context, m, rest *member) error {
	if err := f.kill(ctx, m); err != nil {
		return err
	}
	return f.inherits(ctx, rest)
}

func (f *kclFleet) inherits(ctx context.Context, rest *member) error {
	if err := f.alone(ctx, rest); err != nil {
		return err
	}
	if err := f.reads(ctx, rest); err != nil {
		return err
	}
	if err := f.took(ctx, rest); err != nil {
		return err
	}
	return f.leads(ctx, rest)
}
