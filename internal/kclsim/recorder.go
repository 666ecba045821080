package kclsim

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Recorder is told of every record that is put and of every delivery, by workers of any kind, and judges them. It is safe for concurrent use.
type Recorder struct {
	mu     sync.Mutex
	shards map[string]*shardLog
	puts   int
	done   int // records that were processed at least once
	faults []string
}

// Windows are how much a scenario allows.
type Windows struct {
	// Overlap is how long two workers may deliver for one shard, from the first delivery of the new owner to the last moment of a handler of the
	// former.
	Overlap time.Duration
	// Repeat is how much of what a former owner had processed may be delivered again: what it did in the last so much of its time. Negative: nothing.
	Repeat time.Duration
}

type shardLog struct {
	id      string
	parents []string
	records []*record
	place   map[string]int // of a sequence number in records
	owners  []*ownership
	latest  *ownership // of the last delivery
}

type record struct {
	sequence string
	put      time.Time
	ends     []processing
}

// processing is a record done, once.
type processing struct {
	at time.Time
	by *ownership
}

// ownership is an epoch: one worker, one acquisition.
type ownership struct {
	worker, session string
	next            int       // place of the record it must be given next, or -1 before the first
	began, last     time.Time // its first delivery, and when its last handler returned
	running         int
}

// NewRecorder makes a recorder.
func NewRecorder() *Recorder { return &Recorder{shards: map[string]*shardLog{}} }

func (r *Recorder) bad(format string, args ...any) {
	if len(r.faults) < 20 {
		r.faults = append(r.faults, clock(time.Now())+" "+fmt.Sprintf(format, args...))
	}
}

// Shard notes that there is a shard.
func (r *Recorder) Shard(id string, parents []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shard(id).parents = parents
}

func (r *Recorder) shard(id string) *shardLog {
	s := r.shards[id]
	if s == nil {
		s = &shardLog{id: id, place: map[string]int{}}
		r.shards[id] = s
	}
	return s
}

// Put puts a record by way of put, which returns where it went. Nobody is given it before the recorder knows.
func (r *Recorder) Put(put func() (shard, sequence string, err error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, sequence, err := put()
	if err != nil {
		return err
	}
	s := r.shard(id)
	s.place[sequence] = len(s.records)
	s.records = append(s.records, &record{sequence: sequence, put: time.Now()})
	r.puts++
	return nil
}

// Begin notes that a handler is given records. The returned function notes its return; ok: what it was given is done.
func (r *Recorder) Begin(d Delivery) (end func(ok bool)) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.shard(d.Shard)
	own := r.owner(s, d, now)
	var given []*record
	from := own.next
	for _, q := range d.Sequences {
		at, ok := s.place[q]
		switch {
		case !ok:
			r.bad("%s is given record %s of %s, which nobody put there", d.Worker, q, d.Shard)
			continue
		case own.next >= 0 && at != own.next:
			r.bad("%s (%s) is given record %d of %s where %d was due: order, or a gap", d.Worker, d.Session, at, d.Shard, own.next)
		}
		own.next = at + 1
		given = append(given, s.records[at])
	}
	own.running++
	s.latest = own
	return func(ok bool) {
		now := time.Now()
		r.mu.Lock()
		defer r.mu.Unlock()
		own.last = now
		own.running--
		if !ok { // it may come again
			own.next = from
			return
		}
		for _, g := range given {
			if len(g.ends) == 0 {
				r.done++
			}
			g.ends = append(g.ends, processing{now, own})
		}
	}
}

// owner finds the epoch of a delivery. At its beginning it is judged where it begins: not behind a record that nobody has processed, and not
// before the parents are done.
func (r *Recorder) owner(s *shardLog, d Delivery, now time.Time) *ownership {
	for _, o := range s.owners {
		if o.worker == d.Worker && o.session == d.Session {
			return o
		}
	}
	for _, p := range s.parents {
		parent := r.shards[p]
		if parent == nil {
			continue // trimmed before the recorder began
		}
		for i, rec := range parent.records {
			if len(rec.ends) == 0 {
				r.bad("%s begins %s though record %d of %d of its parent %s was never processed", d.Worker, s.id, i, len(parent.records), p)
				break
			}
		}
	}
	if len(d.Sequences) > 0 {
		if at, ok := s.place[d.Sequences[0]]; ok {
			for i, rec := range s.records[:at] {
				if len(rec.ends) == 0 {
					r.bad("%s begins %s at record %d though record %d was never processed: a gap", d.Worker, s.id, at, i)
					break
				}
			}
		}
	}
	o := &ownership{worker: d.Worker, session: d.Session, next: -1, began: now}
	s.owners = append(s.owners, o)
	return o
}

