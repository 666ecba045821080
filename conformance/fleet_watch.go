package conformance

import (
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// watchTable looks at the table all the while and judges what it shows: counters and Ready never fall, an end is final, checkpoints never go
// back and never lie ahead of what handlers have done, and a finished parent's row stays until its children may do without it. What looks wrong
// in a listing, which may be stale, is looked up before it counts.
func (f *fleet) watchTable() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	ticker := time.NewTicker(f.tick)
	go func() {
		defer close(done)
		last := map[core.LeaseKey]core.Lease{}
		for {
			select {
			case <-quit:
				return
			case <-f.ctx.Done():
				return
			case <-ticker.C:
			}
			sight, err := core.Collect(f.watch.List(f.ctx, f.info.ID))
			if err != nil {
				continue // said where the rule itself looks
			}
			f.judge(last, sight.Leases)
		}
	}()
	return func() { close(quit); ticker.Stop(); <-done }
}

func (f *fleet) judge(last map[core.LeaseKey]core.Lease, rows []core.Lease) {
	here := map[core.ShardID]*core.Lease{}
	for i := range rows {
		l := rows[i]
		here[l.Key.Shard] = &l
		before, seen := last[l.Key]
		if seen && f.fell(before, l) != "" {
			now, err := f.watch.Get(f.ctx, l.Key)
			if err != nil {
				continue
			}
			if what := f.fell(before, now); what != "" {
				f.errorf("row of shard %s: %s\nwas %s\nis  %s", l.Key.Shard, what, show(before), show(now))
			}
			l = now
		}
		last[l.Key] = l
		done, put := f.ledger.done(l.Key.Shard)
		switch n, known := f.ledger.at(l.Key.Shard, l.Checkpoint); {
		case l.Ended() && done < put && put > 0:
			f.errorf("shard %s: the table says it was read to its end, and of %d records %d are done", l.Key.Shard, put, done)
		case known && n > done:
			f.errorf("shard %s: the checkpoint lies behind record %d, and the first %d are done", l.Key.Shard, n, done)
		}
	}
	for k, l := range last {
		if here[k.Shard] != nil {
			continue
		}
		delete(last, k)
		if !l.Ended() {
			continue // deleted by the rule itself, or it is found to be missing by what is not read
		}
		for _, id := range l.Children {
			if c := here[id]; c != nil && !c.Ready && !c.Ended() {
				if now, err := f.watch.Get(f.ctx, c.Key); err == nil && !now.Ready && !now.Ended() {
					f.errorf("the row of shard %s is gone, and its child %s is not ready: %s", k.Shard, id, show(now))
				}
			}
		}
	}
}

// fell says what of a row went back, "" where nothing did.
func (f *fleet) fell(before, now core.Lease) string {
	if before.Counter > 0 && now.Counter == 0 {
		return "" // deleted and made anew
	}
	switch {
	case now.Counter < before.Counter:
		return "the counter fell"
	case before.Ready && !now.Ready:
		return "Ready fell"
	case before.Ended() && !now.Ended():
		return "the end was taken back"
	}
	was, ok := f.ledger.at(before.Key.Shard, before.Checkpoint)
	is, ok2 := f.ledger.at(now.Key.Shard, now.Checkpoint)
	if ok && (ok2 && is < was || now.Checkpoint.IsStart()) {
		return "the checkpoint went back"
	}
	return ""
}
