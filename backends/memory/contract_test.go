package memory_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
)

// records are n records whose data say which they are.
func records(from, n int) []core.Record {
	out := make([]core.Record, n)
	for i := range out {
		out[i] = core.Record{Key: fmt.Sprint("key ", from+i), Data: fmt.Append(nil, from+i)}
	}
	return out
}

func only(t testing.TB, s *memory.Stream) core.Shard {
	t.Helper()
	all := list(t, s, core.FromLatest)
	if len(all) != 1 {
		t.Fatalf("%d open shards, want 1", len(all))
	}
	return all[0]
}

func list(t testing.TB, s core.StreamSource, open core.Position) []core.Shard {
	t.Helper()
	all, err := s.Shards(t.Context(), open)
	if err != nil {
		t.Fatalf("Shards: %v", err)
	}
	return all
}

func ids(shards []core.Shard) []core.ShardID {
	var out []core.ShardID
	for _, s := range shards {
		out = append(out, s.ID)
	}
	slices.Sort(out)
	return out
}

func open(t testing.TB, s core.StreamSource, shard core.ShardID, at core.Position) core.ShardReader {
	t.Helper()
	r, err := s.Open(t.Context(), core.Shard{ID: shard}, at)
	if err != nil {
		t.Fatalf("Open(%s, %s): %v", shard, at, err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// read reads until there is nothing more: the data of the records, and the last page.
func read(t testing.TB, r core.ShardReader) (data []string, last *core.Page) {
	t.Helper()
	for {
		p, err := r.Next(t.Context())
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		for _, rec := range p.Records {
			data = append(data, string(rec.Data))
		}
		if p.Release != nil {
			p.Release()
		}
		if p.End || len(p.Records) == 0 {
			return data, p
		}
	}
}

func numbers(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprint(i))
	}
	return out
}

func wantData(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: records %v, want %v", what, got, want)
	}
}

// Every start, on a shard with records of three instants, small pages that cross segments, in each flavour of page.
func TestStarts(t *testing.T) {
	for name, opts := range map[string][]memory.Option{
		"slices": {memory.PageRecords(4)}, "copies": {memory.PageRecords(4), memory.Strict()}, "big pages": nil, "single records": {memory.PageRecords(1)},
		"pages of few bytes": {memory.PageBytes(12)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory.New("s", 1, opts...)
				shard := only(t, s).ID
				t0 := time.Now()
				put := func(from, n int) {
					if err := s.PutTo(shard, records(from, n)...); err != nil {
						t.Fatal(err)
					}
				}
				put(0, 10)
				time.Sleep(time.Second)
				put(10, 5)
				time.Sleep(time.Second)
				latest := open(t, s, shard, core.FromLatest)
				future := open(t, s, shard, core.From(time.Now().Add(time.Second)))
				wantData(t, "future, before it", first(read(t, future)), nil) // an empty page after a while
				put(15, 5)

				for _, c := range []struct {
					name string
					at   core.Position
					from int
				}{
					{"horizon", core.FromHorizon, 0},
					{"before the stream", core.From(t0.Add(-time.Hour)), 0},
					{"at the first", core.From(t0), 0},
					{"between", core.From(t0.Add(500 * time.Millisecond)), 10},
					{"at the second", core.From(t0.Add(time.Second)), 10},
					{"latest, resolved to an instant", core.Position{Anchor: core.Latest, Time: t0.Add(1500 * time.Millisecond)}, 15},
					{"in the past of now, with nothing since", core.From(time.Now()), 15},
					{"latest", core.FromLatest, 20},
				} {
					got, last := read(t, open(t, s, shard, c.at))
					wantData(t, c.name, got, numbers(c.from, 20))
					if last.End || last.Children != nil {
						t.Errorf("%s: the shard is said to have ended", c.name)
					}
				}
				wantData(t, "latest, opened before the last records", first(read(t, latest)), numbers(15, 20))
				wantData(t, "future, when it came", first(read(t, future)), numbers(15, 20))
			})
		})
	}
}

// A start in the future waits for it, whatever comes before.
func TestStartInTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New("s", 1, memory.Idle(time.Minute))
		shard := only(t, s).ID
		r := open(t, s, shard, core.From(time.Now().Add(3500*time.Millisecond)))
		s.Put("k", []byte("0"))
		go func() {
			for i := 1; i < 6; i++ {
				time.Sleep(time.Second)
				s.Put("k", fmt.Append(nil, i))
			}
		}()
		wantData(t, "from then on", first(read(t, r)), numbers(4, 6))
	})
}

