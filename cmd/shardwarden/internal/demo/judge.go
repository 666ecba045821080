package demo

import (
	"fmt"
	"slices"
	"time"
)

// verdict is what the book says. A delivery is one record given to one handler once.
//
// A delivery is stale if a later epoch of its shard (a processor made after this one) had records before: the lease was lost by then, as with
// a worker cut off from the network. Stale deliveries count as delivered and as duplicates and as nothing else, so what only a stale
// delivery showed is missing.
//
// A record's first delivery is its first that is not stale. From these:
//   - distinct: records with a first delivery. missing: records put that have none.
//   - order violations: records whose first delivery came after that of a later record of their key; and records given again, in an epoch that
//     had not had them yet, behind a later record of their key in that epoch (an epoch may begin before what others had, and goes forward from there).
//   - parent violations: records of a shard whose first delivery came before the first delivery of every record of its ancestors. A
//     record that is missing is counted as that, not here.
//   - repeats: deliveries of a record that the same epoch had before. Duplicates come from epochs that begin again behind a worker that
//     died; within one there is no reason for any, so they are a fault of their own.
//   - handovers: a shard's records came from one worker before, from another now.
//   - strangers: deliveries of what no producer put, or of a record in another shard or under another sequence number than the service
//     answered to the producer.
type verdict struct {
	produced, delivered, distinct, missing, duplicates int
	order, parents, repeats, stale, handovers          int
	strangers                                          int
	examples                                           []string // one for each kind of fault
}

// faults reports whether anything is wrong. Duplicates alone are not.
func (v *verdict) faults() bool {
	return v.missing+v.order+v.parents+v.repeats+v.strangers > 0
}

type judge struct {
	book    book
	verdict verdict
	first   [][]int     // by key, then n: index of the first delivery; -1 none
	high    []int32     // by key: the highest n that had its first delivery
	had     [][][]int32 // by key, then n: the epochs that had it
	last    map[epochKey]int32
	done    []int // by shard: index of the last first delivery of its records; -1 none
}

type epochKey struct{ epoch, key int32 }

// weigh judges a book. It is a pure function.
func weigh(b book) verdict {
	j := judge{book: b, last: map[epochKey]int32{}, high: make([]int32, len(b.puts)), done: make([]int, len(b.shards))}
	for k, puts := range b.puts {
		j.first = append(j.first, make([]int, len(puts)))
		j.had = append(j.had, make([][]int32, len(puts)))
		for n := range puts {
			j.first[k][n] = -1
		}
		j.high[k] = -1
		j.verdict.produced += len(puts)
	}
	for s := range j.done {
		j.done[s] = -1
	}
	j.verdict.delivered = len(b.deliveries) + b.foreign
	if b.foreign > 0 {
		j.fault(&j.verdict.strangers, b.foreign, "%d deliveries hold data that no producer wrote", b.foreign)
	}
	j.walk()
	j.lineage()
	j.missing()
	v := j.verdict
	v.duplicates = v.delivered - v.distinct - v.strangers
	return v
}

// fault counts, and keeps the first of each kind as an example.
func (j *judge) fault(count *int, n int, format string, args ...any) {
	if *count == 0 {
		j.verdict.examples = append(j.verdict.examples, fmt.Sprintf(format, args...))
	}
	*count += n
}

func (j *judge) walk() {
	v := &j.verdict
	holder := make([]int32, len(j.book.shards))
	for s := range holder {
		holder[s] = -1
	}
	for i, d := range j.book.deliveries {
		e := j.book.epochs[d.epoch]
		if j.stranger(d, e) {
			continue
		}
		switch h := holder[e.shard]; {
		case d.epoch < h:
			v.stale++
			continue
		case d.epoch > h:
			if h >= 0 && j.book.epochs[h].worker != e.worker {
				v.handovers++
			}
			holder[e.shard] = d.epoch
		}
		k, n := d.id.key, d.id.n
		again, inEpoch := slices.Contains(j.had[k][n], d.epoch), epochKey{d.epoch, k}
		last, begun := j.last[inEpoch]
		switch {
		case j.first[k][n] < 0:
			v.distinct++
			j.first[k][n], j.done[e.shard] = i, i
			if n < j.high[k] {
				j.fault(&v.order, 1, "%s came first from %s in %s, after record %d of that key", d.id, e.worker, j.book.shards[e.shard], j.high[k])
			}
			j.high[k] = max(j.high[k], n)
		case again:
			j.fault(&v.repeats, 1, "%s was given twice to one processor of %s in %s", d.id, e.worker, j.book.shards[e.shard])
		case begun && n < last:
			j.fault(&v.order, 1, "%s was given again by %s in %s, after record %d of that key", d.id, e.worker, j.book.shards[e.shard], last)
		}
		if !again {
			j.had[k][n] = append(j.had[k][n], d.epoch)
		}
		j.last[inEpoch] = max(last, n)
	}
}

