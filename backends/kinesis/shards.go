package kinesis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardwarden/shardwarden/core"
)

// A listing by start position must cover the hash space; where it does not, it is asked for again, as the KCL does (HierarchicalShardSyncer).
const (
	coverTries = 3
	coverPause = time.Second
)

// restarts is how often a listing whose token ran out is begun again before that is an error.
const restarts = 3

// Shards lists the stream's shards: all that the service knows for the zero position, else those that were open at a position. The second
// kind is asked for with a shard filter; the answer is checked, because some emulators ignore the filter and the service itself names parent
// and child when the instant is that of a reshard. Then what was open is worked out from the graph, and for an instant by looking for records
// that arrived since.
func (s *Source) Shards(ctx context.Context, open core.Position) ([]core.Shard, error) {
	if s.err != nil {
		return nil, s.err
	}
	shards, err := s.shards(ctx, open)
	return shards, s.wrap("list shards", "", err)
}

func (s *Source) shards(ctx context.Context, open core.Position) ([]core.Shard, error) {
	if open.IsZero() {
		return s.list(ctx, nil)
	}
	if !open.IsStart() {
		return nil, fmt.Errorf("%w: shards can be listed by start position (TRIM_HORIZON, LATEST, AT_TIMESTAMP) or all together, not at %s", core.ErrInvalid, open)
	}
	if err := checkPosition(open); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		listed, err := s.list(ctx, filterFor(open))
		if tooEarly(open.Time, err) {
			// What is open now is open then, as far as anyone knows.
			open = core.FromLatest
			listed, err = s.list(ctx, filterFor(open))
		}
		if err != nil {
			return nil, err
		}
		roots, behind, err := s.openAt(ctx, listed, open)
		if err != nil {
			return nil, err
		}
		gap := firstGap(append(roots[:len(roots):len(roots)], behind...))
		if gap == "" {
			return roots, nil
		}
		if !open.Time.IsZero() {
			// An instant before the stream's first record: no shard was open then, and the oldest shards are meant.
			d, err := s.describe(ctx)
			if err != nil {
				return nil, err
			}
			if open.Time.Before(d.created) || open.Time.Before(d.now.Add(-d.retention)) {
				open = core.FromHorizon
				continue
			}
		}
		if try >= coverTries {
			return nil, fmt.Errorf("%w: the %d shards listed as open at %s leave a hole in the hash space (%s), %d times in a row", core.ErrUnavailable, len(roots), open, gap, try)
		}
		s.log.WarnContext(ctx, "shard listing has a hole, asking again", "stream", s.name.stream, "position", open.String(), "hole", gap)
		if err := pause(ctx, coverPause); err != nil {
			return nil, err
		}
	}
}

// clockDifference is by how much our clock may be ahead of the service's.
const clockDifference = time.Minute

// tooEarly reports whether err, of a call that named t, may be so because t lies in the future for the service, which refuses that.
func tooEarly(t time.Time, err error) bool {
	return errors.Is(err, core.ErrInvalid) && t.After(time.Now().Add(-clockDifference))
}

func filterFor(open core.Position) *types.ShardFilter {
	switch {
	case open.Anchor == core.Horizon:
		return &types.ShardFilter{Type: types.ShardFilterTypeAtTrimHorizon}
	case open.Time.IsZero():
		return &types.ShardFilter{Type: types.ShardFilterTypeAtLatest}
	}
	return &types.ShardFilter{Type: types.ShardFilterTypeAtTimestamp, Timestamp: aws.Time(open.Time)}
}

// list is one complete listing. Where ListShards is not allowed DescribeStream gives it, unfiltered.
func (s *Source) list(ctx context.Context, filter *types.ShardFilter) ([]core.Shard, error) {
	listed, err := s.listShards(ctx, filter)
	if errors.Is(err, core.ErrDenied) && !s.unsigned(err) {
		var err2 error
		if listed, err2 = s.describeShards(ctx); errors.Is(err2, core.ErrDenied) {
			return nil, fmt.Errorf("%w; instead of it, %w", err, err2)
		} else {
			err = err2
		}
	}
	if err != nil {
		return nil, err
	}
	shards := make([]core.Shard, 0, len(listed))
	seen := make(map[core.ShardID]bool, len(listed))
	for i := range listed {
		shard, err := newShard(&listed[i])
		if err != nil {
			return nil, err
		}
		if !seen[shard.ID] { // pages may overlap where shards are split between two of them
			seen[shard.ID] = true
			shards = append(shards, shard)
		}
	}
	return shards, nil
}

