package consume

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/shardwarden/shardwarden/backends/kinesis/glue"
	"github.com/shardwarden/shardwarden/core"
)

// form is how the data of a record is printed.
type form uint8

const (
	asBase64 form = iota // a string under the key data
	asJSON               // as it is under the key data, for data that is JSON
	asText               // a string under the key text, for data that is UTF-8; other data as asBase64
)

// appendLine adds a record as one line: a JSON object with the keys stream, shard, sequence, sub, key, arrived and data, in this order.
// arrived is in milliseconds since 1970. A record with a schema has schema and schema_version before data, which is its value in JSON; where it
// could not be decoded also error, and data as it came.
func appendLine(b []byte, stream string, shard core.ShardID, r *core.Record, f form) []byte {
	b = append(b, `{"stream":`...)
	b = appendString(b, stream)
	b = append(b, `,"shard":`...)
	b = appendString(b, string(shard))
	b = append(b, `,"sequence":`...)
	b = appendString(b, r.Sequence)
	b = append(b, `,"sub":`...)
	b = strconv.AppendUint(b, r.Sub, 10)
	b = append(b, `,"key":`...)
	b = appendString(b, r.Key)
	b = append(b, `,"arrived":`...)
	b = strconv.AppendInt(b, r.Arrived, 10)
	if m, ok := r.Native.(*glue.Message); ok {
		value, err := m.JSON()
		b = append(b, `,"schema":`...)
		b = appendString(b, m.Schema)
		b = append(b, `,"schema_version":`...)
		b = appendString(b, m.Version)
		if err == nil {
			b = append(b, `,"data":`...)
			return append(append(b, value...), "}\n"...)
		}
		b = append(b, `,"error":`...)
		b = appendString(b, err.Error())
	}
	switch {
	case f == asJSON:
		b = append(b, `,"data":`...)
		b = append(b, r.Data...)
	case f == asText && utf8.Valid(r.Data):
		b = append(b, `,"text":`...)
		b = appendString(b, string(r.Data))
	default:
		b = append(b, `,"data":"`...)
		b = base64.StdEncoding.AppendEncode(b, r.Data)
		b = append(b, '"')
	}
	return append(b, "}\n"...)
}

// appendString adds a JSON string. What needs no escape, which is nearly everything, is copied.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			var quoted bytes.Buffer
			e := json.NewEncoder(&quoted)
			e.SetEscapeHTML(false) // for people and grep
			if err := e.Encode(s); err != nil {
				panic(err) // every string can be encoded
			}
			return append(b, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
