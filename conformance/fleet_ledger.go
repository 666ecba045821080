package conformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// ledger is what handlers were given, shard by shard, and judges it as it comes: in order, nothing left out, parents before children, by one
// worker at a time, never by an older owner after a newer one.
type ledger struct {
	f *fleet

	mu      sync.Mutex
	shards  map[core.ShardID]*account
	changed chan struct{}
	// loose: a handler of this rule goes on though its right has ended, so two may run at once.
	loose bool
}

// account is what the ledger knows of a shard. Its records are numbered from 1.
type account struct {
	put     int // so many were put
	top     int // so many were given, none left out
	done    int // so many were handled, none left out
	ok      map[int]bool
	repeats int
	fence   uint64 // of the last delivery
	by      *member
	moves   int // how often another ownership began
	places  map[string]int
	inside  map[*visit]bool
	first   map[*member]time.Time // when a worker was given records first and last
	last    map[*member]time.Time
	gap     time.Duration // the longest time between two batches since it was asked to measure
	at      time.Time
}

// visit is one call of a handler.
type visit struct {
	ctx     context.Context
	by      *member
	numbers []int
}

func newLedger(f *fleet) *ledger {
	return &ledger{f: f, shards: map[core.ShardID]*account{}, changed: make(chan struct{})}
}

func (l *ledger) account(id core.ShardID) *account {
	a := l.shards[id]
	if a == nil {
		a = &account{ok: map[int]bool{}, places: map[string]int{}, inside: map[*visit]bool{}, first: map[*member]time.Time{}, last: map[*member]time.Time{}}
		l.shards[id] = a
	}
	return a
}

// next is closed at the next change.
func (l *ledger) next() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

func (l *ledger) change() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// record makes the next record of a shard.
func (l *ledger) record(id core.ShardID) (key string, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(id)
	a.put++
	return fmt.Sprint("key-", a.put%7), fmt.Appendf(nil, "%s %d", id, a.put)
}

func spot(p core.Position) string { return fmt.Sprintf("%s+%d", p, p.Sub) }

// enter notes what a handler is given.
func (l *ledger) enter(ctx context.Context, m *member, b *core.Batch) *visit {
	v := &visit{ctx: ctx, by: m}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(b.Shard)
	bad := func(format string, args ...any) {
		l.f.errorf("shard %s, worker %s, fence %d: %s", b.Shard, m.ID(), b.Fence, fmt.Sprintf(format, args...))
	}
	for o := range a.inside {
		if !l.loose {
			bad("handed to a handler while one of worker %s is still at it (its context: %v)", o.by.ID(), context.Cause(o.ctx))
		}
	}
	switch {
	case b.Fence < a.fence:
		bad("delivered after worker %s delivered under fence %d", a.by.ID(), a.fence)
	case b.Fence == a.fence && a.by != nil && a.by != m:
		bad("delivered under the fence that worker %s has", a.by.ID())
	case b.Fence > a.fence && a.by != nil:
		a.moves++
	}
	a.fence, a.by = max(a.fence, b.Fence), m
	if a.top == 0 {
		for _, p := range l.f.parents(b.Shard) {
			if pa := l.account(p); pa.done < pa.put {
				bad("its parent %s has %d records of which %d are done: a child begins when its parents are finished", p, pa.put, pa.done)
			}
		}
	}
	for i := range b.Records {
		var of core.ShardID
		n := 0
		if _, err := fmt.Sscanf(string(b.Records[i].Data), "%s %d", &of, &n); err != nil || of != b.Shard || n < 1 || n > a.put {
			bad("record %q was never put to it", short(string(b.Records[i].Data)))
			continue
		}
		v.numbers = append(v.numbers, n)
		switch {
		case n > a.top+1:
			bad("record %d is given before record %d", n, a.top+1)
		case n <= a.top:
			a.repeats++
		}
		a.top = max(a.top, n)
		a.places[spot(b.After(i))] = n
	}
	if n := len(v.numbers); n > 0 {
		if p := b.Next(); !p.IsZero() {
			a.places[spot(p)] = v.numbers[n-1]
		}
		if _, ok := a.first[m]; !ok {
			a.first[m] = now
		}
		a.last[m] = now
		if !a.at.IsZero() {
			a.gap = max(a.gap, now.Sub(a.at))
		}
		a.at = now
	}
	a.inside[v] = true
	l.change()
	return v
}

// leave notes how it went.
func (l *ledger) leave(v *visit, b *core.Batch, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(b.Shard)
	delete(a.inside, v)
	if ok {
		for _, n := range v.numbers {
			a.ok[n] = true
		}
		for a.ok[a.done+1] {
			a.done++
		}
	}
	l.change()
}

// missing says what was put and not handled, "" where nothing is.
func (l *ledger) missing() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, id := range slices.Sorted(maps.Keys(l.shards)) {
		if a := l.shards[id]; a.done < a.put {
			out = append(out, fmt.Sprintf("shard %s: %d of %d done, %d given", id, a.done, a.put, a.top))
		}
	}
	return strings.Join(out, "; ")
}

func (l *ledger) repeats() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.shards {
		n += a.repeats
	}
	return n
}

func (l *ledger) moves() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.shards {
		n += a.moves
	}
	return n
}

// given is how many records of a shard were given.
func (l *ledger) given(id core.ShardID) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.account(id).top
}

// to is when a worker was given records of a shard first and last; zero where never.
func (l *ledger) to(id core.ShardID, m *member) (first, last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(id)
	return a.first[m], a.last[m]
}

// at is the number of the record a position lies behind.
func (l *ledger) at(id core.ShardID, p core.Position) (n int, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, known = l.account(id).places[spot(p)]
	return n, known
}

func (l *ledger) done(id core.ShardID) (done, put int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(id)
	return a.done, a.put
}

// forget lets a shard begin again: its lease was deleted, and fences begin anew with it.
func (l *ledger) forget(id core.ShardID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account(id).fence = 0
}

// measure begins to measure gaps; the longest of a shard comes out of gap.
func (l *ledger) measure() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.shards {
		a.gap, a.at = 0, time.Now()
	}
}

func (l *ledger) gap(id core.ShardID) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(id)
	return max(a.gap, time.Since(a.at))
}

// show is the fleet as it stands, for faults.
func (f *fleet) show() string {
	var b strings.Builder
	if m := f.ledger.missing(); m != "" {
		fmt.Fprintln(&b, m)
	}
	rows := f.rows()
	slices.SortFunc(rows, func(a, b core.Lease) int { return strings.Compare(string(a.Key.Shard), string(b.Key.Shard)) })
	for _, l := range rows[:min(len(rows), 20)] {
		fmt.Fprintln(&b, "row", show(l))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		if m.ended() {
			fmt.Fprintf(&b, "worker %s has ended: %v\n", m.ID(), m.err)
		}
	}
	return b.String()
}
