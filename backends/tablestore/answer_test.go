package tablestore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"

	"github.com/shardwarden/shardwarden/internal/plainbuffer"
)

// wire is a change as the service sends it.
func wire(c *Change) *otsprotocol.GetStreamRecordResponse_StreamRecord {
	row := plainbuffer.Row{Deleted: c.Type == Delete, HasSequence: true, Sequence: plainbuffer.Sequence{Epoch: c.Sequence.Epoch, Timestamp: c.Sequence.Timestamp, RowIndex: c.Sequence.Row}}
	for _, k := range c.Key {
		row.PrimaryKey = append(row.PrimaryKey, plainbuffer.Key(k.Name, wireValue(k.Value)))
	}
	row.Cells = wireCells(c.Columns)
	out := &otsprotocol.GetStreamRecordResponse_StreamRecord{ActionType: new(otsprotocol.ActionType(c.Type + 1)), Record: plainbuffer.Encode(row)}
	if c.Table != "" {
		out.TableName = []byte(c.Table)
	}
	if c.Old != nil {
		out.OriginRecord = plainbuffer.Encode(plainbuffer.Row{PrimaryKey: row.PrimaryKey, Cells: wireCells(c.Old)})
	}
	return out
}

func wireCells(columns []Column) (cells []plainbuffer.Cell) {
	for _, c := range columns {
		cell := plainbuffer.Cell{Name: []byte(c.Name), HasTimestamp: c.Op != DeleteColumn, Timestamp: c.Timestamp}
		switch c.Op {
		case PutColumn:
			cell.Value = wireValue(c.Value)
		case DeleteVersion:
			cell.Op = plainbuffer.DeleteOneVersion
		case DeleteColumn:
			cell.Op = plainbuffer.DeleteAllVersions
		}
		cells = append(cells, cell)
	}
	return cells
}

func wireValue(v any) plainbuffer.Value {
	switch v := v.(type) {
	case int64:
		return plainbuffer.IntegerValue(v)
	case float64:
		return plainbuffer.DoubleValue(v)
	case bool:
		return plainbuffer.BooleanValue(v)
	case string:
		return plainbuffer.StringValue(v)
	case []byte:
		return plainbuffer.BlobValue(v)
	}
	return plainbuffer.Value{Kind: plainbuffer.InfMin}
}

func wireAnswer(t testing.TB, next string, changes ...*Change) []byte {
	t.Helper()
	out := &otsprotocol.GetStreamRecordResponse{}
	for _, c := range changes {
		out.StreamRecords = append(out.StreamRecords, wire(c))
	}
	if next != "" {
		out.NextShardIterator = &next
	}
	return marshal(out)
}

// everyKind is a change of each sort, with a value of each type.
func everyKind() []*Change {
	wide := &Change{Sequence: Sequence{0, 4, 0}, Key: []KeyColumn{{"id", int64(4)}}}
	for i := range 1000 {
		wide.Columns = append(wide.Columns, Column{Name: fmt.Sprint("column", i), Value: int64(i), Timestamp: int64(i)})
	}
	return []*Change{
		{Type: Put, Sequence: Sequence{1, 1, 2}, Table: "grouped", Key: []KeyColumn{{"i", int64(math.MinInt64)}, {"s", ""}, {"b", []byte{}}}, Columns: []Column{
			{Name: "int", Value: int64(math.MaxInt64), Timestamp: 1}, {Name: "inf", Value: math.Inf(1), Timestamp: 1}, {Name: "double", Value: -0.5, Timestamp: 1},
			{Name: "true", Value: true, Timestamp: 1}, {Name: "false", Value: false, Timestamp: 2}, {Name: "text", Value: "键", Timestamp: 3}, {Name: "empty", Value: []byte{}, Timestamp: 4},
			{Name: "large", Value: bytes.Repeat([]byte{1}, 2<<20), Timestamp: 5},
		}},
		{Type: Update, Sequence: Sequence{1, 2, 0}, Key: []KeyColumn{{"i", int64(1)}}, Columns: []Column{
			{Name: "a", Op: DeleteColumn}, {Name: "b", Op: DeleteVersion, Timestamp: 1000}, {Name: "c", Value: "x", Timestamp: 0}, {Name: "b", Value: int64(1), Timestamp: 1001},
		}, Old: []Column{{Name: "a", Value: "old", Timestamp: 9}}},
		{Type: Update, Sequence: Sequence{1, 2, 1}, Key: []KeyColumn{{"i", int64(1)}}, Old: []Column{}},
		{Type: Delete, Sequence: Sequence{1, 3, 0}, Key: []KeyColumn{{"i", int64(1)}}, Old: []Column{{Name: "a", Value: "x", Timestamp: 1}, {Name: "b", Value: int64(1), Timestamp: 1}}},
		wide,
	}
}

