package tablestore

import (
	"context"
	"slices"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// ending is a shard of which an answer said that it has ended, by naming no next iterator. There is no going back from an end, so more than one
// answer must say so, and the listing too.
type ending struct {
	said   int       // answers in a row
	since  time.Time // the first of them
	looked time.Time // when the listing was last asked
}

// childless is how long answers must go on to say that a shard has ended which the listing shows without children. Mostly they come with the
// split or merge that ends it; but nobody says that they are listed in the same moment, nor that they must be there: a shard whose own data is kept
// may outlive children that had none.
const childless = 5 * time.Minute

// lookEvery is how often the listing is asked meanwhile.
const lookEvery = 10 * time.Second

// end takes in an answer without a next iterator, of n changes of which the first skip are not to be delivered.
func (r *reader) end(ctx context.Context, p *core.Page, iterator string, n, skip int, start time.Time) (*core.Page, error) {
	if r.ending.said++; r.ending.said == 1 {
		r.ending.since = start
	}
	r.pace.after(start, true, false)
	r.at = core.Position{Token: iterator, Sub: max(uint64(n), r.at.Sub)}
	switch {
	case n > skip:
		p.Next = r.at
		p.Lag = max(0, r.s.clock.now().Sub(time.UnixMicro(r.last.Timestamp)))
		return p, nil
	case r.ending.said < 2:
		return nil, nil
	}
	p.Lag = 0
	if time.Since(r.ending.looked) < lookEvery {
		r.pace.next = start.Add(r.s.pollEvery)
		return p, nil
	}
	id, err := r.s.id(ctx, r.s.tries())
	if err != nil {
		return nil, err
	}
	listed, err := r.s.list(ctx, id)
	if err != nil {
		return nil, err
	}
	isListed := slices.ContainsFunc(listed, func(s core.Shard) bool { return s.ID == r.shard })
	hasChildren := slices.ContainsFunc(listed, func(s core.Shard) bool { return slices.Contains(s.Parents, r.shard) })
	if isListed && !hasChildren {
		if r.ending.looked = time.Now(); time.Since(r.ending.since) < childless {
			return p, nil
		}
		r.s.log.WarnContext(ctx, "shard has ended and no children are listed", "table", r.s.table, "shard", r.shard)
		r.s.ended(r.shard)
	}
	if r.at.Sub > uint64(n) {
		r.s.log.WarnContext(ctx, "the shard ended before as many records as the checkpoint counts", "table", r.s.table, "shard", r.shard, "counted", r.at.Sub, "found", n)
	}
	r.done, p.End = true, true
	return p, nil
}
