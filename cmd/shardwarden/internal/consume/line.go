package consume

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/shardwarden/shardwarden/core"
)

// appendLine adds a record as one line: a JSON object with the keys stream, shard, sequence, sub, key, arrived and data, in this order.
// arrived is in milliseconds since 1970. With text, data that is UTF-8 stands as it is under the key text; what is not, stays base64 data.
func appendLine(b []byte, stream string, shard core.ShardID, r *core.Record, text bool) []byte {
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
	if text && utf8.Valid(r.Data) {
		b = append(b, `,"text":`...)
		b = appendString(b, string(r.Data))
	} else {
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
