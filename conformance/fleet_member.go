package conformance

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
)

// fleet is some workers over one stream and one lease table, what their handlers were given, and what the table showed.
type fleet struct {
	*stream
	table  StoreHarness
	watch  core.LeaseStore // of nobody in the fleet
	d      time.Duration   // the lease duration
	tick   time.Duration   // between two looks of a test
	from   core.Position   // where the stream begins
	ledger *ledger

	// handle is what handlers do beside being given records; nil: nothing.
	handle atomic.Pointer[handler]

	mu      sync.Mutex
	members []*member
	gates   []*gate
	family  map[core.ShardID][]core.ShardID // parents, of the shards that came of a split or a merge
}

type handler func(ctx context.Context, m *member, b *core.Batch) error

// member is one worker with its own ways to the stream and the table.
type member struct {
	*worker.Worker
	f     *fleet
	store *link
	src   *tap
	stop  context.CancelFunc // as a signal does: Run stops gracefully
	done  chan struct{}
	err   error // of Run, once done
}

func newFleet(c *checker, m makeFleet) *fleet {
	f := &fleet{stream: newStream(c, m.source), d: leaseDuration(c.fake), from: core.FromHorizon, family: map[core.ShardID][]core.ShardID{}}
	f.tick = f.d / 20
	f.ledger = newLedger(f)
	h, err := m.store(c.ctx)
	if err != nil {
		c.fatalf("make a table: %v", err)
	}
	c.cleanup(func() {
		if err := h.Close(); err != nil {
			c.errorf("close the harness of the table: %v", err)
		}
	})
	f.table, f.watch = h, h.Store()
	if err := f.watch.Prepare(c.ctx); err != nil {
		c.fatalf("Prepare: %v", err)
	}
	c.cleanup(f.end)
	c.cleanup(f.watchTable())
	return f
}

// start begins a worker; change may alter its settings.
func (f *fleet) start(id string, change ...func(m *member, c *worker.Config)) *member {
	m := &member{f: f, store: newLink(f, f.table.Store()), src: newTap(f, f.h.Source()), done: make(chan struct{})}
	c := worker.Config{
		ID: core.WorkerID(id), Streams: worker.One(m.src.source(), f.from), Store: m.store.store(), Process: m.process,
		LeaseDuration: f.d, StallAfter: 2 * f.d, HandlerStopTimeout: f.d, ShutdownTimeout: 2 * f.d, CheckpointEvery: f.d / 4,
		ListEvery: 2 * f.d, CleanupEvery: f.d / 2, CleanupFinished: f.d / 2,
		OnError: worker.ErrorPolicy{Backoff: f.d / 100, MaxBackoff: f.d / 10},
	}
	for _, change := range change {
		change(m, &c)
	}
	w, err := worker.New(c)
	if err != nil {
		f.fatalf("worker %s: %v", id, err)
	}
	m.Worker = w
	ctx, stop := context.WithCancel(context.WithoutCancel(f.ctx))
	m.stop = stop
	f.mu.Lock()
	f.members = append(f.members, m)
	f.mu.Unlock()
	go func() {
		defer close(m.done)
		m.err = w.Run(ctx)
	}()
	return m
}

// process is every handler: it writes the ledger, and does what the rule wants.
func (m *member) process(ctx context.Context, b *core.Batch) (err error) {
	visit := m.f.ledger.enter(ctx, m, b)
	returned := false
	defer func() { m.f.ledger.leave(visit, b, returned && err == nil) }() // also when it panics
	if h := m.f.handle.Load(); h != nil {
		err = (*h)(ctx, m, b)
	}
	returned = true
	return err
}

// onBatch says what handlers do from here on.
func (f *fleet) onBatch(h handler) { f.handle.Store(&h) }

// gate holds handlers until it is opened.
type gate struct {
	open chan struct{}
	once sync.Once
	in   atomic.Int32 // how many came to it
}

func (f *fleet) gate() *gate {
	g := &gate{open: make(chan struct{})}
	f.mu.Lock()
	f.gates = append(f.gates, g)
	f.mu.Unlock()
	return g
}

// wait waits though the right to process may end meanwhile, as handlers do that know no contexts.
func (g *gate) wait() { g.in.Add(1); <-g.open }
func (g *gate) pass() { g.once.Do(func() { close(g.open) }) }

// stopped waits for a worker that was told to stop.
func (f *fleet) stopped(m *member) {
	if !f.within("the stop of worker "+string(m.ID()), func() { <-m.done }) {
		f.fatalf("Run of worker %s does not return", m.ID())
	}
}

// ended reports whether Run has returned.
func (m *member) ended() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// alive says so if a worker ended that should not have.
func (f *fleet) alive(all ...*member) {
	for _, m := range all {
		if m.ended() {
			f.errorf("worker %s ended: %v", m.ID(), m.err)
		}
	}
}

// end stops what is left of the fleet.
func (f *fleet) end() {
	f.mu.Lock()
	all, gates := slices.Clone(f.members), slices.Clone(f.gates)
	f.mu.Unlock()
	for _, g := range gates {
		g.pass()
	}
	for _, m := range all {
		m.store.heal()
		m.src.heal()
		m.stop()
	}
	for _, m := range all {
		f.within("the stop of worker "+string(m.ID()), func() { <-m.done })
		f.within("late writes of worker "+string(m.ID()), m.store.wg.Wait)
	}
}

// split splits a shard and remembers whose the children are.
func (f *fleet) split(id core.ShardID) []core.Shard {
	children := f.stream.split(id)
	f.born(children)
	return children
}

