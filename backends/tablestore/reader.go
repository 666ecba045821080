package demo

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/shardwarden/shardwarden/backends/tablestore"
)

// keeper is a stage whose records are changes of rows: a replica of them can be built from what handlers were given.
type keeper interface {
	// rows reads what is in the table, past the engine and the stream.
	rows(ctx context.Context) (map[string]row, error)
}

// row is a row by column.
type row map[string]cell

type cell struct {
	value   any
	version int64
}

// replica is a copy of a table, built from changes as handlers had them: at least once, and some of them late, from a worker that had lost the
// shard. A change that is not newer than what its row has is left out. Safe for concurrent use.
type replica struct {
	mu   sync.Mutex
	rows map[string]row
	last map[string]string // by row, also of deleted ones: the sequence of its latest change
}

func newReplica() *replica { return &replica{rows: map[string]row{}, last: map[string]string{}} }

func (r *replica) apply(records []item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, it := range records {
		c := it.change
		if c == nil {
			continue
		}
		key := c.KeyText()
		if it.sequence <= r.last[key] {
			continue
		}
		r.last[key] = it.sequence
		switch c.Type {
		case tablestore.Delete:
			delete(r.rows, key)
			continue
		case tablestore.Put:
			r.rows[key] = row{}
		}
		if r.rows[key] == nil {
			r.rows[key] = row{} // an update of a row that is not there makes it
		}
		for _, col := range c.Columns {
			if col.Op == tablestore.PutColumn {
				r.rows[key][col.Name] = cell{col.Value, col.Timestamp}
			} else {
				delete(r.rows[key], col.Name)
			}
		}
	}
}

// comparison is what came of a replica beside its table.
type comparison struct {
	rows, wrong int    // rows of the table; and rows that only one of the two has, or that differ
	example     string // of one that is wrong
}

func (r *replica) compare(table map[string]row) comparison {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := comparison{rows: len(table)}
	wrong := func(format string, args ...any) {
		if out.wrong++; out.wrong == 1 {
			out.example = fmt.Sprintf(format, args...)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		mine, ok := r.rows[key]
		switch {
		case !ok:
			wrong("the table has a row %s, the replica has not", key)
		default:
			if name, differs := differing(table[key], mine); differs {
				wrong("column %s of row %s is %v in the table, %v in the replica", name, key, table[key].show(name), mine.show(name))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.rows)) {
		if _, ok := table[key]; !ok {
			wrong("the replica has a row %s, the table has not", key)
		}
	}
	return out
}

// differing finds the first column that is not the same in two rows.
func differing(a, b row) (name string, differs bool) {
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !reflect.DeepEqual(a[name], b[name]) {
			return name, true
		}
	}
	return "", false
}

// show is a column as people read it.
func (r row) show(name string) string {
	c, ok := r[name]
	if !ok {
		return "missing"
	}
	return fmt.Sprintf("%v (version %d)", c.value, c.version)
}