func first(data []string, _ *core.Page) []string { return data }

func TestOpenRefuses(t *testing.T) {
	s := memory.New("s", 1, memory.Lacking(core.SourceLacks{StartTime: true}))
	shard := only(t, s).ID
	s.Put("k", nil)
	for _, c := range []struct {
		name  string
		shard core.ShardID
		at    core.Position
		want  error
	}{
		{"a shard that is not there", "other", core.FromHorizon, core.ErrNotFound},
		{"no position", shard, core.Position{}, core.ErrInvalid},
		{"a token of somebody else", shard, core.Position{Token: "shardId-1"}, core.ErrInvalid},
		{"a token of the future", shard, core.Position{Token: "10000000000000000002"}, core.ErrInvalid},
		{"a token that is too low", shard, core.Position{Token: "9999999999999999999"}, core.ErrInvalid},
		{"the end of an open shard", shard, core.AtShardEnd, core.ErrInvalid},
		{"a time that is none", shard, core.Position{Anchor: core.AtTime}, core.ErrInvalid},
		{"a time, where the source has none", shard, core.From(time.Unix(9, 0)), core.ErrInvalid},
		{"an anchor that is none", shard, core.Position{Anchor: 99}, core.ErrInvalid},
	} {
		if _, err := s.Open(t.Context(), core.Shard{ID: c.shard}, c.at); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// To resume behind any record of any page, aggregated ones included, neither repeats nor skips.
func TestResumeBehindEachRecord(t *testing.T) {
	for name, opts := range map[string][]memory.Option{"slices": {memory.PageRecords(4)}, "copies": {memory.PageRecords(7), memory.Strict()}} {
		t.Run(name, func(t *testing.T) {
			s := memory.New("s", 1, append(opts, memory.Idle(1))...)
			shard := only(t, s).ID
			n := 0
			for range 4 {
				if err := s.PutTo(shard, records(n, 3)...); err != nil {
					t.Fatal(err)
				}
				n += 3
				var parts [][]byte
				for range 3 {
					parts = append(parts, fmt.Append(nil, n))
					n++
				}
				s.PutAggregated("k", parts...)
			}
			seen := 0
			r := open(t, s, shard, core.FromHorizon)
			for seen < n {
				p, err := r.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				b := core.NewBatch(session{}, p)
				for i := range p.Records {
					seen++
					at := b.After(i)
					wantData(t, fmt.Sprintf("behind record %d", seen-1), first(read(t, open(t, s, shard, at))), numbers(seen, n))
				}
				if next := b.Next(); !next.Equal(b.After(len(p.Records) - 1)) {
					t.Errorf("behind the page is %v, behind its last record %v", next, b.After(len(p.Records)-1))
				}
			}
			if seen != n {
				t.Errorf("%d records, want %d", seen, n)
			}
		})
	}
}

func TestAggregatedRecords(t *testing.T) {
	s := memory.New("s", 1, memory.Idle(1))
	before, _ := s.Put("k", nil)
	shard, sequence := s.PutAggregated("k", []byte("0"), []byte("1"), []byte("2"))
	s.Put("k", nil)
	p, err := open(t, s, shard, core.FromHorizon).Next(t.Context())
	if err != nil || shard != before || len(p.Records) != 5 {
		t.Fatalf("%d records, %v", len(p.Records), err)
	}
	for i, r := range p.Records[1:4] {
		if r.Sequence != sequence || r.Sub != uint64(i) || r.Key != "k" {
			t.Errorf("part %d: sequence %s, sub %d; want %s, %d", i, r.Sequence, r.Sub, sequence, i)
		}
	}
	if first, last := p.Records[0], p.Records[4]; first.Sequence >= sequence || last.Sequence <= sequence || last.Sub != 0 {
		t.Errorf("sequences %s, %s, %s do not grow", first.Sequence, sequence, last.Sequence)
	}
}

type session struct{ core.Session }

func (session) Key() core.LeaseKey { return core.LeaseKey{} }
func (session) Fence() uint64      { return 0 }

// Where positions lie between pages, to resume inside one is to begin it again.
func TestPositionsBetweenPagesOnly(t *testing.T) {
	s := memory.New("s", 1, memory.PageRecords(4), memory.Idle(1), memory.Lacking(core.SourceLacks{RecordPositions: true}))
	shard := only(t, s).ID
	if err := s.PutTo(shard, records(0, 10)...); err != nil {
		t.Fatal(err)
	}
	r := open(t, s, shard, core.FromHorizon)
	for page := range 3 {
		p, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Records {
			from := page * 4
			if i == len(p.Records)-1 {
				from += len(p.Records)
			}
			wantData(t, fmt.Sprintf("behind record %d of page %d", i, page), first(read(t, open(t, s, shard, p.After(i)))), numbers(from, 10))
		}
	}
}

// A shard that ends: its last records, then the end with its children, both parents named for a merge; the children from their beginning.
func TestEndOfShards(t *testing.T) { synctest.Test(t, testEndOfShards) }

func testEndOfShards(t *testing.T) {
	s := memory.New("s", 2, memory.PageRecords(4), memory.ShardNames(func(n int) core.ShardID { return core.ShardID(fmt.Sprint("P", n+1)) }))
	put := func(shard core.ShardID, from, n int) {
		t.Helper()
		if err := s.PutTo(shard, records(from, n)...); err != nil {
			t.Fatal(err)
		}
	}
	put("P1", 0, 7)
	waiting := open(t, s, "P2", core.FromHorizon)
	got := make(chan *core.Page)
	go func() {
		p, _ := waiting.Next(t.Context())
		got <- p
	}()
	synctest.Wait()
	began := time.Now()
	low, high, err := s.Split("P1")
	if err != nil || low != "P3" || high != "P4" {
		t.Fatalf("Split: %s, %s, %v; want P3, P4", low, high, err)
	}
	merged, err := s.Merge("P2", "P4")
	if err != nil || merged != "P5" {
		t.Fatalf("Merge: %s, %v; want P5", merged, err)
	}
	put("P3", 7, 2)
	put("P5", 9, 2)

	if p := <-got; time.Since(began) > 0 || p == nil || !p.End || len(p.Records) != 0 || !reflect.DeepEqual(ids(p.Children), []core.ShardID{"P5"}) {
		t.Errorf("the reader that waited on P2 got %+v after %v, want its end and child P5 at once", p, time.Since(began))
	}
	data, last := read(t, open(t, s, "P1", core.FromHorizon))
	wantData(t, "P1", data, numbers(0, 7))
	if !last.End || !reflect.DeepEqual(ids(last.Children), []core.ShardID{"P3", "P4"}) {
		t.Errorf("P1 ends with %+v, want children P3 and P4", last)
	}
	for _, c := range last.Children {
		if !slices.Equal(c.Parents, []core.ShardID{"P1"}) {
			t.Errorf("child %s has parents %v, want P1", c.ID, c.Parents)
		}
	}
	data, last = read(t, open(t, s, "P4", core.FromHorizon))
	if len(data) != 0 || !last.End || len(last.Children) != 1 || !slices.Equal(last.Children[0].Parents, []core.ShardID{"P2", "P4"}) {
		t.Errorf("P4, which never held a record, ends with %v %+v; want child P5 of P2 and P4", data, last)
	}
	data, last = read(t, open(t, s, "P1", core.AtShardEnd))
	if len(data) != 0 || !last.End || len(last.Children) != 2 {
		t.Errorf("from the end: %v %+v, want the end and two children", data, last)
	}
	r := open(t, s, "P5", core.FromHorizon)
	p, err := r.Next(t.Context())
	if err != nil || len(p.Records) != 2 || p.End {
		t.Errorf("P5: %+v, %v; want two records and no end", p, err)
	}
	for name, err := range map[string]error{
		"put to an ended shard":    s.PutTo("P1", records(0, 1)...),
		"split of an ended shard":  second(s.Split("P1")),
		"merge with an ended one":  secondOf2(s.Merge("P3", "P4")),
		"merge with itself":        secondOf2(s.Merge("P3", "P3")),
		"forgetting an open shard": s.Forget("P3"),
	} {
		if !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	for name, err := range map[string]error{"put": s.PutTo("P9"), "split": second(s.Split("P9")), "merge": secondOf2(s.Merge("P3", "P9")), "trim": s.Trim("P9", 1), "forget": s.Forget("P9")} {
		if !errors.Is(err, core.ErrNotFound) {
			t.Errorf("%s of a shard that is not there: %v, want ErrNotFound", name, err)
		}
	}
}

func second(_, _ core.ShardID, err error) error { return err }
func secondOf2(_ core.ShardID, err error) error { return err }

func TestSplitDownToASingleKey(t *testing.T) {
	s := memory.New("s", 1)
	shard := only(t, s).ID
	for range 128 {
		low, _, err := s.Split(shard)
		if err != nil {
			t.Fatal(err)
		}
		shard = low
	}
	if _, _, err := s.Split(shard); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("split of one key: %v, want ErrInvalid", err)
	}
}

func TestListings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New("s", 2, memory.ShardNames(func(n int) core.ShardID { return core.ShardID(fmt.Sprint(n + 1)) }))
		at := []time.Time{time.Now()}
		step := func(do func() error) {
			t.Helper()
			time.Sleep(time.Second)
			if err := do(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			at = append(at, time.Now())
		}
		step(func() error { return second(s.Split("1")) })         // 3, 4
		step(func() error { return secondOf2(s.Merge("4", "2")) }) // 5
		step(func() error { return second(s.Split("5")) })         // 6, 7
		check := func(name string, open core.Position, want string) {
			t.Helper()
			if got := ids(list(t, s, open)); !slices.Equal(got, toIDs(want)) {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
		}
		check("all", core.Position{}, "1 2 3 4 5 6 7")
		check("open at the horizon", core.FromHorizon, "1 2")
		check("open now", core.FromLatest, "3 6 7")
		check("before the stream", core.From(at[0].Add(-time.Hour)), "1 2")
		check("at first", core.From(at[0]), "1 2")
		check("after the split", core.From(at[1]), "2 3 4")
		check("after the merge", core.From(at[2]), "3 5")
		check("at the instant of the split", core.From(at[0].Add(time.Second)), "2 3 4")
		check("latest as of the merge", core.Position{Anchor: core.Latest, Time: at[2]}, "3 5")
		check("in the future", core.From(time.Now().Add(time.Hour)), "3 6 7")
		for _, c := range list(t, s, core.Position{}) {
			if closed := strings.Contains("1 2 4 5", string(c.ID)); c.Closed != closed {
				t.Errorf("shard %s closed: %v", c.ID, c.Closed)
			}
		}
		if err := s.Forget("1"); err != nil {
			t.Fatal(err)
		}
		check("all but one", core.Position{}, "2 3 4 5 6 7")
		check("at the horizon, without one", core.FromHorizon, "2 3 4")
		check("at first, without one", core.From(at[0]), "2 3 4")
		if _, err := s.Shards(t.Context(), core.Position{Token: "5"}); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("open at a token: %v, want ErrInvalid", err)
		}

		h := s.Handle()
		h.Break(memory.Fault{Kind: memory.Stale, Delay: 1500 * time.Millisecond})
		if got := list(t, h, core.Position{}); !slices.Equal(ids(got), toIDs("2 3 4 5")) || got[len(got)-1].Closed {
			t.Errorf("a stale listing: %+v, want 2 to 5, with 5 open", got)
		}
		if got := ids(list(t, h, core.FromLatest)); !slices.Equal(got, toIDs("3 5")) {
			t.Errorf("open, by a stale listing: %v, want 3 and 5", got)
		}
	})
}

