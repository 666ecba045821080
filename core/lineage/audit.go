package lineage

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/shardwarden/shardwarden/core"
)

// Hole is a part of the stream that nobody will ever read as things stand. Holes are comparable, so that the same one can be counted over
// several looks: a single look may fall between two writes.
type Hole struct {
	// Shard is listed, is owed a lease and has none. Empty where Range says it.
	Shard core.ShardID
	// Range is the part of the key space that no lease covers. Zero where Shard says it.
	Range core.HashRange
}

// String names it, for logs.
func (h Hole) String() string {
	if h.Shard != "" {
		return "shard " + string(h.Shard) + " has no lease"
	}
	return fmt.Sprintf("no lease covers hash keys %x to %x", h.Range.Start, h.Range.End)
}

var maxKey = [16]byte(bytes.Repeat([]byte{0xff}, 16))

// Audit finds holes, in order; none without a listing. What repairs them is [Create] with a new listing.
//
// Where shards have hash ranges, leases that have not ended must cover the whole key space; overlaps are allowed (a parent and its children).
// Rows that cannot be read cover what their shards do. A lease without a range has that of its listed shard. Where shards have no
// ranges, the holes are the leases that Create would make.
func Audit(in Input) []Hole { return New(in).Audit() }

// Audit is [Audit].
func (g *Graph) Audit() []Hole {
	if !g.in.Listed {
		return nil
	}
	if g.in.Lacks.HashRanges || !slices.ContainsFunc(g.in.Shards, func(s core.Shard) bool { return s.Range != nil }) {
		var out []Hole
		for _, i := range g.sorted(g.plan().owed) {
			out = append(out, Hole{Shard: g.nodes[i].id})
		}
		return out
	}
	var ranges []core.HashRange
	for i := range g.nodes {
		n := &g.nodes[i]
		var r *core.HashRange
		switch {
		case n.lease == nil && !n.bad, n.ended():
			continue
		case n.lease != nil && n.lease.Range != nil:
			r = n.lease.Range
		case n.shard != nil:
			r = n.shard.Range
		}
		if r != nil && bytes.Compare(r.Start[:], r.End[:]) <= 0 {
			ranges = append(ranges, *r)
		}
	}
	return holes(ranges)
}

// holes is what ranges, each in order, leave of 0 to 2^128-1.
func holes(ranges []core.HashRange) []Hole {
	slices.SortFunc(ranges, func(a, b core.HashRange) int { return bytes.Compare(a.Start[:], b.Start[:]) })
	var out []Hole
	var next [16]byte // the lowest key that may not be covered yet
	for _, r := range ranges {
		if bytes.Compare(r.Start[:], next[:]) > 0 {
			out = append(out, Hole{Range: core.HashRange{Start: next, End: before(r.Start)}})
		}
		if bytes.Compare(r.End[:], next[:]) < 0 {
			continue
		}
		if r.End == maxKey {
			return out
		}
		next = after(r.End)
	}
	return append(out, Hole{Range: core.HashRange{Start: next, End: maxKey}})
}

func after(k [16]byte) [16]byte {
	for i := len(k) - 1; i >= 0; i-- {
		if k[i]++; k[i] != 0 {
			break
		}
	}
	return k
}

func before(k [16]byte) [16]byte {
	for i := len(k) - 1; i >= 0; i-- {
		k[i]--
		if k[i] != 0xff {
			break
		}
	}
	return k
}
