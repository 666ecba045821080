package lineage

import "github.com/shardwarden/shardwarden/core"

// Past is a lease at its end for each listed shard that has none and will be owed none: it was over before the start, or it was read and its
// lease is deleted. Ancestors come first. For tables where other clients create a lease, at its beginning, for every shard they see
// listed ([DeleteOptions.KeepWhileListed]): what stands there already they leave alone. Without a listing there are none.
func (g *Graph) Past() []core.Lease {
	var past []int32
	for i, s := range g.plan().states {
		if n := &g.nodes[i]; s == gone && n.missing() && n.id != "" && n.depth >= 0 {
			past = append(past, int32(i))
		}
	}
	var out []core.Lease
	for _, i := range g.sorted(past) {
		s := g.nodes[i].shard
		out = append(out, g.lease(s, s.Parents, core.AtShardEnd))
	}
	return out
}
