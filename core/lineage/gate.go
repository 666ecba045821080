package lineage

import (
	"fmt"

	"github.com/shardwarden/shardwarden/core"
)

// Why says what a parent that holds back a child lacks.
type Why uint8

const (
	NotEnded   Why = iota // has a lease that is not at the shard's end
	NoLease               // is listed and has no lease; Create makes it
	Unreadable            // has a row that cannot be read
	Unlisted              // has no lease, and no listing that is younger than the child tells whether it is gone
)

// String says it in words.
func (w Why) String() string {
	switch w {
	case NotEnded:
		return "not ended"
	case NoLease:
		return "no lease yet"
	case Unreadable:
		return unreadable
	case Unlisted:
		return "no lease, and no complete listing yet that tells whether it is gone"
	}
	return fmt.Sprintf("Why(%d)", uint8(w))
}

// Wait is a parent that a shard waits for.
type Wait struct {
	Parent core.ShardID
	Why    Why
}

// MayStart is the question for one shard. Who asks for many makes a [Graph].
func MayStart(in Input, shard core.ShardID) (ok bool, why string) { return New(in).MayStart(shard) }

// MayStart reports whether the shard has a lease that may be read now, and if not, why: the parents it waits for, or what else is in the way.
func (g *Graph) MayStart(shard core.ShardID) (ok bool, why string) {
	i, ok := g.index[shard]
	if !ok {
		return false, noLease
	}
	switch n := &g.nodes[i]; {
	case n.bad:
		return false, unreadable
	case n.lease == nil:
		return false, noLease
	case n.lease.Ended():
		return false, "it has been read to its end"
	}
	for k, w := range g.waits(i) {
		if k == 0 {
			why = "waits for "
		} else {
			why += " and "
		}
		why += string(w.Parent) + " (" + w.Why.String() + ")"
	}
	return why == "", why
}

const (
	noLease    = "it has no lease"
	unreadable = "its lease row cannot be read"
)

// Waits are the parents that the shard's lease waits for: none if it may be read, if it has ended, and if it has no (readable) lease.
func (g *Graph) Waits(shard core.ShardID) []Wait {
	if i, ok := g.index[shard]; ok {
		return g.waits(i)
	}
	return nil
}

// Blocked are the leases that wait, and for what.
func (g *Graph) Blocked() map[core.ShardID][]Wait {
	out := map[core.ShardID][]Wait{}
	for i := range g.nodes {
		if w := g.waits(int32(i)); w != nil {
			out[g.nodes[i].id] = w
		}
	}
	return out
}

func (g *Graph) waits(i int32) []Wait {
	n := &g.nodes[i]
	if n.lease == nil || begun(n.lease) {
		return nil
	}
	var out []Wait
	for _, p := range g.up.of(i) {
		if why, holds := g.holds(&g.nodes[p], n); holds {
			out = append(out, Wait{g.nodes[p].id, why})
		}
	}
	return out
}

// holds reports whether a parent keeps a child back whose lease has not begun.
func (g *Graph) holds(parent, child *node) (Why, bool) {
	switch {
	case parent.bad:
		return Unreadable, true
	case parent.lease != nil:
		return NotEnded, !parent.lease.Ended()
	case parent.shard == nil && !child.shown:
		return Unlisted, true // no listing, or one that may be older than both
	}
	return NoLease, parent.shard != nil && !g.begins(child)
}

// begins: the lease, not begun and without the flag, is where another library began, so parents without a lease ended before that. Only a
// checkpoint that is that start tells: beneath a LATEST start, TRIM_HORIZON is what the KCL gives to children.
func (g *Graph) begins(n *node) bool {
	return n.atStart && n.lease.Checkpoint.Anchor == g.in.Start.Anchor
}
