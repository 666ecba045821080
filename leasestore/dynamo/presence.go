package dynamo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/core"
)

// announceEvery is how often the KCL's workers write their rows; one not written for twice as long is nobody's to them
// (workerMetricsReporterFreqInMillis, docs/reference/kcl.md 2.2).
const announceEvery = 30 * time.Second

// asideEvery is how old what is known of the table of workers' metrics may be. Its rows change each announceEvery, and with a scan of it for each look
// a worker would make more calls than one of Java's.
const asideEvery = 10 * time.Second

// place is where a row of a worker is or was: among the leases, or aside.
type place bool

const (
	among place = false
	aside place = true
)

func (s *Store) placed(p place) (table, keyAttr string) {
	if p == aside {
		return s.metricsName(), attrMetricKey
	}
	return s.table, attrKey
}

// Announce implements [core.Presence]: w.Beat must differ each time; where it is empty the store makes one. Where a KCL older than 3.5 may read the
// table, and where workers only take, it writes nothing; the worker is then counted by the leases it owns.
func (s *Store) Announce(ctx context.Context, w core.WorkerInfo) error {
	if w.ID == core.Nobody {
		return fmt.Errorf("worker without an id: %w", core.ErrInvalid)
	}
	st, ok := s.mayAnnounce()
	if !ok {
		return s.unannounce(ctx, w.ID)
	}
	to := place(st.workersAside())
	table, keyAttr := s.placed(to)
	e, err := announcement(w, time.Now(), s.averages(w), keyAttr)
	if err != nil {
		return err
	}
	before, there := s.remember(w.ID, to)
	_, err = call(ctx, s, operation{name: "UpdateItem", once: true, table: table}, s.updates.once, &dynamodb.UpdateItemInput{
		TableName: &table, Key: Attributes{keyAttr: text(string(w.ID))},
		ConditionExpression: e.condition(), UpdateExpression: e.update(),
		ExpressionAttributeNames: e.attributeNames(), ExpressionAttributeValues: e.placeholders(),
	})
	if errors.Is(err, core.ErrConflict) {
		return fmt.Errorf("worker id %q is the key of another row of table %s: choose another id: %w", w.ID, table, core.ErrInvalid)
	}
	if err == nil && there && before != to { // the KCL's migration waits until the old table has none
		err = s.removeWorker(ctx, before, w.ID, nil)
	}
	if err == nil {
		s.sweep(ctx)
	}
	return err
}

// Withdraw implements [core.Presence].
func (s *Store) Withdraw(ctx context.Context, id core.WorkerID) error {
	if s.kind == KCL2 {
		return nil
	}
	s.mu.Lock()
	at, there := s.announced[id]
	if !there {
		at = place(s.standing.workersAside())
	}
	s.mu.Unlock()
	err := s.removeWorker(ctx, at, id, nil)
	if err == nil {
		s.mu.Lock()
		delete(s.announced, id)
		delete(s.aside.rows, id)
		s.mu.Unlock()
	}
	return err
}

// unannounce takes back a row that was written before the table was seen to be one that must not have it.
func (s *Store) unannounce(ctx context.Context, id core.WorkerID) error {
	s.mu.Lock()
	_, there := s.announced[id]
	s.mu.Unlock()
	if !there {
		return nil
	}
	return s.Withdraw(ctx, id)
}

// remember notes where a worker is announced, and says where it was before.
func (s *Store) remember(id core.WorkerID, at place) (before place, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, there = s.announced[id]
	s.announced[id] = at
	return before, there
}

// removeWorker deletes a worker's row: with updated only if it was not written since.
func (s *Store) removeWorker(ctx context.Context, at place, id core.WorkerID, updated types.AttributeValue) error {
	table, keyAttr := s.placed(at)
	e := newExpression()
	if at == among {
		e.requireEqual(attrEntity, text(entityWorker)) // never a lease
	}
	if updated != nil {
		e.requireEqual(attrUpdated, updated)
	}
	_, err := call(ctx, s, operation{name: "DeleteItem", once: true, table: table}, s.client.DeleteItem, &dynamodb.DeleteItemInput{
		TableName: &table, Key: Attributes{keyAttr: text(string(id))},
		ConditionExpression: e.condition(), ExpressionAttributeNames: e.attributeNames(), ExpressionAttributeValues: e.placeholders(),
	})
	if errors.Is(err, core.ErrConflict) { // none there, or alive after all
		return nil
	}
	return err
}