func TestAnswer(t *testing.T) {
	want := everyKind()
	body := wireAnswer(t, "behind", want...)
	a, err := parseAnswer(body)
	if err != nil {
		t.Fatal(err)
	}
	clear(body) // what was decoded owns its memory
	if a.next != "behind" || a.more || len(a.changes) != len(want) {
		t.Fatalf("next %q, more %v, %d changes", a.next, a.more, len(a.changes))
	}
	for i := range want {
		if got := &a.changes[i]; !reflect.DeepEqual(got, want[i]) {
			t.Errorf("change %d:\n%.300v, want\n%.300v", i, got, want[i])
		}
	}
	for _, c := range a.changes {
		for _, cols := range [][]Column{c.Columns, c.Old} {
			if cap(cols) != len(cols) {
				t.Error("appending to columns would overwrite those of another change")
			}
		}
	}
}

// A cell says how it deletes by what it has; the byte that says it too may be missing, as in older services, but not contradict.
func TestCellKinds(t *testing.T) {
	type cell = plainbuffer.Cell
	for _, c := range []struct {
		name string
		cell cell
		want any // the op, or what the error says
	}{
		{"put without a timestamp", cell{Value: plainbuffer.IntegerValue(1)}, PutColumn},
		{"delete all", cell{Op: plainbuffer.DeleteAllVersions}, DeleteColumn},
		{"delete all, without the byte", cell{}, DeleteColumn},
		{"delete one", cell{Op: plainbuffer.DeleteOneVersion, HasTimestamp: true, Timestamp: 5}, DeleteVersion},
		{"delete one, without the byte", cell{HasTimestamp: true, Timestamp: 5}, DeleteVersion},
		{"delete one of time 0", cell{Op: plainbuffer.DeleteOneVersion, HasTimestamp: true}, DeleteVersion},
		{"delete all, with a timestamp", cell{Op: plainbuffer.DeleteAllVersions, HasTimestamp: true}, "does not fit"},
		{"delete one, without a timestamp", cell{Op: plainbuffer.DeleteOneVersion}, "does not fit"},
		{"delete with a value", cell{Op: plainbuffer.DeleteAllVersions, Value: plainbuffer.IntegerValue(1)}, "does not fit"},
		{"increment", cell{Op: plainbuffer.Increment, Value: plainbuffer.IntegerValue(1)}, "does not fit"},
		{"increment without a value", cell{Op: plainbuffer.Increment}, "does not fit"},
		{"a bound", cell{Value: plainbuffer.Value{Kind: plainbuffer.InfMax}}, "INF_MAX"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cell.Name = []byte("c")
			row := plainbuffer.Row{PrimaryKey: []cell{plainbuffer.Key("k", plainbuffer.IntegerValue(1))}, Cells: []cell{c.cell}, HasSequence: true}
			body := marshal(&otsprotocol.GetStreamRecordResponse{StreamRecords: []*otsprotocol.GetStreamRecordResponse_StreamRecord{{ActionType: otsprotocol.ActionType_UPDATE_ROW.Enum(), Record: plainbuffer.Encode(row)}}})
			a, err := parseAnswer(body)
			if op, ok := c.want.(ColumnOp); ok {
				if err != nil || a.changes[0].Columns[0].Op != op {
					t.Errorf("%+v, %v; want %v", a, err, op)
				}
			} else if err == nil || !strings.Contains(err.Error(), c.want.(string)) {
				t.Errorf("%+v, %v; want an error that says %q", a, err, c.want)
			}
		})
	}
}

