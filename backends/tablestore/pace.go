package tablestore

import (
	"math"
	"time"
)

// pace says when a shard may be read next. Times are counted from the beginning of a read, so that a slow answer does not slow the pace.
type pace struct {
	busy, idle time.Duration
	wait       time.Duration // the last pause
	next       time.Time
}

// after notes a read that began at start. more: there is more to read, or there may be. records: it gave some.
func (p *pace) after(start time.Time, records, more bool) {
	switch {
	case more:
		p.wait, p.next = 0, start
		return
	case records || p.wait == 0:
		p.wait = p.busy
	default:
		p.wait = min(2*p.wait, p.idle)
	}
	p.next = start.Add(p.wait)
	if p.wait == p.idle {
		p.next = together(p.next, p.idle/8)
	}
}

// together moves a time to the nearest of those that the polls of idle shards share: a core that wakes up for one reads them all.
func together(t time.Time, grid time.Duration) time.Time {
	if grid <= 0 {
		return t
	}
	off := time.Duration(t.UnixNano()) % grid
	if off > grid/2 {
		off -= grid
	}
	return t.Add(-off)
}

// size says how many records to ask for: as many as make up a page of the wanted size, going by the average of the pages so far. The service
// bounds a read by rows alone, and a row may have 2 MB in each column.
type size struct {
	page, most int     // bytes, records
	average    float64 // bytes a record; 0: nothing read yet
}

// guess is the average before the first page.
const guess = 2 << 10

func (s *size) limit() int {
	average := s.average
	if average == 0 {
		average = guess
	}
	return min(max(1, int(float64(s.page)/average)), s.most)
}

// saw notes a page. Larger records count at once, for memory's sake; smaller ones bring the average down by orders of magnitude, not bytes, so
// that one large record does not make pages small for long.
func (s *size) saw(records, bytes int) {
	if records == 0 {
		return
	}
	a := max(1, float64(bytes)/float64(records))
	if a < s.average {
		a = math.Sqrt(a * s.average)
	}
	s.average = a
}
