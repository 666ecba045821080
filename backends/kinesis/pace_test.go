package kinesis

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
)

// most is the largest number of times within any d.
func most(times []time.Time, d time.Duration) int {
	n := 0
	for i := range times {
		j := i
		for j < len(times) && times[j].Sub(times[i]) < d {
			j++
		}
		n = max(n, j-i)
	}
	return n
}

func TestPaceOfReads(t *testing.T) {
	for _, c := range []struct {
		name         string
		opts         []Option
		put          func(r *rig)
		answer       func(out map[string]any)
		low, high    int // reads in the minute after the first 2 s
		mostInSecond int
	}{
		{name: "caught up: one a second", low: 59, high: 61, mostInSecond: 1},
		{name: "caught up, PollEvery 5 s", opts: []Option{PollEvery(5 * time.Second)}, low: 11, high: 13, mostInSecond: 1},
		{name: "behind: five a second", put: func(r *rig) { r.put("orders", "k", numbered(900)...) }, opts: []Option{MaxRecords(1)}, low: 299, high: 301, mostInSecond: 5},
		{name: "behind, PollBehind 1 s", put: func(r *rig) { r.put("orders", "k", numbered(900)...) }, opts: []Option{MaxRecords(1), PollBehind(time.Second)}, low: 59, high: 61, mostInSecond: 1},
		// F59: a long stretch without records is walked at full pace, not given up and not hammered.
		{name: "empty answers while behind", answer: func(out map[string]any) {
			out["Records"], out["MillisBehindLatest"] = []any{}, 1000
		}, low: 299, high: 301, mostInSecond: 5},
		// kinesalite always says 0: a full page still means that there is more.
		{name: "lag always 0", put: func(r *rig) { r.put("orders", "k", numbered(900)...) }, opts: []Option{MaxRecords(1)}, answer: func(out map[string]any) {
			out["MillisBehindLatest"] = 0
		}, low: 299, high: 301, mostInSecond: 5},
		{name: "no lag at all", answer: func(out map[string]any) { delete(out, "MillisBehindLatest") }, low: 59, high: 61, mostInSecond: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, emulator.Config{NoLimits: true}, func(t *testing.T, r *rig) {
				r.create("orders", 1)
				if c.put != nil {
					c.put(r)
				}
				if c.answer != nil {
					r.answer = func(op string, in, out map[string]any) {
						if op == "GetRecords" {
							c.answer(out)
						}
					}
				}
				rd := r.open(r.source("orders", c.opts...), one, core.FromHorizon)
				start := time.Now()
				for time.Since(start) < 62*time.Second {
					if _, err := rd.Next(r.ctx); err != nil {
						t.Fatal(err)
					}
				}
				times := slices.DeleteFunc(r.times("GetRecords"), func(at time.Time) bool {
					return at.Sub(start) < 2*time.Second || at.Sub(start) >= 62*time.Second
				})
				if n := len(times); n < c.low || n > c.high {
					t.Errorf("%d reads a minute, want %d to %d", n, c.low, c.high)
				}
				if n := most(times, time.Second); n > c.mostInSecond {
					t.Errorf("%d reads within a second, want %d at most", n, c.mostInSecond)
				}
			})
		})
	}
}

// F63: after a pause the reads do not come in a burst.
func TestNoBurstAfterAPause(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.put("orders", "k", numbered(100)...)
		rd := r.open(r.source("orders", MaxRecords(1)), one, core.FromHorizon)
		r.read(rd, 10)
		time.Sleep(30 * time.Second)
		r.read(rd, 60)
		if n := most(r.times("GetRecords"), time.Second); n > 5 {
			t.Errorf("%d reads within a second", n)
		}
	})
}