func toIDs(s string) []core.ShardID {
	var out []core.ShardID
	for f := range strings.FieldsSeq(s) {
		out = append(out, core.ShardID(f))
	}
	return out
}

// A split at the very instant that a start was resolved to: the shards that were open then are listed.
func TestAnInstantThatWasGivenOutDoesNotChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New("s", 1)
		now, err := s.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before := ids(list(t, s, core.From(now)))
		if _, _, err := s.Split(before[0]); err != nil {
			t.Fatal(err)
		}
		if after := ids(list(t, s, core.From(now))); !slices.Equal(before, after) {
			t.Errorf("open at %v: first %v, then %v", now, before, after)
		}
	})
}

// Open ranges cover the key space without holes, through splits and merges, and keys go where Kinesis puts them.
func TestRanges(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 64} {
		s := memory.New("s", n)
		whole(t, s)
		for range 20 {
			open := list(t, s, core.FromLatest)
			slices.SortFunc(open, func(a, b core.Shard) int { return bytes.Compare(a.Range.Start[:], b.Range.Start[:]) })
			if _, _, err := s.Split(open[0].ID); err != nil {
				t.Fatal(err)
			}
			whole(t, s)
			if len(open) > 2 {
				if _, err := s.Merge(open[2].ID, open[1].ID); err != nil {
					t.Fatal(err)
				}
				whole(t, s)
			}
		}
	}
	s := memory.New("s", 3)
	if all := list(t, s, core.Position{}); !errors.Is(secondOf2(s.Merge(all[0].ID, all[2].ID)), core.ErrInvalid) {
		t.Error("shards that do not touch were merged")
	}
	s = memory.New("s", 2)
	// MD5("a") = 0cc1…, MD5("b") = 92eb…
	low, _ := s.Put("a", nil)
	high, _ := s.Put("b", nil)
	if all := list(t, s, core.Position{}); low != all[0].ID || high != all[1].ID {
		t.Errorf("a went to %s and b to %s, want the lower and the upper half", low, high)
	}
}