// Undone is how many records nobody has processed.
func (r *Recorder) Undone() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.puts - r.done
}

// Oldest is how long the record has waited that has waited longest, 0 where none waits.
func (r *Recorder) Oldest() (waits time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == r.puts {
		return 0
	}
	for _, s := range r.shards {
		for _, rec := range s.records {
			if len(rec.ends) == 0 {
				waits = max(waits, time.Since(rec.put))
				break
			}
		}
	}
	return waits
}

// Delivered says how many records were put, and how many deliveries came again.
func (r *Recorder) Delivered() (puts, repeats int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.shards {
		for _, rec := range s.records {
			repeats += max(0, len(rec.ends)-1)
		}
	}
	return r.puts, repeats
}

// Busy reports whether a handler of a worker runs for a shard.
func (r *Recorder) Busy(worker, shard string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.shard(shard).owners {
		if o.worker == worker && o.running > 0 {
			return true
		}
	}
	return false
}

// Owners are the workers that were given records of a shard, in the order in which they began.
func (r *Recorder) Owners(shard string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, o := range r.shard(shard).owners {
		if len(out) == 0 || out[len(out)-1] != o.worker {
			out = append(out, o.worker)
		}
	}
	return out
}

// Begun reports whether anybody was given records of a shard.
func (r *Recorder) Begun(shard string) bool { return len(r.Owners(shard)) > 0 }

// Last is who was given records of a shard last, and when its handler returned.
func (r *Recorder) Last(shard string) (worker string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.shard(shard).latest; o != nil {
		return o.worker, o.last
	}
	return "", time.Time{}
}

// Judge names what was wrong: while it ran, and what can be told at the end only.
func (r *Recorder) Judge(w Windows) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	faults := slices.Clone(r.faults)
	say := func(format string, args ...any) {
		if len(faults) < 40 {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(r.shards)) {
		s := r.shards[id]
		for i, rec := range s.records {
			if len(rec.ends) == 0 {
				say("record %d of %d of %s was never processed", i, len(s.records), id)
				break
			}
		}
		r.judgeOverlap(s, w.Overlap, say)
		r.judgeRepeats(s, w.Repeat, say)
	}
	return faults
}

// judgeOverlap: once a new owner has begun, the former is done within the window.
func (r *Recorder) judgeOverlap(s *shardLog, window time.Duration, say func(string, ...any)) {
	for i, o := range s.owners {
		for _, former := range s.owners[:i] {
			if over := former.last.Sub(o.began); over > window {
				say("%s: %s (%s) was still delivering %v after %s (%s) began at %s; %v is allowed", s.id, former.worker, former.session, over, o.worker, o.session, clock(o.began), window)
			}
		}
	}
}

// judgeRepeats: what a new owner processes again was processed within the window before the former one's end. What the former does while the new
// one is at it is an overlap.
func (r *Recorder) judgeRepeats(s *shardLog, window time.Duration, say func(string, ...any)) {
	for i, rec := range s.records {
		for n := 1; n < len(rec.ends); n++ {
			one, again := rec.ends[n-1], rec.ends[n]
			ago := one.by.last.Sub(one.at)
			switch {
			case window < 0:
				say("%s: record %d was processed by %s at %s and again by %s at %s", s.id, i, one.by.worker, clock(one.at), again.by.worker, clock(again.at))
				return
			case again.by.began.After(one.by.began) && ago > window:
				say("%s: record %d was processed by %s at %s, %v before the end of its ownership, and again by %s; %v is allowed", s.id, i, one.by.worker, clock(one.at), ago, again.by.worker, window)
				return
			}
		}
	}
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }
