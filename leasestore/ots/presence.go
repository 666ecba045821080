package ots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/internal/otsclient"
)

// Workers stand apart from the leases, under a StreamId and a StatusType that no other client reads: the Java client and DataX go by exact ones.
const (
	workersStream = "shardwarden"
	kindWorker    = "WorkerKey"
)

// Columns of a worker's row.
const (
	colBeat    = "sw_beat"
	colLoad    = "sw_load"    // JSON object of numbers, where there are any
	colStreams = "sw_streams" // JSON array: the streams it consumes; absent: not known yet. A table may serve fleets that have nothing to do with each other
	colSeen    = "sw_seen"    // the writer's clock, seconds; only to find rows that are long dead
)

// workerRow is a worker as the table shows it.
type workerRow struct {
	info    core.WorkerInfo
	streams []core.StreamID
	seen    int64
}

// decodeWorker reads what it can: a worker is counted by its key and its beat.
func decodeWorker(r *tableRow) workerRow {
	w := workerRow{info: core.WorkerInfo{ID: core.WorkerID(r.value)}}
	w.info.Beat, _ = r.columns[colBeat].(string)
	w.seen, _ = r.columns[colSeen].(int64)
	if text, ok := r.columns[colLoad].(string); ok && json.Unmarshal([]byte(text), &w.info.Load) != nil {
		w.info.Load = nil
	}
	if text, ok := r.columns[colStreams].(string); ok && json.Unmarshal([]byte(text), &w.streams) != nil {
		w.streams = nil
	}
	return w
}

// consumes reports whether the worker may have to do with any of some streams; none: with any at all.
func (w *workerRow) consumes(streams []core.StreamID) bool {
	return len(streams) == 0 || len(w.streams) == 0 || slices.ContainsFunc(streams, func(id core.StreamID) bool { return slices.Contains(w.streams, id) })
}

// announced is what this handle makes known of itself.
type announced struct {
	mu      sync.Mutex // never held across a call of the service
	streams []core.StreamID
	workers map[core.WorkerID]bool
	stale   []workerRow
}

// Announce implements [core.Presence]: w.Beat must differ each time.
func (s *Store) Announce(ctx context.Context, w core.WorkerInfo) error {
	if err := checkKey(core.LeaseKey{Stream: workersStream, Shard: core.ShardID(w.ID)}); err != nil {
		return fmt.Errorf("worker id: %w", err)
	}
	for name, f := range w.Load {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("worker %s: load %q is %v: %w", w.ID, name, f, core.ErrInvalid)
		}
	}
	a := &s.announced
	a.mu.Lock()
	if a.workers == nil {
		a.workers = map[core.WorkerID]bool{}
	}
	a.workers[w.ID] = true
	streams := a.streams
	a.mu.Unlock()
	if err := s.putWorker(ctx, w, streams); err != nil {
		return err
	}
	s.sweep(ctx)
	return nil
}

func (s *Store) putWorker(ctx context.Context, w core.WorkerInfo, streams []core.StreamID) error {
	put := &tablestore.PutRowChange{TableName: s.table, PrimaryKey: primaryKey(workersStream, kindWorker, string(w.ID))}
	put.AddColumn(colBeat, w.Beat)
	put.AddColumn(colSeen, time.Now().Unix())
	if len(w.Load) > 0 {
		put.AddColumn(colLoad, asJSON(w.Load))
	}
	if len(streams) > 0 {
		put.AddColumn(colStreams, asJSON(streams))
	}
	put.SetCondition(tablestore.RowExistenceExpectation_IGNORE) // its own row, whether or not it exists
	_, err := otsclient.Call(ctx, s.client, s.write("PutRow"), func(sdk *tablestore.TableStoreClient) (*tablestore.PutRowResponse, error) {
		return sdk.PutRow(&tablestore.PutRowRequest{PutRowChange: put})
	})
	return err
}

// asJSON is for numbers and texts that were checked: it can't fail.
func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "null"
	}
	return string(text)
}

// Withdraw implements [core.Presence].
func (s *Store) Withdraw(ctx context.Context, id core.WorkerID) error {
	s.announced.mu.Lock()
	delete(s.announced.workers, id)
	s.announced.mu.Unlock()
	return s.deleteWorker(ctx, id, nil)
}

