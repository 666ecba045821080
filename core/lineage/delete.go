package lineage

import (
	"slices"

	"github.com/shardwarden/shardwarden/core"
)

// DeleteOptions say what else holds for deleting.
type DeleteOptions struct {
	// GoneTwice are shards with a lease that two complete listings in a row, some time apart, did not show ([Graph.Missing] gives those of
	// one listing). Only these count as gone, and only as long as the listing of now does not show them either.
	GoneTwice []core.ShardID
	// KeepWhileListed: a finished lease stays until its shard is gone. For tables where other clients create a lease, at its
	// beginning, for every shard they see listed (the Java Stream Client of Tablestore).
	KeepWhileListed bool
}

// Delete is the leases that may be deleted now, ancestors first.
//
// finished are ended, and are deleted under [core.Remove]: every child has a lease that is ready (rows of others: with a checkpoint past its
// start, for which LATEST counts), and no parent has a row any more. Children are those that the row names, or that a listing shows which
// is younger than the shard's end. One without children goes when its shard is gone.
//
// garbage are not ended, and their shards are gone: the service deleted the data, possibly unread, which the caller should report. Children
// that are owed a lease have it. One that has an owner is the owner's business, who will find out when it reads; the condition to
// delete another is its counter.
//
// A row of a parent, even one that cannot be read, keeps all its descendants' rows: else a child deleted before its parent would look like
// one that was never created.
func Delete(in Input, opt DeleteOptions) (finished, garbage []core.LeaseKey) {
	return New(in).Delete(opt)
}

// Delete is [Delete].
func (g *Graph) Delete(opt DeleteOptions) (finished, garbage []core.LeaseKey) {
	goneTwice := make(map[core.ShardID]bool, len(opt.GoneTwice))
	for _, id := range opt.GoneTwice {
		goneTwice[id] = true
	}
	var end, rest []int32
	below := g.lookDown()
	for i := range g.nodes {
		n := &g.nodes[i]
		if n.lease == nil {
			continue
		}
		isGone := g.in.Listed && n.shard == nil && goneTwice[n.id]
		at := int32(i)
		switch {
		case !n.ended():
			if isGone && !slices.ContainsFunc(g.down.of(at), func(c int32) bool { return g.nodes[c].missing() && !below[c].settled }) {
				rest = append(rest, at)
			}
		case opt.KeepWhileListed && !isGone, !g.childrenBegun(at, isGone), g.parentsRemain(at):
		default:
			end = append(end, at)
		}
	}
	return g.keys(end), g.keys(rest)
}

// childrenBegun: every child is known and ready; without children, the shard is gone.
func (g *Graph) childrenBegun(i int32, isGone bool) bool {
	n := &g.nodes[i]
	if !isGone && len(n.lease.Children) == 0 && !n.closed && (n.shard != nil || !n.shown) {
		return false // no listing, or one from before it closed: there may be more children than are known
	}
	known := false
	for _, c := range g.down.of(i) {
		n := &g.nodes[c]
		if n.lease == nil && n.shard == nil && !n.bad && isGone {
			continue // named by the row alone: finished, deleted and expired, or expired before it could be read. Nothing is left of it
		}
		if n.lease == nil || !begun(n.lease) {
			return false
		}
		known = true
	}
	return known || isGone
}

func (g *Graph) parentsRemain(i int32) bool {
	return slices.ContainsFunc(g.up.of(i), func(p int32) bool { return g.nodes[p].lease != nil || g.nodes[p].bad })
}

// Missing are the shards that have a lease and that the listing does not show, in order of their ids; none without a listing. A shard that
// is missing from two listings in a row, some time apart, is gone: [DeleteOptions.GoneTwice].
func (g *Graph) Missing() []core.ShardID {
	if !g.in.Listed {
		return nil
	}
	var out []core.ShardID
	for i := range g.nodes {
		if n := &g.nodes[i]; n.lease != nil && n.shard == nil {
			out = append(out, n.id)
		}
	}
	slices.Sort(out)
	return out
}

func (g *Graph) keys(at []int32) []core.LeaseKey {
	var out []core.LeaseKey
	for _, i := range g.sorted(at) {
		out = append(out, g.nodes[i].lease.Key)
	}
	return out
}
