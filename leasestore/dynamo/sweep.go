package dynamo

import (
	"context"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// Workers that crash leave their rows behind, and new ones have new ids. Those not written for a day are removed, as the KCL's leader does
// (staleWorkerMetricsEntryCleanupDuration): a day by the clock of the newest row, and by ours, so that one wrong clock removes nothing. Rows of
// Java's workers are removed by whoever leads.
const (
	staleAfter  = 24 * 60 * 60 // seconds
	sweepAtOnce = 5
)

type staleWorker struct {
	id      core.WorkerID
	at      place
	updated int64
}

func staleWorkers(workers map[core.WorkerID]workerRow, leading bool) []staleWorker {
	var newest int64
	for _, w := range workers {
		newest = max(newest, w.updated)
	}
	newest = min(newest, time.Now().Unix())
	var out []staleWorker
	for id, w := range workers {
		if (w.ours || leading) && w.updated > 0 && w.updated < newest-staleAfter {
			out = append(out, staleWorker{id, place(w.aside), w.updated})
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
		if err := s.removeWorker(ctx, w.at, w.id, number(w.updated)); err != nil {
			s.log.Debug("row of a worker that is gone could not be removed", "worker", w.id, "err", err)
			return
		}
	}
}
