package demo

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// story tells a ledger what happened, a line at a time:
//
//	put a p       the next record of key a goes into shard p
//	child c p q   shard c has parents p and q
//	W p: a0 b0    a new processor of worker W for shard p, named by its line, is given records
//	again 1: a0   the processor begun at line 1 of the story is given more
//	open W p      a processor is made and given nothing (yet)
func story(t *testing.T, text string) book {
	t.Helper()
	l := newLedger(26)
	processors := map[string]int32{}
	shards := map[int32]string{}
	id := func(word string) recordID {
		n, err := strconv.Atoi(word[1:])
		if err != nil {
			t.Fatalf("record %q: %v", word, err)
		}
		return recordID{int32(word[0] - 'a'), int32(n)}
	}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		name := fmt.Sprint(i + 1)
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case f[0] == "put":
			r := recordID{int32(f[1][0] - 'a'), int32(len(l.book.puts[f[1][0]-'a']))}
			l.put(r.key, f[2], sequence(f[2], r))
		case f[0] == "child":
			l.family([]shard{{id: f[1], parents: f[2:]}})
		default:
			if f[0] == "again" {
				name = strings.TrimSuffix(f[1], ":")
			} else if f[0] == "open" {
				processors[name] = l.begin(f[1], f[2])
				shards[processors[name]] = f[2]
				continue
			} else {
				s := strings.TrimSuffix(f[1], ":")
				processors[name] = l.begin(f[0], s)
				shards[processors[name]] = s
			}
			e, ok := processors[name]
			if !ok {
				t.Fatalf("line %d: no processor %q", i+1, name)
			}
			var got []item
			for _, w := range f[2:] {
				if w == "?" {
					got = append(got, item{foreign: true})
					continue
				}
				got = append(got, item{id: id(w), sequence: sequence(shards[e], id(w))})
			}
			l.arrive(shards[e], got)
			l.deliver(e, got)
		}
	}
	return l.close()
}

func sequence(shard string, r recordID) string { return shard + r.String() }

func TestWeigh(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, story string
		want        verdict
	}{
		{"nothing", "", verdict{}},
		{"all well", `
			put a p
			put a p
			put b p
			W p: a0 a1 b0`, verdict{produced: 3, delivered: 3, distinct: 3}},
		{"missing", `
			put a p
			put a p
			put a p
			W p: a0 a2`, verdict{produced: 3, delivered: 2, distinct: 2, missing: 1}},
		{"missing at the end", `
			put a p
			put a p
			W p: a0`, verdict{produced: 2, delivered: 1, distinct: 1, missing: 1}},
		{"a dead worker's tail comes again", `
			put a p
			put a p
			put a p
			W p: a0 a1
			X p: a1 a2`, verdict{produced: 3, delivered: 4, distinct: 3, duplicates: 1, handovers: 1}},
		{"the same worker takes a shard again", `
			put a p
			put a p
			W p: a0
			W p: a0 a1`, verdict{produced: 2, delivered: 3, distinct: 2, duplicates: 1}},
		{"a repeat in one processor", `
			put a p
			put a p
			W p: a0 a1
			again 3: a0 a1`, verdict{produced: 2, delivered: 4, distinct: 2, duplicates: 2, repeats: 2}},
		{"a repeat of the last record", `
			put a p
			W p: a0 a0`, verdict{produced: 1, delivered: 2, distinct: 1, duplicates: 1, repeats: 1}},
		{"out of order", `
			put a p
			put a p
			put a p
			W p: a1 a0 a2`, verdict{produced: 3, delivered: 3, distinct: 3, order: 1}},
		{"one overtakes two", `
			put a p
			put a p
			put a p
			W p: a2 a0 a1`, verdict{produced: 3, delivered: 3, distinct: 3, order: 2}},
		{"keys may overtake each other", `
			put a p
			put b p
			W p: b0 a0`, verdict{produced: 2, delivered: 2, distinct: 2}},
		{"out of order across a split", `
			put a p
			put a p
			child c p
			put a c
			W p: a0
			X c: a2
			again 5: a1`, verdict{produced: 3, delivered: 3, distinct: 3, order: 1, parents: 1}},
		{"given again out of order", `
			put a p
			put a p
			put a p
			W p: a0 a1 a2
			X p: a1 a0 a2`, verdict{produced: 3, delivered: 6, distinct: 3, duplicates: 3, order: 1, handovers: 1}},
		{"a gap that the next owner fills is out of order", `
			put a p
			put a p
			W p: a1
			X p: a0 a1`, verdict{produced: 2, delivered: 3, distinct: 2, duplicates: 1, order: 1, handovers: 1}},
		{"child before its parent was done", `
			put a p
			put b p
			child c p
			put d c
			W p: a0
			X c: d0
			again 5: b0`, verdict{produced: 3, delivered: 3, distinct: 3, parents: 1}},
		{"child after its parent", `
			put a p
			child c p
			put a c
			W p: a0
			X c: a1`, verdict{produced: 2, delivered: 2, distinct: 2}},
		{"child of a merge before its second parent", `
			put a p
			put b q
			child c p q
			put d c
			W p: a0
			W c: d0
			W q: b0`, verdict{produced: 3, delivered: 3, distinct: 3, parents: 1}},
		{"grandchild before the grandparent, parent empty", `
			put a p
			child c p
			child g c
			put b g
			W g: b0
			W p: a0`, verdict{produced: 2, delivered: 2, distinct: 2, parents: 1}},
		{"a parent's missing record is no fault of the child", `
			put a p
			put a p
			child c p
			put b c
			W p: a0
			W c: b0`, verdict{produced: 3, delivered: 2, distinct: 2, missing: 1}},
		{"child given again while the parent is done", `
			put a p
			child c p
			put b c
			W p: a0
			X c: b0
			Y c: b0`, verdict{produced: 2, delivered: 3, distinct: 2, duplicates: 1, handovers: 1}},
		{"a zombie's late deliveries are duplicates", `
			put a p
			put a p
			put a p
			W p: a0 a1
			X p: a1
			again 4: a2
			again 5: a2`, verdict{produced: 3, delivered: 5, distinct: 3, duplicates: 2, stale: 1, handovers: 1}},
		{"what only a zombie showed is missing", `
			put a p
			put a p
			W p: a0
			X p: a0
			again 3: a1`, verdict{produced: 2, delivered: 3, distinct: 1, missing: 1, duplicates: 2, stale: 1, handovers: 1}},
		{"a zombie's first delivery can be late", `
			put a p
			put a p
			open W p
			X p: a0
			again 3: a0 a1
			again 4: a1`, verdict{produced: 2, delivered: 4, distinct: 2, duplicates: 2, stale: 2}},
		{"nobody put it", `
			put a p
			W p: a0 a1 ?`, verdict{produced: 1, delivered: 3, distinct: 1, strangers: 2}},
		{"out of the wrong shard", `
			put a p
			W q: a0`, verdict{produced: 1, delivered: 1, missing: 1, strangers: 1}},
		{"there and back", `
			put a p
			put a p
			put a p
			W p: a0
			X p: a1
			W p: a2`, verdict{produced: 3, delivered: 3, distinct: 3, handovers: 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := weigh(story(t, tt.story))
			faults := tt.want.missing + tt.want.order + tt.want.parents + tt.want.repeats + tt.want.strangers
			if got.faults() != (faults > 0) {
				t.Errorf("faults() = %v", got.faults())
			}
			if (len(got.examples) > 0) != (faults > 0) {
				t.Errorf("examples: %q", got.examples)
			}
			got.examples = nil
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", tt.want) {
				t.Errorf("story:%s\n got %+v\nwant %+v", tt.story, got, tt.want)
			}
		})
	}
}

func TestSequenceMatters(t *testing.T) {
	t.Parallel()
	l := newLedger(1)
	l.put(0, "p", "17")
	e := l.begin("W", "p")
	l.deliver(e, []item{{id: recordID{0, 0}, sequence: "18"}})
	if v := weigh(l.close()); v.strangers != 1 || v.missing != 1 {
		t.Errorf("a record under another sequence number than was answered: %+v", v)
	}
}

