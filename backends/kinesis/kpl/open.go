package kpl

import (
	"fmt"
	"math"
	"strings"
	"unsafe"

	"github.com/shardwarden/shardwarden/core"
)

// Config says how package kinesis treats aggregated records. The zero value is the default: they are opened, user records of other shards are
// left out, and a damaged one is handed out as it is.
type Config struct {
	// Off: containers are handed out as they are, as if they were plain records.
	Off bool
	// Strict: a container that cannot be opened is not handed to user code. It fails like a handler, for itself alone, with the [Damaged] as the
	// error, and the worker's OnError decides what becomes of it. Otherwise it is handed out as it is, with the [Damaged] as the record's
	// Native.
	Strict bool
	// AllKeys: user records whose hash key is outside the shard's range are handed out, too. For streams whose producers put user records
	// of any key into one container, as the aggregators for Python and Node do if they are let.
	AllKeys bool
}

// Counts is what became of aggregated records. All only grow.
type Counts struct {
	Opened  int64 // containers
	Records int64 // user records handed out
	Outside int64 // user records that were left out, because their hash key belongs to another shard
	Damaged int64 // containers that could not be opened
}

// UserRecord is the Native of a record that came out of a container. It owns its memory, so that it stays good in a clone of the record.
type UserRecord struct {
	HashKey  string // the explicit hash key as the producer wrote it
	Explicit bool   // it has one
}

// noHashKey is the Native of all user records without a hash key of their own.
var noHashKey = &UserRecord{}

// Damaged is why a container could not be opened. It is a [core.ErrInvalid].
type Damaged struct {
	Sequence string // of the container
	Err      error
}

func (d *Damaged) Error() string {
	return fmt.Sprintf("aggregated record %s cannot be opened: %v", d.Sequence, d.Err)
}

// Unwrap lets errors.Is find core.ErrInvalid and the reason.
func (d *Damaged) Unwrap() []error { return []error{core.ErrInvalid, d.Err} }

// Opener opens containers of one shard. The zero value opens them whole. It keeps memory between calls and is not safe for concurrent use.
type Opener struct {
	// Range is the shard's. User records outside it are left out: the KPL puts what it sent to a shard that was split or merged meanwhile
	// a second time. nil: none is left out.
	Range *core.HashRange

	m              message
	keys, hashKeys table
}

// Open appends the user records of a container to dst: in order, with the container's sequence number and arrival, with Sub counting from 0
// (also those that are left out: outside says how many), and a [*UserRecord] as Native. Data and Key are views of the container's.
//
// Where the container cannot be opened as a whole, the error is a [*Damaged] and dst comes back as it was.
func (o *Opener) Open(dst []core.Record, container *core.Record) (records []core.Record, outside int, err error) {
	defer o.forget()
	if err := o.m.read(container.Data); err != nil {
		return dst, 0, damaged(container, err)
	}
	o.keys.reset(o.m.keys)
	o.hashKeys.reset(o.m.hashKeys)
	records = dst
	natives := newNatives(&o.m)
	all := everything(o.Range)
	for i := range o.m.refs {
		r := &o.m.refs[i]
		key, place, err := o.keys.at(r.key, "partition key")
		if err == nil && place == unknown {
			place = inside
			if !all && !r.explicit {
				place = side(hashOf(key).in(o.Range))
				o.keys.place[r.key] = place
			}
		}
		if err == nil && r.explicit {
			place, err = o.hashKey(r.hash)
		}
		if err != nil {
			clear(records[len(dst):])
			return dst, 0, damaged(container, fmt.Errorf("user record %d: %w", i, err))
		}
		if place == beyond {
			outside++
			continue
		}
		records = append(records, core.Record{
			Data: o.m.data[i], Key: key, Sequence: container.Sequence, Sub: uint64(i), Arrived: container.Arrived, Native: natives.of(r),
		})
	}
	return records, outside, nil
}

// forget lets go of the container, whose memory serves others soon.
func (o *Opener) forget() {
	o.m.reset()
	o.keys.reset(nil)
	o.hashKeys.reset(nil)
}

// hashKey says where the explicit hash key at an index lies.
func (o *Opener) hashKey(index uint64) (place, error) {
	text, p, err := o.hashKeys.at(index, "hash key")
	if err != nil || p != unknown {
		return p, err
	}
	h, ok := parseHashKey(text)
	if !ok {
		return unknown, fmt.Errorf("its hash key %.50q is not a number from 0 to 2^128-1", text)
	}
	p = side(everything(o.Range) || h.in(o.Range))
	o.hashKeys.place[index] = p
	return p, nil
}

func damaged(container *core.Record, err error) *Damaged {
	return &Damaged{Sequence: strings.Clone(container.Sequence), Err: err}
}

// place is where a key lies, seen from the shard.
type place uint8

const (
	unknown place = iota
	inside
	beyond
)

func side(in bool) place {
	if in {
		return inside
	}
	return beyond
}

// table is one of the two that user records point into, with what was found out about its entries.
type table struct {
	entries [][]byte
	texts   []string
	place   []place
}

func (t *table) reset(entries [][]byte) {
	if cap(t.texts) > mostKept {
		*t = table{}
	}
	clear(t.texts)
	clear(t.place)
	n := len(entries)
	t.entries = entries
	t.texts = append(t.texts[:0], make([]string, n)...)
	t.place = append(t.place[:0], make([]place, n)...)
}

func (t *table) at(index uint64, what string) (string, place, error) {
	if index > math.MaxInt || int(index) >= len(t.entries) {
		return "", unknown, fmt.Errorf("its %s is number %d of a table of %d", what, index, len(t.entries))
	}
	i := int(index)
	if t.texts[i] == "" {
		t.texts[i] = text(t.entries[i])
	}
	return t.texts[i], t.place[i], nil
}

// natives makes the Natives of a container's records with two allocations, or none where no record has a hash key of its own.
type natives struct {
	texts []string // of the hash key table, in memory of their own
	next  []UserRecord
}

func newNatives(m *message) natives {
	n, size := 0, 0
	for i := range m.refs {
		if m.refs[i].explicit {
			n++
		}
	}
	if n == 0 {
		return natives{}
	}
	for _, k := range m.hashKeys {
		size += len(k)
	}
	own := make([]byte, 0, size)
	texts := make([]string, len(m.hashKeys))
	for i, k := range m.hashKeys {
		start := len(own)
		own = append(own, k...)
		texts[i] = text(own[start:])
	}
	return natives{texts: texts, next: make([]UserRecord, n)}
}

func (n *natives) of(r *ref) *UserRecord {
	if !r.explicit {
		return noHashKey
	}
	u := &n.next[0]
	n.next = n.next[1:]
	*u = UserRecord{HashKey: n.texts[r.hash], Explicit: true}
	return u
}

// Size is about what a record takes beside the bytes it points to, in bytes, once it stands in a slice.
const Size = int(unsafe.Sizeof(core.Record{}))
