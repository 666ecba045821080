package ots_test

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
	emulator "github.com/shardwarden/shardwarden/emulator/tablestore"
	"github.com/shardwarden/shardwarden/leasestore/ots"
)

// mixed is a fleet of workers of ours and of the Java client's over one stream and one status table, in a bubble.
type mixed struct {
	t     *testing.T
	s     *service
	over  mixedStream
	src   *source.Stream // what it is over, where that is in memory
	start core.Position
	opts  []ots.Option

	mu     sync.Mutex
	put    map[string]int
	got    []delivery
	events []worker.Event
	ours   []*ourWorker
	javas  []*javaWorker
}

type delivery struct {
	by, shard, key string
	n              int
	at             time.Time
}

// ourWorker is a worker of ours, whose network can be cut.
type ourWorker struct {
	*worker.Worker
	stop context.CancelFunc
	done chan struct{}
	err  error
	gate *gate
	cut  func() // takes it off the network, as kill -9 does: from here on nobody hears of it
}

func newMixed(t *testing.T, shards int, f func(m *mixed)) {
	newMixedOver(t, func(m *mixed) {
		m.src = source.New("orders", shards, source.Idle(time.Second), source.WithID(stream))
		m.over = inMemory{m.src}
	}, f)
}

func newMixedOver(t *testing.T, over func(m *mixed), f func(m *mixed)) {
	synctest.Test(t, func(t *testing.T) {
		m := &mixed{t: t, s: newService(emulator.Config{}), start: core.FromHorizon, opts: []ots.Option{ots.WithJava(javaDuration)}, put: map[string]int{}}
		over(m)
		must(t, m.s.store().Prepare(t.Context()))
		// Rows of DataX stand beside the leases all the time.
		must(t, m.s.put(rowKey(string(stream), "CheckpointForDataxReader", "   1764500000000\tshardId-000000000000"), ots.Columns{"Checkpoint": "it", "Version": int64(1)}))
		must(t, m.s.put(rowKey(string(stream), "DataxJobDesc", "   1764500000000"), ots.Columns{"Version": int64(1), "TableName": "orders"}))
		defer m.end()
		f(m)
	})
}

// end stops all workers, and looks at what they leave.
func (m *mixed) end() {
	for _, w := range m.ours {
		w.stop()
		<-w.done
	}
	for _, j := range m.javas {
		j.kill()
		if j.err != nil {
			m.t.Errorf("java worker %s died: %v", j.id, j.err)
		}
	}
	rows, err := m.s.Rows(instance, status)
	if err != nil {
		m.t.Error(err)
	}
	datax := 0
	for _, r := range rows {
		if strings.Contains(fmt.Sprint(r), "Datax") {
			datax++
		}
	}
	if datax != 2 {
		m.t.Errorf("%d rows of DataX are left of 2", datax)
	}
	if err := m.s.Close(); err != nil {
		m.t.Error(err)
	}
}

func (m *mixed) record(by, shard, key string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.got = append(m.got, delivery{by, shard, key, n, time.Now()})
}

// startOurs begins a worker of ours.
func (m *mixed) startOurs(id string) *ourWorker {
	w := &ourWorker{done: make(chan struct{}), gate: &gate{next: m.s.direct, ranges: -1, note: func(string) {}}}
	src, cut := m.over.ours(w.gate)
	w.cut = func() {
		w.gate.mu.Lock()
		w.gate.shut = make(chan struct{})
		w.gate.mu.Unlock()
		cut()
	}
	opts := append(slices.Clone(m.opts), ots.Transport(w.gate))
	store := ots.New(ots.Instance{Endpoint: "http://emulator", Name: instance, Credentials: keys}, status, opts...)
	var err error
	w.Worker, err = worker.New(worker.Config{
		ID: core.WorkerID(id), Streams: worker.One(src, m.start), Store: store,
		Process: func(_ context.Context, b *core.Batch) error {
			for i := range b.Records {
				key, n := m.over.record(&b.Records[i])
				m.record(id, string(b.Shard), key, n)
			}
			return nil
		},
	}, worker.WithHooks(worker.EventFunc(func(e worker.Event) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.events = append(m.events, e)
	})))
	must(m.t, err)
	ctx, stop := context.WithCancel(m.t.Context())
	w.stop = stop
	m.ours = append(m.ours, w)
	go func() {
		defer close(w.done)
		w.err = w.Run(ctx)
	}()
	return w
}

func (m *mixed) startJava(id string) *javaWorker {
	j := startJava(m.t.Context(), m.s, id, string(m.over.id()), m.over.java(), m.record)
	m.javas = append(m.javas, j)
	return j
}

