package tablestore

import (
	"math"
	"slices"

	pb "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"

	"github.com/shardwarden/shardwarden/internal/plainbuffer"
)

// selection is what a read wants of each row.
type selection struct {
	columns    map[string]bool // nil: all
	from, to   *string         // column names, to excluded
	low, high  int64           // ms, high excluded
	versions   int
	filter     filter
	pagination *pb.ColumnPaginationFilter
}

// selecting is the part that the requests of reads share.
type selecting interface {
	GetColumnsToGet() []string
	GetTimeRange() *pb.TimeRange
	GetMaxVersions() int32
	GetFilter() []byte
}

func newSelection(in selecting, from, to *string) (*selection, error) {
	s := &selection{from: from, to: to, low: math.MinInt64, high: math.MaxInt64, versions: int(in.GetMaxVersions())}
	for _, name := range in.GetColumnsToGet() {
		if name == "" {
			return nil, invalid("A column to get has no name.")
		}
		if s.columns == nil {
			s.columns = map[string]bool{}
		}
		s.columns[name] = true
	}
	switch r := in.GetTimeRange(); {
	case r == nil && s.versions == 0:
		return nil, invalid("No version condition is specified while querying row.")
	case r == nil:
	case r.SpecificTime != nil && r.StartTime == nil && r.EndTime == nil && *r.SpecificTime < math.MaxInt64:
		s.low, s.high = *r.SpecificTime, *r.SpecificTime+1
	case r.SpecificTime == nil && r.StartTime != nil && r.EndTime != nil && *r.StartTime < *r.EndTime:
		s.low, s.high = *r.StartTime, *r.EndTime
	default:
		return nil, invalid("Invalid time range: %v.", r)
	}
	if s.versions < 0 {
		return nil, invalid("Invalid max versions: %d.", s.versions)
	}
	if s.versions == 0 {
		s.versions = math.MaxInt
	}
	var err error
	s.filter, s.pagination, err = parseFilter(in.GetFilter())
	return s, err
}

// of gives the cells of a row that were asked for. It is false for a row that is to be treated as absent: its filter
// does not hold, or it has none of the columns that were named.
func (s *selection) of(t *table, r *row) ([]plainbuffer.Cell, bool) {
	var chosen row
	chosen.key = r.key
	for _, c := range r.columns {
		if s.columns != nil && !s.columns[c.name] || s.from != nil && c.name < *s.from || s.to != nil && c.name >= *s.to {
			continue
		}
		var versions []version
		for _, v := range c.versions {
			if v.time >= s.low && v.time < s.high && len(versions) < s.versions {
				versions = append(versions, v)
			}
		}
		if len(versions) > 0 {
			chosen.columns = append(chosen.columns, column{c.name, versions})
		}
	}
	if s.columns != nil && len(chosen.columns) == 0 &&
		!slices.ContainsFunc(t.keys, func(k keyColumn) bool { return s.columns[k.name] }) {
		return nil, false
	}
	// A filter sees what was chosen: its columns must be among those to get.
	if s.filter != nil && !s.filter(t.lookup(&chosen)) {
		return nil, false
	}
	if p := s.pagination; p != nil {
		n := len(chosen.columns)
		from := min(int(p.GetOffset()), n)
		chosen.columns = chosen.columns[from:min(from+int(p.GetLimit()), n)]
	}
	return chosen.cells(), true
}

func (r *row) cells() []plainbuffer.Cell {
	var out []plainbuffer.Cell
	for _, c := range r.columns {
		for _, v := range c.versions {
			out = append(out, plainbuffer.Cell{Name: []byte(c.name), Value: v.value, HasTimestamp: true, Timestamp: v.time})
		}
	}
	return out
}

func getRow(w *work, in *pb.GetRowRequest) (message, error) {
	if in.TransactionId != nil {
		return nil, notHere("local transactions (transaction_id)")
	}
	if len(in.GetToken()) > 0 {
		return nil, invalid("Invalid token.") // none is ever given
	}
	t, err := w.open(in.GetTableName())
	if err != nil {
		return nil, err
	}
	s, err := newSelection(in, in.StartColumn, in.EndColumn)
	if err != nil {
		return nil, err
	}
	row, cost, err := w.getOne(t, in.GetPrimaryKey(), s)
	if err != nil {
		return nil, err
	}
	return &pb.GetRowResponse{Consumed: cost, Row: row}, nil
}

