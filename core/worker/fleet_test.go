package worker_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

// A fleet is some workers over one stream and one lease table in memory, and a ledger of what each handler was given. It lives in a synctest
// bubble: time is fake.
type fleet struct {
	t      *testing.T
	stream *source.Stream
	table  *store.Store
	config func(*worker.Config)

	mu        sync.Mutex
	n         map[string]int // records put, by key
	delivered []delivery
	events    []worker.Event
	members   []*member
}

type delivery struct {
	at       time.Time
	by       core.WorkerID
	shard    core.ShardID
	fence    uint64
	key, val string
	sequence string
}

type member struct {
	*worker.Worker
	fleet *fleet
	store *store.Store
	src   *source.Stream
	stop  context.CancelFunc
	done  chan struct{}
	err   error
}

func newFleet(t *testing.T, shards int, config func(*worker.Config)) *fleet {
	return &fleet{t: t, stream: source.New("orders", shards, source.Idle(2*time.Second)), table: store.New(), config: config, n: map[string]int{}}
}

// start begins a worker. Its handler writes the ledger; config may replace it.
func (f *fleet) start(id string, opts ...worker.Option) *member {
	f.t.Helper()
	m := &member{fleet: f, store: f.table.Handle(id), src: f.stream.Handle(), done: make(chan struct{})}
	c := worker.Config{ID: core.WorkerID(id), Streams: worker.One(m.src, core.FromHorizon), Store: m.store, Process: f.record(core.WorkerID(id))}
	if f.config != nil {
		f.config(&c)
	}
	w, err := worker.New(c, append(opts, worker.WithHooks(worker.EventFunc(f.event)))...)
	if err != nil {
		f.t.Fatal(err)
	}
	m.Worker = w
	ctx, stop := context.WithCancel(f.t.Context())
	m.stop = stop
	f.members = append(f.members, m)
	go func() {
		defer close(m.done)
		m.err = w.Run(ctx)
	}()
	return m
}

func (f *fleet) event(e worker.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e)
}

// record is the handler that writes the ledger.
func (f *fleet) record(by core.WorkerID) core.ProcessorFunc {
	return func(_ context.Context, b *core.Batch) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		now := time.Now()
		for _, r := range b.Records {
			f.delivered = append(f.delivered, delivery{now, by, b.Shard, b.Fence, r.Key, string(r.Data), r.Clone().Sequence})
		}
		return nil
	}
}

// put puts n records over the keys k0 to k(keys-1), numbered per key.
func (f *fleet) put(n, keys int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range n {
		k := fmt.Sprintf("k%d", i%keys)
		f.n[k]++
		f.stream.Put(k, fmt.Append(nil, f.n[k]))
	}
}

func (f *fleet) split(s core.ShardID) {
	f.t.Helper()
	if _, _, err := f.stream.Split(s); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) merge(a, b core.ShardID) {
	f.t.Helper()
	if _, err := f.stream.Merge(a, b); err != nil {
		f.t.Fatal(err)
	}
}

// stopAll stops every worker and waits.
func (f *fleet) stopAll() {
	for _, m := range f.members {
		m.stop()
	}
	for _, m := range f.members {
		<-m.done
	}
}

func (f *fleet) distinct() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := map[string]bool{}
	for _, d := range f.delivered {
		seen[d.key+"/"+d.val] = true
	}
	return len(seen)
}

func (f *fleet) total() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range f.n {
		n += k
	}
	return n
}

// owners counts the shards of the table that are not ended, by owner.
func (f *fleet) owners() map[core.WorkerID]int {
	out := map[core.WorkerID]int{}
	for _, l := range f.table.Rows() {
		if !l.Ended() {
			out[l.Owner]++
		}
	}
	return out
}

// await sleeps (in fake time) until cond holds.
func (f *fleet) await(what string, most time.Duration, cond func() bool) time.Duration {
	f.t.Helper()
	start := time.Now()
	for {
		synctest.Wait()
		if cond() {
			return time.Since(start)
		}
		if time.Since(start) > most {
			f.dump()
			f.t.Fatalf("%s: not within %v", what, most)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (f *fleet) dump() {
	for _, l := range f.table.Rows() {
		f.t.Logf("row %s owner=%q next=%q counter=%d checkpoint=%s ready=%v run=%q parents=%v", l.Key.Shard, l.Owner, l.Next, l.Counter, l.Checkpoint, l.Ready, l.Run, l.Parents)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.events[max(0, len(f.events)-60):] {
		f.t.Logf("%s %s %s %s other=%s pos=%s err=%v %s", e.Time.Format("04:05.000"), e.Worker, e.Kind, e.Key.Shard, e.Other, e.Position, e.Err, e.Text)
	}
}

// check judges the ledger: everything that was put was delivered; of each key, no record came for the first time after a later one.
func (f *fleet) check() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	top := map[string]int{}
	for _, d := range f.delivered {
		var n int
		if _, err := fmt.Sscan(d.val, &n); err != nil {
			f.t.Fatal(err)
		}
		if n > top[d.key]+1 {
			f.t.Errorf("key %s: record %d delivered before %d", d.key, n, top[d.key]+1)
		}
		top[d.key] = max(top[d.key], n)
	}
	for k, n := range f.n {
		if top[k] != n {
			f.t.Errorf("key %s: delivered up to %d of %d", k, top[k], n)
		}
	}
}

func (f *fleet) duplicates() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := map[string]int{}
	for _, d := range f.delivered {
		seen[d.key+"/"+d.val]++
	}
	n := 0
	for _, c := range seen {
		n += c - 1
	}
	return n
}

func (f *fleet) count(k worker.Kind, by core.WorkerID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, e := range f.events {
		if e.Kind == k && (by == "" || e.Worker == by) {
			n++
		}
	}
	return n
}

func TestFleetOneWorkerReadsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 4, nil)
		f.put(1000, 20)
		f.start("a")
		took := f.await("everything delivered", time.Minute, func() bool { return f.distinct() == f.total() })
		if took > time.Second {
			t.Errorf("the first pass comes at once; it took %v", took)
		}
		f.put(1000, 20)
		f.await("everything delivered", time.Minute, func() bool { return f.distinct() == f.total() })
		f.stopAll()
		f.check()
		if d := f.duplicates(); d != 0 {
			t.Errorf("%d duplicates without any failure", d)
		}
		for _, l := range f.table.Rows() {
			if l.Owner != core.Nobody || l.Checkpoint.Anchor != core.AfterToken {
				t.Errorf("after a clean stop the lease %s has owner %q, checkpoint %s", l.Key.Shard, l.Owner, l.Checkpoint)
			}
		}
	})
}

func TestFleetSecondWorkerGetsItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 64, nil)
		f.put(640, 100)
		f.start("a")
		f.await("a holds all", time.Minute, func() bool { return f.owners()["a"] == 64 })
		f.start("b")
		took := f.await("even", time.Minute, func() bool { return f.owners()["a"] == 32 && f.owners()["b"] == 32 })
		t.Logf("even after %v", took)
		if took > 10*time.Second {
			t.Errorf("64 shards are even within 10 s; it took %v", took)
		}
		f.start("c")
		took = f.await("even", time.Minute, func() bool {
			o := f.owners()
			return min(o["a"], o["b"], o["c"]) == 21
		})
		t.Logf("third: even after %v", took)
		f.put(640, 100)
		f.await("everything delivered", time.Minute, func() bool { return f.distinct() == f.total() })
		f.stopAll()
		f.check()
		if d := f.duplicates(); d != 0 {
			t.Errorf("%d duplicates; a hand-over makes none", d)
		}
	})
}

// mute is a store that has presence and does not use it, as a table does that an older KCL may scan.
type mute struct{ *store.Store }

func (mute) Announce(context.Context, core.WorkerInfo) error { return nil }

// Without presence a worker that owns nothing is seen by what it asks for.
func TestFleetWithoutPresence(t *testing.T) {
	for name, without := range map[string]func(*store.Store) core.LeaseStore{
		"not offered": func(s *store.Store) core.LeaseStore { return s.Plain() },
		"not used":    func(s *store.Store) core.LeaseStore { return mute{s} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 16, func(c *worker.Config) { c.Store = without(c.Store.(*store.Store)) })
				f.start("a")
				f.await("a holds all", time.Minute, func() bool { return f.owners()["a"] == 16 })
				f.start("b")
				took := f.await("even", time.Minute, func() bool { return f.owners()["a"] == 8 && f.owners()["b"] == 8 })
				if took > 10*time.Second {
					t.Errorf("even after %v", took)
				}
				f.stopAll()
			})
		})
	}
}

func TestFleetReshards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, nil)
		f.start("a")
		f.start("b")
		f.put(100, 10)
		f.await("delivered", time.Minute, func() bool { return f.distinct() == f.total() })
		ids := func() []core.ShardID {
			var out []core.ShardID
			sh, _ := f.stream.Shards(t.Context(), core.FromLatest)
			for _, s := range sh {
				out = append(out, s.ID)
			}
			slices.Sort(out)
			return out
		}
		open := ids()
		f.split(open[0])
		f.put(100, 10)
		f.await("delivered", time.Minute, func() bool { return f.distinct() == f.total() })
		open = ids()
		f.merge(open[1], open[2])
		f.put(100, 10)
		f.await("delivered", time.Minute, func() bool { return f.distinct() == f.total() })
		f.stopAll()
		f.check()
	})
}

func TestFleetWorkerDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 8, nil)
		a := f.start("a")
		f.start("b")
		f.put(800, 40)
		f.await("even", time.Minute, func() bool { return f.owners()["a"] == 4 && f.owners()["b"] == 4 })
		f.await("delivered", time.Minute, func() bool { return f.distinct() == f.total() })
		heal := a.store.Break(store.Fault{Kind: store.Fail, Hang: true})
		f.put(800, 40)
		took := f.await("b holds all", time.Minute, func() bool { return f.owners()["b"] == 8 })
		t.Logf("failover %v", took)
		if took > 13*time.Second {
			t.Errorf("failover took %v, at most 13 s", took)
		}
		f.await("delivered", time.Minute, func() bool { return f.distinct() == f.total() })
		heal()
		f.await("even again", time.Minute, func() bool { return f.owners()["a"] == 4 && f.owners()["b"] == 4 })
		f.put(800, 40)
		f.await("delivered", time.Minute, func() bool { return f.distinct() == f.total() })
		f.stopAll()
		f.check()
	})
}