// Large records: the service's limits, which the emulator enforces, are never met; yet the shard's throughput is used.
func TestBytesPerSecond(t *testing.T) {
	bubble(t, emulator.Config{Retention: 48 * time.Hour}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		big := strings.Repeat("x", 400_000)
		for range 15 {
			r.put("orders", "k", big, big)
			time.Sleep(time.Second)
		}
		for _, c := range []struct {
			name string
			opts []Option
		}{{"default pages", nil}, {"pages of 10 MB", []Option{PageBytes(10 << 20)}}} {
			var log logged
			rd := r.open(r.source("orders", append(c.opts, Logger(log.logger()))...), one, core.FromHorizon)
			start, n := time.Now(), 0
			for n < 30 {
				p, err := rd.Next(r.ctx)
				r.ok(err)
				n += len(p.Records)
			}
			if strings.Contains(log.text.String(), "throttled") {
				t.Errorf("%s: throttled: %s", c.name, log.text.String())
			}
			// 12 MB at 2 MB a second; the last page need not be waited for.
			if d := time.Since(start); d < 5*time.Second || d > 7*time.Second {
				t.Errorf("%s: read 12 MB in %v, want about 6 s", c.name, d)
			}
			time.Sleep(10 * time.Second)
		}
	})
}

// Readers that are opened together read at once, and then spread.
func TestReadersSpread(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		const n = 40
		r.create("orders", n)
		s := r.source("orders")
		start := time.Now()
		for i := range n {
			rd := r.open(s, shardID(i), core.FromHorizon)
			go func() {
				for time.Since(start) < 5*time.Second {
					if _, err := rd.Next(r.ctx); err != nil {
						t.Error(err)
						return
					}
				}
			}()
		}
		time.Sleep(7 * time.Second)
		first, later := 0, map[time.Duration]int{}
		for _, at := range r.times("GetRecords") {
			switch d := at.Sub(start); {
			case d == 0:
				first++
			case d >= 3*time.Second && d < 4*time.Second:
				later[d.Truncate(100*time.Millisecond)]++
			}
		}
		if first != n {
			t.Errorf("%d of %d read at once", first, n)
		}
		sum := 0
		for at, k := range later {
			sum += k
			if k > n/2 {
				t.Errorf("%d of %d readers poll together at %v", k, n, at)
			}
		}
		if sum != n {
			t.Errorf("%d reads in the fourth second, want one of each of %d", sum, n)
		}
	})
}

func TestPagesAreOfTheSizeWanted(t *testing.T) {
	for _, c := range []struct {
		record, page, most int
		want               int32 // records asked for once the size is known
	}{
		{100, 512 << 10, 10_000, 5190}, // with the key of one byte
		{100, 512 << 10, 1000, 1000},
		{10, 1 << 20, 10_000, 10_000},
		{100_000, 512 << 10, 10_000, 5},
		{900_000, 512 << 10, 10_000, 1},
	} {
		t.Run(fmt.Sprintf("%d bytes of %d", c.record, c.page), func(t *testing.T) {
			s := size{page: c.page, most: c.most}
			if first := s.limit(); first > int32(min(c.most, c.page/guess)) {
				t.Errorf("first page of %d records", first)
			}
			s.saw(3, 3*(c.record+1))
			s.saw(0, 0)
			if got := s.limit(); got != c.want {
				t.Errorf("asks for %d records, want %d", got, c.want)
			}
		})
	}
	// Small records after large ones: the pages grow again soon.
	s := size{page: 512 << 10, most: 10_000}
	s.saw(1, 1<<20)
	for range 12 {
		n := int(s.limit())
		s.saw(n, n*100)
	}
	if n := s.limit(); n < 4500 {
		t.Errorf("12 pages after a large record: %d records a page", n)
	}
}

// The moments that polls share make none come sooner than the pace of a shard that is behind.
func TestSharedMomentsKeepThePace(t *testing.T) {
	for i := range 10_000 {
		p := pace{caughtUp: time.Second, behind: 200 * time.Millisecond}
		start := time.Unix(0, int64(i)*137_000_000)
		p.after(start, 0, true)
		if d := p.next.Sub(start); d < p.behind || d > p.caughtUp+p.caughtUp/moments {
			t.Fatalf("%v after a first read at %v", d, start)
		}
	}
}
