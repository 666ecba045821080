package dynamo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/core"
)

// loadCPU is the figure of core.WorkerInfo.Load that the KCL has a name for.
const loadCPU = "cpu"

// workerRow is a worker as the table shows it.
type workerRow struct {
	info    core.WorkerInfo
	ours    bool
	updated int64 // wall clock of whoever wrote it, seconds; only to find rows that are long dead
}

// decodeWorker reads the row of a worker, Java's or ours. What it cannot read it leaves out: a worker is counted by its key and its beat.
func decodeWorker(row Attributes) workerRow {
	r := rowReader{row: row}
	w := workerRow{info: core.WorkerInfo{ID: core.WorkerID(r.text(attrKey))}}
	if n, ok := row[attrUpdated].(*types.AttributeValueMemberN); ok {
		w.info.Beat = n.Value
		w.updated, _ = strconv.ParseInt(n.Value, 10, 64)
	}
	if beat, ok := row[attrBeat].(*types.AttributeValueMemberS); ok {
		w.info.Beat, w.ours = beat.Value, true
	}
	load := map[string]float64{}
	if all, ok := row[attrStats].(*types.AttributeValueMemberM); ok {
		if list, ok := all.Value[statCPU].(*types.AttributeValueMemberL); ok && len(list.Value) > 0 {
			// Oldest first; below 0: no sample in that period.
			if f, ok := figure(list.Value[len(list.Value)-1]); ok && f >= 0 {
				load[loadCPU] = f
			}
		}
	}
	if more, ok := row[attrLoad].(*types.AttributeValueMemberM); ok {
		for name, v := range more.Value {
			if f, ok := figure(v); ok {
				load[name] = f
			}
		}
	}
	if len(load) > 0 {
		w.info.Load = load
	}
	return w
}

func figure(v types.AttributeValue) (float64, bool) {
	n, ok := v.(*types.AttributeValueMemberN)
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(n.Value, 64)
	return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}

// announcement is the worker row in the format of the KCL (docs/reference/kcl.md 2.2): a worker without figures counts there by the
// throughput of its leases. The support code says that it may live beside other kinds of rows, which is true; without it a worker that owns
// leases would hold up the KCL's migration to one table (V9).
func announcement(w core.WorkerInfo, now time.Time) (*expression, error) {
	seconds := number(now.Unix())
	stats, ranges, more := Attributes{}, Attributes{}, Attributes{}
	for name, f := range w.Load {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("worker %s: load %q is %v: %w", w.ID, name, f, core.ErrInvalid)
		}
		v := &types.AttributeValueMemberN{Value: javaDouble(f)}
		if name == loadCPU {
			stats[statCPU] = &types.AttributeValueMemberL{Value: []types.AttributeValue{v}}
			ranges[statCPU] = &types.AttributeValueMemberL{Value: []types.AttributeValue{number(100)}}
		} else {
			more[name] = v
		}
	}
	beat := w.Beat
	if beat == "" {
		beat = strconv.FormatInt(now.UnixNano(), 10)
	}
	e := newExpression()
	e.require("(attribute_not_exists(%s) OR %s = %s)", e.name(attrKey), e.name(attrEntity), e.value(text(entityWorker)))
	e.put(attrEntity, text(entityWorker))
	e.put(attrUpdated, seconds)
	e.put(attrStats, &types.AttributeValueMemberM{Value: stats})
	e.put(attrRanges, &types.AttributeValueMemberM{Value: ranges})
	e.put(attrSupport, number(1))
	e.put(attrSupportAt, seconds)
	e.put(attrBeat, text(beat))
	if len(more) > 0 {
		e.put(attrLoad, &types.AttributeValueMemberM{Value: more})
	} else {
		e.drop(attrLoad)
	}
	return e, nil
}

