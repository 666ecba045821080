package lineage

import (
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// StartOf is the start that holds for the stream of in, whose Start is the one its user asks for: what to put into [Input.Start], and to list
// [Input.OpenAtStart] with. resolve is true where that is Latest and nobody has begun: the caller must fix the instant first, once.
//
// A Latest start is resolved by the first worker that finds no leases, and stands in the rows it creates until they have a checkpoint (beside a
// token, where the store holds no starts). While one holds it, it holds for all (the earliest, should two workers have begun at once). When none
// does any more, the application has been reading for a while, and Latest comes back without an instant: what is found without a lease now
// appeared since, or its row was lost, and it is read from its beginning. "Now" would skip what it holds.
func StartOf(in Input) (start core.Position, resolve bool) {
	start = in.Start
	switch {
	case start.IsZero():
		return core.FromHorizon, false
	case start.Anchor != core.Latest:
		return start, false
	}
	at, open := instant(&in)
	switch {
	case !at.IsZero():
		start.Time = at
	case !open:
		start.Time = time.Time{}
	default:
		return start, start.Time.IsZero()
	}
	return start, false
}

// instant is the earliest that a row at its start holds. open: none does, and the instant is still to be fixed, because there are no rows, or rows
// at LATEST without one (of the KCL, which reads from "now" when it opens the shard).
func instant(in *Input) (at time.Time, open bool) {
	rows := len(in.Bad)
	for i := range in.Leases {
		l := &in.Leases[i]
		if l.Key.Stream != in.Stream {
			continue
		}
		rows++
		t := l.StartAt // bound to its checkpoint: where it stands, nothing was read yet
		if l.Checkpoint.Anchor == core.Latest {
			t = l.From().Time
			open = open || t.IsZero()
		} else if l.Checkpoint.Anchor != core.AfterToken {
			continue
		}
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	return at, open || rows == 0
}
