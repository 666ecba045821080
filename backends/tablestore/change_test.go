package tablestore

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/shardwarden/shardwarden/core"
)

var text = rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string {
	return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) // not UTF-8, mostly
}), rapid.SampledFrom([]string{"", "<a href=\"x\">&", "\x00\x1f\x7f", "\u2028\u2029", "键", "a\\b\n\t"}))

var keyValue = rapid.OneOf(rapid.Int64().AsAny(), text.AsAny(), rapid.SliceOf(rapid.Byte()).AsAny())

var doubles = rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), math.MaxFloat64, math.SmallestNonzeroFloat64}))

func drawColumns(t *rapid.T, name string) []Column {
	var out []Column
	for range rapid.IntRange(0, 6).Draw(t, name) {
		c := Column{Name: text.Draw(t, "name"), Op: ColumnOp(rapid.IntRange(0, 2).Draw(t, "op"))}
		if c.Op == PutColumn {
			c.Value = rapid.OneOf(keyValue, rapid.Bool().AsAny(), doubles.AsAny()).Draw(t, "value")
		}
		if c.Op != DeleteColumn {
			c.Timestamp = rapid.Int64().Draw(t, "timestamp")
		}
		out = append(out, c)
	}
	return out
}

func drawChange(t *rapid.T) *Change {
	c := &Change{
		Type:     ChangeType(rapid.IntRange(0, 2).Draw(t, "type")),
		Sequence: Sequence{rapid.Int32().Draw(t, "epoch"), rapid.Int64().Draw(t, "us"), rapid.Int32().Draw(t, "row")},
		Table:    text.Draw(t, "table"),
	}
	for range rapid.IntRange(1, 4).Draw(t, "keys") {
		c.Key = append(c.Key, KeyColumn{text.Draw(t, "name"), keyValue.Draw(t, "key")})
	}
	c.Columns = drawColumns(t, "columns")
	if rapid.Bool().Draw(t, "has old") {
		c.Old = append([]Column{}, drawColumns(t, "old")...)
	}
	return c
}

// equal compares bit by bit, but that NaN is one value.
func equal(a, b *Change) bool {
	plain := func(c *Change) *Change {
		d := *c
		d.Columns, d.Old = slices.Clone(c.Columns), slices.Clone(c.Old)
		for _, cols := range [][]Column{d.Columns, d.Old} {
			for i := range cols {
				if f, ok := cols[i].Value.(float64); ok {
					cols[i].Value = math.Float64bits(f)
					if math.IsNaN(f) {
						cols[i].Value = "NaN"
					}
				}
			}
		}
		return &d
	}
	return reflect.DeepEqual(plain(a), plain(b))
}

func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawChange(t)
		text := c.AppendJSON([]byte("before"))
		if !strings.HasPrefix(string(text), "before") {
			t.Fatal("it does not append")
		}
		text = text[len("before"):]
		if !json.Valid(text) || strings.ContainsAny(string(text), "\n\r") {
			t.Fatalf("not one line of JSON: %s", text)
		}
		got, err := ParseChange(text)
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if !equal(got, c) {
			t.Fatalf("read back:\n%+v, want\n%+v, from %s", got, c, text)
		}
	})
}

