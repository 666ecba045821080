package glue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Format is how a payload is encoded, in the registry's words.
type Format string

// The formats of the registry.
const (
	Avro     Format = "AVRO"
	JSON     Format = "JSON"
	Protobuf Format = "PROTOBUF"
)

// Message is the Native of a record with a schema. It owns its memory, so that it stays good in a clone of the record. Schemas are shared
// between messages; nothing in a message but Value may be changed.
type Message struct {
	Schema  string // its name, without the registry's; empty where Err came first
	Version string // the id of the schema version, as in "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63"
	Number  int64  // of the version among those of its schema, from 1; 0 unknown
	Format  Format
	Type    string // the full name of the Avro or Protobuf type; empty for JSON and for Avro types without a name

	// Value is what the payload says.
	//
	// JSON: as encoding/json gives it, with [json.Number] for numbers; nil where the payload is empty.
	//
	// Avro: nil, bool, int32, int64, float32, float64, string (enums too), []byte (fixed too), []any, and map[string]any for maps and
	// records. A union is the value itself, and logical types are what they are made of: a timestamp-millis is an int64.
	//
	// Protobuf: a [proto.Message] that knows its fields (package dynamicpb).
	Value any

	// Err is why the record could not be decoded: then Value is nil and the record's Data is what it was. It is a [core.ErrInvalid].
	Err error

	// Native is what the record's Native was before: a *kpl.UserRecord where it came out of an aggregated record, else nil.
	Native any

	schema *schema
}

// Definition is the text of the schema; empty where Err came first.
func (m *Message) Definition() string {
	if m.schema == nil {
		return ""
	}
	return m.schema.text
}

// JSON is Value in JSON: for Protobuf by its own rules (package protojson), for Avro with bytes in base64 and numbers that JSON does not have
// as "NaN", "Infinity" and "-Infinity". It is Err where that is set.
func (m *Message) JSON() ([]byte, error) {
	if m.Err != nil {
		return nil, m.Err
	}
	value := m.Value
	if pb, ok := value.(proto.Message); ok {
		text, err := protojson.MarshalOptions{Resolver: m.schema.types}.Marshal(pb)
		if err != nil {
			return nil, fmt.Errorf("%s of schema %s in JSON: %w", m.Type, m.Schema, err)
		}
		var b bytes.Buffer // the spaces that protojson writes differ from build to build
		err = json.Compact(&b, text)
		return b.Bytes(), err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(printable(value)); err != nil {
		return nil, fmt.Errorf("value of schema %s in JSON: %w", m.Schema, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// printable is v with words for the numbers that JSON does not have; v itself where there are none.
func printable(v any) any {
	switch v := v.(type) {
	case float32:
		return number(float64(v), v)
	case float64:
		return number(v, v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = printable(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = printable(v[k])
		}
		return out
	}
	return v
}

func number(f float64, as any) any {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 0):
		return map[bool]string{true: "Infinity", false: "-Infinity"}[f > 0]
	}
	return as
}

// uuid is the text of a schema version's id.
func uuid(id [16]byte) string {
	b := make([]byte, 0, 36)
	for i, c := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			b = append(b, '-')
		}
		if c < 16 {
			b = append(b, '0')
		}
		b = strconv.AppendUint(b, uint64(c), 16)
	}
	return string(b)
}
