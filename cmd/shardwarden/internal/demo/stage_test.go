package demo

import (
	"slices"
	"testing"

	"github.com/shardwarden/shardwarden/core"
)

// The stages do what the demo asks of them, seen past the engine: records can be read where put says they are, by a reader of a worker's seat.
func TestStages(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) stage{
		"kinesis": func(t *testing.T) stage {
			s, err := newCloud(t.Context(), 2, 1)
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		"tablestore": func(t *testing.T) stage {
			s, err := newInstance(2, 1)
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		"memory": func(*testing.T) stage { return newRoom(2) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			defer func() {
				if err := s.close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}()
			list := func() (all, open []shard) {
				all, err := s.shards(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, sh := range all {
					if sh.open {
						open = append(open, sh)
					}
				}
				slices.SortFunc(open, func(a, b shard) int { return a.hashes.first.Cmp(b.hashes.first) })
				return all, open
			}
			_, first := list()
			if len(first) != 2 || !first[0].hashes.before(first[1].hashes) || first[1].hashes.before(first[0].hashes) {
				t.Fatalf("shards: %+v", first)
			}
			if err := s.split(t.Context(), first[0]); err != nil {
				t.Fatalf("split: %v", err)
			}
			_, now := list()
			if len(now) != 3 || !slices.Equal(now[0].parents, []string{first[0].id}) || !slices.Equal(now[1].parents, now[0].parents) {
				t.Fatalf("after a split: %+v", now)
			}
			if err := s.merge(t.Context(), now[1], now[2]); err != nil {
				t.Fatalf("merge: %v", err)
			}
			all, last := list()
			if len(all) != 5 || len(last) != 2 {
				t.Fatalf("after a merge: %d shards, %d open", len(all), len(last))
			}
			if p := slices.Sorted(slices.Values(last[1].parents)); !slices.Equal(p, slices.Sorted(slices.Values([]string{now[1].id, now[2].id}))) {
				t.Errorf("parents of the merged shard: %v", p)
			}

			put, err := s.put(t.Context(), []outgoing{{recordID{0, 0}, keyName(0), data(1, recordID{0, 0})}, {recordID{1, 0}, keyName(1), data(1, recordID{1, 0})}})
			if err != nil || len(put) != 2 || put[0].shard == "" {
				t.Fatalf("put: %+v, %v", put, err)
			}
			seat, err := s.join("w")
			if err != nil {
				t.Fatal(err)
			}
			defer seat.leave()
			r, err := seat.source.Open(t.Context(), core.Shard{ID: core.ShardID(put[0].shard)}, core.FromHorizon)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			page, err := r.Next(t.Context())
			if err != nil || len(page.Records) == 0 {
				t.Fatalf("read: %+v, %v", page, err)
			}
			if got := s.items(1, 10, 10, page.Records)[0]; got.foreign || got.sequence != put[0].sequence {
				t.Errorf("read %+v, put as %+v", got, put[0])
			}
		})
	}
}