// listShards follows ListShards from page to page, by the token alone: with a token, the name and the filter must not be repeated. A token
// lives for 5 minutes; one that ran out means to begin again, for half a listing is none.
func (s *Source) listShards(ctx context.Context, filter *types.ShardFilter) ([]types.Shard, error) {
	byName, byARN := s.name.forCall()
	first := sdk.ListShardsInput{StreamName: byName, StreamARN: byARN, ShardFilter: filter, MaxResults: aws.Int32(1000)}
	var shards []types.Shard
	in := first
	for begun := 0; ; {
		out, err := patiently(ctx, s, "ListShards", s.client.ListShards, &in)
		if errors.Is(err, core.ErrExpired) && begun < restarts {
			begun++
			shards, in = nil, first
			continue
		}
		if err != nil {
			return nil, err
		}
		shards = append(shards, out.Shards...)
		if aws.ToString(out.NextToken) == "" {
			return shards, nil
		}
		in = sdk.ListShardsInput{NextToken: out.NextToken, MaxResults: first.MaxResults}
	}
}

// describeShards is the listing by DescribeStream, which is paged by shard id.
func (s *Source) describeShards(ctx context.Context) ([]types.Shard, error) {
	byName, byARN := s.name.forCall()
	in := sdk.DescribeStreamInput{StreamName: byName, StreamARN: byARN}
	var shards []types.Shard
	for {
		out, err := patiently(ctx, s, "DescribeStream", s.client.DescribeStream, &in)
		if err != nil {
			return nil, err
		}
		d := out.StreamDescription
		if d == nil {
			return nil, fmt.Errorf("DescribeStream: %w: the answer has no description", core.ErrInvalid)
		}
		shards = append(shards, d.Shards...)
		if !aws.ToBool(d.HasMoreShards) {
			return shards, nil
		}
		if len(d.Shards) == 0 {
			return nil, fmt.Errorf("DescribeStream: %w: an empty page says that there are more shards", core.ErrInvalid)
		}
		in.ExclusiveStartShardId = d.Shards[len(d.Shards)-1].ShardId
	}
}

// newShard translates a shard. That it has an ending sequence number is what says that it is closed; the number itself is not used
// (kinesis-local gives one below the starting number).
func newShard(in *types.Shard) (core.Shard, error) {
	id := core.ShardID(aws.ToString(in.ShardId))
	if id == "" {
		return core.Shard{}, fmt.Errorf("%w: a listed shard has no id", core.ErrInvalid)
	}
	r, err := newRange(in.HashKeyRange)
	if err != nil {
		return core.Shard{}, fmt.Errorf("%w: shard %s: %w", core.ErrInvalid, id, err)
	}
	out := core.Shard{ID: id, Range: r}
	for _, parent := range []*string{in.ParentShardId, in.AdjacentParentShardId} {
		if p := aws.ToString(parent); p != "" {
			out.Parents = append(out.Parents, core.ShardID(p))
		}
	}
	out.Closed = in.SequenceNumberRange != nil && in.SequenceNumberRange.EndingSequenceNumber != nil
	return out, nil
}

// newChild translates a child that GetRecords names at the end of a shard.
func newChild(in *types.ChildShard) (core.Shard, error) {
	id := core.ShardID(aws.ToString(in.ShardId))
	if id == "" || len(in.ParentShards) == 0 {
		return core.Shard{}, fmt.Errorf("%w: child shard %q without an id or without parents", core.ErrInvalid, id)
	}
	r, err := newRange(in.HashKeyRange)
	if err != nil {
		return core.Shard{}, fmt.Errorf("%w: child shard %s: %w", core.ErrInvalid, id, err)
	}
	out := core.Shard{ID: id, Range: r}
	for _, p := range in.ParentShards {
		out.Parents = append(out.Parents, core.ShardID(p))
	}
	return out, nil
}