func whole(t *testing.T, s *memory.Stream) {
	t.Helper()
	open := list(t, s, core.FromLatest)
	slices.SortFunc(open, func(a, b core.Shard) int { return bytes.Compare(a.Range.Start[:], b.Range.Start[:]) })
	var next [16]byte
	for i, sh := range open {
		if sh.Range.Start != next {
			t.Fatalf("range %d begins at %x, want %x", i, sh.Range.Start, next)
		}
		next = sh.Range.End
		for j := 15; j >= 0; j-- {
			if next[j]++; next[j] != 0 {
				break
			}
		}
	}
	if next != [16]byte{} {
		t.Fatalf("ranges end before %x", next)
	}
}

func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New("s", 1, memory.PageRecords(2))
		s.Put("k", nil)
		time.Sleep(time.Second)
		s.Put("k", nil)
		time.Sleep(time.Second)
		s.Put("k", nil)
		s.Put("k", nil)
		s.Put("k", nil)
		blind := memory.New("s", 1, memory.Lacking(core.SourceLacks{Lag: true, HashRanges: true, ChildrenAtEnd: true}))
		blind.Put("k", nil)
		r := open(t, s, only(t, s).ID, core.FromHorizon)
		for i, want := range []time.Duration{time.Second, time.Millisecond, 0, 0} {
			p, err := r.Next(t.Context())
			if err != nil || p.Lag != want {
				t.Errorf("page %d: lag %v, %v; want %v", i, p.Lag, err, want)
			}
		}
		shard := only(t, blind)
		if shard.Range != nil {
			t.Error("a range where the source has none")
		}
		r = open(t, blind, shard.ID, core.FromHorizon)
		if _, _, err := blind.Split(shard.ID); err != nil {
			t.Fatal(err)
		}
		if p, err := r.Next(t.Context()); err != nil || p.Lag >= 0 || !p.End || p.Children != nil {
			t.Errorf("%+v, %v: want no lag, and an end without children", p, err)
		}
	})
}

func TestTrimmed(t *testing.T) {
	for _, room := range []int{1, 3, 4, 1000} {
		t.Run(fmt.Sprint("pages of ", room), func(t *testing.T) {
			s := memory.New("s", 1, memory.PageRecords(room), memory.Idle(1))
			shard := only(t, s).ID
			if err := s.PutTo(shard, records(0, 10)...); err != nil {
				t.Fatal(err)
			}
			tokens := []string{}
			r := open(t, s, shard, core.FromHorizon)
			for len(tokens) < 10 {
				p, _ := r.Next(t.Context())
				for _, rec := range p.Records {
					tokens = append(tokens, rec.Sequence)
				}
			}
			untouched := open(t, s, shard, core.FromHorizon)
			atTime := open(t, s, shard, core.From(time.Unix(0, 0)))
			behind := open(t, s, shard, core.Position{Token: tokens[1]})
			ahead := open(t, s, shard, core.Position{Token: tokens[7]})
			latest := open(t, s, shard, core.FromLatest)
			if err := s.Trim(shard, 6); err != nil {
				t.Fatal(err)
			}
			wantData(t, "a reader at the horizon", first(read(t, untouched)), numbers(6, 10))
			wantData(t, "a reader at a time", first(read(t, atTime)), numbers(6, 10))
			wantData(t, "a reader that was ahead", first(read(t, ahead)), numbers(8, 10))
			if _, err := behind.Next(t.Context()); !errors.Is(err, core.ErrTrimmed) {
				t.Errorf("a reader that was behind: %v, want ErrTrimmed", err)
			}
			for i, token := range tokens {
				reader, err := s.Open(t.Context(), core.Shard{ID: shard}, core.Position{Token: token})
				if i < 5 {
					if !errors.Is(err, core.ErrTrimmed) {
						t.Errorf("behind record %d, which lost records: %v, want ErrTrimmed", i, err)
					}
					continue
				}
				if err != nil {
					t.Fatalf("behind record %d, which lost none: %v", i, err)
				}
				wantData(t, fmt.Sprint("behind record ", i), first(read(t, reader)), numbers(i+1, 10))
			}
			if err := s.Trim(shard, 99); err != nil {
				t.Fatal(err)
			}
			if err := s.PutTo(shard, records(10, 2)...); err != nil {
				t.Fatal(err)
			}
			wantData(t, "after all was trimmed", first(read(t, open(t, s, shard, core.FromHorizon))), numbers(10, 12))
			wantData(t, "behind the last that was trimmed", first(read(t, open(t, s, shard, core.Position{Token: tokens[9]}))), numbers(10, 12))
			if err := s.Trim(shard, 1); err != nil {
				t.Fatal(err)
			}
			if _, err := latest.Next(t.Context()); !errors.Is(err, core.ErrTrimmed) {
				t.Errorf("a reader at Latest whose first record is gone: %v, want ErrTrimmed", err)
			}
		})
	}
}

