package memory

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// Sequence numbers count records from here, so that all have as many digits.
const firstSequence uint64 = 1e19 // behind no record yet

const digits = 20

func appendSequence(b []byte, n uint64) []byte { return strconv.AppendUint(b, firstSequence+n, 10) }

func sequence(n uint64) string { return string(appendSequence(nil, n)) }

// compare orders places in a shard.
func compare(aSequence string, aSub uint64, bSequence string, bSub uint64) int {
	return cmp.Or(cmp.Compare(aSequence, bSequence), cmp.Compare(aSub, bSub))
}

// Compare implements [core.PositionOrder]: the horizon, then starts at a time by their time, then tokens, then the end.
func (h *Stream) Compare(a, b core.Position) int {
	rank := func(p core.Position) int {
		switch p.Anchor {
		case core.Horizon:
			return 0
		case core.AtTime, core.Latest:
			return 1
		case core.ShardEnd:
			return 3
		}
		return 2
	}
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch rank(a) {
	case 1:
		return a.Time.Compare(b.Time)
	case 2:
		return compare(a.Token, a.Sub, b.Token, b.Sub)
	}
	return 0
}

// Resolve implements [core.Resolver]: the token behind the last record before the start, of whichever shard of the stream.
func (h *Stream) Resolve(ctx context.Context, shard core.Shard, start core.Position) (core.Position, error) {
	if _, err := h.call(ctx, Resolve, shard.ID); err != nil {
		return core.Position{}, err
	}
	s := h.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	sh, err := s.find(string(Resolve), shard.ID)
	if err != nil {
		return core.Position{}, err
	}
	s.expire(sh)
	switch {
	case start.Anchor == core.Latest && start.Time.IsZero():
		return core.Position{Token: sequence(s.records)}, nil
	case start.Anchor == core.Latest, start.Anchor == core.AtTime:
		if start.Time.After(s.now()) {
			return core.Position{}, s.wrap(string(Resolve), sh.id, fmt.Errorf("start %v lies in the future: %w: no token stands for it yet", start.Time, core.ErrInvalid))
		}
		i := sh.searchTime(start.Time)
		if i == sh.end {
			return core.Position{Token: sequence(s.records)}, nil
		}
		n, err := s.parse(sh.record(i).Sequence)
		return core.Position{Token: sequence(n - 1)}, err
	}
	return core.Position{}, s.wrap(string(Resolve), sh.id, fmt.Errorf("start %s: %w: only Latest and a time are resolved", start, core.ErrInvalid))
}

// searchTime is the index of the first record that arrived at t or later. Arrivals are known to the millisecond, so records of the same
// millisecond count as later: too many rather than too few.
func (sh *shard) searchTime(t time.Time) int {
	return sh.search(func(r *core.Record) bool { return r.Arrived >= t.UnixMilli() })
}

// parse refuses what is no token of this stream.
func (s *stream) parse(token string) (uint64, error) {
	n, err := strconv.ParseUint(token, 10, 64)
	if err != nil || len(token) != digits || n < firstSequence || n > firstSequence+s.records {
		return 0, fmt.Errorf("token %q: %w: expected a sequence number from %s to %s", token, core.ErrInvalid, sequence(0), sequence(s.records))
	}
	return n - firstSequence, nil
}
