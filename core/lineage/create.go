package lineage

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/shardwarden/shardwarden/core"
)

// Create is the leases to create now, ancestors first, in an order that does not depend on that of the input. Creating one that exists
// by then is no error. Without a listing there are none.
//
// Without leases these are the shards open at the start. With leases: the shards open at the start that were not created when the
// application began, children of an ended parent that were not listed when it ended, a parent that is listed without a lease while a child
// waits for it, and shards that appeared without any relation that has a lease or is listed.
//
// The error gathers (go-multierror) what cannot be decided, each as a *core.Error that names the shard: a child listed under a parent
// that is listed open, ancestors in a circle, a start that is not resolved. The leases returned with it are sound and may be created.
//
// A scan of leases is not an instant: it may show a child as it was before it became ready, and no longer its parent, deleted since. Who
// creates a lease that has children with leases looks once more first (their rows, by Get) or asks for the same answer twice.
func Create(in Input) ([]core.Lease, error) { return New(in).Create() }

// Create is [Create].
func (g *Graph) Create() ([]core.Lease, error) {
	p := g.plan()
	out := make([]core.Lease, 0, len(p.owed))
	for _, i := range g.sorted(p.owed) {
		out = append(out, p.leases[i])
	}
	return out, p.errs.ErrorOrNil()
}

// NeedsStart reports whether [Input.OpenAtStart] is missing: ask the source, and make the graph again.
func (g *Graph) NeedsStart() bool {
	if g.startOpen || !g.in.Listed {
		return false
	}
	if g.plan().needsStart {
		return true
	}
	for i := range g.nodes {
		n := &g.nodes[i]
		if n.lease == nil || n.lease.Checkpoint.Anchor != core.AtTime {
			continue
		}
		if slices.ContainsFunc(g.waits(int32(i)), func(w Wait) bool { return w.Why == NoLease }) {
			return true
		}
	}
	return false
}

// state is what a shard means to its children that have no lease.
type state uint8

const (
	gone    state = iota // no lease and not listed, or none needed: says nothing
	active               // has a lease that has not ended, or will get one: children come when it ends
	done                 // ended: children are owed a lease
	unclear              // cannot be decided now: nor can what is below
)

type plan struct {
	owed       []int32
	leases     map[int32]core.Lease
	states     []state // of all nodes; nil where nothing could be decided
	needsStart bool
	errs       *multierror.Error
}

func (g *Graph) plan() *plan {
	p := &plan{leases: map[int32]core.Lease{}}
	if !g.in.Listed {
		return p
	}
	if err := g.check(); err != nil {
		p.errs = multierror.Append(p.errs, err...)
	}
	if errors.Is(p.errs.ErrorOrNil(), errStart) {
		return p
	}
	below := g.lookDown()
	states := make([]state, len(g.nodes))
	for _, i := range g.order {
		states[i] = g.decide(p, i, states, below)
	}
	p.states = states
	return p
}

// below is what the descendants of a shard without a lease tell about it.
type below struct {
	settled bool // a descendant is ready: this one was read, or ended before the start
	unknown bool // a descendant has a row that cannot be read, and would tell
	needed  bool // a child has a lease that waits for it
	before  bool // it ended before the start: a descendant is open at the start
	live    bool // it, or a descendant, is listed and takes records
}

func (g *Graph) lookDown() []below {
	out := make([]below, len(g.nodes))
	for _, i := range slices.Backward(g.order) {
		b := &out[i]
		b.live = g.nodes[i].shard != nil && !g.nodes[i].closed
		for _, c := range g.down.of(i) {
			n := &g.nodes[c]
			switch {
			case n.lease != nil && begun(n.lease):
				b.settled = true
			case n.bad:
				b.unknown = true
			case n.lease != nil:
				b.needed = b.needed || !g.begins(n)
			case n.missing():
				b.settled = b.settled || out[c].settled
				b.unknown = b.unknown || out[c].unknown
			}
			b.before = b.before || n.atStart || out[c].before
			b.live = b.live || out[c].live
		}
		b.before = b.before && !g.nodes[i].atStart
	}
	return out
}

