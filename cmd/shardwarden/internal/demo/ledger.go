package demo

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"
)

// The ledger stands outside the engine: it knows what the service answered to the puts, and what each handler was given. It never asks a
// worker anything.

// recordID names a record: the n-th of a key, from 0. A key's record n+1 is put only once record n is in, so n is the order of the key.
type recordID struct{ key, n int32 }

// placement is where the service says a record was put.
type placement struct {
	shard    int32
	sequence uint64 // hashed
}

// epoch is one processor: a shard in the hands of one worker under one lease. Epochs are numbered as their processors are made.
type epoch struct {
	worker string
	shard  int32
}

// delivery is a record as a handler was given it.
type delivery struct {
	id       recordID
	epoch    int32
	sequence uint64        // hashed
	at       time.Duration // since the start
}

// book is everything the judge looks at. Deliveries stand in the order in which handlers had them.
type book struct {
	shards     []string      // names, by number
	parents    [][]int32     // of each shard
	puts       [][]placement // by key, then n
	epochs     []epoch
	deliveries []delivery
	foreign    int // deliveries whose data no producer wrote
}

// ledger is a book being written. Safe for concurrent use.
type ledger struct {
	mu      sync.Mutex
	book    book
	number  map[string]int32
	hash    maphash.Seed
	start   time.Time
	changed chan struct{} // closed at the next change
	live    live
	arrived [][]bool // by key, then n: reached a handler, before sabotage
}

// live is what the display shows and the director waits for. By shard where it is a slice.
type live struct {
	produced, delivered, arrived int
	put, got                     []int // records put into and distinct records that arrived from each shard
	quiet                        time.Time
}

func newLedger(keys int) *ledger {
	now := time.Now()
	return &ledger{
		number: map[string]int32{}, hash: maphash.MakeSeed(), start: now, changed: make(chan struct{}),
		book: book{puts: make([][]placement, keys)}, arrived: make([][]bool, keys), live: live{quiet: now},
	}
}

// shardNumber finds or gives the number of a shard. The lock is held.
func (l *ledger) shardNumber(name string) int32 {
	n, ok := l.number[name]
	if !ok {
		n = int32(len(l.book.shards))
		l.number[name] = n
		l.book.shards = append(l.book.shards, name)
		l.book.parents = append(l.book.parents, nil)
		l.live.put, l.live.got = append(l.live.put, 0), append(l.live.got, 0)
	}
	return n
}

func (l *ledger) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// family notes the parents of shards.
func (l *ledger) family(shards []shard) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range shards {
		n := l.shardNumber(s.id)
		l.book.parents[n] = nil
		for _, p := range s.parents {
			l.book.parents[n] = append(l.book.parents[n], l.shardNumber(p))
		}
	}
}

// put notes that the next record of a key is in, and where.
func (l *ledger) put(key int32, shard, sequence string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.shardNumber(shard)
	l.book.puts[key] = append(l.book.puts[key], placement{n, maphash.String(l.hash, sequence)})
	l.live.produced++
	l.live.put[n]++
	l.tell()
}

// begin notes a new processor and returns the number of its epoch.
func (l *ledger) begin(worker, shard string) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.book.epochs = append(l.book.epochs, epoch{worker, l.shardNumber(shard)})
	return int32(len(l.book.epochs) - 1)
}

// arrive notes records that reached a handler, whatever happens to them before they are noted as delivered.
func (l *ledger) arrive(shard string, records []item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.shardNumber(shard)
	for _, r := range records {
		if r.foreign {
			continue
		}
		seen := &l.arrived[r.id.key]
		for int(r.id.n) >= len(*seen) {
			*seen = append(*seen, false)
		}
		if !(*seen)[r.id.n] {
			(*seen)[r.id.n] = true
			l.live.arrived++
			l.live.got[s]++
			l.live.quiet = time.Now()
		}
	}
	l.tell()
}

// deliver notes what a handler was given.
func (l *ledger) deliver(epoch int32, records []item) {
	at := time.Since(l.start)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range records {
		l.live.delivered++
		if r.foreign {
			l.book.foreign++
			continue
		}
		l.book.deliveries = append(l.book.deliveries, delivery{r.id, epoch, maphash.String(l.hash, r.sequence), at})
	}
}

// now is a copy of the live figures.
func (l *ledger) now() live {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.live
	out.put, out.got = slices.Clone(out.put), slices.Clone(out.got)
	return out
}

// of looks up the live figures of a shard: records put into it, and distinct ones that arrived.
func (l *ledger) of(shard string) (put, got int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, ok := l.number[shard]
	if !ok {
		return 0, 0
	}
	return l.live.put[n], l.live.got[n]
}

// holding lists the shards whose records came from the worker last, in the order they were first seen.
func (l *ledger) holding(worker string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for s, e := range latest(l.book.epochs, l.book.deliveries, len(l.book.shards)) {
		if e >= 0 && l.book.epochs[e].worker == worker {
			out = append(out, l.book.shards[s])
		}
	}
	return out
}

// until waits for a condition on the live figures. It is asked after each change, and must not call the ledger.
func (l *ledger) until(ctx context.Context, ok func(live) bool) error {
	for {
		l.mu.Lock()
		fine, changed := ok(l.live), l.changed
		l.mu.Unlock()
		if fine {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// elapsed is the time since the start, as deliveries are stamped.
func (l *ledger) elapsed() time.Duration { return time.Since(l.start) }

// close returns the book once nobody writes any more.
func (l *ledger) close() book {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.book
}
