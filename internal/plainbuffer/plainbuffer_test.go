package plainbuffer_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	. "github.com/shardwarden/shardwarden/internal/plainbuffer"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func at(c Cell, ms int64) Cell {
	c.HasTimestamp, c.Timestamp = true, ms
	return c
}

func del(name string, op Op) Cell { return Cell{Name: []byte(name), Op: op} }

// golden are buffers that the vendor's Go SDK 1.8.0 and Java SDKs 4.3.1 and 5.17.10 wrote or were seen to read, with
// checksums verified (docs/reference, section 2.6).
var golden = []struct {
	name string
	hex  string
	row  Row
}{
	{"update change", `75000000 01 03 04 01000000 6b 05 06000000 03 01000000 76 0a 34 02 03 04 0c000000 4c65617365436f756e746572 05 09000000 00
		0200000000000000 0a 61 09 aa`, Row{
		PrimaryKey: []Cell{Key("k", StringValue("v"))},
		Cells:      []Cell{Key("LeaseCounter", IntegerValue(2))},
	}},
	{"key from the beginning", `75000000 01 03 04 01000000 6b 05 01000000 09 0a 5d 09 e5`, Row{PrimaryKey: []Cell{Key("k", Value{Kind: InfMin})}}},
	{"key to the end", `75000000 01 03 04 01000000 6b 05 01000000 0a 0a 54 09 58`, Row{PrimaryKey: []Cell{Key("k", Value{Kind: InfMax})}}},
	{"stream put", `75000000 01 03 04 02000000 6964 05 09000000 00 0100000000000000 0a 0a 02 03 04 01000000 61 05 06000000 03 01000000 78 07
		e803000000000000 0a e8 0b 18000000 0c 13000000 0d 01000000 0e 00c029f73d540500 0f 03000000 09 6c`, Row{
		PrimaryKey:  []Cell{Key("id", IntegerValue(1))},
		Cells:       []Cell{at(Key("a", StringValue("x")), 1000)},
		HasSequence: true, Sequence: Sequence{1, 1500000000000000, 3},
	}},
	{"stream update", `75000000 01 03 04 02000000 6964 05 09000000 00 0200000000000000 0a 3f 02 03 04 01000000 61 06 01 0a e7 03 04 01000000 62 06 03 07
		e803000000000000 0a 6b 03 04 01000000 63 05 02000000 02 01 07 e803000000000000 0a 47 0b 18000000 0c 13000000 0d 01000000 0e
		01c029f73d540500 0f 00000000 09 79`, Row{
		PrimaryKey:  []Cell{Key("id", IntegerValue(2))},
		Cells:       []Cell{del("a", DeleteAllVersions), at(del("b", DeleteOneVersion), 1000), at(Key("c", BooleanValue(true)), 1000)},
		HasSequence: true, Sequence: Sequence{1, 1500000000000001, 0},
	}},
	{"stream delete", `75000000 01 03 04 02000000 6964 05 09000000 00 0300000000000000 0a 2c 08 0b 18000000 0c 13000000 0d 01000000 0e 02c029f73d540500 0f
		00000000 09 55`, Row{
		PrimaryKey: []Cell{Key("id", IntegerValue(3))}, Deleted: true,
		HasSequence: true, Sequence: Sequence{1, 1500000000000002, 0},
	}},
}

// same compares rows by content: a decoded row may have empty slices where another has none.
func same(a, b Row) bool {
	norm := func(r Row) Row {
		r.PrimaryKey, r.Cells = append([]Cell{}, r.PrimaryKey...), append([]Cell{}, r.Cells...)
		return r
	}
	return reflect.DeepEqual(norm(a), norm(b))
}

func TestGolden(t *testing.T) {
	for _, g := range golden {
		t.Run(g.name, func(t *testing.T) {
			want := unhex(t, g.hex)
			if got := Encode(g.row); !bytes.Equal(got, want) {
				t.Errorf("encoded:\n%x, want\n%x", got, want)
			}
			var r Row
			if err := DecodeRow(want, &r); err != nil {
				t.Fatal(err)
			}
			if !same(r, g.row) {
				t.Errorf("decoded:\n%+v, want\n%+v", r, g.row)
			}
		})
	}
}

// Every cut and every flipped bit is found, but for what the format does not protect: sequence numbers, and the
// lengths and tags of an extension that one could take for an unknown one.
func TestDamageIsFound(t *testing.T) {
	for _, g := range golden {
		t.Run(g.name, func(t *testing.T) {
			whole := unhex(t, g.hex)
			var r Row
			for n := range whole {
				if err := DecodeRow(whole[:n], &r); !errors.Is(err, ErrCorrupt) {
					t.Errorf("cut after %d bytes: %v", n, err)
				}
			}
			if err := DecodeRow(append(bytes.Clone(whole), 0), &r); !errors.Is(err, ErrCorrupt) {
				t.Errorf("one byte more: %v", err)
			}
			open := bytes.IndexByte(whole, 0x0b)
			if !g.row.HasSequence {
				open = len(whole)
			}
			for i := range whole {
				if i >= open && i < len(whole)-2 {
					continue
				}
				for bit := range 8 {
					bad := bytes.Clone(whole)
					bad[i] ^= 1 << bit
					if err := DecodeRow(bad, &r); !errors.Is(err, ErrCorrupt) {
						t.Errorf("bit %d of byte %d: %v", bit, i, err)
					}
				}
			}
		})
	}
}

