package main

import (
	"strings"
	"testing"
	"time"
)

// at builds a delivery or mark that was written within a millisecond after n tenths of a second.
func at(worker string, tenths, index int, m mark) delivery {
	t := time.Unix(1000, 0).Add(time.Duration(tenths) * 100 * time.Millisecond)
	return delivery{worker: worker, shard: "s", after: t, before: t.Add(time.Millisecond), index: index, mark: m}
}

func TestOverlaps(t *testing.T) {
	events := func(worker string, tenths int) delivery {
		d := at(worker, tenths, -1, began)
		d.before = d.after
		return d
	}
	tests := []struct {
		name  string
		ds    []delivery
		marks []delivery
		want  string // of each overlap
	}{
		{name: "one after the other", ds: []delivery{at("a", 1, 1, ""), at("a", 2, 2, ""), at("b", 3, 4, "")},
			marks: []delivery{at("a", 0, 0, began), at("b", 3, 3, began)}},
		{name: "a goes on beside b", ds: []delivery{at("a", 1, 1, ""), at("b", 3, 4, ""), at("a", 8, 5, "")},
			marks: []delivery{at("a", 0, 0, began), at("b", 3, 3, began)}, want: "s by a for 0.50 s after b had begun"},
		{name: "b, too, gives one record only", ds: []delivery{at("a", 1, 1, ""), at("b", 3, 4, ""), at("b", 4, 5, ""), at("a", 8, 6, "")},
			marks: []delivery{at("a", 0, 0, began), at("b", 3, 3, began)}, want: "s by a for 0.50 s after b had begun"},
		{name: "a comes back later", ds: []delivery{at("a", 1, 1, ""), at("b", 3, 4, ""), at("a", 8, 6, "")},
			marks: []delivery{at("a", 0, 0, began), at("b", 3, 3, began), at("a", 7, 5, began)}},
		{name: "a comes back, told by time", ds: []delivery{at("a", 1, 1, ""), at("b", 3, 4, ""), at("a", 8, 6, "")},
			marks: []delivery{events("a", 0), events("b", 2), events("a", 7)}},
		{name: "a comes back while b goes on", ds: []delivery{at("a", 1, 1, ""), at("b", 3, 4, ""), at("a", 8, 6, ""), at("b", 9, 7, "")},
			marks: []delivery{at("a", 0, 0, began), at("b", 3, 3, began), at("a", 7, 5, began)}, want: "s by b for 0.10 s after a had begun"},
		{name: "a is still in its handler", ds: []delivery{at("a", 1, 1, ""), at("b", 3, 4, "")},
			marks: []delivery{at("a", 0, 0, began), at("b", 3, 3, began), at("a", 5, 5, batchEnd)}, want: "s by a for 0.20 s after b had begun"},
		{name: "the reader was slow: nothing is certain", ds: []delivery{at("a", 1, 1, ""), at("b", 3, 4, ""), {worker: "a", shard: "s",
			after: time.Unix(1000, 0), before: time.Unix(1002, 0), index: 5}}, marks: []delivery{at("a", 0, 0, began), at("b", 3, 3, began)}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, o := range overlaps(holds(tc.ds, tc.marks)) {
				got = append(got, o.String())
			}
			if strings.Join(got, "; ") != tc.want {
				t.Errorf("overlaps %q, want %q", got, tc.want)
			}
		})
	}
}

func TestJudgeOverlapsAllowsAWindow(t *testing.T) {
	found := []overlap{{shard: "s", from: "a", to: "b", long: time.Second}, {shard: "s", from: "b", to: "c", long: time.Second}}
	var v verdict
	v.judgeOverlaps(found, func(o overlap) time.Duration {
		if o.from == "a" {
			return 2 * time.Second
		}
		return 0
	})
	if len(v.complaints) != 1 || !strings.Contains(v.complaints[0], "1 times in which") || !strings.Contains(v.complaints[0], "s by b") || v.overlap != time.Second {
		t.Errorf("complaints %q, longest %v; want one of b, 1 s", v.complaints, v.overlap)
	}
}

func TestHoldsLetAWorkerGiveAgainWhatItHadNotStored(t *testing.T) {
	h := standard()
	for _, g := range []string{"a 0", "b 0"} {
		h.give("w1", g)
	}
	robbed := kill{worker: "w1", checkpoints: map[string]string{"p": "1"}}
	h.t = h.t.Add(time.Second)
	again := delivery{worker: "w1", shard: "p", after: h.t, before: h.t, index: -1, mark: began}
	first := again
	first.after, first.before = time.Unix(0, 0), time.Unix(0, 0)
	for _, g := range []string{"b 0", "a 1", "a 2", "b 1"} {
		h.give("w1", g)
	}
	shards := []shard{{id: "p", closed: true}, {id: "c", parents: []string{"p"}}}
	if v := judge(h.ledger, h.order, shards, h.ds, robbed); len(v.complaints) != 2 {
		t.Errorf("in one hold: %q, want a complaint of the duplicate and one of the order", v.complaints)
	}
	holds(h.ds, []delivery{first, again})
	if v := judge(h.ledger, h.order, shards, h.ds, robbed); len(v.complaints) != 0 {
		t.Errorf("in two holds: %q", v.complaints)
	}
}
