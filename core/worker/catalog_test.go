package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

// shelf is a catalog that changes. Its streams are in memory; what is put is numbered per stream.
type shelf struct {
	mu   sync.Mutex
	list []core.Stream
	err  error
}

func (s *shelf) Streams(context.Context) ([]core.Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list), s.err
}

func (s *shelf) set(err error, sources ...core.StreamSource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list, s.err = nil, err
	for _, src := range sources {
		s.list = append(s.list, core.Stream{Source: src, Start: core.FromHorizon})
	}
}

// many is a fleet over several streams and one table.
type many struct {
	*fleet
	shelf *shelf
	put   map[core.StreamID]int
	got   map[core.StreamID]map[string]int
	ends  map[core.LeaseKey][]error
}

func newMany(t *testing.T, config func(*worker.Config), sources ...core.StreamSource) *many {
	m := &many{shelf: &shelf{}, put: map[core.StreamID]int{}, got: map[core.StreamID]map[string]int{}, ends: map[core.LeaseKey][]error{}}
	m.shelf.set(nil, sources...)
	m.fleet = newFleet(t, 1, func(c *worker.Config) {
		c.Streams, c.Process, c.Factory = m.shelf, nil, m.make
		if config != nil {
			config(c)
		}
	})
	return m
}

func (m *many) make(_ context.Context, s core.Session) (core.Processor, error) {
	return &counting{m, s.Key()}, nil
}

type counting struct {
	m   *many
	key core.LeaseKey
}

func (c *counting) Process(_ context.Context, b *core.Batch) error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	got := c.m.got[b.Stream]
	if got == nil {
		got = map[string]int{}
		c.m.got[b.Stream] = got
	}
	for i := range b.Records {
		got[string(b.Records[i].Data)]++
	}
	return nil
}

var _ core.Stopper = (*counting)(nil)

func (c *counting) Stopping(_ context.Context, why error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.ends[c.key] = append(c.m.ends[c.key], why)
}

// told are the causes of the ends of a stream's shards.
func (m *many) told(id core.StreamID) (whys []error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, all := range m.ends {
		if key.Stream == id {
			whys = append(whys, all...)
		}
	}
	return whys
}

func (m *many) fill(s *source.Stream, id core.StreamID, n int) {
	for range n {
		m.put[id]++
		s.Put(fmt.Sprint("k", m.put[id]%7), fmt.Append(nil, m.put[id]))
	}
}

// all reports whether each record put into a stream came.
func (m *many) all(ids ...core.StreamID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if len(m.got[id]) != m.put[id] {
			return false
		}
	}
	return true
}

func (m *many) rows(id core.StreamID) (out []core.Lease) {
	for _, l := range m.table.Rows() {
		if l.Key.Stream == id {
			out = append(out, l)
		}
	}
	return out
}

func (m *many) texts(k worker.Kind) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, e := range m.events {
		if e.Kind == k {
			out = append(out, fmt.Sprintf("%s %s: %s: %v", e.Worker, e.Key.Stream, e.Text, e.Err))
		}
	}
	return strings.Join(out, "\n")
}

func named(name string, shards int) *source.Stream {
	return source.New(name, shards, source.WithID(core.StreamID(name)), source.Idle(2*time.Second))
}

