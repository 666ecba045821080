package demo

import (
	"slices"
	"strings"
	"testing"

	"github.com/shardwarden/shardwarden/backends/tablestore"
	"github.com/shardwarden/shardwarden/core"
)

// There are edits of each kind, and each is possible: nothing is updated or deleted that is not there.
func TestEditsArePossible(t *testing.T) {
	t.Parallel()
	kinds := map[tablestore.ChangeType]int{}
	dropped := 0
	for key := range int32(50) {
		there := false
		for n := range int32(100) {
			e := editOf(7, recordID{key, n})
			kinds[e.kind]++
			if e.kind != tablestore.Put && !there {
				t.Fatalf("change %d of key %d is a %v, and the row is not there", n, key, e.kind)
			}
			there = e.kind != tablestore.Delete
			for _, v := range e.columns {
				if v == nil {
					dropped++
				}
			}
		}
	}
	for kind, least := range map[tablestore.ChangeType]int{tablestore.Put: 1000, tablestore.Update: 1500, tablestore.Delete: 500} {
		if kinds[kind] < least {
			t.Errorf("%d of 5000 edits are %vs, want %d at least", kinds[kind], kind, least)
		}
	}
	if dropped != kinds[tablestore.Update] {
		t.Errorf("%d columns are deleted by %d updates", dropped, kinds[tablestore.Update])
	}
}

// changeOf is an edit as the stream tells it.
func changeOf(seed uint64, id recordID, us int64) *tablestore.Change {
	e := editOf(seed, id)
	name := keyName(id.key)
	c := &tablestore.Change{Type: e.kind, Sequence: tablestore.Sequence{Timestamp: us},
		Key: []tablestore.KeyColumn{{Name: keyBucket, Value: bucket(name)}, {Name: keyID, Value: name}}}
	for column, value := range e.columns {
		col := tablestore.Column{Name: column, Value: value, Timestamp: us / 1000}
		if value == nil {
			col.Op, col.Timestamp = tablestore.DeleteColumn, 0
		}
		c.Columns = append(c.Columns, col)
	}
	if id.n > 0 && editOf(seed, recordID{id.key, id.n - 1}).kind != tablestore.Delete {
		c.Old = []tablestore.Column{{Name: columnNumber, Value: int64(id.n - 1), Timestamp: 1}}
	}
	return c
}

func record(c *tablestore.Change) core.Record {
	return core.Record{Data: c.AppendJSON(nil), Key: c.KeyText(), Sequence: c.Sequence.String()}
}

// find is the first change of a key that is of a kind.
func find(seed uint64, kind tablestore.ChangeType) recordID {
	for n := int32(1); ; n++ {
		if id := (recordID{3, n}); editOf(seed, id).kind == kind {
			return id
		}
	}
}

// Changes are known again, and the slightest difference is noticed.
func TestChangesAreRecognized(t *testing.T) {
	t.Parallel()
	stage := &instance{}
	const keys, records = 10, 1000
	for _, kind := range []tablestore.ChangeType{tablestore.Put, tablestore.Update, tablestore.Delete} {
		id := find(5, kind)
		got := stage.items(5, keys, records, []core.Record{record(changeOf(5, id, 1e15))})[0]
		if got.foreign || got.id != id || got.change == nil {
			t.Errorf("a %v of %v is taken for %+v", kind, id, got)
		}
		for name, spoil := range map[string]func(*tablestore.Change, *core.Record){
			"another kind":    func(c *tablestore.Change, _ *core.Record) { c.Type = (c.Type + 1) % 3 },
			"another bucket":  func(c *tablestore.Change, _ *core.Record) { c.Key[0].Value = int64(17) },
			"another key":     func(c *tablestore.Change, _ *core.Record) { c.Key[1].Value = keyName(4) },
			"a key of nobody": func(c *tablestore.Change, _ *core.Record) { c.Key[1].Value = "key-3" },
			"a column more": func(c *tablestore.Change, _ *core.Record) {
				c.Columns = append(c.Columns, tablestore.Column{Name: "x", Value: true})
			},
			"no number":           func(c *tablestore.Change, _ *core.Record) { c.Columns, c.Old = nil, nil },
			"Key is another":      func(_ *tablestore.Change, r *core.Record) { r.Key = "k" },
			"Sequence is another": func(_ *tablestore.Change, r *core.Record) { r.Sequence = "s" },
			"no JSON":             func(_ *tablestore.Change, r *core.Record) { r.Data = r.Data[1:] },
		} {
			c := changeOf(5, id, 1e15)
			r := record(c)
			before := r
			spoil(c, &r)
			if r.Key == before.Key && r.Sequence == before.Sequence && string(r.Data) == string(before.Data) {
				r = record(c)
			}
			if got := stage.items(5, keys, records, []core.Record{r})[0]; !got.foreign {
				t.Errorf("%v, %s: taken for %v", kind, name, got.id)
			}
		}
		if kind == tablestore.Delete {
			continue
		}
		for i := range changeOf(5, id, 1e15).Columns {
			c := changeOf(5, id, 1e15)
			slices.SortFunc(c.Columns, func(a, b tablestore.Column) int { return strings.Compare(a.Name, b.Name) })
			for what, col := range map[string]tablestore.Column{
				"another value": {Name: c.Columns[i].Name, Value: "other", Timestamp: 1}, "deleted in one version": {Name: c.Columns[i].Name, Op: tablestore.DeleteVersion, Timestamp: 1},
			} {
				c.Columns[i] = col
				if got := stage.items(5, keys, records, []core.Record{record(c)})[0]; !got.foreign {
					t.Errorf("%v, column %s %s: taken for %v", kind, col.Name, what, got.id)
				}
			}
		}
	}
	id := recordID{3, 1000}
	if got := stage.items(5, keys, records, []core.Record{record(changeOf(5, id, 1e15))})[0]; !got.foreign {
		t.Errorf("a number that there is not is taken for %v", got.id)
	}
}
