package kinesis

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/shardwarden/shardwarden/core"
)

// graph reads "a b<a c<a d<b,c": shards, each with its parents.
func graph(s string) []core.Shard {
	var out []core.Shard
	for w := range strings.FieldsSeq(s) {
		id, parents, _ := strings.Cut(w, "<")
		shard := core.Shard{ID: core.ShardID(id)}
		for p := range strings.SplitSeq(parents, ",") {
			if p != "" {
				shard.Parents = append(shard.Parents, core.ShardID(p))
			}
		}
		out = append(out, shard)
	}
	return out
}

func names(shards []core.Shard) string {
	var out []string
	for _, s := range shards {
		out = append(out, string(s.ID))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestFrontier(t *testing.T) {
	for _, c := range []struct{ name, graph, begin, roots, behind string }{
		{"nothing related", "a b", "a b", "a b", ""},
		{"child of one that is begun", "a b<a c<a", "a b c", "a", "b c"},
		{"grandchild", "a b<a c<a d<b", "a d", "a", "b c d"},
		{"parent that need not be read", "a b<a c<a", "b c", "b c", ""},
		{"parent not listed", "b<a c<a", "b c", "b c", ""},
		{"merge of two", "a b c<a,b", "c", "c", ""},
		{"merge of which one is begun waits for the other", "a b c<a,b", "a c", "a b", "c"},
		{"the other of a merge is itself behind", "a b<a c<a d<b,c", "a d", "a", "b c d"},
		{"chain of merges pulls in what each waits for", "a b c d<a,b e<d,c", "a e", "a b c", "d e"},
		{"cycle", "a<b b<a", "a", "", "a b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			begin := map[core.ShardID]bool{}
			for id := range strings.FieldsSeq(c.begin) {
				begin[core.ShardID(id)] = true
			}
			roots, behind := frontier(graph(c.graph), begin)
			if names(roots) != c.roots || names(behind) != c.behind {
				t.Errorf("roots %q and behind %q, want %q and %q", names(roots), names(behind), c.roots, c.behind)
			}
		})
	}
}

// What frontier promises, on random family trees: every shard to begin with is reached, no root is below another, and every shard that is
// reached has all its listed parents reached.
func TestFrontierReachesAllOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var listed []core.Shard
		begin, wanted := map[core.ShardID]bool{}, map[core.ShardID]bool{}
		for i := range rapid.IntRange(1, 12).Draw(t, "shards") {
			s := core.Shard{ID: core.ShardID(fmt.Sprint(i))}
			if i > 0 {
				for _, p := range rapid.SliceOfNDistinct(rapid.IntRange(0, i-1), 0, min(2, i), rapid.ID[int]).Draw(t, "parents") {
					s.Parents = append(s.Parents, core.ShardID(fmt.Sprint(p)))
				}
			}
			listed = append(listed, s)
			if rapid.Bool().Draw(t, "begin") {
				begin[s.ID], wanted[s.ID] = true, true
			}
		}
		roots, behind := frontier(listed, begin)
		reached := map[core.ShardID]bool{}
		for _, s := range roots {
			reached[s.ID] = true
		}
		for range listed {
			for _, s := range listed {
				for _, p := range s.Parents {
					if reached[p] {
						if slices.ContainsFunc(roots, func(r core.Shard) bool { return r.ID == s.ID }) {
							t.Fatalf("root %s is behind %s", s.ID, p)
						}
						reached[s.ID] = true
					}
				}
			}
		}
		for id := range wanted {
			if !reached[id] {
				t.Fatalf("%s is not reached", id)
			}
		}
		for _, s := range behind {
			if !reached[s.ID] {
				t.Fatalf("%s is said to be behind a root", s.ID)
			}
			for _, p := range s.Parents {
				if !reached[p] {
					t.Fatalf("%s waits for %s, which nobody reads", s.ID, p)
				}
			}
		}
	})
}