// asideReading is the table of workers' metrics as last read.
type asideReading struct {
	rows map[core.WorkerID]workerRow
	at   time.Time
}

// workersAside reads the table of workers' metrics, or remembers it.
func (s *Store) workersAside(ctx context.Context) (map[core.WorkerID]workerRow, error) {
	s.mu.Lock()
	last := asideReading{maps.Clone(s.aside.rows), s.aside.at}
	s.mu.Unlock()
	if !last.at.IsZero() && time.Since(last.at) < min(asideEvery, s.metricsEvery) {
		return last.rows, nil
	}
	began := time.Now()
	rows, err := s.scanTable(ctx, s.metricsName())
	if missing := errors.Is(err, core.ErrNotFound); err != nil && !missing {
		return nil, err
	} else if missing { // then no worker has a row: leases are still to be seen
		s.complain("no worker can be given anything", err)
	} else {
		s.complain("no worker can be given anything", nil)
	}
	all := make(map[core.WorkerID]workerRow, len(rows))
	for _, row := range rows {
		if w := decodeWorker(row, attrMetricKey); w.info.ID != core.Nobody {
			all[w.info.ID] = w
		}
	}
	s.mu.Lock()
	s.aside = asideReading{maps.Clone(all), began}
	s.mu.Unlock()
	return all, nil
}

// scanTable is all rows of a table, strongly consistent.
func (s *Store) scanTable(ctx context.Context, table string) (rows []Attributes, err error) {
	in := &dynamodb.ScanInput{TableName: &table, ConsistentRead: new(true)}
	for {
		out, err := call(ctx, s, operation{name: "Scan", table: table}, s.client.Scan, in)
		if err != nil {
			return nil, err
		}
		rows = append(rows, out.Items...)
		if len(out.LastEvaluatedKey) == 0 {
			return rows, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// roster is who a look shows of the workers that were read, by id.
func (s *Store) roster(st standing, all map[core.WorkerID]workerRow) []core.WorkerInfo {
	var out []core.WorkerInfo
	if s.kind != Native && st.regime == kcl2 { // who takes counts who owns
		return nil
	}
	alive := s.alive(all)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		w := all[id]
		if w.unfit != "" && !w.ours || !alive(id) {
			continue
		}
		if !w.ours || st.regime == kcl3 {
			w.info.Every = s.metricsEvery
		}
		out = append(out, w.info)
	}
	return out
}

// staleness is how old the KCL lets a row grow.
func (s *Store) staleness() time.Duration { return 2 * s.metricsEvery }

// pulse is when a worker's beat was last seen to move, by our clock.
type pulse struct {
	beat  string
	moved time.Time // zero: never
}

// alive judges by the rows' own times what may be left over from workers long gone. The times are by clocks that may be wrong. So a row is old only
// against the newest of the others' and against our own clock, and whose beat has been seen to move lives, whatever its clock says. Whoever dies
// under our eyes is the engine's to notice.
func (s *Store) alive(all map[core.WorkerID]workerRow) func(core.WorkerID) bool {
	if s.kind == Native {
		return func(core.WorkerID) bool { return true }
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := int64(0)
	pulses := make(map[core.WorkerID]pulse, len(all))
	for id, w := range all {
		p, seen := s.pulses[id]
		switch {
		case !seen:
			p.beat = w.info.Beat
		case p.beat != w.info.Beat:
			p = pulse{w.info.Beat, now}
		}
		pulses[id] = p
		if _, mine := s.announced[id]; !mine {
			newest = max(newest, w.updated)
		}
	}
	s.pulses = pulses
	oldest := min(newest, now.Unix()) - int64((s.staleness()+time.Second-1)/time.Second)
	return func(id core.WorkerID) bool {
		p := pulses[id]
		return all[id].updated >= oldest || !p.moved.IsZero() && now.Sub(p.moved) <= s.staleness()
	}
}
