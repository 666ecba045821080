package plainbuffer

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
)

// Kind is the type of a [Value].
type Kind byte

// The kinds are the type bytes of the format plus one, so that zero is no value.
const (
	None          Kind = 0
	Integer       Kind = 0x00 + 1
	Double        Kind = 0x01 + 1
	Boolean       Kind = 0x02 + 1
	String        Kind = 0x03 + 1
	Blob          Kind = 0x07 + 1
	InfMin        Kind = 0x09 + 1 // before every key; in bounds of a range only
	InfMax        Kind = 0x0A + 1 // after every key; in bounds of a range only
	AutoIncrement Kind = 0x0B + 1 // "the service chooses"; in keys that are put only
)

var kindNames = map[Kind]string{
	None: "NONE", Integer: "INTEGER", Double: "DOUBLE", Boolean: "BOOLEAN", String: "STRING", Blob: "BLOB",
	InfMin: "INF_MIN", InfMax: "INF_MAX", AutoIncrement: "AUTO_INCREMENT",
}

func (k Kind) String() string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return fmt.Sprintf("Kind(%d)", byte(k))
}

// Value is one typed value; the zero value is none. A String or Blob refers to bytes that it does not own: those of
// the buffer it was decoded from, or those it was made of. It is a small struct, to be passed by value.
type Value struct {
	Kind Kind
	bits uint64
	data []byte
}

// IntegerValue makes an Integer.
func IntegerValue(n int64) Value { return Value{Kind: Integer, bits: uint64(n)} }

// DoubleValue makes a Double; NaN and the infinities are values like others.
func DoubleValue(f float64) Value { return Value{Kind: Double, bits: math.Float64bits(f)} }

// BooleanValue makes a Boolean.
func BooleanValue(b bool) Value {
	if b {
		return Value{Kind: Boolean, bits: 1}
	}
	return Value{Kind: Boolean}
}

// StringValue makes a String.
func StringValue(s string) Value { return Value{Kind: String, data: []byte(s)} }

// BlobValue makes a Blob that refers to b.
func BlobValue(b []byte) Value { return Value{Kind: Blob, data: b} }

// Int is the number of an Integer.
func (v Value) Int() int64 { return int64(v.bits) }

// Float is the number of a Double.
func (v Value) Float() float64 { return math.Float64frombits(v.bits) }

// Bool is the truth of a Boolean.
func (v Value) Bool() bool { return v.bits != 0 }

// Bytes are those of a String or Blob: a view.
func (v Value) Bytes() []byte { return v.data }

// Text is a String as a string of its own.
func (v Value) Text() string { return string(v.data) }

// Any gives an int64, float64, bool, string or []byte that owns its bytes, as the vendor's Go SDK does; nil for the
// other kinds.
func (v Value) Any() any {
	switch v.Kind {
	case Integer:
		return v.Int()
	case Double:
		return v.Float()
	case Boolean:
		return v.Bool()
	case String:
		return v.Text()
	case Blob:
		return append(make([]byte, 0, len(v.data)), v.data...)
	}
	return nil
}

// Clone is v with bytes of its own.
func (v Value) Clone() Value {
	if v.data != nil {
		v.data = append(make([]byte, 0, len(v.data)), v.data...)
	}
	return v
}

// Size is how many bytes the value counts as: 8 for numbers, 1 for a Boolean, else its bytes.
func (v Value) Size() int {
	switch v.Kind {
	case Integer, Double:
		return 8
	case Boolean:
		return 1
	}
	return len(v.data)
}

// Equal says whether two values have the same kind and the same content, bit by bit.
func (v Value) Equal(w Value) bool {
	return v.Kind == w.Kind && v.bits == w.bits && bytes.Equal(v.data, w.data)
}

// Compare orders values: INF_MIN before all, INF_MAX after all, and within a kind numbers by size (NaN first), false
// before true, bytes as unsigned. Values of different kinds are ordered by kind.
func (v Value) Compare(w Value) int {
	if v.Kind != w.Kind {
		return cmp.Or(cmp.Compare(v.end(), w.end()), cmp.Compare(v.Kind, w.Kind))
	}
	switch v.Kind {
	case Integer:
		return cmp.Compare(v.Int(), w.Int())
	case Double:
		return cmp.Compare(v.Float(), w.Float())
	case Boolean:
		return cmp.Compare(v.bits, w.bits)
	}
	return bytes.Compare(v.data, w.data)
}

// end is -1 and 1 for the two ends of everything.
func (v Value) end() int {
	switch v.Kind {
	case InfMin:
		return -1
	case InfMax:
		return 1
	}
	return 0
}

// String shows the value for messages and tests.
func (v Value) String() string {
	switch v.Kind {
	case Integer:
		return fmt.Sprint(v.Int())
	case Double:
		return fmt.Sprintf("%gf", v.Float())
	case Boolean:
		return fmt.Sprint(v.Bool())
	case String:
		return fmt.Sprintf("%q", v.data)
	case Blob:
		return fmt.Sprintf("0x%x", v.data)
	}
	return v.Kind.String()
}
