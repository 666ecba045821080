package tablestore

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"
)

// AppendJSON appends the change as JSON, on one line and without loss:
//
//	{"type":"update","sequence":{"epoch":0,"timestamp":1500000000000000,"row":3},
//	 "key":[{"name":"id","integer":"42"},{"name":"part","string":"a"}],
//	 "columns":[
//	   {"name":"total","double":1.5,"timestamp":1500000000000},
//	   {"name":"image","binary":"AAEC","timestamp":1500000000000},
//	   {"name":"note","op":"delete_version","timestamp":1400000000000},
//	   {"name":"draft","op":"delete"}],
//	 "old":[{"name":"total","double":1.25,"timestamp":1400000000000}]}
//
// The member that holds a value says its type:
//
//   - integer: a decimal in quotes, since many readers of JSON round numbers above 2^53;
//   - double: a number that reads back as the same; "NaN", "Infinity" and "-Infinity" in quotes;
//   - boolean, string: as they are; binary: base64 with padding.
//
// Text that is not UTF-8 cannot stand in JSON: such a string is a "string64", and such a name a "name64", in base64. Timestamps of columns are
// Unix milliseconds, that of the sequence is microseconds. "table" is there where the service names it, "old" where the stream keeps old
// values. "op" is missing where a column was written. [ParseChange] is the inverse.
func (c *Change) AppendJSON(b []byte) []byte {
	b = append(append(b, `{"type":"`...), c.Type.String()...)
	b = append(b, `","sequence":{"epoch":`...)
	b = strconv.AppendInt(b, int64(c.Sequence.Epoch), 10)
	b = append(b, `,"timestamp":`...)
	b = strconv.AppendInt(b, c.Sequence.Timestamp, 10)
	b = append(b, `,"row":`...)
	b = strconv.AppendInt(b, int64(c.Sequence.Row), 10)
	b = append(b, '}')
	if c.Table != "" {
		b = appendText(append(b, ','), "table", c.Table)
	}
	b = append(b, `,"key":[`...)
	for i := range c.Key {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(append(b, '{'), "name", c.Key[i].Name)
		b = append(appendValue(append(b, ','), c.Key[i].Value), '}')
	}
	b = appendColumns(append(b, `],"columns":[`...), c.Columns)
	if c.Old != nil {
		b = appendColumns(append(b, `],"old":[`...), c.Old)
	}
	return append(b, `]}`...)
}

// MarshalJSON is AppendJSON.
func (c *Change) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil), nil }

func appendColumns(b []byte, columns []Column) []byte {
	for i := range columns {
		col := &columns[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(append(b, '{'), "name", col.Name), ',')
		switch col.Op {
		case PutColumn:
			b = appendValue(b, col.Value)
		default:
			b = append(append(append(b, `"op":"`...), col.Op.String()...), '"')
		}
		if col.Op != DeleteColumn {
			b = strconv.AppendInt(append(b, `,"timestamp":`...), col.Timestamp, 10)
		}
		b = append(b, '}')
	}
	return b
}

func appendValue(b []byte, value any) []byte {
	switch v := value.(type) {
	case int64:
		b = strconv.AppendInt(append(b, `"integer":"`...), v, 10)
		return append(b, '"')
	case float64:
		b = append(b, `"double":`...)
		switch {
		case math.IsNaN(v):
			return append(b, `"NaN"`...)
		case math.IsInf(v, 1):
			return append(b, `"Infinity"`...)
		case math.IsInf(v, -1):
			return append(b, `"-Infinity"`...)
		}
		return strconv.AppendFloat(b, v, 'g', -1, 64)
	case bool:
		return strconv.AppendBool(append(b, `"boolean":`...), v)
	case string:
		return appendText(b, "string", v)
	case []byte:
		b = base64.StdEncoding.AppendEncode(append(b, `"binary":"`...), v)
		return append(b, '"')
	}
	return append(b, `"none":true`...) // of a Change that was made wrongly: ParseChange refuses it
}

// appendText appends a member whose value is a text.
func appendText(b []byte, name, s string) []byte {
	b = append(append(b, '"'), name...)
	switch escape, valid := inspect(s); {
	case !valid:
		return append(base64.StdEncoding.AppendEncode(append(b, `64":"`...), []byte(s)), '"')
	case escape:
		text, _ := json.Marshal(s) // of valid text: cannot fail
		return append(append(b, `":`...), text...)
	}
	return append(append(append(b, `":"`...), s...), '"')
}

// inspect says whether a text must be escaped in JSON, and whether it is UTF-8 at all.
func inspect(s string) (escape, valid bool) {
	ascii := true
	for i := range len(s) {
		c := s[i]
		escape = escape || c < ' ' || c == '"' || c == '\\'
		ascii = ascii && c < utf8.RuneSelf
	}
	return escape, ascii || utf8.ValidString(s)
}
