package dynamodb

import (
	"slices"
	"time"
)

// table holds the rows of one table. All of it is guarded by Server.mu.
type table struct {
	name, arn, id string
	keys          schema
	attrs         []attributeDefinition
	created       time.Time
	activeAt      time.Time // CREATING before
	settledAt     time.Time // UPDATING before
	billing       billing
	protected     bool
	tags          []tag
	pitr          recovery
	ttl           ttlSpecification

	lag     time.Duration // how long old versions stay readable
	rows    ordered
	indexes []*index
	count   int // items
	bytes   int
	stale   []staleRow // rows with versions that will outlive the lag, by time
}

// row is one key with what was stored under it, oldest first. A nil item
// means there was none.
type row struct {
	pos      string
	versions []version
}

type version struct {
	at   time.Time
	item item
	size int
}

type staleRow struct {
	at  time.Time // the older versions end here
	row *row
}

func (r *row) latest() version {
	if r == nil {
		return version{}
	}
	return r.versions[len(r.versions)-1]
}

// asOf is the version that stood at an instant.
func (r *row) asOf(at time.Time) version {
	for _, v := range slices.Backward(r.versions) {
		if !v.at.After(at) {
			return v
		}
	}
	return version{}
}

func (t *table) status(now time.Time) string {
	switch {
	case now.Before(t.activeAt):
		return "CREATING"
	case now.Before(t.settledAt):
		return "UPDATING"
	}
	return "ACTIVE"
}

// latest is the item stored at a position, or nil.
func (t *table) latest(pos string) item { return t.rows.get(pos).latest().item }

// put stores an item, or removes it when it is nil.
func (t *table) put(now time.Time, pos string, it item) {
	r := t.rows.get(pos)
	if r == nil {
		if it == nil {
			return
		}
		r = &row{pos: pos}
		t.rows.insert(pos, r)
	} else {
		old := r.latest()
		if old.item != nil {
			t.count--
			t.bytes -= old.size
		} else if it == nil {
			return
		}
	}
	v := version{now, it, it.size()}
	r.versions = append(r.versions, v)
	if it != nil {
		t.count++
		t.bytes += v.size
		for _, x := range t.indexes {
			if p, ok := x.position(it, pos); ok {
				x.entries.insert(p, r)
			}
		}
	}
	if t.lag > 0 {
		t.stale = append(t.stale, staleRow{now.Add(t.lag), r})
		return
	}
	t.prune(r, now)
}

// settle drops what time has made unreachable.
func (t *table) settle(now time.Time) {
	n := 0
	for ; n < len(t.stale) && !t.stale[n].at.After(now); n++ {
		t.prune(t.stale[n].row, now)
	}
	t.stale = slices.Delete(t.stale, 0, n)
	t.indexes = slices.DeleteFunc(t.indexes, func(x *index) bool {
		return !x.goneAt.IsZero() && !now.Before(x.goneAt)
	})
}

// prune drops the versions no read can see any more, and with them the index
// entries only they stood for.
func (t *table) prune(r *row, now time.Time) {
	horizon := now.Add(-t.lag)
	n := 0
	for n+1 < len(r.versions) && !r.versions[n+1].at.After(horizon) {
		n++
	}
	gone, kept := r.versions[:n], r.versions[n:]
	for _, x := range t.indexes {
		for _, v := range gone {
			p, ok := x.position(v.item, r.pos)
			if ok && !slices.ContainsFunc(kept, func(k version) bool { q, ok := x.position(k.item, r.pos); return ok && q == p }) {
				x.entries.remove(p)
			}
		}
	}
	if len(kept) == 1 && kept[0].item == nil && !kept[0].at.After(horizon) {
		t.rows.remove(r.pos)
	}
	if n > 0 {
		r.versions = slices.Clone(kept)
	}
}

// index finds a secondary index by name.
func (t *table) index(name string) *index {
	for _, x := range t.indexes {
		if x.name == name {
			return x
		}
	}
	return nil
}

// checkItem refuses an item whose key attributes, the table's or an index's,
// are missing or wrong.
func (t *table) checkItem(it item) error {
	if err := t.keys.check(it, ""); err != nil {
		return err
	}
	for _, x := range t.indexes {
		if err := x.keys.check(it, x.name); err != nil {
			return err
		}
	}
	return nil
}

// index is a global secondary index: sparse, and as stale as reads may be.
type index struct {
	name       string
	keys       schema
	projection projectionDescription
	billing    billing
	backfillAt time.Time // resources are allocated before
	activeAt   time.Time // CREATING before
	goneAt     time.Time // when not zero: DELETING until then
	entries    ordered
}

func (x *index) status(now time.Time) string {
	switch {
	case !x.goneAt.IsZero():
		return "DELETING"
	case now.Before(x.activeAt):
		return "CREATING"
	}
	return "ACTIVE"
}

// position is where the index keeps an item; ok is false for an item it does
// not hold.
func (x *index) position(it item, base string) (string, bool) {
	h, ok := it[x.keys.hash]
	if !ok || h.kind != x.keys.hashKind {
		return "", false
	}
	p := partition(h)
	if x.keys.rng != "" {
		r, ok := it[x.keys.rng]
		if !ok || r.kind != x.keys.rngKind {
			return "", false // also an item older than the index, which cannot take it
		}
		p += escaped(sortable(r))
	}
	return p + base, true
}

// project is what the index keeps of an item.
func (x *index) project(it item, base schema) item {
	if x.projection.ProjectionType == "ALL" {
		return it
	}
	out := base.of(it)
	for _, a := range slices.Concat(x.keys.attributes(), x.projection.NonKeyAttributes) {
		if v, ok := it[a]; ok {
			out[a] = v
		}
	}
	return out
}

// projects reports whether the index keeps an attribute.
func (x *index) projects(attr string, base schema) bool {
	return x.projection.ProjectionType == "ALL" ||
		slices.Contains(slices.Concat(x.keys.attributes(), base.attributes(), x.projection.NonKeyAttributes), attr)
}

// fill puts the rows of a table into a new index.
func (x *index) fill(t *table) {
	for _, e := range t.rows.entries {
		for _, v := range e.row.versions {
			if p, ok := x.position(v.item, e.pos); ok {
				x.entries.insert(p, e.row)
			}
		}
	}
}
