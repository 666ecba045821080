package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

// Form is the shape of the user's code.
type Form string

// The forms.
const (
	Process Form = "process" // a function for batches
	Factory Form = "factory" // a processor per shard
	Pull    Form = "pull"    // a loop per shard
	Manual  Form = "manual"  // a processor that checkpoints by itself, some of its batches
)

// Fleet is some workers over one stream and one lease table in memory. Its methods are for one goroutine, the driver's.
type Fleet struct {
	Stream *source.Stream
	Table  *store.Store
	Judge  *Judge
	Form   Form
	Plain  bool          // workers see a table without presence
	Led    bool          // one worker says who gets what
	Start  core.Position // where the application begins
	Config func(*worker.Config)
	// Reach, where set, makes a member's way to another stream and table than those in memory, whose writes the judge does not see.
	Reach func(*Member) (core.StreamSource, core.LeaseStore)
	// Do is what a handler does with a batch, by default nothing. It is called after the judge has taken note.
	Do func(ctx context.Context, m *Member, b *core.Batch) error

	members []*Member
	calls   map[store.Op]int // of members that are gone
	perKey  map[string]int
	rng     chance
}

// Member is a worker of a fleet.
type Member struct {
	*worker.Worker
	Name  string // of its handle on the table; two members may share a worker id
	Store *store.Store
	Src   *source.Stream
	// Err is what Run returned, once Done is closed.
	Err  error
	Done chan struct{}

	fleet   *Fleet
	gate    gate
	lease   time.Duration // LeaseDuration by its clock, in true time
	trust   time.Duration // what is left of it without StopMargin
	whole   bool          // batches are acknowledged whole, by the engine
	stop    context.CancelFunc
	stopped bool
	zombie  bool

	mu     sync.Mutex
	ills   int       // faults of its table and its doors
	healed time.Time // when the last of them ended
}

// NewFleet makes a fleet without workers.
func NewFleet(stream *source.Stream, table *store.Store) *Fleet {
	f := &Fleet{Stream: stream, Table: table, Form: Process, calls: map[store.Op]int{}, perKey: map[string]int{}}
	f.Judge = newJudge()
	f.Open()
	table.OnWrite(f.Judge.write)
	return f
}

// Join begins a worker. drift is how much slower than true time its clock runs (0.005: half a percent).
func (f *Fleet) Join(id string, drift float64) (*Member, error) {
	m := &Member{fleet: f, Done: make(chan struct{}), Src: f.Stream.Handle()}
	m.Name = id
	for n := 2; f.named(m.Name) != nil; n++ {
		m.Name = id + "#" + strconv.Itoa(n)
	}
	m.Store = f.Table.Handle(m.Name)
	c := worker.Config{ID: core.WorkerID(id), Streams: worker.One(pipe{m.Src, m}, f.Start), Store: link{m.Store, m}}
	if f.Plain {
		c.Store = plain{link{m.Store, m}}
	}
	if f.Reach != nil {
		source, table := f.Reach(m)
		c.Streams, c.Store = worker.One(source, f.Start), table
	}
	if f.Config != nil {
		f.Config(&c)
	}
	c = c.WithDefaults()
	for _, d := range []*time.Duration{&c.LeaseDuration, &c.StopMargin, &c.RenewEvery, &c.LookEvery, &c.CheckpointEvery} {
		*d = time.Duration(float64(*d) * (1 + drift))
	}
	m.lease, m.trust = c.LeaseDuration, c.LeaseDuration-c.StopMargin
	m.whole = f.Form == Process && c.KeyConcurrency == 1 || f.Form == Factory && c.KeyConcurrency == 1 || f.Form == Pull
	switch f.Form {
	case Factory:
		c.Factory = func(context.Context, core.Session) (core.Processor, error) { return core.ProcessorFunc(m.process), nil }
	case Pull:
		c.Shard = m.pull
	case Manual:
		c.Checkpoints, c.KeyConcurrency = worker.Manual, 1
		c.Factory = func(_ context.Context, s core.Session) (core.Processor, error) { return &manual{m: m, s: s}, nil }
	default:
		c.Process = m.process
	}
	if f.Form == Pull {
		c.KeyConcurrency = 1
	}
	w, err := worker.New(c, worker.WithHooks(worker.EventFunc(f.Judge.event)))
	if err != nil {
		return nil, err
	}
	m.Worker = w
	f.Judge.join(m)
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	f.members = append(f.members, m)
	go func() {
		defer close(m.Done)
		m.Err = w.Run(ctx)
	}()
	return m, nil
}