// getOne gives the buffer of one row: of no bytes, but not nil, if it is absent.
func (w *work) getOne(t *table, data []byte, s *selection) ([]byte, *pb.ConsumedCapacity, error) {
	k, err := t.decodeKey(data, exactKey)
	if err != nil {
		return nil, nil, err
	}
	r := t.at(k, w.now.UnixMilli())
	if r == nil {
		return []byte{}, consumed(1, 0), nil
	}
	cells, ok := s.of(t, r)
	if !ok {
		return []byte{}, consumed(1, 0), nil
	}
	out := plainbuffer.Encode(plainbuffer.Row{PrimaryKey: t.keyCells(k), Cells: cells})
	return out, consumed(units(r.size()), 0), nil
}

func getRange(w *work, in *pb.GetRangeRequest) (message, error) {
	switch {
	case in.TransactionId != nil:
		return nil, notHere("local transactions (transaction_id)")
	case len(in.GetToken()) > 0:
		return nil, invalid("Invalid token.") // none is ever given
	case !in.GetReturnEntirePrimaryKeys():
		return nil, notHere("return_entire_primary_keys false")
	case in.Limit != nil && in.GetLimit() < 1:
		return nil, invalid("The limit must be greater than 0.")
	}
	t, err := w.open(in.GetTableName())
	if err != nil {
		return nil, err
	}
	s, err := newSelection(in, in.StartColumn, in.EndColumn)
	if err != nil {
		return nil, err
	}
	from, err := t.decodeKey(in.GetInclusiveStartPrimaryKey(), boundKey)
	if err != nil {
		return nil, err
	}
	to, err := t.decodeKey(in.GetExclusiveEndPrimaryKey(), boundKey)
	if err != nil {
		return nil, err
	}
	forward := in.GetDirection() == pb.Direction_FORWARD
	if c := compareKeys(from, to); forward && c > 0 || !forward && c < 0 {
		return nil, invalid("Begin key must be less than end key in FORWARD, and greater in BACKWARD.")
	}
	limit := math.MaxInt
	if in.Limit != nil {
		limit = int(in.GetLimit())
	}
	scan := w.config.PageRows
	if w.fx.page > 0 {
		scan = min(scan, w.fx.page)
	}
	rows, next, size := w.scan(t, from, to, forward, limit, scan, s)
	out := &pb.GetRangeResponse{Consumed: consumed(units(size), 0), Rows: []byte{}}
	if len(rows) > 0 {
		out.Rows = plainbuffer.Encode(rows...)
	}
	if next != nil {
		out.NextStartPrimaryKey = t.encodeKey(next)
	}
	if in.DataBlockTypeHint != nil { // a hint: the answer says what it is
		out.DataBlockType = pb.DataBlockType_DBT_PLAIN_BUFFER.Enum()
	}
	return out, nil
}

// scan reads from one key to before another: limit rows that were asked for, looking at no more than most. next is
// where to go on; nil: all was seen.
func (w *work) scan(t *table, from, to key, forward bool, limit, most int, s *selection) (rows []plainbuffer.Row, next key, size int) {
	ms := w.now.UnixMilli()
	var keys []key // of the range, one more than may be looked at; reading a row may remove it
	if forward {
		for i, _ := t.rows.search(from); i < len(t.rows) && len(keys) <= most && compareKeys(t.rows[i].key, to) < 0; i++ {
			keys = append(keys, t.rows[i].key)
		}
	} else {
		i, exact := t.rows.search(from)
		if !exact {
			i--
		}
		for ; i >= 0 && len(keys) <= most && compareKeys(t.rows[i].key, to) > 0; i-- {
			keys = append(keys, t.rows[i].key)
		}
	}
	for n, k := range keys {
		if len(rows) >= limit || n >= most || size >= w.config.PageBytes {
			return rows, k, size
		}
		r := t.at(k, ms)
		if r == nil {
			continue
		}
		size += r.size()
		if cells, ok := s.of(t, r); ok {
			rows = append(rows, plainbuffer.Row{PrimaryKey: t.keyCells(k), Cells: cells})
		}
	}
	return rows, nil, size
}
