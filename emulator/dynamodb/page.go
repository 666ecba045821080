package dynamodb

import (
	"maps"
	"slices"
	"sort"
	"strings"
	"time"
)

// maxPage is the service's limit on what one Scan or Query looks at, in bytes.
const maxPage = 1 << 20

// paging are the parameters that Scan and Query share.
type paging struct {
	TableName                 tableName
	IndexName                 string
	Limit                     *int
	ExclusiveStartKey         item
	Select                    string
	ConsistentRead            bool
	FilterExpression          *string
	ExpressionAttributeValues item
	ConditionalOperator       string
	projecting
	metering

	filter     condition
	filterUses []string // top-level attributes of the filter
	cap        int      // rows a page, by fault; 0 is no cap
}

func (r *paging) capPage(n int) { r.cap = n }

func (r *paging) touches() []touch { return []touch{{string(r.TableName), r.IndexName, nil}} }

// parse checks the shared parameters. legacyName and legacy are the filter
// in its old form; more parses further expressions in the same scope.
func (r *paging) parse(legacyName string, legacy map[string]legacyFilter, moreLegacy, moreExpressions []string, more func(*scope) error) error {
	if err := r.TableName.check(); err != nil {
		return err
	}
	if r.IndexName != "" {
		if err := checkName("indexName", r.IndexName); err != nil {
			return err
		}
	}
	if r.Limit != nil && *r.Limit < 1 {
		return constraint("'"+itoa(*r.Limit)+"'", "limit", "Member must have value greater than or equal to 1")
	}
	if err := oneOf("select", r.Select, "SPECIFIC_ATTRIBUTES", "COUNT", "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES"); err != nil {
		return err
	}
	if err := r.checkCapacity(); err != nil {
		return err
	}
	if err := noMix(
		append(given("AttributesToGet", r.AttributesToGet != nil, legacyName, legacy != nil, "ConditionalOperator", r.ConditionalOperator != ""), moreLegacy...),
		append(given("ProjectionExpression", r.ProjectionExpression != nil, "FilterExpression", r.FilterExpression != nil), moreExpressions...)); err != nil {
		return err
	}
	if err := r.checkSelect(); err != nil {
		return err
	}
	sc, err := newScope(r.ExpressionAttributeNames, r.ExpressionAttributeValues)
	if err != nil {
		return err
	}
	if more != nil {
		if err := more(sc); err != nil {
			return err
		}
	}
	if r.FilterExpression != nil {
		if r.filter, err = parse(sc, "FilterExpression", *r.FilterExpression, orRule); err != nil {
			return err
		}
		r.filterUses = sc.attributes
	}
	if err := r.projecting.parse(sc); err != nil {
		return err
	}
	if legacy == nil {
		if r.ConditionalOperator != "" {
			return invalid("ConditionalOperator cannot be used without Filter or Expected")
		}
		return sc.done()
	}
	r.filter, err = filterCondition(legacy, r.ConditionalOperator)
	for attr := range legacy {
		r.filterUses = append(r.filterUses, attr)
	}
	return err
}

func (r *paging) checkSelect() error {
	picks := r.ProjectionExpression != nil || r.AttributesToGet != nil
	switch {
	case r.Select == "SPECIFIC_ATTRIBUTES" && !picks:
		return invalid("Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")
	case r.Select == "COUNT" && picks:
		return invalid("Cannot specify the AttributesToGet or ProjectionExpression when choosing to get only the Count")
	case (r.Select == "ALL_ATTRIBUTES" || r.Select == "ALL_PROJECTED_ATTRIBUTES") && picks:
		return invalid("Cannot specify the AttributesToGet or ProjectionExpression when choosing to get %s", r.Select)
	case r.Select == "ALL_PROJECTED_ATTRIBUTES" && r.IndexName == "":
		return badValue("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")
	}
	return nil
}

// view is a table, or one of its indexes, as one request sees it.
type view struct {
	t       *table
	x       *index // nil: the table itself
	keys    schema
	entries []entry
	at      time.Time
}