func (f *Fleet) named(name string) *Member {
	for _, m := range f.members {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// Leave stops a worker gracefully, in the background.
func (m *Member) Leave() {
	m.stopped = true
	m.stop()
}

// Die makes a zombie: its table is cut off for good, and everything else of it goes on.
func (m *Member) Die() {
	m.stopped, m.zombie = true, true
	m.Break(store.Fault{Hang: true})
}

// Pause stops a worker at its doors: calls that are under way (answers) get no answer until resume, which may be called more than once; else
// none is made either, as if it froze a moment earlier.
func (m *Member) Pause(answers bool) (resume func()) { return m.ill(m.gate.close(!answers)) }

// Break makes calls to the table go wrong until heal is called.
func (m *Member) Break(f store.Fault) (heal func()) { return m.ill(m.Store.Break(f)) }

// ill remembers that the worker's calls are hindered until the cure.
func (m *Member) ill(cure func()) func() {
	m.mu.Lock()
	m.ills++
	m.mu.Unlock()
	return sync.OnceFunc(func() {
		cure()
		m.mu.Lock()
		m.ills--
		m.healed = time.Now()
		m.mu.Unlock()
	})
}

// well: nothing has hindered the worker's calls for a lease duration. Late writes of before may still come.
func (m *Member) well(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ills == 0 && now.Sub(m.healed) > m.lease+longestDelay
}

// Alive are the members that shall serve: neither stopped nor dead.
func (f *Fleet) Alive() []*Member {
	var out []*Member
	for _, m := range f.members {
		if !m.stopped {
			out = append(out, m)
		}
	}
	return out
}

// prune forgets members that have ended.
func (f *Fleet) prune() {
	f.members = slices.DeleteFunc(f.members, func(m *Member) bool {
		select {
		case <-m.Done:
		default:
			return false
		}
		for op, n := range m.Store.Calls() {
			f.calls[op] += n
		}
		if m.Err != nil && !m.zombie {
			if _, abandoned := errors.AsType[*worker.AbandonedError](m.Err); !abandoned {
				f.Judge.fault("", "worker %s ended: %v", m.Name, m.Err)
			}
		}
		return true
	})
}

// End stops all and waits for them: the dead first, then the others one after the other (of a large fleet, a tenth after the other), with time for
// those that are left to see who is gone. Faults must be healed.
func (f *Fleet) End() {
	for _, m := range f.members {
		if m.zombie {
			m.stop()
			<-m.Done
		}
	}
	for some := range slices.Chunk(f.members, (len(f.members)+9)/10) {
		for _, m := range some {
			m.Leave()
			<-m.Done
		}
		time.Sleep(some[0].lease)
	}
	f.prune()
}

// Calls are all calls to the table so far.
func (f *Fleet) Calls() (n int) {
	for _, c := range f.calls {
		n += c
	}
	for _, m := range f.members {
		for _, c := range m.Store.Calls() {
			n += c
		}
	}
	return n
}

// Put puts a record under a key.
func (f *Fleet) Put(key string) {
	f.perKey[key]++
	f.Judge.mu.Lock()
	defer f.Judge.mu.Unlock()
	shard, sequence := f.Stream.Put(key, nil)
	f.Judge.put(shard, key, f.perKey[key], sequence)
}

// PutTo puts a record into a shard, under a key of its own.
func (f *Fleet) PutTo(shard core.ShardID) error {
	key := "probe of " + string(shard)
	f.perKey[key]++
	f.Judge.mu.Lock()
	defer f.Judge.mu.Unlock()
	r := []core.Record{{Key: key}}
	if err := f.Stream.PutTo(shard, r...); err != nil {
		return err
	}
	// A sequence number counts the records of the whole stream from 10^19, and every record came through here.
	f.Judge.put(shard, key, f.perKey[key], strconv.FormatUint(uint64(1e19)+uint64(len(f.Judge.records)+1), 10))
	return nil
}

// shards tells the judge what shards there are, after reshard has been done: under its lock, so that nobody acts on it before.
func (f *Fleet) shards(reshard func() error) ([]core.Shard, error) {
	f.Judge.mu.Lock()
	defer f.Judge.mu.Unlock()
	if err := reshard(); err != nil {
		return nil, err
	}
	all, err := f.Stream.Shards(context.Background(), core.Position{})
	if err == nil {
		f.Judge.shards(all)
	}
	return all, err
}

// Open are the shards that take records, by hash range.
func (f *Fleet) Open() []core.ShardID {
	all, err := f.shards(func() error { return nil })
	if err != nil {
		panic(err) // the fleet's own handle has no faults
	}
	shards := slices.DeleteFunc(all, func(s core.Shard) bool { return s.Closed })
	slices.SortFunc(shards, func(a, b core.Shard) int { return slices.Compare(a.Range.Start[:], b.Range.Start[:]) })
	out := make([]core.ShardID, len(shards))
	for i, s := range shards {
		out[i] = s.ID
	}
	return out
}

// Split splits a shard.
func (f *Fleet) Split(id core.ShardID) error {
	_, err := f.shards(func() error { _, _, err := f.Stream.Split(id); return err })
	return err
}

// Merge merges two neighbours.
func (f *Fleet) Merge(a, b core.ShardID) error {
	_, err := f.shards(func() error { _, err := f.Stream.Merge(a, b); return err })
	return err
}

// Await sleeps until cond holds or the judge has found fault.
func (f *Fleet) Await(most time.Duration, cond func() bool) (took time.Duration, ok bool) {
	start := time.Now()
	for !cond() {
		took = time.Since(start)
		if took > most || f.Judge.Broken() {
			return took, false
		}
		time.Sleep(min(50*time.Millisecond, most/10))
	}
	return time.Since(start), true
}

// process is the handler of all forms: the judge first, then what the scenario has in mind.
func (m *Member) process(ctx context.Context, b *core.Batch) (err error) {
	call := m.fleet.Judge.enter(ctx, m, b)
	done := false
	defer func() { // a panic too
		// One that checkpoints by itself says what is done; for the others it is the engine, while the right lasts.
		m.fleet.Judge.leave(call, done && err == nil && (m.fleet.Form == Manual || ctx.Err() == nil))
	}()
	m.gate.leave()
	if m.fleet.Do != nil {
		err = m.fleet.Do(ctx, m, b)
	}
	done = true
	return err
}

// pull is the pulled form.
func (m *Member) pull(ctx context.Context, s core.PullSession) error {
	for b, err := range s.Batches(ctx) {
		if err != nil {
			return err
		}
		if err := m.process(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// manual checkpoints by itself: each third batch, and what is left when it is told to stop.
type manual struct {
	m      *Member
	s      core.Session
	n      int
	behind core.Position // done and not stored
}

func (p *manual) Process(ctx context.Context, b *core.Batch) error {
	if err := p.m.process(ctx, b); err != nil {
		return err
	}
	if next := b.Next(); !next.IsZero() {
		p.behind = next
	}
	if p.n++; p.n%3 == 0 {
		return p.store(ctx)
	}
	return nil
}

func (p *manual) store(ctx context.Context) error {
	if p.behind.IsZero() {
		return nil
	}
	if err := p.s.Checkpoint(ctx, p.behind); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	p.behind = core.Position{}
	return nil
}

func (p *manual) ShardEnded(ctx context.Context) error { return p.store(ctx) }

func (p *manual) Stopping(ctx context.Context, why error) {
	if !errors.Is(why, core.ErrLeaseLost) {
		_ = p.store(ctx) // what does not go through comes again
	}
}

// chance is a source of random choices that any goroutine may use.
type chance struct {
	mu sync.Mutex
	n  func(int) int
}

func (c *chance) intN(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n(n)
}
