package tablestore

import (
	"math"

	pb "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"

	"github.com/shardwarden/shardwarden/internal/plainbuffer"
)

const (
	maxColumns    = 1024    // of one write
	maxColumnName = 255     // bytes
	maxValueSize  = 2 << 20 // bytes of a string or blob
)

// write is a change of one row.
type write struct {
	kind      pb.OperationType
	data      []byte
	condition *pb.Condition
	returns   *pb.ReturnContent
}

// written is what a write answers.
type written struct {
	row      []byte // nil: nothing was asked for
	consumed *pb.ConsumedCapacity
}

func putRow(w *work, in *pb.PutRowRequest) (message, error) {
	out, err := w.writeOne(in.GetTableName(), in.TransactionId, write{pb.OperationType_PUT, in.GetRow(), in.GetCondition(), in.GetReturnContent()})
	if err != nil {
		return nil, err
	}
	return &pb.PutRowResponse{Consumed: out.consumed, Row: out.row}, nil
}

func updateRow(w *work, in *pb.UpdateRowRequest) (message, error) {
	out, err := w.writeOne(in.GetTableName(), in.TransactionId, write{pb.OperationType_UPDATE, in.GetRowChange(), in.GetCondition(), in.GetReturnContent()})
	if err != nil {
		return nil, err
	}
	return &pb.UpdateRowResponse{Consumed: out.consumed, Row: out.row}, nil
}

func deleteRow(w *work, in *pb.DeleteRowRequest) (message, error) {
	out, err := w.writeOne(in.GetTableName(), in.TransactionId, write{pb.OperationType_DELETE, in.GetPrimaryKey(), in.GetCondition(), in.GetReturnContent()})
	if err != nil {
		return nil, err
	}
	return &pb.DeleteRowResponse{Consumed: out.consumed, Row: out.row}, nil
}

func (w *work) writeOne(name string, transaction *string, wr write) (written, error) {
	if transaction != nil {
		return written{}, notHere("local transactions (transaction_id)")
	}
	t, err := w.open(name)
	if err != nil {
		return written{}, err
	}
	return w.write(t, wr, w.stampFor(t))
}

// write checks one change and carries it out.
func (w *work) write(t *table, wr write, at stamp) (written, error) {
	var change plainbuffer.Row
	if err := decodeRow(wr.data, &change); err != nil {
		return written{}, err
	}
	if change.HasSequence || change.Deleted != (wr.kind == pb.OperationType_DELETE) {
		return written{}, invalid("The row of a %v has a sequence, or a delete marker where there must be none, or none where there must be one.", wr.kind)
	}
	use := exactKey
	if wr.kind == pb.OperationType_PUT {
		use = putKey
	}
	k, err := t.keyOf(change.PrimaryKey, use)
	if err != nil {
		return written{}, err
	}
	ms := w.now.UnixMilli()
	if err := t.checkCells(wr.kind, change.Cells, ms); err != nil {
		return written{}, err
	}
	for i, v := range k {
		if v.Kind != plainbuffer.AutoIncrement {
			continue
		}
		if wr.condition.GetRowExistence() != pb.RowExistenceExpectation_IGNORE {
			return written{}, invalid("A row with an AUTO_INCREMENT key is always new: its row existence expectation must be IGNORE.")
		}
		t.lastAuto = max(t.lastAuto+1, w.now.UnixMicro())
		k[i] = plainbuffer.IntegerValue(t.lastAuto)
	}
	before := t.at(k, ms)
	if err := t.meets(wr.condition, before); err != nil {
		return written{}, err
	}
	k = k.clone()
	after, cells, err := t.change(wr.kind, k, before, change.Cells, ms)
	if err != nil {
		return written{}, err
	}
	if t.stream != nil {
		w.record(t, wr.kind, k, cells, before, at)
	}
	switch {
	case wr.kind == pb.OperationType_DELETE:
		t.rows.remove(k)
	case after != nil:
		t.rows.put(after)
	}
	return t.answer(wr, k, before, after, cells)
}

// checkCells refuses cells that don't suit the kind of write, and values that are too large.
func (t *table) checkCells(kind pb.OperationType, cells []plainbuffer.Cell, ms int64) error {
	if len(cells) > maxColumns {
		return fail("OTSOutOfColumnCountLimit", "The number of attribute columns exceeds the limit, limit count: %d, column count: %d.", maxColumns, len(cells))
	}
	switch kind {
	case pb.OperationType_DELETE:
		if len(cells) > 0 {
			return invalid("DeleteRow deletes whole rows, but %d columns are given.", len(cells))
		}
	case pb.OperationType_UPDATE:
		if len(cells) == 0 {
			return invalid("No attribute column is specified in UpdateRow.")
		}
	}
	for _, c := range cells {
		if len(c.Name) == 0 || len(c.Name) > maxColumnName {
			return invalid("The length of column name: '%s' must be in range: [1, %d].", c.Name, maxColumnName)
		}
		if _, ok := t.isKey(string(c.Name)); ok {
			return invalid("Column '%s' belongs to the primary key and can't be an attribute column.", c.Name)
		}
		if kind == pb.OperationType_PUT && c.Op != plainbuffer.Put {
			return invalid("Column '%s' of PutRow deletes or increments; that is for UpdateRow.", c.Name)
		}
		hasValue := c.Value.Kind != plainbuffer.None
		fits := true
		switch c.Op {
		case plainbuffer.Put:
			fits = hasValue
		case plainbuffer.DeleteAllVersions:
			fits = !hasValue && !c.HasTimestamp
		case plainbuffer.DeleteOneVersion:
			fits = !hasValue && c.HasTimestamp
		case plainbuffer.Increment:
			fits = c.Value.Kind == plainbuffer.Integer && !c.HasTimestamp
		}
		if !fits {
			return invalid("Column '%s': value and timestamp don't fit operation %#02x.", c.Name, byte(c.Op))
		}
		switch c.Value.Kind {
		case plainbuffer.InfMin, plainbuffer.InfMax, plainbuffer.AutoIncrement:
			return invalid("Column '%s' can't be %v.", c.Name, c.Value)
		}
		if n := c.Value.Size(); n > maxValueSize {
			return invalid("The length of attribute column: '%s' exceeds the MaxLength: %d with CurrentLength: %d.", c.Name, maxValueSize, n)
		}
		if c.Op == plainbuffer.Put && c.HasTimestamp {
			deviation := t.options.GetDeviationCellVersionInSec() * 1000
			low, high := max(ms-deviation, t.horizon(ms), 0), int64(math.MaxInt64)
			if deviation < math.MaxInt64-ms {
				high = ms + deviation
			}
			if c.Timestamp < low || c.Timestamp > high {
				return invalid("Invalid timestamp. Cell:%s. Timestamp:%d. MinTimestamp:%d. MaxTimestamp:%d.", c.Name, c.Timestamp, low, high)
			}
		}
	}
	return nil
}