func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New("s", 1, memory.Retention(time.Hour), memory.PageRecords(3))
		shard := only(t, s).ID
		for i := range 6 {
			if err := s.PutTo(shard, records(i, 1)...); err != nil {
				t.Fatal(err)
			}
			time.Sleep(15 * time.Minute)
		}
		wantData(t, "an hour's worth", first(read(t, open(t, s, shard, core.FromHorizon))), numbers(2, 6))
		if _, _, err := s.Split(shard); err != nil {
			t.Fatal(err)
		}
		r := open(t, s, shard, core.FromHorizon)
		time.Sleep(59 * time.Minute)
		if n := len(list(t, s, core.Position{})); n != 3 {
			t.Errorf("%d shards before the retention of the closed one is over, want 3", n)
		}
		time.Sleep(time.Minute)
		if n := len(list(t, s, core.Position{})); n != 2 {
			t.Errorf("%d shards after it, want 2", n)
		}
		if _, err := s.Open(t.Context(), core.Shard{ID: shard}, core.FromHorizon); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("Open of the shard that went: %v, want ErrNotFound", err)
		}
		if _, err := r.Next(t.Context()); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("Next on it: %v, want ErrNotFound", err)
		}
	})
}

func TestResolve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New("s", 2)
		shards := list(t, s, core.FromLatest)
		a, b := shards[0], shards[1]
		t0 := time.Now()
		put := func(sh core.Shard, from, n int) {
			if err := s.PutTo(sh.ID, records(from, n)...); err != nil {
				t.Fatal(err)
			}
		}
		put(a, 0, 3)
		time.Sleep(time.Second)
		put(b, 3, 3)
		put(a, 6, 3)
		for _, c := range []struct {
			name  string
			shard core.Shard
			start core.Position
			from  []string
		}{
			{"latest", a, core.FromLatest, nil},
			{"latest of a shard without records in between", b, core.FromLatest, nil},
			{"latest as of an instant", a, core.Position{Anchor: core.Latest, Time: t0.Add(time.Millisecond)}, numbers(6, 9)},
			{"at a time before all", a, core.From(t0.Add(-time.Hour)), append(numbers(0, 3), numbers(6, 9)...)},
			{"at a time", b, core.From(t0.Add(time.Second)), numbers(3, 6)},
		} {
			p, err := s.Resolve(t.Context(), c.shard, c.start)
			if err != nil || p.Anchor != core.AfterToken {
				t.Errorf("%s: %v, %v; want a token", c.name, p, err)
				continue
			}
			wantData(t, c.name, first(read(t, open(t, s, c.shard.ID, p))), c.from)
		}
		p, _ := s.Resolve(t.Context(), b, core.FromLatest)
		put(b, 9, 1)
		wantData(t, "latest, resolved before the record", first(read(t, open(t, s, b.ID, p))), numbers(9, 10))
		for name, start := range map[string]core.Position{"the future": core.From(time.Now().Add(time.Hour)), "a token": {Token: "5"}, "the horizon": core.FromHorizon} {
			if _, err := s.Resolve(t.Context(), a, start); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("%s: %v, want ErrInvalid", name, err)
			}
		}
		if _, err := s.Resolve(t.Context(), core.Shard{ID: "other"}, core.FromLatest); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("a shard that is not there: %v, want ErrNotFound", err)
		}
	})
}