func (j *judge) stranger(d delivery, e epoch) bool {
	v := &j.verdict
	if int(d.id.key) >= len(j.book.puts) || int(d.id.n) >= len(j.book.puts[d.id.key]) {
		j.fault(&v.strangers, 1, "%s was given to %s, and nobody put it", d.id, e.worker)
		return true
	}
	if p := j.book.puts[d.id.key][d.id.n]; p.shard != e.shard || p.sequence != d.sequence {
		j.fault(&v.strangers, 1, "%s was put into %s and given to %s out of %s, or under another sequence number", d.id, j.book.shards[p.shard], e.worker, j.book.shards[e.shard])
		return true
	}
	return false
}

// lineage finds the records that came before a record of an ancestor.
func (j *judge) lineage() {
	// ancestors[s] is the index of the last first delivery of any ancestor of s.
	ancestors := make([]int, len(j.book.shards))
	known := make([]bool, len(j.book.shards))
	var of func(s int32) int
	of = func(s int32) int {
		if !known[s] {
			known[s], ancestors[s] = true, -1
			for _, p := range j.book.parents[s] {
				ancestors[s] = max(ancestors[s], j.done[p], of(p))
			}
		}
		return ancestors[s]
	}
	for k, firsts := range j.first {
		for n, i := range firsts {
			if i < 0 {
				continue
			}
			s := j.book.puts[k][n].shard
			if a := of(s); i < a {
				late := j.book.deliveries[a]
				j.fault(&j.verdict.parents, 1, "%s of %s came before %s of its ancestor %s", recordID{int32(k), int32(n)}, j.book.shards[s], late.id,
					j.book.shards[j.book.epochs[late.epoch].shard])
			}
		}
	}
}

func (j *judge) missing() {
	for k, firsts := range j.first {
		for n, i := range firsts {
			if i < 0 {
				j.fault(&j.verdict.missing, 1, "%s of %s never came", recordID{int32(k), int32(n)}, j.book.shards[j.book.puts[k][n].shard])
			}
		}
	}
}

func (r recordID) String() string { return fmt.Sprintf("record %d of %s", r.n, keyName(r.key)) }

// latest finds the highest epoch of each shard that had records; -1 where none had.
func latest(epochs []epoch, deliveries []delivery, shards int) []int32 {
	out := make([]int32, shards)
	for s := range out {
		out[s] = -1
	}
	for _, d := range deliveries {
		s := epochs[d.epoch].shard
		out[s] = max(out[s], d.epoch)
	}
	return out
}

// cut is a worker that lost its network.
type cut struct {
	worker string
	at     time.Duration // as deliveries are stamped
}

// failover is the time from the cut until the last of the worker's shards had records given to another. The worker's shards are those whose
// records came from it last. One that nobody else had anything of (it was read to its end) is left out.
func failover(b book, c cut) time.Duration {
	before := b.deliveries
	for i, d := range before {
		if d.at > c.at {
			before = before[:i]
			break
		}
	}
	owned := map[int32]bool{}
	for s, e := range latest(b.epochs, before, len(b.shards)) {
		if e >= 0 && b.epochs[e].worker == c.worker {
			owned[int32(s)] = true
		}
	}
	var last time.Duration
	for _, d := range b.deliveries[len(before):] {
		if e := b.epochs[d.epoch]; owned[e.shard] && e.worker != c.worker {
			delete(owned, e.shard)
			last = d.at - c.at
		}
	}
	return last
}
