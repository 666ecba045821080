package memory

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/shardwarden/shardwarden/core"
)

// Announce implements [core.Presence].
func (s *Store) Announce(ctx context.Context, w core.WorkerInfo) error {
	w.Load = maps.Clone(w.Load)
	return s.call(ctx, Announce, core.LeaseKey{}, func() error {
		workers := maps.Clone(s.table.workers)
		workers[w.ID] = w
		s.table.replaceWorkers(workers)
		return nil
	})
}

// Withdraw implements [core.Presence].
func (s *Store) Withdraw(ctx context.Context, id core.WorkerID) error {
	return s.call(ctx, Withdraw, core.LeaseKey{}, func() error {
		workers := maps.Clone(s.table.workers)
		delete(workers, id)
		s.table.replaceWorkers(workers)
		return nil
	})
}

// Look implements [core.Presence]. Workers come by id.
func (s *Store) Look(ctx context.Context, streams ...core.StreamID) (core.Sight, error) {
	var workers map[core.WorkerID]core.WorkerInfo
	sight := core.Sight{Leases: make([]core.Lease, 0, s.table.size())}
	for l, err := range s.list(ctx, Look, streams, &workers) {
		bad, unreadable := errors.AsType[*core.RowError](err)
		switch {
		case unreadable:
			sight.Bad = append(sight.Bad, bad)
		case err != nil:
			return core.Sight{}, err
		default:
			sight.Leases = append(sight.Leases, l)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(workers)) {
		w := workers[id]
		w.Load = maps.Clone(w.Load)
		sight.Workers = append(sight.Workers, w)
	}
	return sight, nil
}