func (m *mixed) send(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range n {
		k := fmt.Sprintf("k%d", i%10)
		m.put[k]++
		must(m.t, m.over.put(k, m.put[k]))
	}
}

// rows are the leases as Java reads them; whatever it can't read fails the test.
func (m *mixed) rows() []javaRow {
	m.t.Helper()
	j := &javaWorker{stream: string(m.over.id()), sdk: m.s.sdk}
	rows, err := j.list()
	must(m.t, err)
	return rows
}

// owners counts the open leases by owner.
func (m *mixed) owners() map[string]int {
	m.t.Helper()
	out := map[string]int{}
	for _, r := range m.rows() {
		if r.checkpoint != "SHARD_END" {
			out[r.owner]++
		}
	}
	return out
}

// await lets fake time pass until cond holds, and returns how much.
func (m *mixed) await(what string, most time.Duration, cond func() bool) time.Duration {
	m.t.Helper()
	began := time.Now()
	for {
		synctest.Wait()
		if cond() {
			return time.Since(began)
		}
		if time.Since(began) > most {
			m.dump()
			m.t.Fatalf("%s: not within %v", what, most)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (m *mixed) dump() {
	for _, r := range m.rows() {
		m.t.Logf("row %s owner %q stealer %q counter %d at %s parents %v", r.shard, r.owner, r.stealer, r.counter, r.checkpoint, r.parents)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.events[max(0, len(m.events)-40):] {
		m.t.Logf("%s %s %s %s other=%s err=%v %s", e.Time.Format("04:05.000"), e.Worker, e.Kind, e.Key.Shard, e.Other, e.Err, e.Text)
	}
}

func (m *mixed) all() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	top := map[string]int{}
	for _, d := range m.got {
		top[d.key] = max(top[d.key], d.n)
	}
	for k, n := range m.put {
		if top[k] != n {
			return false
		}
	}
	return true
}

// check: every record was delivered, those of a key for the first time in their order. It returns how many came more than once.
func (m *mixed) check() (repeats int) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	top := map[string]int{}
	for _, d := range m.got {
		switch {
		case d.n > top[d.key]+1:
			m.t.Errorf("key %s: record %d delivered by %s before %d", d.key, d.n, d.by, top[d.key]+1)
		case d.n <= top[d.key]:
			repeats++
		}
		top[d.key] = max(top[d.key], d.n)
	}
	for k, n := range m.put {
		if top[k] != n {
			m.t.Errorf("key %s: delivered up to %d of %d", k, top[k], n)
		}
	}
	return repeats
}

func (m *mixed) stealsOfJava() (n int) {
	for _, j := range m.javas {
		j.mu.Lock()
		n += j.steals
		j.mu.Unlock()
	}
	return n
}

func (m *mixed) asked() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.events {
		if e.Kind == worker.LeaseAsked {
			n++
		}
	}
	return n
}

// We join a Java worker: it is asked for its surplus, hands it over, and nothing is read twice. Then the shares stay.
func TestWeStealFromJava(t *testing.T) {
	newMixed(t, 4, func(m *mixed) {
		m.startJava("java")
		m.send(100)
		m.await("java reads", time.Minute, func() bool { return m.owners()["java"] == 4 && m.all() })
		m.startOurs("go")
		d := m.await("even", time.Minute, func() bool { m.send(2); return m.owners()["go"] == 2 && m.owners()["java"] == 2 })
		t.Logf("even after %v", d)
		m.await("all read", time.Minute, m.all)
		if n := m.check(); n > 0 {
			t.Errorf("%d records came twice at a hand-over that both take part in", n)
		}
		m.settled(map[string]int{"go": 2, "java": 2})
	})
}

// settled: for two minutes nobody asks anybody for anything.
func (m *mixed) settled(want map[string]int) {
	m.t.Helper()
	asked, steals := m.asked(), m.stealsOfJava()
	for range 24 {
		m.send(5)
		time.Sleep(5 * time.Second)
	}
	got := m.owners()
	for who, n := range want {
		if got[who] != n {
			m.t.Errorf("owners %v, want %v", got, want)
			break
		}
	}
	if a, s := m.asked()-asked, m.stealsOfJava()-steals; a+s > 0 {
		m.dump()
		m.t.Errorf("%d requests of ours and %d of Java's though the shares were even", a, s)
	}
	m.await("all read", time.Minute, m.all)
}

// A Java worker joins us: it steals one lease at a time, and is given each.
func TestJavaStealsFromUs(t *testing.T) {
	newMixed(t, 4, func(m *mixed) {
		m.startOurs("go")
		m.send(100)
		m.await("we read", time.Minute, func() bool { return m.owners()["go"] == 4 && m.all() })
		m.startJava("java")
		d := m.await("even", 2*time.Minute, func() bool { m.send(2); return m.owners()["go"] == 2 && m.owners()["java"] == 2 })
		t.Logf("even after %v", d)
		m.await("all read", time.Minute, m.all)
		if n := m.check(); n > 0 {
			t.Errorf("%d records came twice at a hand-over that both take part in", n)
		}
		m.settled(map[string]int{"go": 2, "java": 2})
	})
}

// After a Java worker died nobody takes its leases before its own would: 20 s and more after its last renewal.
func TestJavaDies(t *testing.T) {
	newMixed(t, 4, func(m *mixed) {
		j := m.startJava("java")
		m.startOurs("go")
		m.send(100)
		m.await("even", time.Minute, func() bool { return m.owners()["go"] == 2 && m.owners()["java"] == 2 })
		time.Sleep(30 * time.Second)
		j.kill()
		last := m.lastMove("java")
		m.send(50)
		m.await("all ours", time.Minute, func() bool { return m.owners()["go"] == 4 })
		if d := time.Since(last); d < javaDuration || d > 24*time.Second {
			t.Errorf("taken %v after its last renewal, want 20 to 24 s", d)
		}
		m.await("all read", time.Minute, m.all)
		m.check()
	})
}

// lastMove is when a counter of an owner's leases moved last, by the cells' timestamps, which are the service's time.
func (m *mixed) lastMove(owner string) (last time.Time) {
	m.t.Helper()
	for _, r := range m.rows() {
		if r.owner != owner {
			continue
		}
		j := &javaWorker{stream: string(m.over.id()), sdk: m.s.sdk}
		at, err := j.counterTime(r.shard)
		must(m.t, err)
		if at.After(last) {
			last = at
		}
	}
	return last
}

// A worker of ours that dies is taken from by a Java worker as one of its own, and goes on where it stood.
func TestWeDie(t *testing.T) {
	newMixed(t, 4, func(m *mixed) {
		m.startJava("java")
		w := m.startOurs("go")
		m.send(100)
		m.await("even", time.Minute, func() bool { return m.owners()["go"] == 2 && m.owners()["java"] == 2 })
		m.await("all read", time.Minute, m.all)
		time.Sleep(30 * time.Second) // checkpoints are in
		m.check()
		known := len(m.got)
		w.cut()
		m.send(50)
		d := m.await("all java's", 2*time.Minute, func() bool { return m.owners()["java"] == 4 })
		if d < 14*time.Second || d > 40*time.Second {
			t.Errorf("taken after %v, want 20 s after the last renewal and two rounds of the taker at most", d)
		}
		m.await("all read", time.Minute, m.all)
		m.check()
		for i, d := range m.got[known:] {
			if slices.ContainsFunc(m.got[:known], func(e delivery) bool { return e.key == d.key && e.n == d.n }) {
				t.Errorf("delivery %d, of record %d of key %s to %s, is one that a checkpoint stands behind", known+i, d.n, d.key, d.by)
			}
		}
	})
}

// We stop: our leases go straight to the Java worker, which takes what it is handed at its next round.
func TestWeStop(t *testing.T) {
	newMixed(t, 4, func(m *mixed) {
		m.startJava("java")
		w := m.startOurs("go")
		m.send(100)
		m.await("even", time.Minute, func() bool { return m.owners()["go"] == 2 && m.owners()["java"] == 2 })
		time.Sleep(time.Minute)
		w.stop()
		<-w.done
		if w.err != nil {
			t.Error(w.err)
		}
		m.send(50)
		if d := m.await("java reads all", time.Minute, func() bool { return m.all() }); d > 2*javaTake+time.Second {
			t.Errorf("it took java %v to read on", d)
		}
		if n := m.check(); n > 0 {
			t.Errorf("%d records came twice after a graceful stop", n)
		}
	})
}

// Shards split and merge under a mixed fleet, workers of both kinds come, go and die; every record arrives, in order per key: over a stream in
// memory, and over one of Tablestore, where ours checkpoint inside batches and Java's by iterators.
func TestMixedFleetReshards(t *testing.T) {
	for name, over := range map[string]func(m *mixed){
		"memory": func(m *mixed) {
			m.src = source.New("orders", 2, source.Idle(time.Second), source.WithID(stream))
			m.over = inMemory{m.src}
		},
		"Tablestore": func(m *mixed) { m.over = newTable(m.t, m.s, 2) },
	} {
		t.Run(name, func(t *testing.T) { newMixedOver(t, over, reshards) })
	}
}

func reshards(m *mixed) {
	j := m.startJava("java-1")
	m.startOurs("go-1")
	m.send(100)
	m.await("even", 2*time.Minute, func() bool { return m.owners()["go-1"] == 1 && m.owners()["java-1"] == 1 })
	open := func() []core.ShardID {
		out, err := m.over.open()
		must(m.t, err)
		return out
	}
	for _, s := range open() {
		m.send(50)
		must(m.t, m.over.split(s))
	}
	m.send(50)
	must(m.t, m.over.merge(open()[0]))
	m.startJava("java-2")
	g := m.startOurs("go-2")
	for range 20 {
		m.send(20)
		time.Sleep(3 * time.Second)
	}
	j.kill()
	must(m.t, m.over.split(open()[0]))
	for range 20 {
		m.send(20)
		time.Sleep(3 * time.Second)
	}
	g.cut()
	m.send(100)
	m.await("all read", 5*time.Minute, m.all)
	m.t.Logf("%d repeats", m.check())
	time.Sleep(3 * time.Minute)
	got := m.owners()
	for who := range got {
		if who != "go-1" && who != "java-2" {
			m.t.Errorf("owners %v: only go-1 and java-2 live", got)
		}
	}
	// As Java counts, what has ended is part of a share.
	held := map[string]int{}
	for _, r := range m.rows() {
		held[r.owner]++
	}
	if got["go-1"] == 0 || held["java-2"] < len(m.rows())/2 {
		m.t.Errorf("owners %v, of open leases %v: both have a share", held, got)
	}
}

// We begin at LATEST: a Java worker that comes later reads nothing from before, and is content with the finished leases as a part of its share.
func TestLatestBesideJava(t *testing.T) {
	newMixed(t, 2, func(m *mixed) {
		m.start = core.FromLatest
		first, err := m.src.Shards(t.Context(), core.Position{})
		must(t, err)
		for i, s := range first {
			m.src.Put("old", fmt.Append(nil, i+1))
			_, _, err = m.src.Split(s.ID)
			must(t, err)
		}
		m.src.Put("old", []byte("3"))
		time.Sleep(time.Minute)
		m.startOurs("go")
		ended := func() (n int) {
			for _, r := range m.rows() {
				if r.checkpoint == "SHARD_END" {
					n++
				}
			}
			return n
		}
		m.await("leases for all that is listed", 20*time.Second, func() bool { return len(m.rows()) == 6 && ended() == 2 })
		m.startJava("java")
		m.send(20)
		m.await("shared", 2*time.Minute, func() bool { return m.owners()["java"] == 1 })
		m.send(20)
		m.await("all read", time.Minute, m.all)
		m.check()
		m.settled(map[string]int{"go": 3, "java": 1})
		for _, d := range m.got {
			if d.key == "old" {
				t.Errorf("%s was given record %d of before the start", d.by, d.n)
			}
		}
	})
}

// Without WithJava a Java worker that renews a lease ends ours, with an error that names it, and keeps what it has.
func TestJavaIsNotExpected(t *testing.T) {
	newMixed(t, 2, func(m *mixed) {
		m.opts = nil
		m.startJava("java-of-old")
		m.send(20)
		m.await("java reads", time.Minute, func() bool { return m.owners()["java-of-old"] == 2 })
		w := m.startOurs("go")
		m.await("we end", time.Minute, func() bool {
			select {
			case <-w.done:
				return true
			default:
				return false
			}
		})
		if !errors.Is(w.err, core.ErrForeignWorker) || !strings.Contains(w.err.Error(), "java-of-old") || !strings.Contains(w.err.Error(), "WithJava") {
			t.Errorf("Run: %v, want ErrForeignWorker that names java-of-old and WithJava", w.err)
		}
		if m.owners()["java-of-old"] != 2 {
			t.Errorf("owners %v", m.owners())
		}
	})
}

// Answers are lost, and writes carried out after their sender has given up on them: no lease is lost by it, and nothing is read twice.
func TestLostAnswersLoseNoLease(t *testing.T) {
	newMixed(t, 4, func(m *mixed) {
		m.startOurs("go")
		m.send(40)
		m.await("held", time.Minute, func() bool { return m.owners()["go"] == 4 && m.all() })
		must(t, m.s.SetFault(emulator.Fault{Kind: emulator.DropAnswer, Operation: "UpdateRow", Probability: 0.15}))
		must(t, m.s.SetFault(emulator.Fault{Kind: emulator.FailAfter, Code: "OTSTimeout", Operation: "UpdateRow", Probability: 0.05}))
		for range 60 {
			m.send(20)
			time.Sleep(10 * time.Second)
		}
		m.s.ClearFaults()
		m.await("all read", time.Minute, m.all)
		if n := m.check(); n > 0 {
			t.Errorf("%d records came twice", n)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, e := range m.events {
			if e.Kind == worker.LeaseLost {
				t.Errorf("%s lost at counter %d: %v %s", e.Key.Shard, e.Counter, e.Err, e.Text)
			}
		}
	})
}