// merge merges two neighbours.
func (f *fleet) merge(a, b core.ShardID) core.Shard {
	if err := need[Merger](f.checker, f.h, "Merge").Merge(f.ctx, a, b); err != nil {
		f.fatalf("Merge(%s, %s): %v", a, b, err)
	}
	children := append(f.childrenOf(a), f.childrenOf(b)...)
	if len(children) == 0 {
		f.fatalf("Merge(%s, %s) gave no child", a, b)
	}
	child := children[0]
	child.Parents = []core.ShardID{a, b} // whatever the source says
	f.born([]core.Shard{child})
	return child
}

func (f *fleet) born(children []core.Shard) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range children {
		f.family[c.ID] = slices.Clone(c.Parents)
	}
}

func (f *fleet) parents(id core.ShardID) []core.ShardID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.family[id]
}

// shards makes the stream have at least so many open shards.
func (f *fleet) shards(n int) []core.ShardID {
	for {
		open := f.open()
		if len(open) >= n {
			return names(open)
		}
		if _, ok := f.h.(Splitter); !ok {
			f.skip("verb Split, or a stream that begins with more shards")
		}
		f.split(open[0].ID)
	}
}

// pair is two neighbours to merge.
func (f *fleet) pair() (a, b core.ShardID) {
	x, y := f.neighbours()
	f.born([]core.Shard{x, y})
	return x.ID, y.ID
}

// await waits until cond holds; what happens in handlers is noticed at once.
func (f *fleet) await(what string, most time.Duration, cond func() bool) time.Duration {
	began := time.Now()
	for {
		changed := f.ledger.next()
		if cond() {
			return time.Since(began)
		}
		if time.Since(began) > most {
			f.fatalf("%s: not within %v\n%s", what, most, f.show())
		}
		timer := time.NewTimer(f.tick)
		select {
		case <-changed:
		case <-timer.C:
		case <-f.ctx.Done():
		}
		timer.Stop()
		if f.ctx.Err() != nil {
			f.fatalf("ended from outside: %v", context.Cause(f.ctx))
		}
	}
}

// during is await the other way round: cond must hold all the while.
func (f *fleet) during(d time.Duration, what string, cond func() bool) {
	for began := time.Now(); time.Since(began) < d; f.wait(f.tick) {
		if !cond() {
			f.fatalf("%s: no longer so after %v\n%s", what, time.Since(began), f.show())
		}
	}
}

// long is how long a fleet may take for what takes a lease duration or two.
func (f *fleet) long() time.Duration { return 6 * f.d }

// fill adds n records to each shard.
func (f *fleet) fill(n int, shards ...core.ShardID) {
	for range n {
		for _, id := range shards {
			key, data := f.ledger.record(id)
			if err := f.h.Put(f.ctx, id, key, data); err != nil {
				f.fatalf("Put to %s: %v", id, err)
			}
		}
	}
}

// trickle adds a record to each shard now and then, until stop is called.
func (f *fleet) trickle(shards ...core.ShardID) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	ticker := time.NewTicker(f.d / 25)
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-f.ctx.Done():
				return
			case <-ticker.C:
			}
			for _, id := range shards {
				key, data := f.ledger.record(id)
				if err := f.h.Put(f.ctx, id, key, data); err != nil && f.ctx.Err() == nil {
					f.errorf("Put to %s: %v", id, err)
					return
				}
			}
		}
	}()
	stop = sync.OnceFunc(func() { close(quit); ticker.Stop(); <-done })
	f.cleanup(stop)
	return stop
}

// delivered waits until handlers were given, and have done, all that was put.
func (f *fleet) delivered(most time.Duration) time.Duration {
	return f.await("everything that was put is handled", most, func() bool { return f.ledger.missing() == "" })
}

// rows is the table as the store lists it.
func (f *fleet) rows() []core.Lease {
	sight, err := core.Collect(f.watch.List(f.ctx, f.info.ID))
	if err != nil && f.ctx.Err() == nil {
		f.errorf("List: %v", err)
	}
	return sight.Leases
}

func (f *fleet) row(id core.ShardID) (core.Lease, bool) {
	for _, l := range f.rows() {
		if l.Key.Shard == id {
			return l, true
		}
	}
	return core.Lease{}, false
}

// owners counts the leases of shards that have not ended.
func (f *fleet) owners() map[core.WorkerID]int {
	out := map[core.WorkerID]int{}
	for _, l := range f.rows() {
		if !l.Ended() {
			out[l.Owner]++
		}
	}
	return out
}

// even waits until each of the workers has its share of so many open shards.
func (f *fleet) even(shards int, ids ...core.WorkerID) time.Duration {
	return f.await("leases are spread evenly", f.long(), func() bool {
		owners := f.owners()
		sum := 0
		for _, id := range ids {
			n := owners[id]
			if n < shards/len(ids) || n > (shards+len(ids)-1)/len(ids) {
				return false
			}
			sum += n
		}
		return sum == shards
	})
}

// of are the shards a worker owns, as the table shows.
func (f *fleet) of(id core.WorkerID) (out []core.ShardID) {
	for _, l := range f.rows() {
		if l.Owner == id && !l.Ended() {
			out = append(out, l.Key.Shard)
		}
	}
	return sorted(out)
}

// calm says so where records came twice though nothing took a right away.
func (f *fleet) calm(why string) {
	if n := f.ledger.repeats(); n != 0 {
		f.errorf("%d records came twice: %s\n%s", n, why, f.show())
	}
}
