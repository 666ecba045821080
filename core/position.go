package core

import (
	"fmt"
	"strings"
	"time"
)

// Anchor says what a [Position] is measured from.
type Anchor uint8

const (
	AfterToken Anchor = iota // behind Token and the Sub records taken inside it
	Horizon                  // the oldest record the service still has
	Latest                   // records that arrive from now on; Time, where set, is the instant "now" was resolved to
	AtTime                   // the first record that arrived at Time or later
	ShardEnd                 // behind the last record of a shard that has ended
)

// Position is a place in a shard. It owns its memory: it may be kept after the page or batch it came from is gone.
//
// The zero Position is no position (see [Position.IsZero]). Token is the source's own (a Kinesis sequence number, a Tablestore iterator)
// and opaque to everything else: it is never compared or parsed outside the source, except for equality.
type Position struct {
	Anchor Anchor
	Token  string    // AfterToken only
	Sub    uint64    // AfterToken only; records taken inside Token, or the sub-sequence number of the last one: the source decides
	Time   time.Time // AtTime: the instant. Latest: the instant it was resolved to, zero before that
}

// Positions that need nothing more said.
var (
	FromHorizon = Position{Anchor: Horizon}
	FromLatest  = Position{Anchor: Latest}
	AtShardEnd  = Position{Anchor: ShardEnd}
)

// From is the position of the first record that arrived at t or later.
func From(t time.Time) Position { return Position{Anchor: AtTime, Time: t} }

// The words that stand for anchors in a lease row, as the KCL writes them (class ExtendedSequenceNumber, SentinelCheckpoint).
const (
	wordHorizon  = "TRIM_HORIZON"
	wordLatest   = "LATEST"
	wordAtTime   = "AT_TIMESTAMP"
	wordShardEnd = "SHARD_END"
)

// IsZero reports whether p is no position at all.
func (p Position) IsZero() bool { return p == Position{} }

// IsEnd reports whether p is the end of the shard.
func (p Position) IsEnd() bool { return p.Anchor == ShardEnd }

// Equal reports whether p and q are the same place. Times are compared as instants, and only where the anchor has one.
func (p Position) Equal(q Position) bool {
	if p.Anchor != q.Anchor {
		return false
	}
	switch p.Anchor {
	case AfterToken:
		return p.Token == q.Token && p.Sub == q.Sub
	case AtTime, Latest:
		return p.Time.Equal(q.Time)
	}
	return true
}

// String is what the checkpoint column of a lease row holds, as the KCL writes it: one of TRIM_HORIZON, LATEST, AT_TIMESTAMP, SHARD_END,
// or the token. Sub and Time stand in columns of their own. [ParsePosition] is its inverse.
func (p Position) String() string {
	switch p.Anchor {
	case Horizon:
		return wordHorizon
	case Latest:
		return wordLatest
	case AtTime:
		return wordAtTime
	case ShardEnd:
		return wordShardEnd
	}
	return p.Token
}

// ParsePosition reads the columns of a lease row: the checkpoint, the sub-sequence number, and the instant a start was resolved to (zero
// where the row has none). A checkpoint is never empty.
func ParsePosition(checkpoint string, sub uint64, startAt time.Time) (Position, error) {
	var p Position
	switch checkpoint {
	case "":
		return p, fmt.Errorf("checkpoint is empty: expected %s, %s, %s, %s or a token", wordHorizon, wordLatest, wordAtTime, wordShardEnd)
	case wordHorizon:
		p.Anchor = Horizon
	case wordLatest:
		p = Position{Anchor: Latest, Time: startAt}
	case wordAtTime:
		p = Position{Anchor: AtTime, Time: startAt}
	case wordShardEnd:
		p.Anchor = ShardEnd
	default:
		return Position{Token: checkpoint, Sub: sub}, nil
	}
	if sub != 0 {
		return Position{}, fmt.Errorf("checkpoint %s with sub-sequence number %d: only a token has records inside it", checkpoint, sub)
	}
	return p, nil
}

// Clone returns p with a token of its own. Sources that build positions out of reused pages call it.
func (p Position) Clone() Position {
	p.Token = strings.Clone(p.Token)
	return p
}

// IsStart reports whether p says where to begin rather than how far somebody came: Horizon, Latest or AtTime.
func (p Position) IsStart() bool {
	return p.Anchor == Horizon || p.Anchor == Latest || p.Anchor == AtTime
}