// The documented form, to the letter.
func TestJSON(t *testing.T) {
	for _, c := range []struct {
		name string
		c    Change
		want string
	}{
		{"put", Change{
			Sequence: Sequence{0, 1500000000000000, 3},
			Key:      []KeyColumn{{"id", int64(42)}, {"part", "a"}, {"bin", []byte{0, 255}}},
			Columns: []Column{
				{Name: "i", Value: int64(math.MinInt64), Timestamp: 1000}, {Name: "d", Value: 1.5, Timestamp: 1000}, {Name: "nan", Value: math.NaN(), Timestamp: 1000},
				{Name: "inf", Value: math.Inf(-1), Timestamp: 1000}, {Name: "b", Value: true, Timestamp: 1000}, {Name: "s", Value: "é\n", Timestamp: 1000},
				{Name: "empty", Value: []byte{}, Timestamp: 1000}, {Name: "raw\xff", Value: "\xff", Timestamp: 1000},
			},
		}, `{"type":"put","sequence":{"epoch":0,"timestamp":1500000000000000,"row":3},"key":[{"name":"id","integer":"42"},{"name":"part","string":"a"},{"name":"bin","binary":"AP8="}],` +
			`"columns":[{"name":"i","integer":"-9223372036854775808","timestamp":1000},{"name":"d","double":1.5,"timestamp":1000},{"name":"nan","double":"NaN","timestamp":1000},` +
			`{"name":"inf","double":"-Infinity","timestamp":1000},{"name":"b","boolean":true,"timestamp":1000},{"name":"s","string":"é\n","timestamp":1000},` +
			`{"name":"empty","binary":"","timestamp":1000},{"name64":"cmF3/w==","string64":"/w==","timestamp":1000}]}`},
		{"update", Change{
			Type: Update, Table: "t", Sequence: Sequence{1, 2, 0}, Key: []KeyColumn{{"id", ""}},
			Columns: []Column{{Name: "a", Op: DeleteColumn}, {Name: "b", Op: DeleteVersion, Timestamp: 7}},
			Old:     []Column{{Name: "a", Value: false, Timestamp: 6}},
		}, `{"type":"update","sequence":{"epoch":1,"timestamp":2,"row":0},"table":"t","key":[{"name":"id","string":""}],` +
			`"columns":[{"name":"a","op":"delete"},{"name":"b","op":"delete_version","timestamp":7}],"old":[{"name":"a","boolean":false,"timestamp":6}]}`},
		{"delete", Change{Type: Delete, Key: []KeyColumn{{"id", int64(0)}}, Old: []Column{}},
			`{"type":"delete","sequence":{"epoch":0,"timestamp":0,"row":0},"key":[{"name":"id","integer":"0"}],"columns":[],"old":[]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(c.c.AppendJSON(nil)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestParseChangeRefuses(t *testing.T) {
	good := `{"type":"put","sequence":{"epoch":0,"timestamp":1,"row":3},"key":[{"name":"id","integer":"42"}],"columns":[{"name":"c","double":1,"timestamp":1}]}`
	if _, err := ParseChange([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for name, replace := range map[string][2]string{
		"an unknown type":            {`"put"`, `"replace"`},
		"no sequence":                {`"sequence":{"epoch":0,"timestamp":1,"row":3},`, ``},
		"no key":                     {`{"name":"id","integer":"42"}`, ``},
		"a key without a value":      {`,"integer":"42"`, ``},
		"a key with two values":      {`"integer":"42"`, `"integer":"42","string":"x"`},
		"a key of a wrong type":      {`"integer":"42"`, `"double":42`},
		"a key with a timestamp":     {`"integer":"42"`, `"integer":"42","timestamp":1`},
		"a key that is deleted":      {`"integer":"42"`, `"op":"delete"`},
		"an integer that is none":    {`"42"`, `"4.2"`},
		"an integer too large":       {`"42"`, `"9223372036854775808"`},
		"a double that is none":      {`"double":1`, `"double":"x"`},
		"a double that is null":      {`"double":1`, `"double":null`},
		"a double too large":         {`"double":1`, `"double":1e999`},
		"a column without timestamp": {`,"timestamp":1}]`, `}]`},
		"an unknown op":              {`"double":1`, `"op":"drop"`},
		"a value that is deleted":    {`"double":1`, `"op":"delete_version","double":1`},
		"all versions, with a time":  {`"double":1`, `"op":"delete"`},
		"a column without a name":    {`"name":"c",`, ``},
		"a member it does not know":  {`"type"`, `"ttl":1,"type"`},
		"binary that is no base64":   {`"integer":"42"`, `"binary":"x"`},
		"an end too early":           {`}]}`, `}]`},
		"more behind the end":        {`}]}`, `}]} {}`},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(good, replace[0], replace[1], 1)
			if bad == good {
				t.Fatal("nothing was replaced")
			}
			if c, err := ParseChange([]byte(bad)); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("%s: %+v, %v; want ErrInvalid", bad, c, err)
			}
		})
	}
}

func FuzzParseChange(f *testing.F) {
	f.Add([]byte(`{"type":"put","sequence":{"epoch":0,"timestamp":1,"row":3},"key":[{"name":"id","integer":"42"}],"columns":[{"name":"c","double":1,"timestamp":1}],"old":[]}`))
	f.Add([]byte(`{"type":"update","sequence":{},"key":[{"name64":"/w==","binary":""}],"columns":[{"name":"a","op":"delete"},{"name":"b","op":"delete_version","timestamp":7}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseChange(data)
		if err != nil {
			return
		}
		again, err := ParseChange(c.AppendJSON(nil))
		if err != nil || !equal(again, c) {
			t.Errorf("%s is %+v, and that comes back as %+v, %v", data, c, again, err)
		}
	})
}

// The text of a sequence sorts as the sequence does, and that of a key tells keys apart.
func TestTextsOfSequenceAndKey(t *testing.T) {
	if got, want := (Sequence{1, 1500000000000000, 3}).String(), "00000001:0005543df729c000:00000003"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	key := []KeyColumn{{"a", int64(-5)}, {"b", "x,\"y\""}, {"c", []byte{0, 171}}, {"d", ""}, {"e", []byte{}}}
	if got, want := (&Change{Key: key}).KeyText(), `-5,"x,\"y\"",0x00ab,"",0x`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		sequence := rapid.Custom(func(t *rapid.T) Sequence {
			return Sequence{rapid.Int32Min(0).Draw(t, "epoch"), rapid.Int64Min(0).Draw(t, "us"), rapid.Int32Min(0).Draw(t, "row")}
		})
		a, b := sequence.Draw(t, "a"), sequence.Draw(t, "b")
		if got := cmp.Compare(a.String(), b.String()) < 0; got != a.before(b) {
			t.Fatalf("%v before %v: %v as text, %v as it is", a, b, got, a.before(b))
		}
		n := rapid.IntRange(1, 3).Draw(t, "columns")
		x, y := make([]KeyColumn, n), make([]KeyColumn, n)
		for i := range n {
			x[i].Value, y[i].Value = keyValue.Draw(t, "x"), keyValue.Draw(t, "y")
		}
		if got := (&Change{Key: x}).KeyText() == (&Change{Key: y}).KeyText(); got != reflect.DeepEqual(x, y) {
			t.Fatalf("texts of %v and %v: the same is %v", x, y, got)
		}
	})
}

func TestColumnByName(t *testing.T) {
	c := Change{Columns: []Column{{Name: "a", Value: int64(1), Timestamp: 1}, {Name: "a", Value: int64(2), Timestamp: 2}, {Name: "b", Op: DeleteColumn}}}
	if col, ok := c.Column("a"); !ok || col.Timestamp != 2 {
		t.Errorf("a is %v, %v, want the last", col, ok)
	}
	if _, ok := c.Column("c"); ok {
		t.Error("there is no c")
	}
}
