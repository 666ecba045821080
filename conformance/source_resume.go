package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

func resumeRules() []rule[MakeSource] {
	return []rule[MakeSource]{
		sourceRule("resume-behind-each", "Behind any record reading resumes with the next: nothing is repeated, nothing is skipped.", func(s *stream) {
			shard := s.first()
			want := s.put(shard.ID, 24)
			r := s.read(s.a, shard, core.FromHorizon)
			if !r.expect("from the horizon", want) {
				return
			}
			for i, g := range r.all {
				s.resumed(r, i, g, want)
			}
			s.read(s.b, shard, r.next).expect("behind all pages", nil)
		}),
		sourceRule("resume-behind-pages", "Behind a whole page, wherever pages end, reading resumes with the next record, also with what is put later.", func(s *stream) {
			shard := s.first()
			want := s.put(shard.ID, 10)
			r := s.read(s.a, shard, core.FromHorizon)
			for range 4 {
				n := len(r.all)
				if !r.until(func() bool { return len(r.all) > n }) {
					break
				}
				want = append(want, s.put(shard.ID, 3)...)
				s.read(s.b, core.Shard{ID: shard.ID}, r.next).expect("behind a page", want[len(r.all):])
			}
		}),
		sourceRule("resume-inside-aggregate", "Behind any part of an aggregated record reading resumes with the next part; parts share a token and are told apart by Sub.", func(s *stream) {
			v := need[Aggregator](s.checker, s.h, "PutAggregated")
			shard := s.first()
			want := s.put(shard.ID, 2)
			for range 3 {
				var parts [][]byte
				for range 5 {
					s.n++
					text := fmt.Sprintf("record %06d", s.n)
					want, parts = append(want, text), append(parts, []byte(text))
				}
				if err := v.PutAggregated(s.ctx, shard.ID, "key", parts...); err != nil {
					s.fatalf("PutAggregated: %v", err)
				}
				want = append(want, s.put(shard.ID, 1)...)
			}
			r := s.read(s.a, shard, core.FromHorizon)
			if !r.expect("from the horizon", want) {
				return
			}
			for i, g := range r.all {
				s.resumed(r, i, g, want)
			}
		}),
		sourceRule("positions-own-memory", "A position stays what it was when the page it came from has been released and others were read.", func(s *stream) {
			shard := s.first()
			s.put(shard.ID, 30)
			r, err := s.a.Open(s.ctx, shard, core.FromHorizon)
			if err != nil {
				s.fatalf("Open: %v", err)
			}
			s.cleanup(func() { _ = r.Close() })
			type kept struct{ was, is core.Position }
			var all []kept
			keep := func(p core.Position) { all = append(all, kept{p.Clone(), p}) }
			for n := 0; n < 30; {
				p, err := r.Next(s.ctx)
				if err != nil {
					s.fatalf("Next: %v", err)
				}
				b := core.NewBatch(session{}, p)
				for i := range p.Records {
					keep(b.After(i))
				}
				n += len(p.Records)
				if x := b.Next(); !x.IsZero() {
					keep(x)
				}
				if p.Release != nil {
					p.Release()
				}
			}
			s.put(shard.ID, 3)
			if _, err := r.Next(s.ctx); err != nil {
				s.fatalf("Next: %v", err)
			}
			runtime.GC()
			for _, k := range all {
				if !k.is.Equal(k.was) {
					s.errorf("a position was %s, and has become %s: it shares memory with its page", place(k.was), place(k.is))
					return
				}
			}
		}),
		sourceRule("pages-stay", "A page is valid until it is released: reading on, another reader and Close leave it as it is.", func(s *stream) {
			shard := s.first()
			want := s.put(shard.ID, 30)
			r, err := s.a.Open(s.ctx, shard, core.FromHorizon)
			if err != nil {
				s.fatalf("Open: %v", err)
			}
			s.cleanup(func() { _ = r.Close() })
			var pages []*core.Page
			for n := 0; n < len(want); {
				p, err := r.Next(s.ctx)
				if err != nil {
					s.fatalf("Next: %v", err)
				}
				pages = append(pages, p)
				n += len(p.Records)
			}
			s.read(s.a, shard, core.FromHorizon).expect("another reader", want)
			_ = r.Close()
			var got []string
			for _, p := range pages {
				for _, rec := range p.Records {
					got = append(got, string(rec.Data))
				}
			}
			if d := missing(got, want); d != "" {
				s.errorf("pages that were not released, after the reader was closed: %s", d)
			}
			for _, p := range pages {
				if p.Release != nil {
					p.Release()
				}
			}
		}),
		sourceRule("renewal", "When iterators and sessions run out, reading goes on where it was: no gap, no repeat.", func(s *stream) {
			shard := s.first()
			r := s.read(s.a, shard, core.FromHorizon)
			var want []string
			for i := range 4 {
				want = append(want, s.put(shard.ID, 4+i)...)
				if i%2 == 0 { // idle at the tip, or behind
					r.expect("before time passed", want)
				}
				s.advance(time.Duration(6+i) * time.Minute)
				want = append(want, s.put(shard.ID, 3)...)
				r.expect("after its iterator has run out", want)
			}
			i, j := r.place(2), r.place(5)
			late := s.read(s.b, shard, r.all[i].after)
			s.advance(7 * time.Minute) // before the first Next
			late.expect("a reader that was opened and left alone", want[i+1:])
			s.advance(11 * time.Minute)
			s.read(s.b, shard, r.all[j].after).expect("a position kept for a while", want[j+1:])
		}),
		sourceRule("trimmed", "To resume where records behind the position are gone is ErrTrimmed; from the horizon reading begins at the oldest that is left.", func(s *stream) {
			v := need[Trimmer](s.checker, s.h, "Trim")
			shard := s.first()
			want := s.put(shard.ID, 10)
			r := s.read(s.a, shard, core.FromHorizon)
			if !r.expect("before", want) {
				return
			}
			if err := v.Trim(s.ctx, shard.ID); err != nil {
				s.fatalf("Trim: %v", err)
			}
			want = s.put(shard.ID, 4)
			s.read(s.b, shard, core.FromHorizon).expect("from the horizon", want)
			have := len(r.all)
			if i := r.place(3); i < have-1 {
				n, err := s.openOrRead(s.b, shard, r.all[i].after)
				if !is(err, core.ErrTrimmed) {
					s.errorf("to resume behind record %d of %d, all trimmed: %d records, %v; want ErrTrimmed", i+1, have, n, err)
				}
			}
			r.until(func() bool { return len(r.all) >= have+len(want) })
			r.compare("a reader that had read all that was trimmed", slices.Concat(data(r.all[:have]), want))
		}),
		sourceRule("values", "Data and key come as they were put: empty, binary, unicode, long.", func(s *stream) {
			shard := s.first()
			binary := make([]byte, 256)
			for i := range binary {
				binary[i] = byte(i)
			}
			type pair struct {
				key  string
				data []byte
			}
			var want []pair
			for _, p := range []pair{
				{"k", []byte("text")}, {"k", binary}, {"Schlüssel 键", []byte("é – 🜂")}, {strings.Repeat("k", 256), []byte("long key")},
				{"k", bytes.Repeat([]byte("x"), 200_000)}, {"k", []byte(" blanks ")}, {"k", []byte(`{"json":"\n"}`)}, {"k", nil},
			} {
				switch err := s.h.Put(s.ctx, shard.ID, p.key, p.data); {
				case errors.Is(err, errors.ErrUnsupported): // no stream holds everything
				case err != nil:
					s.fatalf("Put of key %q, %d bytes: %v", short(p.key), len(p.data), err)
				default:
					want = append(want, p)
				}
			}
			r := s.read(s.a, shard, core.FromHorizon)
			r.until(func() bool { return len(r.all) >= len(want) })
			if len(r.all) != len(want) {
				s.fatalf("%d records, want %d", len(r.all), len(want))
			}
			for i, p := range want {
				if g := r.all[i]; g.Key != p.key || !bytes.Equal(g.Data, p.data) {
					s.errorf("record %d: key %q, data of %d bytes %q; want key %q, data of %d bytes %q", i, short(g.Key), len(g.Data), short(string(g.Data)), short(p.key), len(p.data), short(string(p.data)))
				}
			}
		}),
		sourceRule("sequences", "Records of a shard have numbers that differ, and instants of arrival that never go back, if they have any.", func(s *stream) {
			shard := s.first()
			want := s.put(shard.ID, 30)
			r := s.read(s.a, shard, core.FromHorizon)
			r.expect("from the horizon", want)
			seen := map[string]bool{}
			var last int64
			for _, g := range r.all {
				id := fmt.Sprint(g.Sequence, "+", g.Sub)
				if g.Sequence == "" || seen[id] {
					s.errorf("sequence %q, sub %d: empty, or that of another record", g.Sequence, g.Sub)
				}
				seen[id] = true
				if g.Arrived != 0 && g.Arrived < last {
					s.errorf("record %s arrived at %d, one before it at %d", g.Sequence, g.Arrived, last)
				}
				last = max(last, g.Arrived)
			}
		}),
		sourceRule("page-bytes", "No page holds more data than the harness says, unless it is a single record; a record larger than that comes all the same.", func(s *stream) {
			limit := need[PageLimiter](s.checker, s.h, "PageBytes").PageBytes()
			shard := s.first()
			total := 0
			for i := range 24 {
				size := limit / 5
				if i == 12 {
					size = limit + limit/2
				}
				size = min(size, 900_000)
				if err := s.h.Put(s.ctx, shard.ID, "k", bytes.Repeat([]byte{byte('a' + i)}, size)); err != nil {
					s.fatalf("Put of %d bytes: %v", size, err)
				}
				total++
			}
			r := s.read(s.a, shard, core.FromHorizon)
			if !r.until(func() bool { return len(r.all) >= total }) {
				s.fatalf("%d records, want %d", len(r.all), total)
			}
			size, n := map[int]int{}, map[int]int{}
			for i, g := range r.all {
				if len(g.Data) == 0 || g.Data[0] != byte('a'+i) {
					s.fatalf("record %d is not the one that was put there", i)
				}
				size[g.page] += len(g.Data)
				n[g.page]++
			}
			for page, bytes := range size {
				if bytes > limit && n[page] > 1 {
					s.errorf("page %d holds %d bytes in %d records, and %d are allowed", page, bytes, n[page], limit)
				}
			}
		}),
	}
}

// resumed asks where reading goes on behind record i. Where positions lie between pages only, the records of its page may come again.
func (s *stream) resumed(r *reader, i int, g got, want []string) {
	what := fmt.Sprintf("behind record %d of %d", i+1, len(want))
	at := s.read(s.b, core.Shard{ID: r.shard}, g.after)
	if !s.info.Lacks.RecordPositions {
		at.expect(what, want[i+1:])
		return
	}
	first := i
	for first > 0 && r.all[first-1].page == g.page {
		first--
	}
	if i+1 == len(r.all) || r.all[i+1].page != g.page {
		first = i + 1
	}
	at.until(func() bool { return len(at.all) >= len(want)-first })
	got := data(at.all)
	if n := len(want) - len(got); n < first || n > i+1 || missing(got, want[n:]) != "" {
		s.errorf("%s: it resumes %s; want one of the records %d to %d, and all behind it", what, missing(got, want[first:]), first+1, i+2)
	}
}

// place is the first record from i on that a position can lie behind.
func (r *reader) place(i int) int {
	for r.info.Lacks.RecordPositions && i < len(r.all)-1 && r.all[i+1].page == r.all[i].page {
		i++
	}
	return i
}