// view opens what the request reads. The caller holds mu.
func (s *Server) view(r *paging) (v view, err error) {
	now := time.Now()
	if v.t, err = s.open(string(r.TableName), now); err != nil {
		return
	}
	if r.IndexName == "" {
		v.keys, v.entries = v.t.keys, v.t.rows.entries
		v.at = s.instant(now, r.ConsistentRead)
		return
	}
	v.x = v.t.index(r.IndexName)
	switch {
	case v.x == nil:
		return v, invalid("The table does not have the specified index: %s", r.IndexName)
	case r.ConsistentRead:
		return v, invalid("Consistent reads are not supported on global secondary indexes")
	case v.x.status(now) != "ACTIVE":
		return v, invalid("Cannot read from backfilling global secondary index: %s", r.IndexName)
	case r.Select == "ALL_ATTRIBUTES" && v.x.projection.ProjectionType != "ALL":
		return v, badValue("Select type ALL_ATTRIBUTES is not supported for global secondary index %s because its projection type is not ALL", r.IndexName)
	}
	for _, p := range r.paths {
		if !v.x.projects(p[0].name, v.t.keys) {
			return v, badValue("Global secondary index %s does not project [%s]", r.IndexName, p[0].name)
		}
	}
	v.keys, v.entries = v.x.keys, v.x.entries.entries
	v.at = s.instant(now, false)
	return
}

// item is what the view shows for an entry, and its size; nil if nothing.
func (v view) item(e entry) (item, int) {
	ver := e.row.asOf(v.at)
	if ver.item == nil || v.x == nil {
		return ver.item, ver.size
	}
	if p, ok := v.x.position(ver.item, e.row.pos); !ok || p != e.pos {
		return nil, 0 // the entry stands for an older or newer version
	}
	it := v.x.project(ver.item, v.t.keys)
	return it, it.size()
}

// lastKey is the LastEvaluatedKey for an item.
func (v view) lastKey(it item) item {
	key := v.t.keys.of(it)
	if v.x != nil {
		maps.Copy(key, v.x.keys.of(it))
	}
	return key
}

// start is the position an ExclusiveStartKey means.
func (v view) start(key item) (string, error) {
	bad := invalid("The provided starting key is invalid")
	base, ok := v.t.keys.position(key)
	if !ok || v.t.keys.checkKey(v.t.keys.of(key)) != nil {
		return "", bad
	}
	pos := base
	if v.x != nil {
		if pos, ok = v.x.position(key, base); !ok {
			return "", bad
		}
	}
	if len(v.lastKey(key)) != len(key) {
		return "", bad
	}
	return pos, nil
}

// under narrows the view to the entries of one hash key.
func (v view) under(h value) view {
	prefix := partition(h)
	from := sort.Search(len(v.entries), func(i int) bool { return v.entries[i].pos >= prefix })
	rest := v.entries[from:]
	v.entries = rest[:sort.Search(len(rest), func(i int) bool { return !strings.HasPrefix(rest[i].pos, prefix) })]
	return v
}

// page is one answer of Scan or Query before filtering.
type page struct {
	items []item
	bytes int
	last  item // nil: nothing is left
}

// walk looks at entries after a position ("" is from the start) until the
// page is full. match says which items belong to the request at all.
func (v view) walk(r *paging, after string, backward bool, match func(pos string, it item) bool) page {
	entries := v.entries
	if after != "" {
		if backward {
			entries = entries[:sort.Search(len(entries), func(i int) bool { return entries[i].pos >= after })]
		} else {
			entries = entries[sort.Search(len(entries), func(i int) bool { return entries[i].pos > after }):]
		}
	}
	var p page
	for i := range entries {
		e := entries[i]
		if backward {
			e = entries[len(entries)-1-i]
		}
		it, size := v.item(e)
		if it == nil || !match(e.pos, it) {
			continue
		}
		if n := len(p.items); n > 0 && (p.bytes+size > maxPage || r.cap > 0 && n >= r.cap) {
			p.last = v.lastKey(p.items[n-1])
			return p
		}
		p.items = append(p.items, it)
		p.bytes += size
		// At its Limit the service answers a LastEvaluatedKey without looking
		// whether anything follows.
		if r.Limit != nil && len(p.items) == *r.Limit {
			p.last = v.lastKey(it)
			return p
		}
	}
	return p
}

// answer filters and projects a page.
func (r *paging) answer(p page) obj {
	items := p.items
	if r.filter != nil {
		items = slices.DeleteFunc(slices.Clone(items), func(it item) bool { return !r.filter.holds(it) })
	}
	if r.paths != nil {
		picked := make([]item, len(items))
		for i, it := range items {
			picked[i] = r.of(it)
		}
		items = picked
	}
	if items == nil {
		items = []item{}
	}
	u := usage{table: string(r.TableName), units: readUnits(p.bytes, r.ConsistentRead)}
	if r.IndexName != "" {
		u.indexes, u.units = map[string]float64{r.IndexName: u.units}, 0
	}
	return r.one(obj{{"Count", len(items)}, {"ScannedCount", len(p.items)}}.
		with(r.Select != "COUNT", "Items", items).
		with(p.last != nil, "LastEvaluatedKey", p.last), u)
}
