package tablestore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// openAt finds the shards to begin with among those of a complete listing: those without an ancestor among the ones that must be read.
//
//   - Horizon: those whose parents are no longer listed.
//   - Latest: those that are open.
//   - An instant: listings hold no times. A closed shard must be read if it ended behind the instant, or has a record of then or later. Only
//     the second is certain; the first says more precisely what was open where a shard had no records.
func (s *Source) openAt(ctx context.Context, id core.StreamID, listed []core.Shard, open core.Position) ([]core.Shard, error) {
	at := make(map[core.ShardID]*core.Shard, len(listed))
	for i := range listed {
		at[listed[i].ID] = &listed[i]
	}
	begin := make(map[core.ShardID]bool, len(listed))
	for i := range listed {
		sh := &listed[i]
		switch {
		case open.Anchor == core.Horizon:
			begin[sh.ID] = !slices.ContainsFunc(sh.Parents, func(p core.ShardID) bool { return at[p] != nil })
		case !sh.Closed:
			begin[sh.ID] = true
		case !open.Time.IsZero():
			if begin[sh.ID] = endedBehind(sh.ID, listed, open.Time); begin[sh.ID] {
				continue
			}
			_, found, err := s.seek(ctx, id, sh.ID, open.Time)
			if err != nil && !errors.Is(err, core.ErrNotFound) && !errors.Is(err, core.ErrTrimmed) { // gone meanwhile: nothing to read
				return nil, s.wrap("look for records since "+open.Time.UTC().Format(time.RFC3339)+" in", sh.ID, err)
			}
			begin[sh.ID] = found
		}
	}
	return frontier(listed, at, begin), nil
}

// frontier is the least set of shards through which all of begin are reached: those without an ancestor in begin. A child of two parents of
// which one is in begin waits for both, so the other is added.
func frontier(listed []core.Shard, at map[core.ShardID]*core.Shard, begin map[core.ShardID]bool) (roots []core.Shard) {
	for {
		below := make(map[core.ShardID]bool, len(listed))
		var isBelow func(id core.ShardID) bool
		isBelow = func(id core.ShardID) bool {
			if v, ok := below[id]; ok {
				return v
			}
			below[id] = false // a graph with a cycle is not followed for ever
			for _, p := range at[id].Parents {
				if at[p] != nil && (begin[p] || isBelow(p)) {
					below[id] = true
				}
			}
			return below[id]
		}
		added := false
		for i := range listed {
			if !isBelow(listed[i].ID) {
				continue
			}
			for _, p := range listed[i].Parents {
				if at[p] != nil && !begin[p] && !isBelow(p) {
					begin[p], added = true, true
				}
			}
		}
		if added {
			continue
		}
		for i := range listed {
			if id := listed[i].ID; begin[id] && !below[id] {
				roots = append(roots, listed[i])
			}
		}
		return roots
	}
}

// endedBehind reports whether a shard's children were made later than t, so that it took records then.
func endedBehind(id core.ShardID, listed []core.Shard, t time.Time) bool {
	for i := range listed {
		if slices.Contains(listed[i].Parents, id) {
			if made, ok := madeAt(listed[i].ID); ok && made.After(t) {
				return true
			}
		}
	}
	return false
}

// madeAt reads the time off a shard's id, which the service was seen to write as "<uuid>_<16 digits of microseconds>"
// (docs/reference/tablestore.md 1.6). Nothing is left out on its word.
func madeAt(id core.ShardID) (time.Time, bool) {
	_, digits, ok := strings.Cut(string(id), "_")
	if !ok || len(digits) != 16 {
		return time.Time{}, false
	}
	us, err := strconv.ParseInt(digits, 10, 64)
	return time.UnixMicro(us), err == nil && us > 0
}

// seek finds the place before the first record that arrived at t or later, and says whether there is one yet.
func (s *Source) seek(ctx context.Context, id core.StreamID, shard core.ShardID, t time.Time) (at core.Position, found bool, err error) {
	it, err := s.iterator(ctx, s.tries(), id, shard, &t)
	if errors.Is(err, core.ErrTrimmed) { // older than the oldest record
		it, err = s.iterator(ctx, s.tries(), id, shard, nil)
	}
	if err != nil {
		return at, false, err
	}
	for limit := 1; ; limit = s.maxRecords { // where the service is exact, one record is enough
		a, err := s.patientRead(ctx, it, limit)
		if err != nil {
			return at, false, err
		}
		for i := range a.changes {
			if a.changes[i].Sequence.Timestamp >= t.UnixMicro() {
				return core.Position{Token: it, Sub: uint64(i)}, true, nil
			}
		}
		if a.next == "" || len(a.changes) == 0 && !a.more {
			return core.Position{Token: it, Sub: uint64(len(a.changes))}, false, nil
		}
		it = a.next
	}
}
