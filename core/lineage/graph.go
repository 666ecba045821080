package lineage

import (
	"cmp"
	"slices"

	"github.com/shardwarden/shardwarden/core"
)

// Input is one look at one stream. Nothing in it is changed, and a [Graph] goes on sharing its slices.
type Input struct {
	// Stream is the stream that Shards belong to. Leases of other streams are passed over.
	Stream core.StreamID
	// Shards is a complete listing of the stream, closed shards included (the zero position), in any order.
	Shards []core.Shard
	// Listed says that Shards is such a listing, even an empty one. Without a listing nothing is created, missing, or gone.
	Listed bool
	// Leases are the stream's leases, ended ones included, in any order.
	Leases []core.Lease
	// Bad are shards whose lease row exists and cannot be read. They count as neither missing nor finished: they hold back their children, and
	// nothing is created in their place.
	Bad []core.ShardID
	// Start is where the application begins: Horizon (the zero value too), Latest or AtTime, the latter two with Time set. It must be the same
	// instant each time, the one that the rows hold: [StartOf] finds it.
	Start core.Position
	// OpenAtStart are the shards open at Start, as the source lists them; nil: not at hand, empty: none. For a Latest or AtTime start they are
	// needed now and then, and [Graph.NeedsStart] says when. For Horizon they may be left out: then they are the shards of the listing
	// without listed parents. [IDs] makes them, never nil.
	OpenAtStart []core.ShardID
	// Lacks: without hash ranges the audit goes by shards.
	Lacks core.SourceLacks
}

// IDs are the ids of shards, never nil.
func IDs(shards []core.Shard) []core.ShardID {
	ids := make([]core.ShardID, len(shards))
	for i := range shards {
		ids[i] = shards[i].ID
	}
	return ids
}

// Graph is an [Input] made ready for questions. It is made by [New], never changes, and may be used by many goroutines.
type Graph struct {
	in        Input
	begun     bool // a Latest start that no row holds any more: what appears now is read from its beginning
	startOpen bool // it is known which shards are open at the start
	index     map[core.ShardID]int32
	nodes     []node
	up, down  edges
	order     []int32 // parents before children; nodes in or below a cycle are left out
}

// node is a shard that is listed, or leased, or named as a parent or child of one that is.
type node struct {
	id      core.ShardID
	shard   *core.Shard // nil: not listed
	lease   *core.Lease // nil: no lease, or one that cannot be read
	bad     bool
	closed  bool
	atStart bool
	shown   bool  // it, or a descendant, is listed: the listing is younger than it, so if it is not listed it is gone
	depth   int32 // longest way from a shard without parents; -1 in or below a cycle
}

// missing: listed, with no row of any kind.
func (n *node) missing() bool { return n.shard != nil && n.lease == nil && !n.bad }

func (n *node) ended() bool { return n.lease != nil && n.lease.Ended() }

// begun: the parents of a lease no longer matter (design rule 5). Rows of others have no flag; a KCL row at LATEST was made for a shard
// without leased ancestors, one at a token or the end was read after its parents.
func begun(l *core.Lease) bool {
	switch l.Checkpoint.Anchor {
	case core.AfterToken:
		return l.Ready || !l.Checkpoint.IsZero()
	case core.Latest, core.ShardEnd:
		return true
	}
	return l.Ready
}

// New makes in ready for questions, in a time that grows with the number of shards and leases.
func New(in Input) *Graph {
	if in.Start.IsZero() {
		in.Start = core.FromHorizon
	}
	if !in.Listed {
		in.Shards = nil
	}
	most := max(len(in.Shards), len(in.Leases))
	g := &Graph{in: in, index: make(map[core.ShardID]int32, most), nodes: make([]node, 0, most)}
	for i := range in.Shards {
		s := &in.Shards[i]
		n := &g.nodes[g.add(s.ID)]
		// A listing of many pages, made while shards split, may show one twice.
		if n.shard == nil || len(n.shard.Parents) < len(s.Parents) {
			n.shard = s
		}
		n.closed = n.closed || s.Closed
	}
	for i := range in.Leases {
		if l := &in.Leases[i]; in.Stream == l.Key.Stream {
			g.nodes[g.add(l.Key.Shard)].lease = l
		}
	}
	for _, id := range in.Bad {
		if n := &g.nodes[g.add(id)]; n.lease == nil {
			n.bad = true
		}
	}
	g.link()
	g.sort()
	g.markStart()
	return g
}

