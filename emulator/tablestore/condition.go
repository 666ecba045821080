package tablestore

import (
	"slices"

	pb "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"

	"github.com/shardwarden/shardwarden/internal/plainbuffer"
)

// filter decides on a row by its columns. lookup gives the versions of a column, the newest first.
type filter func(lookup func(name string) []version) bool

// maxFilters is how many conditions may be put together.
const maxFilters = 32

// parseFilter makes a filter of its serialized form; nil if there is none. A pagination filter, which picks columns
// instead of rows, is given apart.
func parseFilter(data []byte) (filter, *pb.ColumnPaginationFilter, error) {
	if len(data) == 0 {
		return nil, nil, nil
	}
	var f pb.Filter
	if err := decode(data, &f); err != nil {
		return nil, nil, err
	}
	if f.GetType() == pb.FilterType_FT_COLUMN_PAGINATION {
		var p pb.ColumnPaginationFilter
		if err := decode(f.GetFilter(), &p); err != nil {
			return nil, nil, err
		}
		if p.GetOffset() < 0 || p.GetLimit() < 1 {
			return nil, nil, invalid("Invalid column pagination: offset %d, limit %d.", p.GetOffset(), p.GetLimit())
		}
		return nil, &p, nil
	}
	left := maxFilters
	got, err := makeFilter(&f, &left)
	return got, nil, err
}

func makeFilter(f *pb.Filter, left *int) (filter, error) {
	if *left--; *left < 0 {
		return nil, invalid("The number of filters exceeds the limit: %d.", maxFilters)
	}
	switch f.GetType() {
	case pb.FilterType_FT_SINGLE_COLUMN_VALUE:
		var in pb.SingleColumnValueFilter
		if err := decode(f.GetFilter(), &in); err != nil {
			return nil, err
		}
		return singleFilter(&in)
	case pb.FilterType_FT_COMPOSITE_COLUMN_VALUE:
		var in pb.CompositeColumnValueFilter
		if err := decode(f.GetFilter(), &in); err != nil {
			return nil, err
		}
		return compositeFilter(&in, left)
	}
	return nil, invalid("Filter %v can't stand within another or in a condition.", f.GetType())
}

func singleFilter(in *pb.SingleColumnValueFilter) (filter, error) {
	if in.ValueTransRule != nil {
		return nil, notHere("value_trans_rule in a filter")
	}
	want, err := plainbuffer.DecodeValue(in.GetColumnValue())
	if err != nil {
		return nil, invalid("Invalid value of a filter on column '%s': %v.", in.GetColumnName(), err)
	}
	if slices.Contains([]plainbuffer.Kind{plainbuffer.InfMin, plainbuffer.InfMax, plainbuffer.AutoIncrement}, want.Kind) {
		return nil, invalid("A filter can't compare column '%s' with %v.", in.GetColumnName(), want)
	}
	if in.GetColumnName() == "" {
		return nil, invalid("A filter has no column name.")
	}
	// A decoded value is a view of the request, which outlives the call: nothing keeps the filter.
	return func(lookup func(string) []version) bool {
		have := lookup(in.GetColumnName())
		if len(have) == 0 {
			return !in.GetFilterIfMissing()
		}
		if in.GetLatestVersionOnly() {
			have = have[:1]
		}
		return slices.ContainsFunc(have, func(v version) bool { return holds(in.GetComparator(), v.value, want) })
	}, nil
}

// holds compares a column with a value. One of another type is only unequal.
func holds(op pb.ComparatorType, have, want plainbuffer.Value) bool {
	if have.Kind != want.Kind {
		return op == pb.ComparatorType_CT_NOT_EQUAL
	}
	c := have.Compare(want)
	switch op {
	case pb.ComparatorType_CT_EQUAL:
		return c == 0
	case pb.ComparatorType_CT_NOT_EQUAL:
		return c != 0
	case pb.ComparatorType_CT_GREATER_THAN:
		return c > 0
	case pb.ComparatorType_CT_GREATER_EQUAL:
		return c >= 0
	case pb.ComparatorType_CT_LESS_THAN:
		return c < 0
	default:
		return c <= 0
	}
}

func compositeFilter(in *pb.CompositeColumnValueFilter, left *int) (filter, error) {
	want := 2
	if in.GetCombinator() == pb.LogicalOperator_LO_NOT {
		want = 1
	}
	if n := len(in.GetSubFilters()); n != want {
		return nil, invalid("Filter %v takes %d sub-filters, but has %d.", in.GetCombinator(), want, n)
	}
	var subs []filter
	for _, f := range in.GetSubFilters() {
		sub, err := makeFilter(f, left)
		if err != nil {
			return nil, err
		}
		subs = append(subs, sub)
	}
	switch in.GetCombinator() {
	case pb.LogicalOperator_LO_NOT:
		return func(l func(string) []version) bool { return !subs[0](l) }, nil
	case pb.LogicalOperator_LO_AND:
		return func(l func(string) []version) bool { return subs[0](l) && subs[1](l) }, nil
	default:
		return func(l func(string) []version) bool { return subs[0](l) || subs[1](l) }, nil
	}
}

// meets says whether a row, or nil for none, satisfies the condition of a write: existence first, then its columns. A
// row that is not there has none.
func (t *table) meets(c *pb.Condition, r *row) error {
	f, p, err := parseFilter(c.GetColumnCondition())
	if err != nil {
		return err
	}
	if p != nil {
		return invalid("A column pagination filter can't be the condition of a write.")
	}
	exist := c.GetRowExistence()
	if exist == pb.RowExistenceExpectation_EXPECT_EXIST && r == nil || exist == pb.RowExistenceExpectation_EXPECT_NOT_EXIST && r != nil ||
		f != nil && !f(t.lookup(r)) {
		return fail(codeCondition, "Condition check failed.")
	}
	return nil
}

// lookup finds a row's columns for a filter, those of the primary key too.
func (t *table) lookup(r *row) func(string) []version {
	return func(name string) []version {
		if i, ok := t.isKey(name); ok && r != nil {
			return []version{{value: r.key[i]}}
		}
		return r.versions(name)
	}
}
