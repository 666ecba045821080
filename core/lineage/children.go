package lineage

import (
	"cmp"
	"slices"

	"github.com/shardwarden/shardwarden/core"
)

// ChildLeases are the leases to create when parent was read to its end and its reader names these children: those that have none, in order
// of their ids. They begin at their beginning and are not ready: the gate lets them start once every parent has ended. They are created
// before the children are recorded on the parent and before its end is stored, so that a crash in between leaves no gap (design rule 6).
// Shards that the listing of in shows as children of parent are added, should the reader not have named them.
func ChildLeases(in Input, parent core.ShardID, children []core.Shard) []core.Lease {
	return New(in).Children(parent, children)
}

// Children is [ChildLeases].
func (g *Graph) Children(parent core.ShardID, children []core.Shard) []core.Lease {
	var out []core.Lease
	seen := map[core.ShardID]bool{parent: true, "": true}
	add := func(s *core.Shard) {
		if seen[s.ID] {
			return
		}
		seen[s.ID] = true
		parents := append(slices.Clone(s.Parents), parent)
		if n := g.find(s.ID); n != nil {
			if n.lease != nil || n.bad {
				return
			}
			for _, p := range g.up.of(g.index[s.ID]) {
				parents = append(parents, g.nodes[p].id)
			}
		}
		parents = slices.DeleteFunc(parents, func(p core.ShardID) bool { return p == "" || p == s.ID })
		slices.Sort(parents)
		out = append(out, g.lease(s, slices.Compact(parents), core.FromHorizon))
	}
	for i := range children {
		add(&children[i])
	}
	if i, ok := g.index[parent]; ok {
		for _, c := range g.down.of(i) {
			if s := g.nodes[c].shard; s != nil {
				add(s)
			}
		}
	}
	slices.SortFunc(out, func(a, b core.Lease) int { return cmp.Compare(a.Key.Shard, b.Key.Shard) })
	return out
}
