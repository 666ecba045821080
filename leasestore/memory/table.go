package memory

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// table is what handles share. Leases in it are never changed: a write puts a new one in the place of the old, so whoever holds a pointer
// holds a snapshot.
type table struct {
	page                                     int
	shuffle                                  *dice
	noConflictRows, noReturnedRows, noStarts bool

	mu      sync.Mutex
	cells   map[core.LeaseKey]*cell
	order   []*cell // by key
	spoiled map[core.LeaseKey]error
	workers map[core.WorkerID]core.WorkerInfo // never changed, but replaced
	shared  *core.Foreigners
	lock    core.Lock
	locks   int         // how often it was written
	late    []lateWrite // by due
	memory  time.Duration
	past    []version // what was there before each write of the last memory; for stale listings

	observers []func(before, after *core.Lease, by string)
	events    []*event // not yet told
	last      *event   // the newest, told or not
	telling   bool
}

// cell holds a row: what is written most, a renewal, changes one pointer.
type cell struct{ row *core.Lease }

type lateWrite struct {
	due   time.Time
	write func()
}

// version is a lease, or all workers, as it was until a write.
type version struct {
	until   time.Time
	key     core.LeaseKey
	before  *core.Lease // nil: no row
	workers map[core.WorkerID]core.WorkerInfo
}

type event struct {
	before, after *core.Lease
	by            string
	told          chan struct{}
}

// dice may be thrown by many.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newDice(seed uint64) *dice { return &dice{r: rand.New(rand.NewPCG(seed, 0))} }

func (d *dice) shuffle(rows []*core.Lease) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.r.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
}

// run carries out f under the lock, after the late writes that are due, and returns when the observers know all that was written so far:
// else they would judge what the caller does next by an older row.
func (t *table) run(f func()) {
	t.mu.Lock()
	t.settle()
	f()
	last := t.last
	tell := len(t.events) > 0 && !t.telling
	t.telling = t.telling || tell
	t.mu.Unlock()
	if tell {
		t.tell()
	}
	if last != nil {
		<-last.told
	}
}

// settle carries out late writes whose time has come. They take effect with the first call after that: nobody can tell the difference.
func (t *table) settle() {
	if len(t.late) == 0 {
		return
	}
	now := time.Now()
	for len(t.late) > 0 && !t.late[0].due.After(now) {
		w := t.late[0]
		t.late = t.late[1:]
		w.write()
	}
}

// tell tells the observers in the order of the writes, one at a time and under no lock.
func (t *table) tell() {
	for {
		t.mu.Lock()
		events, observers := t.events, t.observers
		t.events = nil
		if len(events) == 0 {
			t.telling = false
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		for _, e := range events {
			for _, f := range observers {
				f(e.before, e.after, e.by)
			}
			close(e.told)
		}
	}
}

// find is the row of a key; nil where there is none.
func (t *table) find(k core.LeaseKey) *core.Lease {
	if c := t.cells[k]; c != nil {
		return c.row
	}
	return nil
}

func (t *table) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.order)
}

// rows are all rows, by key.
func (t *table) rows() []*core.Lease {
	out := make([]*core.Lease, len(t.order))
	for i, c := range t.order {
		out[i] = c.row
	}
	return out
}

func find(rows []*core.Lease, k core.LeaseKey) (int, bool) {
	return slices.BinarySearchFunc(rows, k, func(l *core.Lease, k core.LeaseKey) int { return compareKeys(l.Key, k) })
}

func compareKeys(a, b core.LeaseKey) int {
	if a.Stream != b.Stream {
		return cmp.Compare(a.Stream, b.Stream)
	}
	return cmp.Compare(a.Shard, b.Shard)
}

// place is where a key stands in the order, or would.
func (t *table) place(k core.LeaseKey) int {
	i, _ := slices.BinarySearchFunc(t.order, k, func(c *cell, k core.LeaseKey) int { return compareKeys(c.row.Key, k) })
	return i
}

// put makes after the row of its key; nil after removes the row. before is the row so far.
func (t *table) put(key core.LeaseKey, before, after *core.Lease, by string) {
	c := t.cells[key]
	switch {
	case c != nil && after != nil:
		c.row = after
	case after != nil:
		c = &cell{after}
		t.cells[key] = c
		t.order = slices.Insert(t.order, t.place(key), c)
	case c != nil:
		i := t.place(key)
		t.order = slices.Delete(t.order, i, i+1)
		delete(t.cells, key)
		delete(t.spoiled, key)
	}
	t.archive(version{key: key, before: before})
	if len(t.observers) > 0 {
		t.last = &event{before, after, by, make(chan struct{})}
		t.events = append(t.events, t.last)
	}
}

func (t *table) replaceWorkers(workers map[core.WorkerID]core.WorkerInfo) {
	t.archive(version{workers: t.workers})
	t.workers = workers
}

// remember keeps what the table was for d.
func (t *table) remember(d time.Duration) {
	t.mu.Lock()
	t.memory = max(t.memory, d)
	t.mu.Unlock()
}

func (t *table) archive(v version) {
	if t.memory == 0 {
		return
	}
	v.until = time.Now()
	forgotten := 0
	for forgotten < len(t.past) && t.past[forgotten].until.Before(v.until.Add(-t.memory)) {
		forgotten++
	}
	t.past = append(t.past[forgotten:], v)
}

// at is the table as it was age ago.
func (t *table) at(age time.Duration) ([]*core.Lease, map[core.WorkerID]core.WorkerInfo) {
	rows, workers := t.rows(), t.workers
	if age <= 0 {
		return rows, workers
	}
	then := time.Now().Add(-age)
	for _, v := range slices.Backward(t.past) {
		if !v.until.After(then) {
			break
		}
		if v.workers != nil {
			workers = v.workers
			continue
		}
		i, ok := find(rows, v.key)
		switch {
		case ok && v.before == nil:
			rows = slices.Delete(rows, i, i+1)
		case ok:
			rows[i] = v.before
		case v.before != nil:
			rows = slices.Insert(rows, i, v.before)
		}
	}
	return rows, workers
}

// delay carries out a write d from now, whatever has become of its caller.
func (t *table) delay(d time.Duration, write func()) {
	w := lateWrite{time.Now().Add(d), write}
	t.mu.Lock()
	defer t.mu.Unlock()
	i, _ := slices.BinarySearchFunc(t.late, w, func(a, b lateWrite) int { return cmp.Or(a.due.Compare(b.due), -1) })
	t.late = slices.Insert(t.late, i, w)
}

// clone shares no memory with l that anybody could change. Positions own theirs.
func clone(l *core.Lease) core.Lease {
	c := *l
	c.Parents, c.Children = slices.Clone(l.Parents), slices.Clone(l.Children)
	if l.Range != nil {
		c.Range = new(*l.Range)
	}
	if l.Pending != nil {
		c.Pending = &core.Pending{At: l.Pending.At, State: slices.Clone(l.Pending.State)}
	}
	return c
}