// change gives the row as it is after the write (nil: there is still none), and the cells that tell of it in a stream:
// with the times that the service chose, and increments as what came out of them.
func (t *table) change(kind pb.OperationType, k key, before *row, cells []plainbuffer.Cell, ms int64) (*row, []plainbuffer.Cell, error) {
	if kind == pb.OperationType_DELETE {
		return nil, nil, nil
	}
	after := &row{key: k, touched: ms}
	if kind == pb.OperationType_UPDATE && before != nil {
		after = before.clone()
	}
	keep := int(t.options.GetMaxVersions())
	out := make([]plainbuffer.Cell, len(cells))
	puts := kind == pb.OperationType_PUT
	for i, c := range cells {
		name := string(c.Name)
		o := plainbuffer.Cell{Name: []byte(name), Value: c.Value.Clone(), Op: c.Op, HasTimestamp: c.HasTimestamp, Timestamp: c.Timestamp}
		switch c.Op {
		case plainbuffer.DeleteAllVersions:
			after.remove(name, func(version) bool { return true })
		case plainbuffer.DeleteOneVersion:
			after.remove(name, func(v version) bool { return v.time == c.Timestamp })
		default:
			puts = true
			if c.Op == plainbuffer.Increment {
				sum, err := increment(name, after.versions(name), c.Value.Int())
				if err != nil {
					return nil, nil, err
				}
				o.Op, o.Value = plainbuffer.Put, plainbuffer.IntegerValue(sum)
			}
			if !o.HasTimestamp {
				o.HasTimestamp, o.Timestamp = true, ms
			}
			after.set(name, version{o.Timestamp, o.Value}, keep)
		}
		out[i] = o
	}
	if before == nil && !puts { // an update that only deletes does not make a row
		return nil, out, nil
	}
	return after, out, nil
}

func increment(name string, have []version, by int64) (int64, error) {
	if len(have) == 0 {
		return by, nil
	}
	if k := have[0].value.Kind; k != plainbuffer.Integer {
		return 0, invalid("Column '%s' can't be incremented: its type is %v.", name, k)
	}
	n := have[0].value.Int()
	if by > 0 && n > math.MaxInt64-by || by < 0 && n < math.MinInt64-by {
		return 0, invalid("Column '%s': %d incremented by %d is too large.", name, n, by)
	}
	return n + by, nil
}

// answer gives the columns that a write was asked to return, and its cost.
func (t *table) answer(wr write, k key, before, after *row, cells []plainbuffer.Cell) (written, error) {
	size := 0
	for _, v := range k {
		size += v.Size()
	}
	for _, c := range cells {
		size += len(c.Name) + c.Value.Size()
	}
	reads := 0
	if wr.condition.GetRowExistence() != pb.RowExistenceExpectation_IGNORE || len(wr.condition.GetColumnCondition()) > 0 {
		reads = 1
		if before != nil {
			reads = units(before.size())
		}
	}
	out := written{consumed: consumed(reads, units(size))}
	switch wr.returns.GetReturnType() {
	case pb.ReturnType_RT_NONE:
	case pb.ReturnType_RT_PK:
		out.row = t.encodeKey(k)
	case pb.ReturnType_RT_AFTER_MODIFY:
		r := plainbuffer.Row{PrimaryKey: t.keyCells(k)}
		for _, name := range wr.returns.GetReturnColumnNames() {
			if have := after.versions(name); len(have) > 0 {
				r.Cells = append(r.Cells, plainbuffer.Cell{Name: []byte(name), Value: have[0].value, HasTimestamp: true, Timestamp: have[0].time})
			}
		}
		out.row = plainbuffer.Encode(r)
	}
	return out, nil
}

// units are the capacity units of so many bytes: 4 KiB each, and one at least.
func units(size int) int { return max(1, (size+4095)/4096) }

func consumed(read, write int) *pb.ConsumedCapacity {
	return &pb.ConsumedCapacity{CapacityUnit: &pb.CapacityUnit{Read: new(int32(read)), Write: new(int32(write))}}
}
