package sim

import (
	"context"
	"iter"
	"sync"
	"time"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

// gate stops a worker at its doors, as a long garbage collection or a frozen virtual machine does: calls to the table and the stream, and the
// handler, wait for it, whatever their contexts say.
type gate struct {
	mu   sync.Mutex
	shut chan struct{} // nil: open
	in   bool          // calls wait before they are made too; else only their answers do
}

// enter is passed on the way out of the worker, leave on the way back.
func (g *gate) enter() { g.pass(true) }
func (g *gate) leave() { g.pass(false) }

func (g *gate) pass(in bool) {
	for {
		g.mu.Lock()
		c := g.shut
		if in && !g.in {
			c = nil
		}
		g.mu.Unlock()
		if c == nil {
			return
		}
		<-c
	}
}

// close shuts the gate until open is called, which may be more than once. in: also for calls that are yet to be made.
func (g *gate) close(in bool) (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		return func() {}
	}
	c := make(chan struct{})
	g.shut, g.in = c, in
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.shut == c {
			g.shut, g.in = nil, false
			close(c)
		}
	}
}

// link is a member's way to the lease table.
type link struct {
	*store.Store
	m *Member
}

func (l link) Update(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
	l.m.fleet.Judge.attempt(l.m, &seen, time.Now())
	l.m.gate.enter()
	defer l.m.gate.leave()
	return l.Store.Update(ctx, seen, same, set)
}

func (l link) Get(ctx context.Context, k core.LeaseKey) (core.Lease, error) {
	l.m.gate.enter()
	defer l.m.gate.leave()
	return l.Store.Get(ctx, k)
}

func (l link) Create(ctx context.Context, row core.Lease) (core.Lease, error) {
	l.m.gate.enter()
	defer l.m.gate.leave()
	return l.Store.Create(ctx, row)
}

func (l link) Delete(ctx context.Context, seen core.Lease, same core.Same) error {
	l.m.gate.enter()
	defer l.m.gate.leave()
	return l.Store.Delete(ctx, seen, same)
}

func (l link) Look(ctx context.Context, streams ...core.StreamID) (core.Sight, error) {
	l.m.gate.enter()
	defer l.m.gate.leave()
	return l.Store.Look(ctx, streams...)
}

// plain is a link without presence: the engine lists.
type plain struct{ l link }

func (p plain) HoldsStart() bool                  { return p.l.HoldsStart() }
func (p plain) Prepare(ctx context.Context) error { return p.l.Prepare(ctx) }
func (p plain) List(ctx context.Context, streams ...core.StreamID) iter.Seq2[core.Lease, error] {
	p.l.m.gate.enter()
	return p.l.Store.List(ctx, streams...)
}
func (p plain) Get(ctx context.Context, k core.LeaseKey) (core.Lease, error) { return p.l.Get(ctx, k) }
func (p plain) Create(ctx context.Context, row core.Lease) (core.Lease, error) {
	return p.l.Create(ctx, row)
}
func (p plain) Update(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
	return p.l.Update(ctx, seen, same, set)
}
func (p plain) Delete(ctx context.Context, seen core.Lease, same core.Same) error {
	return p.l.Delete(ctx, seen, same)
}

// pipe is a member's way to the stream.
type pipe struct {
	*source.Stream
	m *Member
}

func (p pipe) Describe(ctx context.Context) (core.StreamInfo, error) {
	p.m.gate.enter()
	return p.Stream.Describe(ctx)
}

func (p pipe) Shards(ctx context.Context, open core.Position) ([]core.Shard, error) {
	p.m.gate.enter()
	defer p.m.gate.leave()
	return p.Stream.Shards(ctx, open)
}

func (p pipe) Open(ctx context.Context, s core.Shard, at core.Position) (core.ShardReader, error) {
	p.m.gate.enter()
	r, err := p.Stream.Open(ctx, s, at)
	if err != nil {
		return nil, err
	}
	return pipeReader{r, p.m}, nil
}

type pipeReader struct {
	core.ShardReader
	m *Member
}

func (r pipeReader) Next(ctx context.Context) (*core.Page, error) {
	r.m.gate.enter()
	defer r.m.gate.leave()
	return r.ShardReader.Next(ctx)
}
