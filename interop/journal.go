package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// delivery is one record as one worker gave it to its user, with what is known of when: it was written after `after` and before `before`.
// Two workers' deliveries are ordered only where these intervals don't overlap, so a slow reader can't make up a violation.
type delivery struct {
	worker, shard, seq string
	sub                uint64
	key                string
	id                 string // what the producer wrote: "KEY NUMBER"
	after, before      time.Time
	index              int // in the journal: within one worker, the order of its output

	hold int // which hold of its worker on the shard, counted from 0: see holds

	// mark is empty for a record. Else a worker says what it does with the shard, and only worker, stream, shard and when are set.
	mark   mark
	stream string // where there are several
}

// mark is what a worker says of a shard between the records.
type mark string

const (
	began    mark = "began"     // what it delivers from now on it does under a new hold of the lease
	batchEnd mark = "batch end" // its handler was busy until now
	gaveUp   mark = "gave up"   // it was told that the lease is lost
	asked    mark = "asked"     // it was told to end, and may still store a checkpoint
	ended    mark = "ended"     // it has read the shard to its end
)

// journal gathers the deliveries of all workers of a scenario.
type journal struct {
	mu      sync.Mutex
	all     []delivery
	marks   []delivery
	n       int
	seen    map[string]int // by id
	workers map[string]int
	changed chan struct{}
	broken  error
}

func newJournal() *journal {
	return &journal{seen: map[string]int{}, workers: map[string]int{}, changed: make(chan struct{})}
}

func (j *journal) add(ds ...delivery) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, d := range ds {
		d.index = j.n
		j.n++
		if d.mark != "" {
			j.marks = append(j.marks, d)
			continue
		}
		j.all = append(j.all, d)
		j.seen[d.id]++
		j.workers[d.worker]++
	}
	close(j.changed)
	j.changed = make(chan struct{})
}

// fail ends every wait: a worker said something that can't be judged, or died unasked.
func (j *journal) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken == nil {
		j.broken = err
	}
	close(j.changed)
	j.changed = make(chan struct{})
}

// health is the first reason why going on makes no sense.
func (j *journal) health() error { j.mu.Lock(); defer j.mu.Unlock(); return j.broken }

// distinct is how many different records came; of is how many deliveries worker made.
func (j *journal) distinct() int        { j.mu.Lock(); defer j.mu.Unlock(); return len(j.seen) }
func (j *journal) of(worker string) int { j.mu.Lock(); defer j.mu.Unlock(); return j.workers[worker] }
func (j *journal) deliveries() []delivery {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]delivery(nil), j.all...)
}

// from are the deliveries behind the first n.
func (j *journal) from(n int) []delivery {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]delivery(nil), j.all[n:]...)
}

// marked are the marks so far.
func (j *journal) marked() []delivery {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]delivery(nil), j.marks...)
}

// until waits for cond, which is asked again after each delivery and mark.
func (j *journal) until(ctx context.Context, limit time.Duration, what string, cond func() bool) error {
	t := time.NewTimer(limit)
	defer t.Stop()
	for {
		j.mu.Lock()
		changed, broken := j.changed, j.broken
		j.mu.Unlock()
		if broken != nil {
			return broken
		}
		if cond() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		case <-t.C:
			return fmt.Errorf("%s: not within %v (%d distinct records came; by worker %v)", what, limit, j.distinct(), j.byWorker())
		}
	}
}

func (j *journal) byWorker() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var s []string
	for w, n := range j.workers {
		s = append(s, fmt.Sprintf("%s %d", w, n))
	}
	return strings.Join(s, ", ")
}