func TestValues(t *testing.T) {
	for _, tt := range []struct {
		name string
		v    Value
		wire string
		any  any
	}{
		{"integer", IntegerValue(-2), "00 feffffffffffffff", int64(-2)},
		{"double", DoubleValue(1.5), "01 000000000000f83f", 1.5},
		{"infinity", DoubleValue(math.Inf(-1)), "01 000000000000f0ff", math.Inf(-1)},
		{"true", BooleanValue(true), "02 01", true},
		{"false", BooleanValue(false), "02 00", false},
		{"string", StringValue("äx"), "03 03000000 c3a478", "äx"},
		{"empty string", StringValue(""), "03 00000000", ""},
		{"blob", BlobValue([]byte{0, 255}), "07 02000000 00ff", []byte{0, 255}},
		{"empty blob", BlobValue([]byte{}), "07 00000000", []byte{}},
		{"first", Value{Kind: InfMin}, "09", nil},
		{"last", Value{Kind: InfMax}, "0a", nil},
		{"auto-increment", Value{Kind: AutoIncrement}, "0b", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wire := unhex(t, tt.wire)
			if got := AppendValue(nil, tt.v); !bytes.Equal(got, wire) {
				t.Errorf("encoded %x, want %x", got, wire)
			}
			v, err := DecodeValue(wire)
			if err != nil || !v.Equal(tt.v) {
				t.Errorf("decoded %v, %v, want %v", v, err, tt.v)
			}
			if got := v.Any(); !reflect.DeepEqual(got, tt.any) {
				t.Errorf("Any is %#v, want %#v", got, tt.any)
			}
			if _, err := DecodeValue(append(wire, 0)); !errors.Is(err, ErrCorrupt) {
				t.Errorf("a byte more: %v", err)
			}
			if _, err := DecodeValue(wire[:len(wire)-1]); !errors.Is(err, ErrCorrupt) {
				t.Errorf("a byte less: %v", err)
			}
		})
	}
	nan, err := DecodeValue(AppendValue(nil, DoubleValue(math.NaN())))
	if err != nil || !math.IsNaN(nan.Float()) {
		t.Errorf("NaN: %v, %v", nan, err)
	}
}

func TestWrongForms(t *testing.T) {
	for _, tt := range []struct{ name, hex, want string }{
		{"other header", "76000000", "header"},
		{"row without key", "75000000 02", "primary key"},
		{"type NULL, which nobody writes", "75000000 01 03 04 01000000 6b 05 01000000 06 0a 00 09 00", "unknown type of value 0x06"},
		{"unknown type 255", "75000000 01 03 04 01000000 6b 05 01000000 ff 0a 00 09 00", "unknown type of value 0xff"},
		{"boolean 2", "75000000 01 03 04 01000000 6b 05 02000000 02 02 0a 00 09 00", "boolean is 0x02"},
		{"length of an integer", "75000000 01 03 04 01000000 6b 05 08000000 00 0100000000000000 0a 0a 09 00", "length says 8"},
		{"string longer than the buffer", "75000000 01 03 04 01000000 6b 05 06000000 03 ffffffff 76", "4294967295 bytes long"},
		{"unknown kind of cell", "75000000 01 03 04 01000000 6b 06 02 0a 00 09 00", "unknown kind 0x02"},
		{"op byte zero", "75000000 01 03 04 01000000 6b 06 00 0a 00 09 00", "unknown kind 0x00"},
		{"sequence of another length", "75000000 01 0b 09000000 0c 04000000 00000000 09 00", "sequence of another form"},
		{"extension part too long", "75000000 01 0b 05000000 0c 04000000 09 00", "part of an extension is said to be 4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r Row
			err := DecodeRow(unhex(t, tt.hex), &r)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want ErrCorrupt and %q", err, tt.want)
			}
		})
	}
}