func TestCompare(t *testing.T) {
	s := memory.New("s", 1)
	_, one := s.Put("k", nil)
	_, two := s.Put("k", nil)
	ascending := []core.Position{
		core.FromHorizon, core.From(time.Unix(5, 0)), {Anchor: core.Latest, Time: time.Unix(6, 0)}, {Token: one}, {Token: one, Sub: 1}, {Token: two}, core.AtShardEnd,
	}
	for i, a := range ascending {
		for j, b := range ascending {
			if got := s.Compare(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("Compare(%+v, %+v) = %d", a, b, got)
			}
		}
	}
}

func TestDescribe(t *testing.T) {
	lacks := core.SourceLacks{Lag: true}
	a := memory.New("orders", 1, memory.Retention(time.Hour), memory.Lacking(lacks))
	b := memory.New("orders", 1)
	ia, err := a.Describe(t.Context())
	if err != nil || ia.Name != "orders" || ia.Retention != time.Hour || ia.Lacks != lacks {
		t.Errorf("%+v, %v", ia, err)
	}
	ib, _ := b.Describe(t.Context())
	same, _ := a.Handle().Describe(t.Context())
	if ia.ID == ib.ID || ia.ID != same.ID {
		t.Errorf("ids %q, of the stream made again %q, of another handle %q: want the second to differ and the third not to", ia.ID, ib.ID, same.ID)
	}
	if fixed, _ := memory.New("orders", 1, memory.WithID("x")).Describe(t.Context()); fixed.ID != "x" {
		t.Errorf("id %q, want x", fixed.ID)
	}
}

// Next waits, and comes back for records at once, for nothing after the idle time, and for the end of its context or of the reader at once.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New("s", 1, memory.Idle(3*time.Second))
		shard := only(t, s).ID
		r := open(t, s, shard, core.FromHorizon)
		cause := errors.New("cause")
		ctx, cancel := context.WithCancelCause(t.Context())
		for _, c := range []struct {
			name string
			do   func()
			took time.Duration
			n    int
			err  error
		}{
			{"nothing", func() {}, 3 * time.Second, 0, nil},
			{"a record", func() { s.Put("k", nil) }, time.Second, 1, nil},
			{"nothing again", func() {}, 3 * time.Second, 0, nil},
			{"end of the context", func() { cancel(cause) }, time.Second, 0, context.Canceled},
			{"context that has ended", func() {}, 0, 0, context.Canceled},
		} {
			time.AfterFunc(time.Second, c.do)
			began := time.Now()
			p, err := r.Next(ctx)
			if !errors.Is(err, c.err) || time.Since(began) != c.took || p != nil && len(p.Records) != c.n {
				t.Errorf("%s: %+v, %v after %v; want %d records, %v, %v", c.name, p, err, time.Since(began), c.n, c.err, c.took)
			}
		}
		time.Sleep(time.Second)
		time.AfterFunc(time.Second, func() { _ = r.Close() })
		began := time.Now()
		if _, err := r.Next(t.Context()); !errors.Is(err, memory.ErrClosed) || time.Since(began) != time.Second {
			t.Errorf("Close while it waits: %v after %v, want ErrClosed after 1s", err, time.Since(began))
		}
		s.Put("k", nil)
		if _, err := r.Next(t.Context()); !errors.Is(err, memory.ErrClosed) {
			t.Errorf("Next on a closed reader: %v, want ErrClosed", err)
		}
		if err := r.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
}

