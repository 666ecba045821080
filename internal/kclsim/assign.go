package kclsim

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// assigner is what LeaseAssignmentManager remembers between its passes.
type assigner struct {
	seen     map[string]sighting
	asked    map[string]handOff // hand-overs under way, by lease
	runs     int
	failures int
}

// handOff is a pair of owners, and until when it is waited for.
type handOff struct {
	owner, checkpointOwner string
	deadline               time.Time
}

// assignOnce is one pass of the assignment manager: of the leader, nobody else.
func (w *Worker) assignOnce(ctx context.Context) {
	if !w.leads(ctx) {
		return
	}
	err := w.pass(ctx)
	w.mu.Lock()
	w.assigner.failures++
	if err == nil {
		w.assigner.failures = 0
	}
	failed := w.assigner.failures
	w.mu.Unlock()
	if failed >= 3 {
		w.note("gives the lock back after 3 failed passes: %v", err)
		w.unlock(ctx)
	}
}

func (w *Worker) pass(ctx context.Context) error {
	all, workers, err := w.load(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	w.mu.Lock()
	a := w.assigner
	w.mu.Unlock()
	a.seen = sight(a.seen, all, now, (*lease).actualOwner)
	asked := map[string]handOff{}
	for i := range all {
		if l := &all[i]; l.checkpointOwner != "" {
			o := a.asked[l.key]
			if o.owner != l.owner || o.checkpointOwner != l.checkpointOwner {
				o = handOff{l.owner, l.checkpointOwner, now.Add(w.s.HandOffTimeout + w.s.Failover)}
			}
			asked[l.key] = o
		}
	}
	a.asked = asked
	expired := func(l *lease) bool { return l.actualOwner() == "" || now.Sub(a.seen[l.key].at) > w.s.Failover }
	blocked := func(l *lease) bool {
		o, under := asked[l.key]
		return under && !expired(l) && l.checkpoint != shardEnd && now.Before(o.deadline)
	}
	plan := spread(all, workers, expired, blocked, a.runs%balanceEach == 0, w.s.MaxLeases, func(l *lease) time.Time { return a.seen[l.key].at })
	a.runs++
	w.mu.Lock()
	if !w.lock.held { // lost meanwhile: what this pass saw is forgotten
		w.mu.Unlock()
		return nil
	}
	a.failures = w.assigner.failures
	w.assigner = a
	w.mu.Unlock()
	for _, m := range plan {
		l := m.lease
		if !w.s.NoHandOff && !expired(l) && l.owner != "" && l.checkpointOwner == "" && l.checkpoint != shardEnd {
			ok, err := w.startHandOff(ctx, l, m.to)
			w.note("leader: asks %s to hand over %s to %s: %v %v", l.owner, l.key, m.to, ok, err)
		} else {
			ok, err := w.assign(ctx, l, m.to)
			w.note("leader: assigns %s (of %q, %q) to %s: %v %v", l.key, l.owner, l.checkpointOwner, m.to, ok, err)
		}
	}
	return w.tellTableMigration(ctx, all, expired)
}

// load reads leases and worker rows: who is active is in workers.
func (w *Worker) load(ctx context.Context) (all []lease, workers []string, err error) {
	rows, err := w.scan(ctx, w.s.App)
	if err != nil {
		return nil, nil, err
	}
	if all, err = w.readLeases(rows); err != nil {
		return nil, nil, err
	}
	for _, at := range w.metricPlaces() {
		metrics := rows
		if at.table != w.s.App {
			if metrics, err = w.scan(ctx, at.table); err != nil {
				return nil, nil, err
			}
		}
		for _, row := range metrics {
			if at.table == w.s.App && textOf(row, "entityType") != "WORKER_METRIC_STATS" {
				continue
			}
			if id := textOf(row, at.key); w.active(row) && !slices.Contains(workers, id) {
				workers = append(workers, id)
			}
		}
	}
	slices.Sort(workers)
	return all, workers, nil
}

// active reports whether a worker row makes its worker one that leases are given to: valid, not expired by this worker's own clock, not failing.
func (w *Worker) active(row item) bool {
	at, ok := intOf(row, "lut")
	if !ok || w.wall().Unix()-at > int64(2*w.s.MetricsEvery/time.Second) {
		return false
	}
	values, limits := lists(row, "sts"), lists(row, "opr")
	for name, v := range values {
		if len(limits[name]) == 0 || limits[name][0] == "0" || len(v) == 0 || v[len(v)-1] == "-1" || v[len(v)-1] == "-1.0" {
			return false
		}
	}
	return true
}

// lists reads an attribute that maps names to numbers.
func lists(row item, name string) map[string][]string {
	out := map[string][]string{}
	m, ok := row[name].(*types.AttributeValueMemberM)
	if !ok {
		return out
	}
	for k, v := range m.Value {
		l, ok := v.(*types.AttributeValueMemberL)
		if !ok {
			continue
		}
		out[k] = []string{}
		for _, n := range l.Value {
			if n, ok := n.(*types.AttributeValueMemberN); ok {
				out[k] = append(out[k], n.Value)
			}
		}
	}
	return out
}

// move is a lease that another shall have.
type move struct {
	lease *lease
	to    string
}

// spread is the lease-count rule (LEASE_COUNT_BASED).
func spread(all []lease, workers []string, expired, blocked func(*lease) bool, balance bool, most int, at func(*lease) time.Time) []move {
	if len(workers) == 0 {
		return nil
	}
	load := map[string]int{}
	owned := map[string][]*lease{}
	var free []*lease
	for i := range all {
		l := &all[i]
		switch {
		case expired(l):
			free = append(free, l)
		case slices.Contains(workers, l.actualOwner()):
			load[l.actualOwner()]++
			owned[l.actualOwner()] = append(owned[l.actualOwner()], l)
		}
	}
	slices.SortStableFunc(free, func(a, b *lease) int { return cmp.Or(at(a).Compare(at(b)), strings.Compare(a.key, b.key)) })
	room := func(id string) bool { return most == 0 || load[id] < most }
	least := func() string {
		best := ""
		for _, id := range workers {
			if room(id) && (best == "" || load[id] < load[best]) {
				best = id
			}
		}
		return best
	}
	var plan []move
	for _, l := range free {
		if blocked(l) {
			continue
		}
		to := least()
		if to == "" {
			break // LeaseSpillover
		}
		load[to]++
		plan = append(plan, move{l, to})
	}
	if !balance {
		return plan
	}
	for {
		from, to := workers[0], least()
		for _, id := range workers {
			if load[id] > load[from] {
				from = id
			}
		}
		if to == "" || load[from]-load[to] <= 1 {
			return plan
		}
		i := slices.IndexFunc(owned[from], func(l *lease) bool { return !blocked(l) })
		if i < 0 {
			return plan
		}
		plan = append(plan, move{owned[from][i], to})
		owned[from] = slices.Delete(owned[from], i, i+1)
		load[from]--
		load[to]++
	}
}

// tellTableMigration is the leader's part of the single-table migration, as far as it begins by itself: INIT when every owner understands it,
// DEPLOYED an hour later (2.6).
func (w *Worker) tellTableMigration(ctx context.Context, all []lease, expired func(*lease) bool) error {
	w.mu.Lock()
	at := w.layout
	w.mu.Unlock()
	if w.s.Version < V35 || at.single {
		return nil
	}
	supported := map[string]bool{}
	for _, p := range at.metricsIn {
		rows, err := w.scan(ctx, p.table)
		if err != nil {
			return err
		}
		for _, row := range rows {
			support, _ := intOf(row, "sup")
			when, _ := intOf(row, "slu")
			if support >= 1 && w.wall().Unix()-when <= int64(3*w.s.MetricsEvery/time.Second) {
				supported[textOf(row, p.key)] = true
			}
		}
	}
	ready := true
	for i := range all {
		if l := &all[i]; !expired(l) && !supported[l.actualOwner()] {
			ready = false
		}
	}
	row, err := w.read(ctx, at.lock, tableMigrationKey)
	if err != nil {
		return err
	}
	status := strings.TrimPrefix(textOf(row, "tm"), statusPrefix)
	since, _ := intOf(row, "mts")
	switch {
	case row == nil && ready:
		err = w.put(ctx, at.lock, item{at.lock.key: str(tableMigrationKey), "tm": str(statusPrefix + "INIT"), "mb": str(w.s.ID), "mts": num(w.wall().UnixMilli()), "h": &types.AttributeValueMemberL{}, "entityType": str("TABLE_MIGRATION")}, "attribute_not_exists(#pk)", nil)
	case status == "INIT" && !ready:
		err = w.remove(ctx, at.lock, tableMigrationKey, "", nil, nil)
	case status == "INIT" && w.wall().UnixMilli()-since >= time.Hour.Milliseconds():
		err = w.changeState(ctx, at.lock, tableMigrationKey, "tm", row, statusPrefix+"DEPLOYED")
	}
	if errors.Is(err, errCondition) {
		return nil
	}
	return err
}
