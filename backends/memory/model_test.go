package memory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
)

// modelShard is a shard as a list.
type modelShard struct {
	id       core.ShardID
	data     []string // all that was ever put
	trimmed  int
	closed   bool
	children []core.ShardID
}

// modelReader is where a reader stands.
type modelReader struct {
	r     core.ShardReader
	shard *modelShard
	next  int
	fresh bool // began at the horizon and has read nothing: it goes with the horizon
}

// Random writing, resharding, trimming and reading, in pages of all sizes and through faults, against lists.
func TestAgainstLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		opts := []memory.Option{memory.Idle(1), memory.PageRecords(rapid.IntRange(1, 6).Draw(t, "page"))}
		if rapid.Bool().Draw(t, "strict") {
			opts = append(opts, memory.Strict())
		}
		if rapid.Bool().Draw(t, "bounded in bytes") {
			opts = append(opts, memory.PageBytes(rapid.IntRange(1, 20).Draw(t, "bytes")))
		}
		s := memory.New("s", rapid.IntRange(1, 3).Draw(t, "shards"), opts...)
		flaky := s.Handle()
		flaky.Break(memory.Fault{Odds: 0.3, Seed: rapid.Uint64().Draw(t, "seed")})

		var shards []*modelShard
		byID := map[core.ShardID]*modelShard{}
		add := func(id core.ShardID, parents ...*modelShard) {
			m := &modelShard{id: id}
			shards, byID[id] = append(shards, m), m
			for _, p := range parents {
				p.closed, p.children = true, append(p.children, id)
			}
		}
		listed, err := s.Shards(ctx, core.Position{})
		if err != nil {
			t.Fatal(err)
		}
		for _, sh := range listed {
			add(sh.ID)
		}
		var readers []*modelReader
		type mark struct {
			shard *modelShard
			next  int
			at    core.Position
		}
		var marks []mark // positions that were given out
		n := 0
		put := func(m *modelShard) string {
			n++
			m.data = append(m.data, fmt.Sprint(n))
			return m.data[len(m.data)-1]
		}
		pick := func(t *rapid.T) *modelShard { return rapid.SampledFrom(shards).Draw(t, "shard") }

		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				m := pick(t)
				var records []core.Record
				for range rapid.IntRange(1, 5).Draw(t, "records") {
					if !m.closed {
						records = append(records, core.Record{Key: "k", Data: []byte(put(m))})
					}
				}
				if err := s.PutTo(m.id, records...); m.closed != errors.Is(err, core.ErrInvalid) || !m.closed && err != nil {
					t.Fatalf("put to %s, closed %v: %v", m.id, m.closed, err)
				}
			},
			"put by key": func(t *rapid.T) {
				key := fmt.Sprint("key ", rapid.IntRange(0, 20).Draw(t, "key"))
				if rapid.Bool().Draw(t, "aggregated") {
					parts := [][]byte{[]byte("a"), []byte("b"), []byte("c")}
					id, _ := s.PutAggregated(key, parts...)
					byID[id].data = append(byID[id].data, "a", "b", "c")
					return
				}
				id, _ := s.Put(key, []byte("x"))
				if byID[id].closed {
					t.Fatalf("%s went to %s, which has ended", key, id)
				}
				byID[id].data = append(byID[id].data, "x")
			},
			"split": func(t *rapid.T) {
				m := pick(t)
				low, high, err := s.Split(m.id)
				if m.closed != (err != nil) {
					t.Fatalf("split %s, closed %v: %v", m.id, m.closed, err)
				}
				if err == nil {
					add(low, m)
					add(high, m)
				}
			},
			"merge": func(t *rapid.T) {
				a, b := pick(t), pick(t)
				id, err := s.Merge(a.id, b.id)
				if err == nil && (a.closed || b.closed || a == b) {
					t.Fatalf("merge of %s and %s went through", a.id, b.id)
				}
				if err == nil {
					add(id, a, b)
				}
			},
			"trim": func(t *rapid.T) {
				m := pick(t)
				n := rapid.IntRange(0, 6).Draw(t, "n")
				if err := s.Trim(m.id, n); err != nil {
					t.Fatal(err)
				}
				m.trimmed = min(m.trimmed+n, len(m.data))
			},
			"open": func(t *rapid.T) {
				m := pick(t)
				at, next, fresh := core.FromHorizon, m.trimmed, true
				switch {
				case rapid.Bool().Draw(t, "latest"):
					at, next, fresh = core.FromLatest, len(m.data), false
				case len(marks) > 0 && rapid.Bool().Draw(t, "at a mark"):
					k := rapid.SampledFrom(marks).Draw(t, "mark")
					m, at, next, fresh = k.shard, k.at, k.next, false
				}
				r, err := s.Open(ctx, core.Shard{ID: m.id}, at)
				if gone := at.Anchor == core.AfterToken && next < m.trimmed; gone != errors.Is(err, core.ErrTrimmed) || !gone && err != nil {
					t.Fatalf("open %s at %v, record %d, %d trimmed: %v", m.id, at, next, m.trimmed, err)
				}
				if err == nil {
					if rapid.Bool().Draw(t, "through faults") {
						for {
							if r, err = flaky.Open(ctx, core.Shard{ID: m.id}, at); err == nil {
								break
							}
						}
					}
					readers = append(readers, &modelReader{r, m, next, fresh})
				}
			},
			"next": func(t *rapid.T) {
				if len(readers) == 0 {
					t.Skip("no reader")
				}
				m := rapid.SampledFrom(readers).Draw(t, "reader")
				if m.fresh {
					m.next = max(m.next, m.shard.trimmed)
				}
				p, err := m.r.Next(ctx)
				for errors.Is(err, core.ErrUnavailable) {
					p, err = m.r.Next(ctx)
				}
				if gone := m.next < m.shard.trimmed; gone || err != nil {
					if gone != errors.Is(err, core.ErrTrimmed) {
						t.Fatalf("next of %s at record %d, %d trimmed: %v", m.shard.id, m.next, m.shard.trimmed, err)
					}
					return
				}
				b := core.NewBatch(session{}, p)
				for i, rec := range p.Records {
					if m.next >= len(m.shard.data) || string(rec.Data) != m.shard.data[m.next] {
						t.Fatalf("record %d of %s is %s, want those from %v", m.next, m.shard.id, rec.Data, m.shard.data[min(m.next, len(m.shard.data)):])
					}
					m.next++
					m.fresh = false
					marks = append(marks, mark{m.shard, m.next, b.After(i)})
				}
				left := len(m.shard.data) - m.next
				if end := left == 0 && m.shard.closed; p.End != end || len(p.Records) == 0 && left > 0 {
					t.Fatalf("%s: %d records, end %v, with %d left, closed %v", m.shard.id, len(p.Records), p.End, left, m.shard.closed)
				}
				if p.End && !slices.Equal(ids(p.Children), sorted(m.shard.children)) {
					t.Fatalf("%s goes on in %v, want %v", m.shard.id, ids(p.Children), m.shard.children)
				}
				if p.Release != nil {
					p.Release()
				}
			},
			"": func(t *rapid.T) {
				if s.Held() != 0 {
					t.Fatalf("%d pages held", s.Held())
				}
			},
		})
	})
}

func sorted(ids []core.ShardID) []core.ShardID {
	out := slices.Clone(ids)
	slices.Sort(out)
	return out
}
