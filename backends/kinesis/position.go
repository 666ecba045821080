package kinesis

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/shardwarden/shardwarden/core"
)

// Compare orders positions of one shard: the starts first (the horizon, instants, latest), then sequence numbers as numbers with the place
// inside an aggregated record, then the end of the shard. Starts come before numbers because a checkpoint that names a record is always
// progress over one that names none, as in the KCL's class ExtendedSequenceNumber.
func (s *Source) Compare(a, b core.Position) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch a.Anchor {
	case core.AfterToken:
		return cmp.Or(compareNumbers(a.Token, b.Token), cmp.Compare(a.Sub, b.Sub))
	case core.AtTime, core.Latest:
		return a.Time.Compare(b.Time)
	}
	return 0
}

func rank(p core.Position) int {
	switch p.Anchor {
	case core.Horizon:
		return 0
	case core.AtTime:
		return 1
	case core.Latest:
		return 2
	case core.ShardEnd:
		return 4
	}
	return 3
}

// compareNumbers compares two sequence numbers: decimals of up to 129 bits, on some emulators with leading zeros.
func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// checkPosition says why a shard cannot be opened at p.
func checkPosition(p core.Position) error {
	switch p.Anchor {
	case core.AfterToken:
		if p.Token == "" || strings.Trim(p.Token, "0123456789") != "" {
			return fmt.Errorf("%w: position %q is not a Kinesis sequence number", core.ErrInvalid, p.Token)
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
