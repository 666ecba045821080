package kinesis

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestLogAgreesWithASlice runs the log beside a plain slice of records.
func TestLogAgreesWithASlice(t *testing.T) {
	type record struct {
		n         uint64
		arrived   int64
		key, data string
	}
	rapid.Check(t, func(t *rapid.T) {
		var l recordLog
		var all []record // untrimmed
		var n uint64
		clock, latest := int64(100_000), int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				size := rapid.SampledFrom([]int{0, 10, 10, 2000, 200 << 10, 300 << 10}).Draw(t, "size")
				gap := uint64(rapid.IntRange(1, 3).Draw(t, "gap"))
				step := int64(rapid.IntRange(-1, 2).Draw(t, "ms")) // the wall clock may go back
				for range rapid.IntRange(1, pick(size > 2000, 3, 700)).Draw(t, "count") {
					n += gap
					clock += step
					r := record{n, clock, fmt.Sprint("k", n), string(make([]byte, size)) + fmt.Sprint(n)}
					l.append(r.n, r.arrived, r.key, []byte(r.data))
					latest = max(latest, clock)
					r.arrived = latest
					all = append(all, r)
				}
			},
			"trim by number": func(t *rapid.T) {
				from := rapid.Uint64Range(0, n+2).Draw(t, "from")
				l.trim(func(m meta) bool { return m.n >= from })
				all = slices.DeleteFunc(all, func(r record) bool { return r.n < from })
			},
			"trim by time": func(t *rapid.T) {
				from := rapid.Int64Range(clock-500, max(clock, latest)+2).Draw(t, "from")
				l.trim(func(m meta) bool { return m.arrived >= from })
				all = slices.DeleteFunc(all, func(r record) bool { return r.arrived < from })
			},
			"read": func(t *rapid.T) {
				from := rapid.Uint64Range(0, n+2).Draw(t, "from")
				limit := rapid.IntRange(1, 1500).Draw(t, "limit")
				most := rapid.SampledFrom([]int{1, 1000, 1 << 20, 10 << 20}).Draw(t, "bytes")
				var want []record
				size := 0
				rest := slices.DeleteFunc(slices.Clone(all), func(r record) bool { return r.n < from })
				for _, r := range rest {
					if len(want) == limit || len(want) > 0 && size+len(r.key)+len(r.data) > most {
						break
					}
					want = append(want, r)
					size += len(r.key) + len(r.data)
				}
				pg, next := l.read(l.find(func(m meta) bool { return m.n >= from }), limit, most)
				var got []record
				for _, sp := range pg.spans {
					for _, m := range sp.meta {
						got = append(got, record{m.n, m.arrived, string(sp.key(m)), string(sp.data(m))})
					}
				}
				if !slices.Equal(got, want) || pg.count != len(want) || pg.size != size {
					t.Fatalf("read %d records, count %d, size %d; want %d, size %d", len(got), pg.count, pg.size, len(want), size)
				}
				if len(want) > 0 && pg.last.n != want[len(want)-1].n {
					t.Fatalf("last is %d, want %d", pg.last.n, want[len(want)-1].n)
				}
				m, more := l.at(next)
				if wantMore := len(rest) > len(want); more != wantMore || more && m.n != rest[len(want)].n {
					t.Fatalf("next record is %d, %v; want %v", m.n, more, wantMore)
				}
			},
			"": func(t *rapid.T) {
				if l.empty() != (len(all) == 0) {
					t.Fatalf("empty is %v with %d records", l.empty(), len(all))
				}
			},
		})
	})
}

func TestTrimmedRecordsGiveTheirMemoryBack(t *testing.T) {
	var l recordLog
	for i := range uint64(10 * blockRecords) {
		l.append(i, 0, "key", []byte("data"))
	}
	l.trim(func(m meta) bool { return m.n >= 9*blockRecords+1 })
	if len(l.blocks) != 1 || l.gone != 1 {
		t.Errorf("%d blocks and %d trimmed records are left, want 1 and 1", len(l.blocks), l.gone)
	}
}
