package leasetable

import (
	"strconv"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// Observer watches a table over several readings. A row holds no time: that its owner lives shows in its counter, and how long that has been
// silent is judged by the clock of who watches. The zero Observer has seen nothing.
type Observer struct {
	since time.Time
	seen  map[subject]*trace
}

// subject is something that shows a sign of life.
type subject struct {
	kind byte
	id   core.LeaseKey
}

const (
	ofLease  = 'l'
	ofWorker = 'w'
	ofLeader = 'm'
)

func leaseSubject(k core.LeaseKey) subject { return subject{ofLease, k} }
func workerSubject(id core.WorkerID) subject {
	return subject{ofWorker, core.LeaseKey{Shard: core.ShardID(id)}}
}

// trace is what was seen of a subject.
type trace struct {
	beat        string
	first, last time.Time // first seen; last seen to change
	changes     int
}

// See takes a reading in, made at a time.
func (o *Observer) See(r *Reading, at time.Time) {
	if o.since.IsZero() {
		o.since = at
	}
	now := make(map[subject]*trace, len(r.Sight.Leases))
	note := func(s subject, beat string) {
		t := o.seen[s]
		switch {
		case t == nil:
			t = &trace{beat: beat, first: at}
		case t.beat != beat:
			t.beat, t.last = beat, at
			t.changes++
		}
		now[s] = t
	}
	for i := range r.Sight.Leases {
		l := &r.Sight.Leases[i]
		note(leaseSubject(l.Key), strconv.FormatInt(l.Counter, 10))
	}
	if r.KCL == nil {
		for _, w := range r.Sight.Workers {
			note(workerSubject(w.ID), w.Beat)
		}
	} else { // the store leaves out of its sight who is not to be counted
		for _, w := range r.workers {
			note(workerSubject(core.WorkerID(w.ID)), w.Updated.String())
		}
		if l := r.KCL.Leader; l != nil {
			note(subject{kind: ofLeader}, l.Owner+" "+l.Version)
		}
	}
	o.seen = now // what is gone is forgotten
}

// silence is how long a subject has been silent at a time.
func (o *Observer) silence(s subject, at time.Time) *Silence {
	t := o.seen[s]
	switch {
	case t == nil:
		return nil
	case t.changes == 0:
		return &Silence{Seconds: seconds(at.Sub(t.first)), AtLeast: true}
	}
	return &Silence{Seconds: seconds(at.Sub(t.last))}
}

// seconds has millisecond precision: more is noise.
func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }
