package tablestore

import (
	"fmt"
	"slices"
	"strconv"
)

// Change is one change of one row, as the stream tells it: the Native of a [core.Record]. It owns its memory and may be kept; handlers of one
// batch share it, so it must not be changed. Its JSON form, see [Change.AppendJSON], is the Data of the record.
type Change struct {
	Type     ChangeType
	Sequence Sequence
	Table    string      // only where the service names it
	Key      []KeyColumn // in the order of the table's primary key
	// Columns are the whole row for a Put, what was touched for an Update, none for a Delete. There is no image of the row after an Update.
	Columns []Column
	// Old are the values before the change of the columns that the stream is set to keep (OriginColumnsToGet). nil: the service told none.
	Old []Column
}

// ChangeType says what was done to the row.
type ChangeType uint8

const (
	Put    ChangeType = iota // the row was written as a whole
	Update                   // some columns were written or deleted
	Delete                   // the row was deleted
)

var changeNames = []string{"put", "update", "delete"}

// String is "put", "update" or "delete".
func (t ChangeType) String() string { return name(changeNames, int(t)) }

// Sequence is where a change stands in its shard: ordered by Epoch, Timestamp and Row, in this order. It is no position to resume at.
type Sequence struct {
	Epoch     int32
	Timestamp int64 // Unix microseconds
	Row       int32 // tells apart changes of one microsecond
}

// String is of a fixed width, so that it sorts as the changes of a shard do; the vendor's tunnel client writes the same.
func (s Sequence) String() string { return string(s.append(nil)) }

func (s Sequence) append(b []byte) []byte {
	b = append(appendHex(b, uint64(uint32(s.Epoch)), 8), ':')
	b = append(appendHex(b, uint64(s.Timestamp), 16), ':')
	return appendHex(b, uint64(uint32(s.Row)), 8)
}

func appendHex(b []byte, v uint64, digits int) []byte {
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[v>>shift&15])
	}
	return b
}

// KeyColumn is a column of the primary key. Value is an int64, a string or a []byte.
type KeyColumn struct {
	Name  string
	Value any
}

// Column is what was done to an attribute column.
type Column struct {
	Name string
	Op   ColumnOp
	// Value is an int64, float64, bool, string or []byte for PutColumn, nil otherwise.
	Value any
	// Timestamp is the version that was written or deleted, in Unix milliseconds; 0 for DeleteColumn.
	Timestamp int64
}

// ColumnOp says what was done to a column.
type ColumnOp uint8

const (
	PutColumn     ColumnOp = iota // a version was written
	DeleteVersion                 // one version was deleted
	DeleteColumn                  // all versions were deleted
)

var columnNames = []string{"put", "delete_version", "delete"}

// String is "put", "delete_version" or "delete".
func (o ColumnOp) String() string { return name(columnNames, int(o)) }

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("unknown(%d)", i)
}

// KeyText is the primary key as one text, the Key of the record: the values, with commas between; integers as decimals, strings quoted as in
// Go, binary as 0x and hexadecimal digits. Different keys of one table have different texts.
func (c *Change) KeyText() string { return string(appendKey(nil, c.Key)) }

func appendKey(b []byte, key []KeyColumn) []byte {
	for i, k := range key {
		if i > 0 {
			b = append(b, ',')
		}
		switch v := k.Value.(type) {
		case int64:
			b = strconv.AppendInt(b, v, 10)
		case string:
			b = strconv.AppendQuote(b, v)
		case []byte:
			b = append(b, "0x"...)
			for _, x := range v {
				b = appendHex(b, uint64(x), 2)
			}
		}
	}
	return b
}

// Column is what was done to the column of a name: the last of several versions, false where it was not touched.
func (c *Change) Column(name string) (Column, bool) {
	for _, col := range slices.Backward(c.Columns) {
		if col.Name == name {
			return col, true
		}
	}
	return Column{}, false
}
