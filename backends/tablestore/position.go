package tablestore

import (
	"context"
	"fmt"

	"github.com/shardwarden/shardwarden/core"
)

// checkPosition says why a shard cannot be opened at p.
func checkPosition(p core.Position) error {
	switch p.Anchor {
	case core.AfterToken:
		if p.Token == "" {
			return fmt.Errorf("%w: the position is empty", core.ErrInvalid)
		}
	case core.AtTime:
		if p.Time.IsZero() {
			return fmt.Errorf("%w: position AT_TIMESTAMP has no time", core.ErrInvalid)
		}
	case core.ShardEnd:
		return fmt.Errorf("%w: position SHARD_END: there is nothing to read behind the end of a shard", core.ErrInvalid)
	}
	return nil
}

// Resolve turns a start into a token: an iterator, and the records behind it that are older than the start. Latest is the service's time of
// now, unless the start has an instant.
func (s *Source) Resolve(ctx context.Context, shard core.Shard, start core.Position) (core.Position, error) {
	if s.err != nil {
		return core.Position{}, s.err
	}
	p, err := s.resolve(ctx, shard.ID, start)
	return p, s.wrap("resolve "+start.String()+" of", shard.ID, err)
}

func (s *Source) resolve(ctx context.Context, shard core.ShardID, start core.Position) (core.Position, error) {
	if err := checkPosition(start); err != nil || start.Anchor == core.AfterToken {
		return start, err
	}
	id, err := s.id(ctx, s.tries())
	if err != nil {
		return core.Position{}, err
	}
	if start.Anchor == core.Horizon {
		it, err := s.iterator(ctx, s.tries(), id, shard, nil)
		return core.Position{Token: it}, err
	}
	at := start.Time
	if at.IsZero() {
		if at, err = s.Now(ctx); err != nil {
			return core.Position{}, err
		}
	}
	p, _, err := s.seek(ctx, id, shard, at)
	return p, err
}
