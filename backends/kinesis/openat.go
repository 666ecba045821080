package kinesis

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardwarden/shardwarden/core"
)

// openAt finds the shards to begin with among those listed, whether or not the listing was filtered, and those that will be reached through
// them. It is the identity for a listing that fits the position.
//
//   - Latest: those without an end.
//   - Horizon: those whose parents are no longer listed.
//   - An instant: listings hold no times. Where parent and child are both listed, the closed ones are asked for a record that arrived at the
//     instant or later: one that has such a record was open then, or descends from one that was. One that has none need not be read.
func (s *Source) openAt(ctx context.Context, listed []core.Shard, open core.Position) (roots, behind []core.Shard, err error) {
	known := make(map[core.ShardID]bool, len(listed))
	for i := range listed {
		known[listed[i].ID] = true
	}
	begin := make(map[core.ShardID]bool, len(listed))
	related := false // a parent and its child are both listed
	for i := range listed {
		hasParent := false
		for _, p := range listed[i].Parents {
			hasParent = hasParent || known[p]
		}
		related = related || hasParent
		switch {
		case open.Anchor == core.Horizon:
			begin[listed[i].ID] = !hasParent
		default:
			begin[listed[i].ID] = !listed[i].Closed
		}
	}
	if open.Anchor != core.Horizon && !open.Time.IsZero() {
		for i := range listed {
			if !listed[i].Closed {
				continue
			}
			has := true // closed since, and nothing contradicts that it was open then
			if related {
				if has, err = s.hasSince(ctx, listed[i].ID, open.Time); err != nil {
					return nil, nil, err
				}
			}
			begin[listed[i].ID] = has
		}
	}
	roots, behind = frontier(listed, begin)
	return roots, behind, nil
}

// frontier is the least set of shards through which all of begin are reached: those without an ancestor in begin. A child of two parents of
// which one is in begin waits for both, so the other is added. behind are the descendants.
func frontier(listed []core.Shard, begin map[core.ShardID]bool) (roots, behind []core.Shard) {
	byID := make(map[core.ShardID]*core.Shard, len(listed))
	for i := range listed {
		byID[listed[i].ID] = &listed[i]
	}
	for {
		below := make(map[core.ShardID]bool, len(listed))
		var isBelow func(id core.ShardID) bool
		isBelow = func(id core.ShardID) bool {
			if v, ok := below[id]; ok {
				return v
			}
			below[id] = false // a graph with a cycle is not followed for ever
			for _, p := range byID[id].Parents {
				if byID[p] != nil && (begin[p] || isBelow(p)) {
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
				if byID[p] != nil && !begin[p] && !isBelow(p) {
					begin[p], added = true, true
				}
			}
		}
		if added {
			continue
		}
		for i := range listed {
			switch id := listed[i].ID; {
			case below[id]:
				behind = append(behind, listed[i])
			case begin[id]:
				roots = append(roots, listed[i])
			}
		}
		return roots, behind
	}
}

// hasSince reports whether a shard holds a record that arrived at t or later.
func (s *Source) hasSince(ctx context.Context, shard core.ShardID, t time.Time) (bool, error) {
	byName, byARN := s.name.forCall()
	it, err := patiently(ctx, s, "GetShardIterator", s.client.GetShardIterator, &sdk.GetShardIteratorInput{
		StreamName: byName, StreamARN: byARN, ShardId: aws.String(string(shard)), ShardIteratorType: types.ShardIteratorTypeAtTimestamp, Timestamp: aws.Time(t),
	})
	if tooEarly(t, err) {
		return false, nil
	}
	if err != nil {
		return false, s.wrap("look for records since "+t.UTC().Format(time.RFC3339)+" in", shard, err)
	}
	for next := it.ShardIterator; next != nil; {
		out, err := patiently(ctx, s, "GetRecords", s.client.GetRecords, &sdk.GetRecordsInput{ShardIterator: next, StreamARN: byARN, Limit: aws.Int32(1)})
		if err != nil {
			return false, s.wrap("look for records since "+t.UTC().Format(time.RFC3339)+" in", shard, err)
		}
		if len(out.Records) > 0 {
			return true, nil
		}
		if aws.ToInt64(out.MillisBehindLatest) == 0 {
			break // also where an emulator never ends a closed shard
		}
		next = out.NextShardIterator // the service walks long gaps in steps
		if err := pause(ctx, s.pollBehind); err != nil {
			return false, err
		}
	}
	return false, nil
}
