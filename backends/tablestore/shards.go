package tablestore

import (
	"context"
	"errors"
	"fmt"

	sdk "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/core"
)

// Shards lists the stream's shards: all that the service knows for the zero position, else those that were open at a position, worked out from
// the graph and, for an instant, from what the shards hold.
//
// The service does not say whether a shard is open. One that another names as its parent is closed; so is one that was read to its end, and had no
// children in the listing for minutes after that.
func (s *Source) Shards(ctx context.Context, open core.Position) ([]core.Shard, error) {
	if s.err != nil {
		return nil, s.err
	}
	shards, err := s.shards(ctx, open)
	return shards, s.wrap("list shards", "", err)
}

func (s *Source) shards(ctx context.Context, open core.Position) ([]core.Shard, error) {
	if !open.IsZero() {
		if !open.IsStart() {
			return nil, fmt.Errorf("%w: shards can be listed by start position (TRIM_HORIZON, LATEST, AT_TIMESTAMP) or all together, not at %s", core.ErrInvalid, open)
		}
		if err := checkPosition(open); err != nil {
			return nil, err
		}
	}
	id, err := s.id(ctx, s.tries())
	if err != nil {
		return nil, err
	}
	listed, err := s.list(ctx, id)
	if err != nil || open.IsZero() {
		return listed, err
	}
	return s.openAt(ctx, id, listed, open)
}

// list is one complete listing of a stream.
func (s *Source) list(ctx context.Context, id core.StreamID) ([]core.Shard, error) {
	listed, err := s.pages(ctx, id)
	if err != nil && refused(err) {
		if gone := s.gone(ctx, id); gone != nil {
			if s.retired.Load() {
				return nil, nil // the stream has no shards any more: two answers say so
			}
			err = gone
		}
	}
	if err != nil {
		return nil, err
	}
	if len(listed) == 0 {
		// A stream has a shard from its first moment to its last: this answer is not one (docs/reference/tablestore.md 8).
		return nil, fmt.Errorf("DescribeStream: %w: the answer lists no shards at all", core.ErrUnavailable)
	}
	s.markClosed(listed)
	return listed, nil
}

// refused reports whether the service may have refused a call because what it names is gone. Which code it gives then is not documented
// (docs/reference/tablestore.md 1.8).
func refused(err error) bool {
	return errors.Is(err, core.ErrNotFound) || errors.Is(err, core.ErrInvalid) || errors.Is(err, core.ErrTrimmed)
}

// gone says why a stream that calls were refused for is not there any more; nil where it is, as far as one can see.
func (s *Source) gone(ctx context.Context, id core.StreamID) error {
	info, err := s.current(ctx, s.tries())
	switch {
	case errors.Is(err, core.ErrNotFound):
		return err
	case err != nil: // it may be there
		return nil //nolint:nilerr // as the name says: only what is gone is told
	case info.ID == id:
		return nil
	}
	if id == s.bound {
		s.retire(ctx, info.ID)
	}
	return fmt.Errorf("%w: the stream was switched off and on: it was %s, the table has %s now", core.ErrNotFound, id, info.ID)
}

// pages follows DescribeStream from page to page.
func (s *Source) pages(ctx context.Context, id core.StreamID) ([]core.Shard, error) {
	var shards []core.Shard
	at := map[core.ShardID]bool{}
	for in := (sdk.DescribeStreamRequest{StreamId: streamID(id)}); ; {
		out, err := patiently(ctx, s.tries(), "DescribeStream", func(c *sdk.TableStoreClient) (*sdk.DescribeStreamResponse, error) { return c.DescribeStream(&in) })
		if err != nil {
			return nil, err
		}
		if out.StreamId == nil || core.StreamID(*out.StreamId) != id {
			return nil, fmt.Errorf("DescribeStream: %w: the answer is about another stream than %s", core.ErrUnavailable, id)
		}
		for _, sh := range out.Shards {
			shard, err := newShard(sh)
			if err != nil {
				return nil, err
			}
			if !at[shard.ID] { // pages may overlap where shards are split between two of them
				at[shard.ID] = true
				shards = append(shards, shard)
			}
		}
		next := out.NextShardId
		if next == nil || *next == "" {
			return shards, nil
		}
		if len(out.Shards) == 0 || in.InclusiveStartShardId != nil && *in.InclusiveStartShardId == *next {
			return nil, fmt.Errorf("DescribeStream: %w: the page from shard %q on says that the next one begins there too", core.ErrUnavailable, *next)
		}
		in.InclusiveStartShardId = next
	}
}

func newShard(in *sdk.StreamShard) (core.Shard, error) {
	if in.SelfShard == nil || *in.SelfShard == "" {
		return core.Shard{}, fmt.Errorf("DescribeStream: %w: a listed shard has no id", core.ErrUnavailable)
	}
	out := core.Shard{ID: core.ShardID(*in.SelfShard)}
	for _, parent := range []*sdk.ShardId{in.FatherShard, in.MotherShard} {
		if parent != nil && *parent != "" {
			out.Parents = append(out.Parents, core.ShardID(*parent))
		}
	}
	return out, nil
}

// ended notes that a shard has ended for certain, though nothing in the listing shows it.
func (s *Source) ended(shard core.ShardID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends[shard] = true
}

// markClosed sets Closed in a complete listing.
func (s *Source) markClosed(listed []core.Shard) {
	at := make(map[core.ShardID]int, len(listed))
	for i := range listed {
		at[listed[i].ID] = i
	}
	for i := range listed {
		for _, p := range listed[i].Parents {
			if j, ok := at[p]; ok {
				listed[j].Closed = true
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for shard := range s.ends {
		if i, ok := at[shard]; ok {
			listed[i].Closed = true
		}
	}
}
