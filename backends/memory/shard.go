package memory

import (
	"sort"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// shard holds records in segments of equal size. A record is never changed once it is there, so that pages are slices of segments. The lock of
// its stream guards it.
type shard struct {
	id        core.ShardID
	parents   []core.ShardID
	children  []*shard
	span      span
	made      time.Time
	ended     time.Time // zero: open
	forgotten bool

	room       int // records of a segment
	segments   []segment
	first, end int         // index of the oldest record that is kept, and behind the newest, counted from the first ever
	trimmed    core.Record // the newest that is gone (only its place)
	wake       chan struct{}
}

// segment: only the last of a shard has room.
type segment struct {
	records []core.Record
	bytes   []int64 // data and keys of records up to and with this one
}

func (sh *shard) isOpen() bool { return sh.ended.IsZero() }

func (sh *shard) openAt(t time.Time) bool {
	return !sh.made.After(t) && (sh.isOpen() || sh.ended.After(t))
}

// base is the index of the first record of the first segment.
func (sh *shard) base() int { return sh.first - sh.first%sh.room }

// locate finds record i.
func (sh *shard) locate(i int) (*segment, int) {
	i -= sh.base()
	return &sh.segments[i/sh.room], i % sh.room
}

func (sh *shard) record(i int) *core.Record {
	seg, j := sh.locate(i)
	return &seg.records[j]
}

// add appends a record; expect says how many are to come with it.
func (sh *shard) add(r core.Record, expect int) {
	if sh.first < sh.end {
		r.Arrived = max(r.Arrived, sh.record(sh.end-1).Arrived)
	} else {
		r.Arrived = max(r.Arrived, sh.trimmed.Arrived)
	}
	n := len(sh.segments)
	if n == 0 || len(sh.segments[n-1].records) == sh.room {
		size := min(expect, sh.room)
		sh.segments = append(sh.segments, segment{make([]core.Record, 0, size), make([]int64, 0, size)})
		n++
	}
	seg := &sh.segments[n-1]
	bytes := int64(len(r.Data) + len(r.Key))
	if k := len(seg.bytes); k > 0 {
		bytes += seg.bytes[k-1]
	}
	seg.records, seg.bytes = append(seg.records, r), append(seg.bytes, bytes)
	sh.end++
}

// trim drops what stands before index i.
func (sh *shard) trim(i int) {
	if i <= sh.first {
		return
	}
	last := sh.record(i - 1)
	sh.trimmed = core.Record{Sequence: last.Sequence, Sub: last.Sub, Arrived: last.Arrived}
	before := sh.base()
	sh.first = i
	drop := min((sh.base()-before)/sh.room, len(sh.segments))
	clear(sh.segments[:drop])
	sh.segments = sh.segments[drop:]
}

// page is what a page from index i holds at most.
func (sh *shard) page(i int, maxRecords int, maxBytes int64) (records []core.Record, bytes int64) {
	if i >= sh.end {
		return nil, 0
	}
	seg, from := sh.locate(i)
	to := min(from+maxRecords, len(seg.records))
	var before int64
	if from > 0 {
		before = seg.bytes[from-1]
	}
	if maxBytes > 0 && seg.bytes[to-1]-before > maxBytes {
		to = from + max(sort.Search(to-from, func(k int) bool { return seg.bytes[from+k]-before > maxBytes }), 1)
	}
	return seg.records[from:to:to], seg.bytes[to-1] - before
}

// search is the index of the first record for which f holds; it must hold for all behind that.
func (sh *shard) search(f func(*core.Record) bool) int {
	return sh.first + sort.Search(sh.end-sh.first, func(i int) bool { return f(sh.record(sh.first + i)) })
}

// signal wakes those who wait for something to happen to the shard.
func (sh *shard) signal() {
	if sh.wake != nil {
		close(sh.wake)
		sh.wake = nil
	}
}

// waiting is closed when something happens.
func (sh *shard) waiting() <-chan struct{} {
	if sh.wake == nil {
		sh.wake = make(chan struct{})
	}
	return sh.wake
}