// A stream that comes into the catalog is begun, one that leaves it is given up with its progress stored, and the others do not notice.
func TestCatalogChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c := named("a", 2), named("b", 2), named("c", 2)
		m := newMany(t, nil, a, b)
		m.start("w1")
		m.start("w2")
		m.fill(a, "a", 20)
		m.fill(b, "b", 20)
		m.await("delivered", time.Minute, func() bool { return m.all("a", "b") })
		m.shelf.set(nil, b, c)
		m.fill(c, "c", 20)
		m.await("the new one", 2*time.Minute, func() bool { return m.all("c") })
		m.await("the former is free", 2*time.Minute, func() bool {
			return !slices.ContainsFunc(m.rows("a"), func(l core.Lease) bool { return l.Owner != core.Nobody })
		})
		for _, l := range m.rows("a") {
			if l.Checkpoint.IsStart() {
				t.Errorf("lease %s stands at %s: its progress was not stored", l.Key, l.Checkpoint)
			}
		}
		m.fill(a, "a", 5)
		m.fill(b, "b", 20)
		time.Sleep(3 * time.Minute)
		if !m.all("b", "c") || m.all("a") {
			t.Errorf("delivered %d of b, %d of c, %d of a, want 40, 20 and no more than 20", len(m.got["b"]), len(m.got["c"]), len(m.got["a"]))
		}
		retired := func(e error) bool { return errors.Is(e, worker.ErrStreamRetired) }
		if whys := m.told("a"); !slices.ContainsFunc(whys, retired) {
			t.Errorf("the shards of the former stream were told %v", whys)
		}
		if whys := append(m.told("b"), m.told("c")...); slices.ContainsFunc(whys, retired) {
			t.Errorf("the shards of the others were told %v", whys)
		}
		m.shelf.set(nil, a, b, c) // back again: it goes on where it stood
		m.await("what came meanwhile", 3*time.Minute, func() bool { return m.all("a", "b", "c") })
		for id, got := range m.got {
			for data, n := range got {
				if n != 1 && id != "c" {
					t.Errorf("record %s of %s came %d times", data, id, n)
				}
			}
		}
		m.stopAll()
	})
}

// What is wrong with one stream of several stops no other, at the start and later.
func TestTroubleOfOneStream(t *testing.T) {
	for name, c := range map[string]struct {
		fault source.Fault
		heals bool
	}{
		"not there":                   {source.Fault{Err: core.ErrNotFound}, true},
		"denied":                      {source.Fault{Err: core.ErrDenied}, true},
		"throttled":                   {source.Fault{Err: core.ErrThrottled}, true},
		"silent":                      {source.Fault{Hang: true}, true},
		"its listing alone is silent": {source.Fault{Hang: true, Ops: []source.Op{source.Shards}}, true},
		"its listing alone is denied": {source.Fault{Err: core.ErrDenied, Ops: []source.Op{source.Shards}}, true},
	} {
		for when, early := range map[string]bool{"at start": true, "later": false} {
			t.Run(name+" "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					good, bad := named("good", 2), named("bad", 2)
					m := newMany(t, nil, bad, good)
					heal := func() {}
					if early {
						heal = bad.Break(c.fault)
					}
					m.start("w1")
					if !early {
						m.fill(bad, "bad", 10)
						m.await("both", time.Minute, func() bool { return m.all("bad") })
						heal = bad.Break(c.fault)
					}
					for range 10 {
						m.fill(good, "good", 5)
						took := m.await("the good one", time.Minute, func() bool { return m.all("good") })
						if !early && took > 3*time.Second {
							t.Errorf("the good one waited %v", took)
						}
						time.Sleep(20 * time.Second)
					}
					select {
					case <-m.members[0].done:
						t.Fatalf("the worker ended: %v", m.members[0].err)
					default:
					}
					heal()
					m.fill(bad, "bad", 10)
					m.await("the bad one", 3*time.Minute, func() bool { return m.all("bad", "good") })
					m.stopAll()
				})
			})
		}
	}
}

// A stream that is gone costs a call a minute or two, its shards end once, with the reason.
func TestStreamGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good, bad := named("good", 2), named("bad", 2)
		m := newMany(t, nil, bad, good)
		m.start("w1")
		m.fill(bad, "bad", 10)
		m.fill(good, "good", 10)
		m.await("both", time.Minute, func() bool { return m.all("bad", "good") })
		bad.Break(source.Fault{Err: core.ErrNotFound})
		m.await("retired", time.Minute, func() bool { return m.count(worker.StreamRetired, "") == 1 })
		time.Sleep(5 * time.Second)
		whys := m.told("bad")
		if gone := func(e error) bool { return errors.Is(e, worker.ErrStreamRetired) && errors.Is(e, core.ErrNotFound) }; len(whys) != 2 || !gone(whys[0]) || !gone(whys[1]) {
			t.Errorf("its two shards were told %v, want once each that the stream is gone", whys)
		}
		before := sum(bad.Calls())
		time.Sleep(20 * time.Minute)
		if n := sum(bad.Calls()) - before; n > 21 {
			t.Errorf("%d calls in 20 minutes to a stream that is gone", n)
		}
		if n := len(m.rows("bad")); n != 2 {
			t.Errorf("%d leases of it, want both: by default they stay", n)
		}
		m.stopAll()
	})
}