// The Java SDK passes over parts of an extension that it does not know, so new ones may come.
func TestUnknownExtension(t *testing.T) {
	var r Row
	if err := DecodeRow(unhex(t, "75000000 01 0b 07000000 7f 02000000 abcd 09 00"), &r); err != nil || r.HasSequence {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestManyRows(t *testing.T) {
	rows := make([]Row, len(golden))
	for i, g := range golden {
		rows[i] = g.row
	}
	d := NewDecoder(Encode(rows...))
	var r Row
	for i := range rows {
		if ok, err := d.Next(&r); !ok || err != nil || !same(r, rows[i]) {
			t.Fatalf("row %d: %t, %v, %+v, want %+v", i, ok, err, r, rows[i])
		}
	}
	if ok, err := d.Next(&r); ok || err != nil {
		t.Errorf("after the last row: %t, %v", ok, err)
	}
	if err := DecodeRow(Encode(rows[:2]...), &r); !errors.Is(err, ErrCorrupt) {
		t.Errorf("two rows where one is wanted: %v", err)
	}
	for _, none := range [][]byte{nil, Encode()} {
		if ok, err := NewDecoder(none).Next(&r); ok || err != nil {
			t.Errorf("%x: %t, %v, want no row", none, ok, err)
		}
		if err := DecodeRow(none, &r); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%x where a row is wanted: %v", none, err)
		}
	}
}

func TestNothingAfterAnError(t *testing.T) {
	b := Encode(golden[0].row, golden[0].row)
	b[4] = 9
	d := NewDecoder(b)
	var r Row
	if ok, err := d.Next(&r); ok || !errors.Is(err, ErrCorrupt) {
		t.Fatalf("%t, %v", ok, err)
	}
	if ok, err := d.Next(&r); ok || err != nil {
		t.Errorf("after an error: %t, %v", ok, err)
	}
}

func TestCompare(t *testing.T) {
	order := [][]Value{
		{{Kind: InfMin}, IntegerValue(math.MinInt64), IntegerValue(-1), IntegerValue(2), IntegerValue(10), {Kind: InfMax}},
		{{Kind: InfMin}, StringValue(""), StringValue("Z"), StringValue("a"), StringValue("ab"), StringValue("ä"), {Kind: InfMax}},
		{{Kind: InfMin}, BlobValue(nil), BlobValue([]byte{1}), BlobValue([]byte{1, 0}), BlobValue([]byte{0x80}), {Kind: InfMax}},
		{DoubleValue(math.NaN()), DoubleValue(math.Inf(-1)), DoubleValue(-1), DoubleValue(0.5), DoubleValue(math.Inf(1))},
		{BooleanValue(false), BooleanValue(true)},
	}
	for _, vs := range order {
		for i, v := range vs {
			for j, w := range vs {
				want := 0
				switch {
				case i < j:
					want = -1
				case i > j:
					want = 1
				}
				if got := v.Compare(w); got != want {
					t.Errorf("%v.Compare(%v) is %d, want %d", v, w, got, want)
				}
			}
		}
	}
}

func TestCloneOwnsItsBytes(t *testing.T) {
	b := []byte{1, 2}
	v := BlobValue(b)
	c, a := v.Clone(), v.Any().([]byte)
	b[0] = 9
	if !v.Equal(BlobValue([]byte{9, 2})) || !c.Equal(BlobValue([]byte{1, 2})) || a[0] != 1 {
		t.Errorf("view %v, clone %v, any %v", v, c, a)
	}
}

// Decoding costs nothing but the walk: a reader of many rows pays no memory for each.
func TestDecodingDoesNotAllocate(t *testing.T) {
	rows := make([]Row, 20)
	for i := range rows {
		rows[i] = golden[4].row
	}
	b := Encode(rows...)
	var r Row
	if n := testing.AllocsPerRun(20, func() {
		d := NewDecoder(b)
		for ok, err := d.Next(&r); ok; ok, err = d.Next(&r) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}); n > 0 {
		t.Errorf("%v allocations for 20 rows", n)
	}
}

func BenchmarkDecode20Columns(b *testing.B) {
	row := Row{PrimaryKey: []Cell{Key("id", IntegerValue(7))}, HasSequence: true}
	for i := range 20 {
		row.Cells = append(row.Cells, at(Key(string(rune('a'+i)), StringValue("a value of middling length")), 1000))
	}
	buf := Encode(row)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	var r Row
	for b.Loop() {
		if err := DecodeRow(buf, &r); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzDecode: no bytes make it panic, an error is ErrCorrupt, and what it takes for a row it writes again as a row
// with the same meaning.
func FuzzDecode(f *testing.F) {
	for _, g := range golden {
		f.Add(unhex(f, g.hex))
	}
	var all []Row
	for _, g := range golden {
		all = append(all, g.row)
	}
	f.Add(Encode(all...))
	f.Add([]byte{})
	f.Add(unhex(f, "75000000 01 0b 07000000 7f 02000000 abcd 09 00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if v, err := DecodeValue(data); err == nil {
			if !bytes.Equal(AppendValue(nil, v), data) {
				t.Errorf("value %v is written as %x, was %x", v, AppendValue(nil, v), data)
			}
		} else if !errors.Is(err, ErrCorrupt) {
			t.Errorf("value: %v", err)
		}
		d := NewDecoder(data)
		for {
			var r, again Row
			ok, err := d.Next(&r)
			if err != nil && !errors.Is(err, ErrCorrupt) {
				t.Errorf("row: %v", err)
			}
			if !ok {
				return
			}
			if err := DecodeRow(Encode(r), &again); err != nil || !sameBits(r, again) {
				t.Errorf("row %+v is read again as %+v, %v", r, again, err)
			}
		}
	})
}

// sameBits compares rows in which NaN equals itself.
func sameBits(a, b Row) bool { return bytes.Equal(Encode(a), Encode(b)) }