// Announce implements [core.Presence]: w.Beat must differ each time; where it is empty the store makes one. In a table that a KCL older
// than 3.5 may use it writes nothing, since that would break it; the worker is then counted by the leases it owns.
func (s *Store) Announce(ctx context.Context, w core.WorkerInfo) error {
	if w.ID == core.Nobody {
		return fmt.Errorf("worker without an id: %w", core.ErrInvalid)
	}
	if !s.mayAnnounce() {
		return s.unannounce(ctx, w.ID)
	}
	e, err := announcement(w, time.Now())
	if err != nil {
		return err
	}
	s.remember(w.ID, true)
	_, err = call(ctx, s, once("UpdateItem"), s.updates.once, &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: Attributes{attrKey: text(string(w.ID))},
		ConditionExpression: e.condition(), UpdateExpression: e.update(),
		ExpressionAttributeNames: e.attributeNames(), ExpressionAttributeValues: e.placeholders(),
	})
	if errors.Is(err, core.ErrConflict) {
		return fmt.Errorf("worker id %q is the key of another row of table %s: choose another id: %w", w.ID, s.table, core.ErrInvalid)
	}
	if err == nil {
		s.sweep(ctx)
	}
	return err
}

// Withdraw implements [core.Presence].
func (s *Store) Withdraw(ctx context.Context, id core.WorkerID) error {
	err := s.removeWorker(ctx, id, nil)
	if err == nil {
		s.remember(id, false)
	}
	return err
}

// unannounce takes back a row that was written before the table was seen to be one that must not have it.
func (s *Store) unannounce(ctx context.Context, id core.WorkerID) error {
	s.mu.Lock()
	there := s.announced[id]
	s.mu.Unlock()
	if !there {
		return nil
	}
	return s.Withdraw(ctx, id)
}

func (s *Store) remember(id core.WorkerID, announced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if announced {
		s.announced[id] = true
	} else {
		delete(s.announced, id)
	}
}

// removeWorker deletes a worker's row: with updated only if it was not written since.
func (s *Store) removeWorker(ctx context.Context, id core.WorkerID, updated types.AttributeValue) error {
	e := newExpression()
	e.requireEqual(attrEntity, text(entityWorker)) // never a lease
	if updated != nil {
		e.requireEqual(attrUpdated, updated)
	}
	_, err := call(ctx, s, once("DeleteItem"), s.client.DeleteItem, &dynamodb.DeleteItemInput{
		TableName: &s.table, Key: Attributes{attrKey: text(string(id))},
		ConditionExpression: e.condition(), ExpressionAttributeNames: e.attributeNames(), ExpressionAttributeValues: e.placeholders(),
	})
	if errors.Is(err, core.ErrConflict) { // none there, or alive after all
		return nil
	}
	return err
}

// Workers that crash leave their rows behind, and new ones have new ids. Those not written for a day are removed, as the KCL's leader does
// (staleWorkerMetricsEntryCleanupDuration): a day by the clock of the newest row, and by ours, so that one wrong clock removes nothing.
const (
	staleAfter  = 24 * 60 * 60 // seconds
	sweepAtOnce = 5
)

type staleWorker struct {
	id      core.WorkerID
	updated int64
}

func staleWorkers(workers map[core.WorkerID]workerRow) []staleWorker {
	var newest int64
	for _, w := range workers {
		newest = max(newest, w.updated)
	}
	newest = min(newest, time.Now().Unix())
	var out []staleWorker
	for id, w := range workers {
		if w.ours && w.updated > 0 && w.updated < newest-staleAfter {
			out = append(out, staleWorker{id, w.updated})
		}
	}
	return out
}

// sweep is best effort: what fails is tried again after the next reading.
func (s *Store) sweep(ctx context.Context) {
	s.mu.Lock()
	n := min(len(s.stale), sweepAtOnce)
	some := s.stale[:n:n]
	s.stale = s.stale[n:]
	s.mu.Unlock()
	for _, w := range some {
		if err := s.removeWorker(ctx, w.id, number(w.updated)); err != nil {
			s.log.Debug("row of a worker that is gone could not be removed", "worker", w.id, "err", err)
			return
		}
	}
}
