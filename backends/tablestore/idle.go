package tablestore

import (
	"context"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// idle follows a shard without records. Its iterator never changes, and dies when the retention passes it by, though nothing is lost (F122 in
// docs/reference/field-cases.md). Times are the service's.
type idle struct {
	since time.Time // the first of the reads in a row that found nothing and did not move the iterator; zero: there was another since
	empty time.Time // the last read that found nothing; zero: there were records since
	told  time.Time // when a position without records was last handed out
}

// saw notes a read. It reports whether its position is worth storing though it had no records: an iterator that moves over nothing is told
// once a minute.
func (i *idle) saw(none, moved bool, asked time.Time) bool {
	if !none {
		*i = idle{told: i.told}
		return false
	}
	i.empty = asked
	switch {
	case moved:
		i.since = time.Time{}
		if asked.Sub(i.told) < time.Minute {
			return false
		}
		i.told = asked
		return true
	case i.since.IsZero():
		i.since = asked
	}
	return false
}

// unseen is how long a record may take from its timestamp to where readers see it; the service answers within seconds.
const unseen = time.Minute

// refreshAfter is how long an iterator may stand still before another is made. With the default retention of a day it is half an hour: a worker
// that is restarted more often than that still comes to it some time.
func refreshAfter(retention time.Duration) time.Duration {
	if retention <= 0 {
		return time.Hour
	}
	return max(retention/48, 3*unseen)
}

// refresh makes a new iterator for a shard that was seen empty for long, by the time of its last empty read: all records up to the first of
// those reads lie before it, and none came since. It returns the page that hands it out, or nil. Where it cannot be had, the old one does.
func (r *reader) refresh(ctx context.Context) *core.Page {
	i := &r.idle
	if i.since.IsZero() || i.empty.Sub(i.since) < refreshAfter(r.s.retention()) || r.at.Sub > 0 {
		return nil
	}
	i.since = i.empty // not again too soon, whatever comes of it
	id, err := r.s.id(ctx, r.s.tries())
	var it string
	if err == nil {
		it, err = r.s.iterator(ctx, r.s.tries(), id, r.shard, new(i.empty.Add(-unseen)))
	}
	switch {
	case err != nil:
		r.s.log.WarnContext(ctx, "no new iterator for an idle shard; the old one may die of age", "table", r.s.table, "shard", r.shard, "error", err)
		return nil
	case it == r.at.Token:
		return nil
	}
	r.at = core.Position{Token: it}
	r.again = r.last != nil
	return &core.Page{Next: r.at}
}
