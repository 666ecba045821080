package tablestore

import (
	"cmp"
	"slices"
	"strings"

	"github.com/shardwarden/shardwarden/internal/plainbuffer"
)

// row is a row of a table. A row may be there without columns.
type row struct {
	key     key
	columns []column // by name
	touched int64    // ms; when it was made or put: what time to live counts from for a row without columns
}

// column is an attribute column with its versions, the newest first.
type column struct {
	name     string
	versions []version
}

type version struct {
	time  int64 // ms
	value plainbuffer.Value
}

func (r *row) find(name string) (int, bool) {
	return slices.BinarySearchFunc(r.columns, name, func(c column, n string) int { return strings.Compare(c.name, n) })
}

func (r *row) versions(name string) []version {
	if r == nil {
		return nil
	}
	if i, ok := r.find(name); ok {
		return r.columns[i].versions
	}
	return nil
}

// set writes a version, replacing one of the same time, and keeps the newest keep of them.
func (r *row) set(name string, v version, keep int) {
	i, ok := r.find(name)
	if !ok {
		r.columns = slices.Insert(r.columns, i, column{name: name})
	}
	c := &r.columns[i]
	at, same := slices.BinarySearchFunc(c.versions, v.time, func(w version, t int64) int { return cmp.Compare(t, w.time) })
	if same {
		c.versions[at] = v
	} else {
		c.versions = slices.Insert(c.versions, at, v)
	}
	if len(c.versions) > keep {
		c.versions = c.versions[:keep]
	}
}

// remove deletes the versions for which gone holds, and the column with the last of them.
func (r *row) remove(name string, gone func(version) bool) {
	i, ok := r.find(name)
	if !ok {
		return
	}
	c := &r.columns[i]
	c.versions = slices.DeleteFunc(c.versions, gone)
	if len(c.versions) == 0 {
		r.columns = slices.Delete(r.columns, i, i+1)
	}
}

// clone is a row of its own; values are never changed, so they are shared.
func (r *row) clone() *row {
	out := &row{key: r.key, touched: r.touched, columns: slices.Clone(r.columns)}
	for i, c := range out.columns {
		out.columns[i].versions = slices.Clone(c.versions)
	}
	return out
}

// size is what capacity units count.
func (r *row) size() int {
	n := 0
	for _, v := range r.key {
		n += v.Size()
	}
	for _, c := range r.columns {
		for _, v := range c.versions {
			n += len(c.name) + v.value.Size() + 8
		}
	}
	return n
}

// rowSet is the rows of a table in the order of their keys.
type rowSet []*row

func (rs rowSet) search(k key) (int, bool) {
	return slices.BinarySearchFunc(rs, k, func(r *row, k key) int { return compareKeys(r.key, k) })
}

func (rs rowSet) get(k key) *row {
	if i, ok := rs.search(k); ok {
		return rs[i]
	}
	return nil
}

func (rs *rowSet) put(r *row) {
	i, ok := rs.search(r.key)
	if ok {
		(*rs)[i] = r
		return
	}
	*rs = slices.Insert(*rs, i, r)
}

func (rs *rowSet) remove(k key) {
	if i, ok := rs.search(k); ok {
		*rs = slices.Delete(*rs, i, i+1)
	}
}
