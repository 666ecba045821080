package glue

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/shardwarden/shardwarden/core"
)

// asJSON is a value as the vectors write it: bytes apart from text, and numbers as they are.
func asJSON(t *testing.T, m *Message) any {
	t.Helper()
	if _, ok := m.Value.(proto.Message); ok {
		text, err := m.JSON()
		if err != nil {
			t.Fatal(err)
		}
		return parse(t, text)
	}
	text, err := json.Marshal(markBytes(m.Value))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, text)
}

func markBytes(v any) any {
	switch v := v.(type) {
	case []byte:
		return map[string]any{"$bytes": base64.StdEncoding.EncodeToString(v)}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = markBytes(v[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k := range v {
			out[k] = markBytes(v[k])
		}
		return out
	}
	return v
}

func parse(t *testing.T, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return sameNumbers(v)
}

// sameNumbers makes 12.340 and 12.34 the same.
func sameNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if r, ok := new(big.Rat).SetString(v.String()); ok {
			return r.RatString()
		}
	case []any:
		for i := range v {
			v[i] = sameNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = sameNumbers(v[k])
		}
	}
	return v
}

func check(t *testing.T, v *vector, r *core.Record, want json.RawMessage) {
	t.Helper()
	m := r.Native.(*Message)
	if m.Err != nil {
		t.Fatalf("%v; want %s", m.Err, want)
	}
	if got := asJSON(t, m); !reflect.DeepEqual(got, parse(t, want)) {
		t.Errorf("value %v\nwant  %s", got, want)
	}
	if !bytes.Equal(r.Data, v.KCL.Data) {
		t.Errorf("data %x, the KCL has %x", r.Data, v.KCL.Data)
	}
	if m.Schema != v.KCL.Name || m.Version != v.Version || m.Format != v.Format || m.Number != 3 || m.Definition() != v.Schema {
		t.Errorf("schema %q version %q (%d) %s", m.Schema, m.Version, m.Number, m.Format)
	}
}

func TestVectors(t *testing.T) {
	n := 0
	for _, file := range []string{"java.json", "python.json"} {
		for _, v := range readVectors(t, file) {
			n++
			t.Run(v.Name, func(t *testing.T) {
				var reg fakeRegistry
				reg.add(v.Version, v.Title, v.Format, v.Schema)
				r := &core.Record{Data: v.Data, Native: "before"}
				m := decode(t, reg.decoder(), r)
				check(t, &v, r, v.Want)
				if v.Message != nil && m.Type != v.Message.FullName {
					t.Errorf("type %s, want %s", m.Type, v.Message.FullName)
				}
				if m.Native != "before" {
					t.Errorf("what Native was is %v", m.Native)
				}
			})
		}
	}
	if n != 36 {
		t.Errorf("%d vectors", n)
	}
}

// Each case of broken.json: what Java takes for a record without a schema stays as it is; what it decodes is decoded; what it refuses, and
// what it hangs on, is handed out as it came with the error beside it, or is an error.
func TestBrokenVectors(t *testing.T) {
	counts := map[string]int{}
	for _, v := range readVectors(t, "broken.json") {
		t.Run(v.Name, func(t *testing.T) {
			var reg fakeRegistry
			if v.Schema != "" {
				reg.add(v.Version, v.KCL.Name, v.Format, v.Schema)
			}
			d, strict := reg.decoder(), reg.decoder(Strict())
			r := &core.Record{Data: bytes.Clone(v.Data), Sequence: "17", Native: "before"}
			s := &core.Record{Data: bytes.Clone(v.Data), Sequence: "17", Native: "before"}
			if _, err := d.Decode(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			size, err := strict.Decode(t.Context(), s)
			switch {
			case !v.Java.Can:
				counts["untouched"]++
				if r.Native != "before" || !bytes.Equal(r.Data, v.Data) || err != nil || s.Native != "before" || reg.asked() != 0 || d.Counts().Untouched != 1 {
					t.Errorf("a record without the header was touched: %+v, %v, %d calls", r, err, reg.asked())
				}
			case v.Java.Throws != "" || v.Java.Hangs:
				counts["bad"]++
				m, ok := r.Native.(*Message)
				if !ok || m.Err == nil || !errors.Is(m.Err, core.ErrInvalid) || errors.Is(m.Err, core.ErrNotFound) || m.Value != nil || m.Native != "before" || m.Version != v.Version {
					t.Errorf("message %+v", r.Native)
				}
				if !bytes.Equal(r.Data, v.Data) || d.Counts().Bad != 1 {
					t.Errorf("data %x, want what came; %+v", r.Data, d.Counts())
				}
				if !errors.Is(err, core.ErrInvalid) || errors.Is(err, core.ErrNotFound) || size != 0 || s.Native != "before" || !bytes.Equal(s.Data, v.Data) {
					t.Errorf("strict: %v, %+v", err, s)
				}
				t.Log(err)
			default:
				counts["decoded"]++
				if err != nil {
					t.Errorf("strict: %v", err)
				}
				check(t, &v, r, v.Java.JSON)
			}
		})
	}
	if want := map[string]int{"untouched": 7, "bad": 13, "decoded": 9}; !reflect.DeepEqual(counts, want) {
		t.Errorf("%v, want %v", counts, want)
	}
}