// A correct fleet, whatever it does, has no faults; and each way of spoiling it is found.
func TestWeighRandom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l, log := randomHistory(t)
		v := weigh(l.close())
		if v.faults() || v.distinct != v.produced || v.duplicates != v.delivered-v.produced {
			t.Fatalf("faults in a correct history: %+v", v)
		}
		if len(log) == 0 {
			return
		}
		// Lose every delivery of one record: it must be missing.
		lost := log[rapid.IntRange(0, len(log)-1).Draw(t, "lost")].id
		b := l.close()
		kept := b
		kept.deliveries = nil
		for _, d := range b.deliveries {
			if d.id != lost {
				kept.deliveries = append(kept.deliveries, d)
			}
		}
		if v := weigh(kept); v.missing != 1 {
			t.Fatalf("without %v: %+v", lost, v)
		}
		// Let the record behind it in its key overtake it.
		for i, d := range b.deliveries {
			for k := i + 1; k < len(b.deliveries); k++ {
				e := b.deliveries[k]
				if e.id.key == d.id.key && e.epoch == d.epoch && e.id.n == d.id.n+1 {
					swapped := b
					swapped.deliveries = append([]delivery(nil), b.deliveries...)
					swapped.deliveries[i], swapped.deliveries[k] = e, d
					if v := weigh(swapped); v.order == 0 {
						t.Fatalf("%v after %v in one epoch: %+v", d.id, e.id, v)
					}
					return
				}
			}
		}
	})
}

// randomHistory lets two workers share a shard and its children, dying now and then.
func randomHistory(t *rapid.T) (*ledger, []delivery) {
	const keys = 3
	l := newLedger(keys)
	n := [keys]int32{}
	queue := map[string][]item{} // what each shard holds
	l.family([]shard{{id: "p"}, {id: "c", parents: []string{"p"}}, {id: "d", parents: []string{"c"}}})
	for _, s := range []string{"p", "c", "d"} {
		for range rapid.IntRange(0, 8).Draw(t, "records of "+s) {
			k := int32(rapid.IntRange(0, keys-1).Draw(t, "key"))
			id := recordID{k, n[k]}
			n[k]++
			l.put(k, s, sequence(s, id))
			queue[s] = append(queue[s], item{id: id, sequence: sequence(s, id)})
		}
	}
	for _, s := range []string{"p", "c", "d"} {
		at, saved := 0, 0
		for at < len(queue[s]) {
			e := l.begin(rapid.SampledFrom([]string{"V", "W"}).Draw(t, "worker"), s)
			at = saved
			for at < len(queue[s]) {
				m := rapid.IntRange(1, len(queue[s])-at).Draw(t, "batch")
				l.deliver(e, queue[s][at:at+m])
				at += m
				if rapid.Bool().Draw(t, "saved") {
					saved = at
				}
				if rapid.IntRange(0, 3).Draw(t, "dies") == 0 {
					break
				}
			}
		}
	}
	return l, l.close().deliveries
}

func TestFailover(t *testing.T) {
	t.Parallel()
	b := story(t, `
		put a p
		put b q
		put d r
		put a p
		put b q
		W p: a0
		W q: b0
		X r: d0
		again 6: a0
		Y p: a1
		Y q: b1`)
	for i, at := range []time.Duration{1, 2, 3, 5, 10, 25} { // at 5 s the zombie still gives something
		b.deliveries[i].at = at * time.Second
	}
	for _, tt := range []struct {
		name string
		cut  cut
		want time.Duration
	}{
		{"both shards of W, the last counts", cut{"W", 4 * time.Second}, 21 * time.Second},
		{"X's shard had nothing more", cut{"X", 4 * time.Second}, 0},
		{"W owned nothing yet", cut{"W", 0}, 0},
		{"W owned p only", cut{"W", 1500 * time.Millisecond}, 8500 * time.Millisecond},
	} {
		if got := failover(b, tt.cut); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
