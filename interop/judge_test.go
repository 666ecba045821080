package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// history builds deliveries in the order they were written, a second apart, each surely ordered against the others.
type history struct {
	t      time.Time
	ledger map[string]put
	order  map[string][]string
	ds     []delivery
}

func newHistory() *history {
	return &history{t: time.Unix(1000, 0), ledger: map[string]put{}, order: map[string][]string{}}
}

func (h *history) put(key string, n int, shard string, seq int) {
	id := fmt.Sprintf("%s %d", key, n)
	h.ledger[id] = put{key: key, shard: shard, seq: fmt.Sprint(seq)}
	h.order[key] = append(h.order[key], id)
}

func (h *history) give(worker, id string) {
	p := h.ledger[id]
	h.t = h.t.Add(time.Second)
	h.ds = append(h.ds, delivery{worker: worker, shard: p.shard, seq: p.seq, key: p.key, id: id,
		after: h.t, before: h.t.Add(time.Millisecond), index: len(h.ds)})
}

// standard is two keys in shard p, whose child is c: a:0 a:1 b:0 in p, a:2 b:1 in c.
func standard() *history {
	h := newHistory()
	h.put("a", 0, "p", 1)
	h.put("b", 0, "p", 2)
	h.put("a", 1, "p", 3)
	h.put("a", 2, "c", 4)
	h.put("b", 1, "c", 5)
	return h
}

