package plainbuffer

// Op is what a cell does to its column.
type Op byte

const (
	// Put writes the value. The format shows it by having no op byte.
	Put Op = 0
	// DeleteAllVersions deletes the column: no value, no timestamp.
	DeleteAllVersions Op = 0x01
	// DeleteOneVersion deletes the version with the cell's timestamp: no value.
	DeleteOneVersion Op = 0x03
	// Increment adds the value, an Integer, to the column.
	Increment Op = 0x04
)

// Cell is a column of a row. Name and the bytes of Value are views when decoded.
type Cell struct {
	Name         []byte
	Value        Value // Kind None: the cell has none
	Op           Op
	HasTimestamp bool
	Timestamp    int64 // milliseconds since 1970, if HasTimestamp
}

// Key makes a primary key cell.
func Key(name string, v Value) Cell { return Cell{Name: []byte(name), Value: v} }

// Sequence is where a stream record stands in its shard; ordered field by field.
type Sequence struct {
	Epoch     int32
	Timestamp int64 // microseconds since 1970
	RowIndex  int32
}

// Row is one row. [Decoder.Next] fills it, using its slices again.
type Row struct {
	PrimaryKey  []Cell
	Cells       []Cell
	Deleted     bool // has the delete marker
	HasSequence bool // of stream records
	Sequence    Sequence
}

// reset empties the row and keeps its slices.
func (r *Row) reset() {
	*r = Row{PrimaryKey: r.PrimaryKey[:0], Cells: r.Cells[:0]}
}