func (g *Graph) add(id core.ShardID) int32 {
	i, ok := g.index[id]
	if !ok {
		i = int32(len(g.nodes))
		g.index[id] = i
		g.nodes = append(g.nodes, node{id: id})
	}
	return i
}

func (g *Graph) find(id core.ShardID) *node {
	if i, ok := g.index[id]; ok {
		return &g.nodes[i]
	}
	return nil
}

// link takes every word for it: the listing's, the leases' parents and their children.
func (g *Graph) link() {
	pairs := make([]uint64, 0, len(g.nodes))
	link := func(parent, child int32) { pairs = append(pairs, pair(parent, child)) }
	for i := range g.nodes { // those that are only named are added behind, and have nothing to say
		at, n := int32(i), g.nodes[i]
		if n.shard != nil {
			for _, p := range n.shard.Parents {
				if p != "" {
					link(g.add(p), at)
				}
			}
		}
		if n.lease == nil {
			continue
		}
		if n.shard == nil || !slices.Equal(n.shard.Parents, n.lease.Parents) { // mostly the same
			for _, p := range n.lease.Parents {
				if p != "" {
					link(g.add(p), at)
				}
			}
		}
		for _, c := range n.lease.Children {
			if c != "" {
				link(at, g.add(c))
			}
		}
	}
	slices.Sort(pairs)
	pairs = slices.Compact(pairs)
	g.down = newEdges(len(g.nodes), pairs)
	for i, p := range pairs {
		pairs[i] = pair(int32(uint32(p)), int32(p>>32))
	}
	slices.Sort(pairs)
	g.up = newEdges(len(g.nodes), pairs)
}

// edges are the neighbours of each node in one direction, side by side.
type edges struct{ from, to []int32 }

func pair(from, to int32) uint64 { return uint64(uint32(from))<<32 | uint64(uint32(to)) }

func newEdges(nodes int, sorted []uint64) edges {
	e := edges{from: make([]int32, nodes+1), to: make([]int32, len(sorted))}
	for i, p := range sorted {
		e.from[p>>32+1]++
		e.to[i] = int32(uint32(p))
	}
	for i := range nodes {
		e.from[i+1] += e.from[i]
	}
	return e
}

func (e *edges) of(i int32) []int32 { return e.to[e.from[i]:e.from[i+1]] }

// sort puts parents before children. What stands in or below a cycle, which no sound service lists, gets no place.
func (g *Graph) sort() {
	waits := make([]int32, len(g.nodes))
	g.order = make([]int32, 0, len(g.nodes))
	for i := range g.nodes {
		g.nodes[i].depth = -1
		if waits[i] = int32(len(g.up.of(int32(i)))); waits[i] == 0 {
			g.nodes[i].depth = 0
			g.order = append(g.order, int32(i))
		}
	}
	for at := 0; at < len(g.order); at++ {
		i := g.order[at]
		for _, c := range g.down.of(i) {
			if waits[c]--; waits[c] == 0 {
				g.nodes[c].depth = g.nodes[i].depth + 1
				g.order = append(g.order, c)
			}
		}
	}
	for _, i := range slices.Backward(g.order) {
		n := &g.nodes[i]
		n.shown = n.shard != nil || slices.ContainsFunc(g.down.of(i), func(c int32) bool { return g.nodes[c].shown })
	}
}

func (g *Graph) markStart() {
	if g.in.Start.Anchor == core.Latest {
		if at, open := instant(&g.in); at.IsZero() && !open {
			g.begun, g.startOpen = true, true
			return
		}
	}
	if g.in.OpenAtStart != nil {
		g.startOpen = true
		for _, id := range g.in.OpenAtStart {
			if n := g.find(id); n != nil {
				n.atStart = true
			}
		}
		return
	}
	if g.in.Start.Anchor != core.Horizon || !g.in.Listed {
		return
	}
	g.startOpen = true
	for i := range g.nodes {
		g.nodes[i].atStart = g.nodes[i].shard != nil && !slices.ContainsFunc(g.up.of(int32(i)), func(p int32) bool { return g.nodes[p].shard != nil })
	}
}

// sorted puts nodes in the order of their creation: ancestors first, then by id. It does not depend on the order of the input.
func (g *Graph) sorted(at []int32) []int32 {
	slices.SortFunc(at, func(a, b int32) int {
		x, y := &g.nodes[a], &g.nodes[b]
		return cmp.Or(cmp.Compare(x.depth, y.depth), cmp.Compare(x.id, y.id))
	})
	return at
}