func TestJudge(t *testing.T) {
	family := []shard{{id: "p", closed: true}, {id: "c", parents: []string{"p"}}}
	w1 := &kill{worker: "w1", checkpoints: map[string]string{"p": "1"}}
	tests := []struct {
		name       string
		kill       *kill
		give       string // "worker:id" each
		spoil      func(*history)
		duplicates int
		want       []string // a part of each complaint, in order
	}{
		{name: "all in order", give: "w1:a 0,w1:b 0,w1:a 1,w2:a 2,w2:b 1"},
		{name: "one missing", give: "w1:a 0,w1:b 0,w1:a 1,w2:a 2", want: []string{`records missing: "b 1" in c`}},
		{name: "repeated without a kill", give: "w1:a 0,w1:b 0,w2:b 0,w1:a 1,w2:a 2,w2:b 1", duplicates: 1, want: []string{"no worker was killed"}},
		{name: "the killed worker's tail", kill: w1, give: "w1:a 0,w1:b 0,w2:b 0,w2:a 1,w2:a 2,w2:b 1", duplicates: 1},
		{name: "what the killed worker had saved", kill: w1, give: "w1:a 0,w1:b 0,w2:a 0,w2:b 0,w2:a 1,w2:a 2,w2:b 1", duplicates: 2,
			want: []string{"it was checkpointed: 1"}},
		{name: "a shard the killed worker did not own", kill: &kill{worker: "w1", checkpoints: map[string]string{"c": "4"}},
			give: "w1:a 0,w1:b 0,w2:b 0,w2:a 1,w2:a 2,w2:b 1", duplicates: 1, want: []string{"did not own the shard"}},
		{name: "the survivor repeats itself", kill: w1, give: "w2:a 0,w2:b 0,w2:b 0,w2:a 1,w2:a 2,w2:b 1", duplicates: 1,
			want: []string{"not the killed worker's and then another's", "w2 gave"}},
		{name: "three times", kill: w1, give: "w1:a 0,w1:b 0,w2:b 0,w3:b 0,w2:a 1,w2:a 2,w2:b 1", duplicates: 2, want: []string{"not the killed worker's and then another's"}},
		{name: "a key turned around by one worker", give: "w1:a 1,w1:b 0,w1:a 0,w2:a 2,w2:b 1", want: []string{"out of order"}},
		{name: "a key turned around by two", give: "w2:a 1,w1:a 0,w1:b 0,w2:a 2,w2:b 1", want: []string{"out of order"}},
		{name: "a shard turned around across keys", give: "w1:b 0,w1:a 0,w1:a 1,w2:a 2,w2:b 1", want: []string{`w1 gave "a 0" of p after "b 0"`}},
		{name: "a child before its parent, two workers", give: "w1:a 0,w2:b 1,w1:b 0,w1:a 1,w2:a 2",
			want: []string{"out of order", "c (w2, \"b 1\") began before p was finished"}},
		{name: "a child before its parent, one worker", give: "w1:a 0,w1:a 1,w1:a 2,w1:b 0,w1:b 1", want: []string{"out of order", "began before p"}},
		{name: "what nobody put", give: "w1:a 0,w1:b 0,w1:a 1,w2:a 2,w2:b 1", spoil: func(h *history) {
			h.ds = append(h.ds, delivery{worker: "w2", shard: "c", seq: "9", key: "z", id: "z 0", index: len(h.ds)})
		}, want: []string{"what nobody put"}},
		{name: "another's sequence number", give: "w1:a 0,w1:b 0,w1:a 1,w2:a 2,w2:b 1", spoil: func(h *history) { h.ds[0].seq = "7" },
			want: []string{"delivered as p 7", `missing: "a 0"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := standard()
			for g := range strings.SplitSeq(tt.give, ",") {
				w, id, _ := strings.Cut(g, ":")
				h.give(w, id)
			}
			if tt.spoil != nil {
				tt.spoil(h)
			}
			var kills []kill
			if tt.kill != nil {
				kills = append(kills, *tt.kill)
			}
			v := judge(h.ledger, h.order, family, h.ds, kills...)
			if v.duplicates != tt.duplicates {
				t.Errorf("%d duplicates were counted, want %d", v.duplicates, tt.duplicates)
			}
			if len(v.complaints) != len(tt.want) {
				t.Fatalf("complaints %q, want %d", v.complaints, len(tt.want))
			}
			for i, w := range tt.want {
				if !strings.Contains(v.complaints[i], w) {
					t.Errorf("complaint %d is %q, want it to say %q", i, v.complaints[i], w)
				}
			}
		})
	}
}

// A slow reader must not make up a violation: deliveries of two workers whose intervals overlap have no order.
func TestJudgeOverlap(t *testing.T) {
	h := standard()
	for _, g := range []string{"a 0", "b 0", "a 1"} {
		h.give("w1", g)
	}
	h.give("w2", "a 2")
	h.give("w2", "b 1")
	slices.SortFunc(h.ds, func(a, b delivery) int { return strings.Compare(b.worker, a.worker) }) // read in the other order
	for i := range h.ds {
		h.ds[i].index, h.ds[i].after, h.ds[i].before = i, time.Unix(1000, 0), time.Unix(1010, 0)
	}
	family := []shard{{id: "p", closed: true}, {id: "c", parents: []string{"p"}}}
	if v := judge(h.ledger, h.order, family, h.ds); len(v.complaints) > 0 {
		t.Errorf("complaints %q about deliveries whose order nobody knows", v.complaints)
	}
}

func TestFailover(t *testing.T) {
	at := time.Unix(1000, 0)
	k := kill{worker: "w1", at: at, checkpoints: map[string]string{"p": "1", "q": "1"}}
	ds := []delivery{
		{worker: "w2", shard: "x", before: at.Add(20 * time.Second)}, // was never w1's
		{worker: "w2", shard: "p", before: at.Add(9 * time.Second)},
		{worker: "w2", shard: "p", before: at.Add(15 * time.Second)},
		{worker: "w2", shard: "q", before: at.Add(11 * time.Second)},
		{worker: "w1", shard: "q", before: at.Add(time.Second)}, // read late from the dead one's pipe
	}
	if got := failover(ds, k); got != 11*time.Second {
		t.Errorf("failover is %v, want 11s: the first delivery of the last shard", got)
	}
}