func (g *Graph) decide(p *plan, i int32, states []state, below []below) state {
	n := &g.nodes[i]
	switch {
	case n.ended():
		return done
	case n.lease != nil && n.shard == nil:
		return done // its data is gone: nothing will end it any more that could name its children
	case n.lease != nil, n.bad:
		return active
	case n.shard == nil, n.id == "":
		return gone
	}
	var anyDone, anyActive bool
	for _, up := range g.up.of(i) {
		parent := &g.nodes[up]
		if parent.shard != nil && !parent.closed && !parent.ended() && !below[up].settled {
			p.errs = multierror.Append(p.errs, g.invalid(n.id, "its parent %s is listed open: the listing contradicts itself, list again", parent.id))
			return unclear
		}
		if states[up] == unclear {
			return unclear
		}
		anyDone = anyDone || states[up] == done
		anyActive = anyActive || states[up] == active
	}
	root := !anyDone && !anyActive
	switch {
	case below[i].needed:
	case below[i].settled:
		return gone
	case anyDone:
	case anyActive:
		return active
	case below[i].before:
		return gone
	case below[i].unknown && g.startOpen:
		return unclear
	}
	if root && !g.startOpen {
		p.needsStart = true
		p.errs = multierror.Append(p.errs, g.invalid(n.id, "has no lease, and it is not known which shards were open at the start (%s): list them", g.in.Start))
		return unclear
	}
	if root && !below[i].needed && !n.atStart && !g.appeared(below[i]) {
		return gone
	}
	at := core.FromHorizon
	if root && n.atStart {
		at = g.in.Start
	}
	l := g.lease(n.shard, n.shard.Parents, at)
	l.Ready = root
	p.owed = append(p.owed, i)
	p.leases[i] = l
	return active
}

// appeared decides on a shard without leased relations that was not open at the start and has no descendant that was. It came after the start
// if something of it still takes records: its ancestors have been forgotten by the service, or it never had any. Otherwise it ended before, as
// far as can be told: only a source whose shards come without parents has these, and the many that ended long ago must not be read because of
// the few that came and went since.
func (g *Graph) appeared(b below) bool { return b.live || g.in.Start.Anchor == core.Horizon }

func (g *Graph) lease(s *core.Shard, parents []core.ShardID, at core.Position) core.Lease {
	l := core.Lease{Key: core.LeaseKey{Stream: g.in.Stream, Shard: s.ID}, Checkpoint: at, StartAt: at.Time, Parents: slices.Clone(parents)}
	l.Checkpoint.Time = time.Time{} // it stands in StartAt
	if s.Range != nil {
		l.Range = new(*s.Range)
	}
	return l
}

// errStart marks a start that nothing can be decided with.
var errStart = fmt.Errorf("start: %w", core.ErrInvalid)

func (g *Graph) invalid(id core.ShardID, format string, args ...any) error {
	return &core.Error{Op: "create lease", Stream: g.in.Stream, Shard: id, Err: fmt.Errorf(format+": %w", append(args, core.ErrInvalid)...)}
}

// check is what is wrong with the input as a whole.
func (g *Graph) check() []error {
	var errs []error
	s := g.in.Start
	switch {
	case !s.IsStart():
		errs = append(errs, &core.Error{Op: "create leases", Stream: g.in.Stream, Err: fmt.Errorf("%w: %s is not a start: expected TRIM_HORIZON, LATEST or AT_TIMESTAMP", errStart, s)})
	case s.Anchor != core.Horizon && s.Time.IsZero() && !g.begun:
		errs = append(errs, &core.Error{Op: "create leases", Stream: g.in.Stream, Err: fmt.Errorf("%w: %s has no instant: resolve it first", errStart, s)})
	}
	if n := g.find(""); n != nil && n.shard != nil {
		errs = append(errs, g.invalid("", "a listed shard has no id"))
	}
	for i := range g.nodes {
		if n := &g.nodes[i]; n.depth < 0 && n.missing() {
			errs = append(errs, g.invalid(n.id, "it is, or stands below, its own ancestor"))
		}
	}
	for _, id := range g.in.OpenAtStart {
		if n := g.find(id); n == nil || n.shard == nil && n.lease == nil && !n.bad {
			errs = append(errs, g.invalid(id, "it is open at the start and not in the listing: list again"))
		}
	}
	return errs
}
