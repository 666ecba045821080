package demo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// node is a shard in the family tree.
type node struct {
	id      string
	parents []string
}

// branch is a line of the tree: a shard behind the lines that lead to it.
type branch struct {
	id    string
	lines string   // "├─ " and the like
	also  []string // further parents: of a merge, which hangs under one of its parents
}

// tree draws shards under their parents, oldest first.
func tree(nodes []node) []branch {
	known := map[string]bool{}
	for _, n := range nodes {
		known[n.id] = true
	}
	below := map[string][]node{} // "" for roots
	for _, n := range nodes {
		under := ""
		for _, p := range n.parents {
			if known[p] {
				under = p // the last one: a merge then stands behind both of its parents
			}
		}
		below[under] = append(below[under], n)
	}
	var out []branch
	var draw func(under, lines string)
	draw = func(under, lines string) {
		list := below[under]
		slices.SortFunc(list, func(a, b node) int { return cmp.Compare(a.id, b.id) })
		for i, n := range list {
			b := branch{id: n.id, lines: lines}
			next := lines
			if under != "" {
				if last := i == len(list)-1; last {
					b.lines, next = lines+"└─ ", lines+"   "
				} else {
					b.lines, next = lines+"├─ ", lines+"│  "
				}
			}
			for _, p := range n.parents {
				if p != under {
					b.also = append(b.also, p)
				}
			}
			out = append(out, b)
			draw(n.id, next)
		}
	}
	draw("", "")
	return out
}

// short is a shard's number where its name is one of Kinesis, and its beginning where it is one of Tablestore: a uuid and a time.
func short(id string) string {
	if uuid, micros, ok := strings.Cut(id, "_"); ok && len(uuid) == 36 && len(micros) == 16 {
		return uuid[:8]
	}
	n, ok := strings.CutPrefix(id, "shardId-")
	if !ok {
		return id
	}
	return "#" + cmp.Or(strings.TrimLeft(n, "0"), "0")
}

func shortAll(ids []string) string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = short(id)
	}
	return strings.Join(out, ", ")
}

// grouped is a number with commas.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