// A released page of a strict stream is rubbish, the stream is not, and who forgets a page or releases it twice is found out.
func TestStrictPages(t *testing.T) {
	s := memory.New("s", 1, memory.Strict(), memory.Idle(1))
	shard := only(t, s).ID
	s.Put("the key", []byte("the data"))
	p, err := open(t, s, shard, core.FromHorizon).Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kept, clone := p.Records[0], p.Records[0].Clone()
	if s.Held() != 1 {
		t.Errorf("%d pages held, want 1", s.Held())
	}
	p.Release()
	if string(kept.Data) == "the data" || kept.Key == "the key" || kept.Sequence == clone.Sequence {
		t.Errorf("kept without Clone: %s %s %s; want rubbish", kept.Data, kept.Key, kept.Sequence)
	}
	if string(clone.Data) != "the data" || clone.Key != "the key" {
		t.Errorf("the clone is %+v", clone)
	}
	wantData(t, "read again", first(read(t, open(t, s, shard, core.FromHorizon))), []string{"the data"})
	if s.Held() != 0 {
		t.Errorf("%d pages held, want 0", s.Held())
	}
	p.Release()
	if s.Held() != -1 {
		t.Errorf("%d pages held after one was released twice, want -1", s.Held())
	}
}

// What was put is the stream's: the caller may change its memory, and records of a page cannot be appended to.
func TestMemoryIsTheStreams(t *testing.T) {
	s := memory.New("s", 1, memory.PageRecords(4), memory.PageBytes(4), memory.Idle(1)) // pages are half a segment
	shard := only(t, s).ID
	data := []byte("0")
	for i := range 4 {
		data[0] = byte('0' + i)
		s.Put("k", data)
	}
	p, _ := open(t, s, shard, core.FromHorizon).Next(t.Context())
	_ = append(p.Records[:1:1], core.Record{Data: []byte("x")})
	_ = append(p.Records, core.Record{Data: []byte("x")})
	wantData(t, "all", first(read(t, open(t, s, shard, core.FromHorizon))), numbers(0, 4))
}

func TestArrivalsNeverGoBack(t *testing.T) {
	s := memory.New("s", 1, memory.Idle(1))
	shard := only(t, s).ID
	if err := s.PutTo(shard, core.Record{Arrived: 5000}, core.Record{Arrived: 3000}, core.Record{Arrived: 6000}); err != nil {
		t.Fatal(err)
	}
	p, _ := open(t, s, shard, core.FromHorizon).Next(t.Context())
	for i, want := range []int64{5000, 5000, 6000} {
		if got := p.Records[i].Arrived; got != want {
			t.Errorf("record %d arrived at %d, want %d", i, got, want)
		}
	}
	if err := errors.Join(s.Trim(shard, 3), s.PutTo(shard, core.Record{Arrived: 100})); err != nil {
		t.Fatal(err)
	}
	p, _ = open(t, s, shard, core.FromHorizon).Next(t.Context())
	if got := p.Records[0].Arrived; got != 6000 {
		t.Errorf("after all was trimmed the next arrived at %d, want 6000", got)
	}
}

// Producers, readers and splits side by side: every record once and in order, whoever reads.
func TestManyAtOnce(t *testing.T) {
	s := memory.New("s", 1, memory.PageRecords(5))
	const producers, each = 4, 500
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for i := range each {
				s.Put(fmt.Sprint("producer ", p), fmt.Append(nil, i))
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			open := list(t, s, core.FromLatest)
			if _, _, err := s.Split(open[0].ID); err != nil {
				t.Error(err)
			}
		}
	})
	var mu sync.Mutex
	next := map[string]int{}
	total := 0
	done := make(chan struct{})
	var follow func(shard core.ShardID)
	follow = func(shard core.ShardID) {
		r, err := s.Open(t.Context(), core.Shard{ID: shard}, core.FromHorizon)
		if err != nil {
			t.Error(err)
			return
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		wg.Go(func() {
			select {
			case <-done:
				cancel()
			case <-ctx.Done():
			}
		})
		for {
			p, err := r.Next(ctx)
			if err != nil {
				return
			}
			mu.Lock()
			for _, rec := range p.Records {
				if want := fmt.Sprint(next[rec.Key]); string(rec.Data) != want {
					t.Errorf("%s: record %s, want %s", rec.Key, rec.Data, want)
				}
				next[rec.Key]++
				total++
				if total == producers*each {
					close(done)
				}
			}
			mu.Unlock()
			if p.End {
				for _, c := range p.Children {
					wg.Go(func() { follow(c.ID) })
				}
				return
			}
		}
	}
	root := ids(list(t, s, core.FromHorizon))[0]
	wg.Go(func() { follow(root) })
	wg.Wait()
}