// A handler that does not return in time keeps its lease until it does; then it is given up all the same, and nothing more is read.
func TestRetiredUnderASlowHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, good := named("slow", 1), named("good", 1)
		back := make(chan struct{})
		m := newMany(t, nil, slow, good)
		counted := m.config
		m.config = func(c *worker.Config) {
			counted(c)
			c.Factory = func(ctx context.Context, s core.Session) (core.Processor, error) {
				return core.ProcessorFunc(func(ctx context.Context, b *core.Batch) error {
					if b.Stream == "slow" {
						<-back
					}
					return (&counting{m, s.Key()}).Process(ctx, b)
				}), nil
			}
		}
		m.start("w1")
		m.fill(slow, "slow", 1)
		m.fill(good, "good", 1)
		m.await("the good one", time.Minute, func() bool { return m.all("good") })
		m.shelf.set(nil, good)
		time.Sleep(5 * time.Minute)
		if l := m.rows("slow")[0]; l.Owner != "w1" {
			t.Errorf("the lease of a shard whose handler still runs is %q's", l.Owner)
		}
		close(back)
		m.await("given up", time.Minute, func() bool { return m.rows("slow")[0].Owner == core.Nobody })
		m.fill(slow, "slow", 1)
		time.Sleep(5 * time.Minute)
		if n := len(m.got["slow"]); n != 1 {
			t.Errorf("%d records of a stream that is consumed no more, want the one that was at hand", n)
		}
		m.stopAll()
	})
}

func sum(calls map[source.Op]int) (n int) {
	for _, c := range calls {
		n += c
	}
	return n
}

// phoenix is a name behind which another stream may stand later.
type phoenix struct {
	mu sync.Mutex
	*source.Stream
	again bool
	begun map[core.ShardID]bool // of the other: numbers come from it by now
}

func (p *phoenix) is() *source.Stream { p.mu.Lock(); defer p.mu.Unlock(); return p.Stream }

func (p *phoenix) Describe(ctx context.Context) (core.StreamInfo, error) { return p.is().Describe(ctx) }

func (p *phoenix) Shards(ctx context.Context, open core.Position) ([]core.Shard, error) {
	return p.is().Shards(ctx, open)
}

func (p *phoenix) Open(ctx context.Context, s core.Shard, at core.Position) (core.ShardReader, error) {
	if p.strange(s.ID, at) {
		return nil, fmt.Errorf("the number did not come from this stream: %w", core.ErrInvalid) // as Kinesis says
	}
	return p.is().Open(ctx, s, at)
}

// strange reports whether a number is one of the stream that stood here before.
func (p *phoenix) strange(s core.ShardID, at core.Position) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.again && at.Anchor != core.AfterToken {
		p.begun[s] = true
	}
	return p.again && !p.begun[s]
}

func (p *phoenix) rise(s *source.Stream) {
	p.mu.Lock()
	old := p.Stream
	p.Stream, p.again, p.begun = s, true, map[core.ShardID]bool{}
	p.mu.Unlock()
	old.Break(source.Fault{Err: core.ErrNotFound}) // readers that are open
}

// A stream that is deleted and made again under its name starts clean, beside the others, on every worker.
func TestOneOfSeveralMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good := named("good", 2)
		first, second := named("bad:1", 2), named("bad:2", 3)
		name := &phoenix{Stream: first}
		m := newMany(t, func(c *worker.Config) { c.Former.DeleteAfter = 10 * time.Minute }, name, good)
		m.start("w1")
		m.start("w2")
		m.fill(first, "bad:1", 20)
		m.fill(good, "good", 20)
		m.await("both", time.Minute, func() bool { return m.all("bad:1", "good") })
		name.rise(second)
		m.fill(second, "bad:2", 30)
		m.await("all of the new one", 5*time.Minute, func() bool { return m.all("bad:2") })
		m.await("the former's leases are gone", 20*time.Minute, func() bool { return len(m.rows("bad:1")) == 0 })
		m.fill(good, "good", 20)
		m.fill(second, "bad:2", 30)
		m.await("both", time.Minute, func() bool { return m.all("bad:2", "good") })
		if n := len(m.got["bad:1"]); n != 20 {
			t.Errorf("%d records under the former stream, want 20", n)
		}
		if n := len(m.rows("bad:2")); n != 3 {
			t.Errorf("%d leases of the new one, want 3", n)
		}
		m.stopAll()
	})
}

// What a catalog must not say: at start the worker does not run, later the streams stay as they were.
func TestBadCatalog(t *testing.T) {
	broken := errors.New("no tracker today")
	for name, c := range map[string]struct {
		err   error
		list  func(a, b *source.Stream) []core.StreamSource
		is    error
		says  string
		early bool // only at start
	}{
		"error":         {broken, func(a, b *source.Stream) []core.StreamSource { return nil }, broken, "no tracker today", false},
		"empty":         {nil, func(a, b *source.Stream) []core.StreamSource { return nil }, core.ErrInvalid, "empty", false},
		"twice":         {nil, func(a, b *source.Stream) []core.StreamSource { return []core.StreamSource{a, b, a.Handle()} }, core.ErrInvalid, "stream a is listed twice", false},
		"without":       {nil, func(a, b *source.Stream) []core.StreamSource { return []core.StreamSource{a, b, nil} }, core.ErrInvalid, "no source", false},
		"none is there": {nil, func(a, b *source.Stream) []core.StreamSource { return []core.StreamSource{gone("x"), gone("y")} }, core.ErrNotFound, "not found", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := named("a", 1), named("b", 1)
				early := newMany(t, nil, c.list(a, b)...)
				early.shelf.err = c.err
				early.start("w1")
				<-early.members[0].done
				if err := early.members[0].err; !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("Run: %v, want %v that says %q", err, c.is, c.says)
				}
				if n := len(early.table.Rows()); n > 0 {
					t.Errorf("%d leases were made", n)
				}
				if c.early {
					return
				}
				late := newMany(t, nil, a, b)
				late.start("w1")
				late.await("held", time.Minute, func() bool { return late.owners()["w1"] == 2 })
				late.shelf.set(c.err, c.list(a, b)...)
				time.Sleep(5 * time.Minute)
				if got := late.texts(worker.ReadError); !strings.Contains(got, c.says) {
					t.Errorf("events %q do not say %q", got, c.says)
				}
				if n := late.owners()["w1"]; n != 2 || late.count(worker.StreamRetired, "") > 0 {
					t.Errorf("%d leases held, want 2 as before", n)
				}
				late.stopAll()
			})
		})
	}
}

func gone(name string) core.StreamSource {
	s := named(name, 1)
	s.Break(source.Fault{Err: core.ErrNotFound})
	return s
}

// Leases of former streams go when the settings say so, and never sooner.
func TestFormerStreams(t *testing.T) {
	const wait = 10 * time.Minute
	for name, c := range map[string]struct {
		former worker.FormerStreams
		mend   func(m *many)
		stays  bool
	}{
		"kept by default":      {worker.FormerStreams{}, nil, true},
		"found by itself":      {worker.FormerStreams{DeleteAfter: wait}, nil, false},
		"named":                {worker.FormerStreams{DeleteAfter: wait, Only: []core.StreamID{"old"}}, nil, false},
		"another is named":     {worker.FormerStreams{DeleteAfter: wait, Only: []core.StreamID{"other"}}, nil, true},
		"the catalog fails":    {worker.FormerStreams{DeleteAfter: wait}, func(m *many) { m.shelf.set(core.ErrUnavailable) }, false}, // it had answered before
		"one cannot be looked": {worker.FormerStreams{DeleteAfter: wait}, func(m *many) { m.shelf.set(nil, m.shelf.list[0].Source, denied("secret")) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := named("now", 1)
				m := newMany(t, func(c2 *worker.Config) { c2.Former = c.former }, now)
				for i := range 3 {
					l := core.Lease{Key: core.LeaseKey{Stream: "old", Shard: core.ShardID(fmt.Sprint(i))}, Checkpoint: core.Position{Token: "7"}, Ready: true}
					if _, err := m.table.Handle("past").Create(t.Context(), l); err != nil {
						t.Fatal(err)
					}
				}
				m.start("w1")
				m.start("w2")
				m.await("held", time.Minute, func() bool { return len(m.rows("now")) == 1 })
				if c.mend != nil {
					c.mend(m)
				}
				time.Sleep(wait - time.Minute)
				if n := len(m.rows("old")); n != 3 {
					t.Fatalf("%d leases before their time, want 3", n)
				}
				time.Sleep(4 * time.Minute)
				if n := len(m.rows("old")); n != 3 && c.stays || n != 0 && !c.stays {
					t.Errorf("%d leases of the former stream; stay: %v", n, c.stays)
				}
				if n := len(m.rows("now")); n != 1 {
					t.Errorf("%d leases of the stream that is consumed, want 1", n)
				}
				m.stopAll()
			})
		})
	}
}

