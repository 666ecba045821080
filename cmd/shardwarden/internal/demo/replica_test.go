package demo

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/shardwarden/shardwarden/backends/tablestore"
)

// history is all changes of some keys in the order in which they were made, and the table after them, worked out without a replica.
func history(seed uint64, keys, n int32) (all []item, table map[string]row) {
	table = map[string]row{}
	for i := range n {
		for k := range keys {
			id := recordID{k, i}
			c := changeOf(seed, id, 1e15+int64(len(all))*1000)
			all = append(all, item{id: id, sequence: c.Sequence.String(), change: c})
			key, e := c.KeyText(), editOf(seed, id)
			if e.kind != tablestore.Update {
				delete(table, key)
			}
			for name, value := range e.columns {
				if table[key] == nil {
					table[key] = row{}
				}
				if delete(table[key], name); value != nil {
					table[key][name] = cell{value, c.Sequence.Timestamp / 1000}
				}
			}
		}
	}
	return all, table
}

// A replica equals its table however often changes come, and however late those that a worker without its shard still gives.
func TestReplicaEqualsItsTable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		all, table := history(seed, 20, 30)
		dice := rand.New(rand.NewPCG(seed, 1))
		r := newReplica()
		for done := 0; done < len(all); {
			begin := max(0, done-dice.IntN(40)) // a worker takes over behind a stored checkpoint
			end := min(len(all), begin+1+dice.IntN(60))
			r.apply(all[begin:end])
			done = max(done, end)
			late := dice.IntN(done)
			r.apply(all[late:min(done, late+5)])
		}
		if got := r.compare(table); got.wrong != 0 || got.rows != len(table) {
			t.Errorf("seed %d: %+v, want %d rows", seed, got, len(table))
		}
	}
}

// What is wrong is counted, and one of it shown.
func TestReplicaDiffers(t *testing.T) {
	t.Parallel()
	all, table := history(3, 5, 40)
	deleted := func(key string) map[string]row {
		out := maps.Clone(table)
		delete(out, key)
		return out
	}
	some := slices.Sorted(maps.Keys(table))[0]
	changed := maps.Clone(table)
	changed[some] = maps.Clone(table[some])
	changed[some]["n"] = cell{changed[some]["n"].value, 17}
	more := maps.Clone(table)
	more["x"] = row{"n": {int64(1), 1}}
	for _, tt := range []struct {
		name  string
		table map[string]row
		want  string
	}{
		{"a row too many", deleted(some), "the replica has a row " + some + ", the table has not"},
		{"a row too few", more, "the table has a row x, the replica has not"},
		{"another version", changed, fmt.Sprintf("column n of row %s is %s in the table, %s in the replica", some, changed[some].show("n"), table[some].show("n"))},
	} {
		r := newReplica()
		r.apply(all)
		if got := r.compare(tt.table); got.wrong != 1 || got.example != tt.want {
			t.Errorf("%s: %d wrong, %q, want %q", tt.name, got.wrong, got.example, tt.want)
		}
	}
}

// Losing the last change of a row is seen, whichever kind it is.
func TestReplicaMissesAChange(t *testing.T) {
	t.Parallel()
	all, table := history(3, 20, 40)
	for k := range 20 {
		r := newReplica()
		r.apply(slices.Delete(slices.Clone(all), len(all)-20+k, len(all)-20+k+1))
		if got := r.compare(table); got.wrong != 1 {
			t.Errorf("without the last change of key %d, a %v: %d rows wrong", k, all[len(all)-20+k].change.Type, got.wrong)
		}
	}
}

// A replica that differs is a fault, though nothing else is.
func TestSummaryOfAReplica(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		replica *comparison
		bad     bool
		want    string
	}{
		{nil, false, "All 0 records came"},
		{&comparison{rows: 1}, false, "equals the table: 1 row."},
		{&comparison{rows: 3, wrong: 1, example: "row x"}, true, "NOT well: the judge found faults.\n  a replica of the table, built from the changes, differs from it in 1 row\n  for example: row x"},
	} {
		s := summary{replica: tt.replica}
		if s.bad() != tt.bad || !strings.Contains(s.words(), tt.want) {
			t.Errorf("%+v: bad is %v\n%s", tt.replica, s.bad(), s.words())
		}
	}
}
