package kinesis

import (
	"math"
	"math/rand/v2"
	"time"
)

// pace says when a shard may be read next. Times are counted from the beginning of a read, so that a slow answer does not slow the pace, and
// from the last read alone, so that a long pause is not followed by a burst.
type pace struct {
	caughtUp, behind time.Duration
	next             time.Time
	spread           bool
}

// after notes a read that began at start and gave n bytes. The time to the next is also what n bytes take at the 2 MB a second that the
// service gives a shard, so 10 MB are followed by 5 s (API reference, GetRecords: else the next calls fail).
func (p *pace) after(start time.Time, n int, caughtUp bool) {
	wait := p.behind
	if caughtUp {
		wait = p.caughtUp
		if !p.spread && wait > p.behind {
			// Readers begin together when a worker starts; the first pause is of random length, so that they do not go on together.
			p.spread = true
			wait = p.behind + rand.N(wait-p.behind)
		}
	}
	least := time.Duration(n) * time.Second / readBytesPerSecond
	p.next = start.Add(max(wait, least))
	if caughtUp && least < wait/2 {
		p.next = together(p.next, p.caughtUp/moments)
		if p.next.Before(start.Add(p.behind)) {
			p.next = p.next.Add(p.caughtUp / moments) // the pace of who is behind is the fastest there is
		}
	}
}

// moments is how many there are in the time between two polls of a shard. Few, because waking up costs more than a poll; more than one, because
// the service and the lease table get the calls of one moment all at once.
const moments = 4

// together moves a time to the nearest of those that the polls of caught-up shards share: a core that wakes up for one reads them all.
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

// size says how many records to ask for: as many as make up a page of the wanted size, going by the average of the pages so far. Memory goes
// with the size of pages, and a worker may read many shards at once.
type size struct {
	page, most int     // bytes, records
	average    float64 // bytes a record; 0: nothing read yet
}

// guess is the average before the first page: rather too large, since the first pages of all shards come together.
const guess = 1 << 10

func (s *size) limit() int32 {
	average := s.average
	if average == 0 {
		average = guess
	}
	return int32(min(max(1, int(float64(s.page)/average)), s.most))
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