func denied(name string) core.StreamSource {
	s := named(name, 1)
	s.Break(source.Fault{Err: core.ErrDenied})
	return s
}

// A lease that somebody renews, as workers of a newer version do whose catalog lists more, keeps all of its stream.
func TestFormerStreamInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now, more := named("now", 1), named("more", 2)
		table := store.New()
		older := newMany(t, func(c *worker.Config) { c.Former.DeleteAfter = time.Minute }, now)
		newer := newMany(t, nil, now, more)
		older.table, newer.table = table, table
		older.start("a") // the first by id: it lists
		newer.start("b")
		newer.fill(more, "more", 10)
		newer.await("begun, though who lists does not know the stream", 4*time.Minute, func() bool { return newer.all("more") })
		time.Sleep(time.Hour)
		if n := len(newer.rows("more")); n != 2 {
			t.Errorf("%d leases, want 2", n)
		}
		newer.fill(more, "more", 10)
		newer.await("read", time.Minute, func() bool { return newer.all("more") })
		for data, n := range newer.got["more"] {
			if n != 1 {
				t.Errorf("record %s came %d times: its lease was deleted", data, n)
			}
		}
		older.stopAll()
		newer.stopAll()
	})
}

func TestBadFormer(t *testing.T) {
	for name, c := range map[string]struct {
		former worker.FormerStreams
		says   string
	}{
		"negative":       {worker.FormerStreams{DeleteAfter: -1}, "Former.DeleteAfter is -1ns"},
		"short":          {worker.FormerStreams{DeleteAfter: time.Second}, "at least twice LeaseDuration"},
		"named and kept": {worker.FormerStreams{Only: []core.StreamID{"a"}}, "DeleteAfter is 0"},
		"no id":          {worker.FormerStreams{DeleteAfter: time.Hour, Only: []core.StreamID{""}}, "empty stream id"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := worker.New(worker.Config{Streams: worker.One(named("a", 1), core.FromHorizon), Store: store.New(), Former: c.former, Process: func(context.Context, *core.Batch) error { return nil }})
			if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want ErrInvalid that says %q", err, c.says)
			}
		})
	}
}

// What does not pass by itself within seconds is not tried again every few seconds.
func TestListingThatIsDeniedCostsACallAMinute(t *testing.T) {
	for name, err := range map[string]error{"denied": core.ErrDenied, "not found": core.ErrNotFound} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bad, good := named("bad", 1), named("good", 1)
				m := newMany(t, nil, bad, good)
				m.start("w1")
				m.await("held", time.Minute, func() bool { return m.owners()["w1"] == 2 })
				bad.Break(source.Fault{Err: err, Ops: []source.Op{source.Shards}})
				before := bad.Calls()[source.Shards]
				time.Sleep(10 * time.Minute)
				if n := bad.Calls()[source.Shards] - before; n < 9 || n > 11 {
					t.Errorf("%d listings in 10 minutes, want one a minute", n)
				}
				m.stopAll()
			})
		})
	}
}