// A damaged answer is an error. What no checksum covers is named here: the frame around the records is protobuf, and has none.
func TestDamagedAnswers(t *testing.T) {
	c := &Change{Sequence: Sequence{1, 2, 3}, Key: []KeyColumn{{"id", int64(1)}}, Columns: []Column{{Name: "a", Value: "x", Timestamp: 1000}}}
	record := wire(c)
	row := func(f func(r *plainbuffer.Row)) []byte {
		r := plainbuffer.Row{PrimaryKey: []plainbuffer.Cell{plainbuffer.Key("id", plainbuffer.IntegerValue(1))}, HasSequence: true}
		f(&r)
		return plainbuffer.Encode(r)
	}
	flipped := bytes.Clone(record.Record)
	flipped[bytes.IndexByte(flipped, 'x')] = 'y'
	for name, body := range map[string][]byte{
		"a value changed":         answerOf(1, flipped, nil),
		"cut off in a row":        answerOf(1, record.Record[:len(record.Record)-3], nil),
		"two rows":                answerOf(1, append(bytes.Clone(record.Record), record.Record[4:]...), nil),
		"no row":                  answerOf(1, nil, nil),
		"no sequence":             answerOf(1, row(func(r *plainbuffer.Row) { r.HasSequence = false }), nil),
		"no primary key":          answerOf(1, row(func(r *plainbuffer.Row) { r.PrimaryKey = nil }), nil),
		"a key without a value":   answerOf(1, row(func(r *plainbuffer.Row) { r.PrimaryKey[0].Value = plainbuffer.Value{} }), nil),
		"a key of a wrong type":   answerOf(1, row(func(r *plainbuffer.Row) { r.PrimaryKey[0].Value = plainbuffer.DoubleValue(1) }), nil),
		"an unknown action":       answerOf(4, record.Record, nil),
		"no action":               answerOf(0, record.Record, nil),
		"damaged old values":      answerOf(2, record.Record, flipped),
		"an iterator as a number": {2 << 3, 7},
		"a record as a number":    {1 << 3, 7},
		"a group":                 {3<<3 | 3, 0},
		"cut off in a length":     {2<<3 | 2},
		"a length beyond the end": {2<<3 | 2, 5, 'x'},
		"a length beyond all":     binary.AppendUvarint([]byte{2<<3 | 2}, math.MaxUint64),
		"a field without number":  {0 | 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if a, err := parseAnswer(body); err == nil {
				t.Errorf("%+v, want an error", a)
			}
		})
	}
}

// answerOf is an answer with one record, written by hand so that it need not be a sound one.
func answerOf(action byte, record, origin []byte) []byte {
	var in []byte
	if action != 0 {
		in = append(in, 1<<3, action)
	}
	in = binary.AppendUvarint(append(in, 2<<3|2), uint64(len(record)))
	in = append(in, record...)
	if origin != nil {
		in = binary.AppendUvarint(append(in, 3<<3|2), uint64(len(origin)))
		in = append(in, origin...)
	}
	out := binary.AppendUvarint([]byte{1<<3 | 2}, uint64(len(in)))
	return append(append(out, in...), 2<<3|2, 1, 'n')
}

// FuzzAnswer: no body makes the decoder panic, and what it takes for sound it takes again when it is written anew.
func FuzzAnswer(f *testing.F) {
	small := everyKind()[1:4]
	f.Add(wireAnswer(f, "next", small...))
	f.Add(wireAnswer(f, ""))
	f.Add(answerOf(1, []byte{0x75, 0, 0, 0}, nil))
	f.Add([]byte{4 << 3, 1})
	f.Fuzz(func(t *testing.T, body []byte) {
		a, err := parseAnswer(body)
		if err != nil {
			return
		}
		var changes []*Change
		for i := range a.changes {
			changes = append(changes, &a.changes[i])
		}
		b, err := parseAnswer(wireAnswer(t, "n", changes...))
		if err != nil || len(b.changes) != len(changes) {
			t.Fatalf("written anew: %v", err)
		}
		for i := range changes {
			if !equal(&b.changes[i], changes[i]) {
				t.Errorf("change %d: %+v, written anew %+v", i, changes[i], b.changes[i])
			}
		}
		for i := range a.changes {
			if back, err := ParseChange(a.changes[i].AppendJSON(nil)); err != nil || !equal(back, &a.changes[i]) {
				t.Errorf("change %d as JSON: %v", i, err)
			}
		}
		_ = newPage(a, "it", 0)
	})
}
