package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/lineage"
)

// meetForeigners takes in what the store says of workers of another library that may share its table.
func (w *Worker) meetForeigners() error {
	s, ok := w.store.(core.Sharer)
	if !ok {
		return nil
	}
	f := s.SharedWith()
	if f == nil {
		return nil
	}
	if f.LeaseDuration < w.cfg.LeaseDuration {
		return fmt.Errorf("worker.Config.LeaseDuration is %v: must not be above that of the workers of another library that share the table, %v, who would take leases that are still held: %w", w.cfg.LeaseDuration, f.LeaseDuration, core.ErrInvalid)
	}
	w.foreigners = f
	w.limits.foreign, w.limits.shared, w.limits.finished = f.LeaseDuration+time.Second, true, f.CountFinished
	return nil
}

// foreignHint is what to do about a worker of another library that was not expected.
func (w *Worker) foreignHint() string {
	if _, ok := w.store.(core.Sharer); ok {
		return "stop it first, use another application name, or let it share the table (WithJava, an option of the store)"
	}
	return "stop it first, or use another application name"
}

// alive reports whether the owner of a row counts as present for it: where workers of another library go on owning what has ended, and count it,
// theirs counts too.
func (l limits) alive(r *sighting, now time.Time) bool {
	return (!r.lease.Ended() || l.finished && r.lease.Run == "") && r.lease.Owner != core.Nobody && r.silent(now) < l.of(r)
}

// createPast creates leases at their end for listed shards that need none, where workers of another library would begin them at their beginning. A
// wrong one would lose the shard, so a shard must be found past in two passes. It returns when to come again.
func (w *Worker) createPast(ctx context.Context, st *stream, g *lineage.Graph) time.Duration {
	if w.foreigners == nil || !w.foreigners.LeaseListed {
		return w.cfg.ListEvery
	}
	former := st.past
	st.past = map[core.ShardID]bool{}
	var now []core.Lease
	for _, l := range g.Past() {
		if former[l.Key.Shard] {
			now = append(now, l)
		} else {
			st.past[l.Key.Shard] = true
		}
	}
	if err := w.create(ctx, st, now); err != nil && ctx.Err() == nil {
		w.storeError("create leases", core.LeaseKey{Stream: st.id}, err)
	} else if len(st.past) == 0 {
		return w.cfg.ListEvery
	}
	st.nextList = time.Now()
	return w.cfg.LookEvery
}
