package kinesis

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// childrenEvery is how often a closed shard's children are looked for in the listing.
const childrenEvery = time.Second

// end finds out what it means that an answer had neither a next iterator nor children, from a complete listing. A shard that is listed as
// open goes on with a new iterator. One that is closed, or gone, has ended; its children are those that name it as a parent. They may be
// listed late (F33), so they are waited for while patience lasts; a shard that ended without any is still an end, and whoever lists the
// shards later finds the children.
func (r *reader) end(ctx context.Context) (*core.Page, error) {
	for start := time.Now(); ; {
		listed, err := r.s.list(ctx, nil)
		if err != nil {
			return nil, fmt.Errorf("find out whether the shard has ended: %w", err)
		}
		var children []core.Shard
		open := false
		for _, shard := range listed {
			if shard.ID == r.shard {
				open = !shard.Closed
			}
			if slices.Contains(shard.Parents, r.shard) {
				children = append(children, shard)
			}
		}
		switch {
		case open:
			r.s.log.WarnContext(ctx, "the service gave no next iterator for an open shard, making one", "stream", r.s.name.stream, "shard", r.shard, "at", r.at.String())
			r.unsure, r.iter = false, ""
			r.pace.after(time.Now(), 0, true)
			return nil, nil
		case len(children) == 0 && time.Since(start) < r.s.patience:
			if err := pause(ctx, childrenEvery); err != nil {
				return nil, err
			}
			continue
		case len(children) == 0:
			r.s.log.WarnContext(ctx, "shard has ended and no children are listed", "stream", r.s.name.stream, "shard", r.shard)
		}
		r.ended, r.unsure = true, false
		return &core.Page{Lag: 0, End: true, Children: children}, nil
	}
}