// deleteWorker deletes a worker's row; with a beat only if that is still its. That there is none is no error.
func (s *Store) deleteWorker(ctx context.Context, id core.WorkerID, beat *string) error {
	del := &tablestore.DeleteRowChange{TableName: s.table, PrimaryKey: primaryKey(workersStream, kindWorker, string(id))}
	del.SetCondition(tablestore.RowExistenceExpectation_IGNORE)
	if beat != nil {
		del.SetCondition(tablestore.RowExistenceExpectation_EXPECT_EXIST)
		del.SetColumnCondition(equal(colBeat, *beat))
	}
	_, err := otsclient.Call(ctx, s.client, s.write("DeleteRow"), func(sdk *tablestore.TableStoreClient) (*tablestore.DeleteRowResponse, error) {
		return sdk.DeleteRow(&tablestore.DeleteRowRequest{DeleteRowChange: del})
	})
	if errors.Is(err, core.ErrConflict) {
		return nil
	}
	return err
}

// Look implements [core.Presence]. The workers are those that consume any of the streams, by id, read before the leases.
func (s *Store) Look(ctx context.Context, streams ...core.StreamID) (core.Sight, error) {
	if err := s.tellStreams(ctx, streams); err != nil {
		return core.Sight{}, err
	}
	var workers []workerRow
	for row, err := range s.rows(ctx, rowsOf(workersStream, kindWorker), 0) {
		if err != nil {
			return core.Sight{}, err
		}
		workers = append(workers, decodeWorker(&row))
	}
	sight, err := core.Collect(s.List(ctx, streams...))
	if err != nil {
		return core.Sight{}, err
	}
	for _, w := range workers {
		if w.consumes(streams) {
			sight.Workers = append(sight.Workers, w.info)
		}
	}
	s.announced.mu.Lock()
	s.announced.stale = staleWorkers(workers, time.Now().Unix())
	s.announced.mu.Unlock()
	return sight, nil
}

// tellStreams writes which streams this handle's workers consume as soon as it is known, so that other fleets don't count them.
func (s *Store) tellStreams(ctx context.Context, streams []core.StreamID) error {
	a := &s.announced
	a.mu.Lock()
	more := slices.Concat(a.streams, streams)
	slices.Sort(more)
	more = slices.Compact(more)
	known := len(more) == len(a.streams)
	if !known {
		a.streams = more
	}
	workers := slices.Sorted(maps.Keys(a.workers))
	a.mu.Unlock()
	if known {
		return nil
	}
	for _, id := range workers {
		u := &tablestore.UpdateRowChange{TableName: s.table, PrimaryKey: primaryKey(workersStream, kindWorker, string(id))}
		u.PutColumn(colStreams, asJSON(more))
		u.SetCondition(tablestore.RowExistenceExpectation_EXPECT_EXIST) // it may have been withdrawn
		_, err := otsclient.Call(ctx, s.client, s.write("UpdateRow"), func(sdk *tablestore.TableStoreClient) (*tablestore.UpdateRowResponse, error) {
			return sdk.UpdateRow(&tablestore.UpdateRowRequest{UpdateRowChange: u})
		})
		if err != nil && !errors.Is(err, core.ErrConflict) {
			return err
		}
	}
	return nil
}

// Workers that crash leave their rows behind, and new ones have new ids. Those not written for a day are removed: a day by the clock of the newest
// row, and by ours, so that one wrong clock removes nothing.
const (
	staleAfter  = 24 * 60 * 60 // seconds
	sweepAtOnce = 5
)

func staleWorkers(rows []workerRow, now int64) []workerRow {
	var newest int64
	for _, w := range rows {
		newest = max(newest, w.seen)
	}
	newest = min(newest, now)
	return slices.DeleteFunc(rows, func(w workerRow) bool { return w.seen >= newest-staleAfter })
}

// sweep removes some of what the last look found stale. What fails is tried again after the next one.
func (s *Store) sweep(ctx context.Context) {
	a := &s.announced
	a.mu.Lock()
	some := a.stale[:min(len(a.stale), sweepAtOnce)]
	a.stale = a.stale[len(some):]
	a.mu.Unlock()
	for _, w := range some {
		if err := s.deleteWorker(ctx, w.info.ID, &w.info.Beat); err != nil {
			s.log.Debug("row of a worker that is gone could not be removed", "table", s.table, "worker", w.info.ID, "err", err)
			return
		}
	}
}
