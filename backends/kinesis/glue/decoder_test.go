package glue

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/hamba/avro/v2"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/shardwarden/shardwarden/core"
)

func deflate(t testing.TB, from io.Reader) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	if _, err := io.Copy(z, from); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

const (
	list      = `{"type":"record","name":"L","fields":[{"name":"next","type":["null","L"]}]}`
	arrays    = `{"type":"array","items":"null"}`
	protoTree = `syntax = "proto3"; message T { repeated T t = 1; repeated bool b = 2; map<string, int32> m = 3; }`
)

// What is small on the wire and large in memory.
func bombs(t testing.TB) map[string]struct {
	format  Format
	text    string
	payload []byte
	zlib    bool
} {
	varint := func(n int64) []byte { return binary.AppendVarint(nil, n) }
	field := func(n protowire.Number, b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), b)
	}
	type bomb = struct {
		format  Format
		text    string
		payload []byte
		zlib    bool
	}
	var entries []byte
	for i := range 1 << 16 {
		entries = append(entries, field(3, field(1, fmt.Append(nil, i)))...)
	}
	return map[string]bomb{
		"zlib, zeros":      {JSON, "{}", deflate(t, io.LimitReader(zeros{}, 16<<20)), true},
		"avro, 2^40 nulls": {Avro, arrays, varint(1 << 40), false},
		"avro, 2^63 nulls": {Avro, arrays, append(varint(math.MinInt64), 2), false},
		"avro, records of nothing": {
			Avro, `{"type":"array","items":{"type":"record","name":"E","fields":[]}}`, varint(1 << 40), false,
		},
		"avro, deep":          {Avro, list, bytes.Repeat([]byte{2}, 1<<18), false},
		"avro, text too long": {Avro, `"string"`, varint(1 << 40), false},
		"avro, negative text": {Avro, `"string"`, varint(-5), false},
		"json, deep":          {JSON, "{}", bytes.Repeat([]byte("["), 1<<18), false},
		"json, empty lists":   {JSON, "{}", append(append([]byte("[[]"), bytes.Repeat([]byte(",[]"), 1<<17)...), ']'), false},
		"json, empty objects": {JSON, "{}", append(append([]byte("[{}"), bytes.Repeat([]byte(",{}"), 1<<17)...), ']'), false},
		"protobuf, empty":     {Protobuf, protoTree, append([]byte{0}, bytes.Repeat(field(1, nil), 1<<16)...), false},
		"protobuf, bools":     {Protobuf, protoTree, append([]byte{0}, field(2, make([]byte, 1<<18))...), false},
		"protobuf, map":       {Protobuf, protoTree, append([]byte{0}, entries...), false},
	}
}

func TestMemoryIsBounded(t *testing.T) {
	const most = 1 << 20
	for name, b := range bombs(t) {
		t.Run(name, func(t *testing.T) {
			var reg fakeRegistry
			reg.add(version, "bomb", b.format, b.text)
			d := reg.decoder(MaxBytes(most))
			decode(t, d, record(version, nil)) // the schema is there now
			r := record(version, b.payload)
			if b.zlib {
				r.Data[1] = compressed
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			m := decode(t, d, r)
			runtime.ReadMemStats(&after)
			if m.Err == nil {
				t.Fatal("decoded")
			}
			// All that was allocated, garbage among it: buffers and lists that grow by doubling, and copies of a JSON text. The race detector
			// makes more of it.
			if n := after.TotalAlloc - before.TotalAlloc; n > 12*most {
				t.Errorf("%d MiB were allocated to find that %v", n>>20, m.Err)
			}
		})
	}
}

// What is reckoned for a value must not be far below what it takes.
func TestReckonedIsNotLessThanTaken(t *testing.T) {
	for name, b := range bombs(t) {
		if len(b.payload) < 100_000 || strings.Contains(name, "deep") || b.zlib {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var reg fakeRegistry
			reg.add(version, "large", b.format, b.text)
			d := reg.decoder(MaxBytes(4 << 30))
			decode(t, d, record(version, nil))
			r := record(version, b.payload)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			size, err := d.Decode(t.Context(), r)
			runtime.GC()
			runtime.ReadMemStats(&after)
			if err != nil || r.Native.(*Message).Err != nil {
				t.Fatal(err, r.Native)
			}
			if taken := int(after.HeapAlloc) - int(before.HeapAlloc); taken > size*5/4 || size > 20*taken {
				t.Errorf("takes %d, reckoned %d", taken, size)
			}
			runtime.KeepAlive(r)
		})
	}
}

// As deep as values may be is no trouble either.
func TestDeepValues(t *testing.T) {
	var reg fakeRegistry
	reg.add(versionNumber(1), "list", Avro, list)
	reg.add(versionNumber(2), "json", JSON, "{}")
	d := reg.decoder()
	for n, payload := range map[int]string{1: strings.Repeat("\x02", 4000) + "\x00", 2: strings.Repeat("[", 9000) + strings.Repeat("]", 9000)} {
		m := decode(t, d, record(versionNumber(n), []byte(payload)))
		if m.Err != nil {
			t.Error(m.Err)
		}
		if _, err := m.JSON(); err != nil {
			t.Error(err)
		}
	}
}

func TestAvroAsAnotherLibraryWritesIt(t *testing.T) {
	text := `{"type":"record","name":"R","fields":[
		{"name":"list","type":{"type":"array","items":"long"}},
		{"name":"map","type":{"type":"map","values":["null","string",{"type":"record","name":"I","fields":[{"name":"e","type":{"type":"enum","name":"E","symbols":["A","B"]}}]}]}},
		{"name":"again","type":"I"},
		{"name":"f","type":"float"},{"name":"none","type":"null"},{"name":"day","type":{"type":"int","logicalType":"date"}}]}`
	type inner struct {
		E string `avro:"e"`
	}
	long := make([]int64, 350) // several blocks, with their sizes
	want := make([]any, len(long))
	for i := range long {
		long[i] = int64(i) << (i % 60)
		want[i] = long[i]
	}
	in := map[string]any{
		"list": long, "map": map[string]any{"a": nil, "b": "text", "c": map[string]any{"I": map[string]any{"e": "B"}}},
		"again": inner{"A"}, "f": float32(1.25), "none": nil, "day": int32(-7),
	}
	payload, err := avro.Marshal(avro.MustParse(text), in)
	if err != nil {
		t.Fatal(err)
	}
	var reg fakeRegistry
	reg.add(version, "r", Avro, text)
	m := decode(t, reg.decoder(), record(version, payload))
	if m.Err != nil {
		t.Fatal(m.Err)
	}
	value := map[string]any{
		"list": want, "map": map[string]any{"a": nil, "b": "text", "c": map[string]any{"e": "B"}},
		"again": map[string]any{"e": "A"}, "f": float32(1.25), "none": nil, "day": int32(-7),
	}
	if !reflect.DeepEqual(m.Value, value) || m.Type != "R" {
		t.Errorf("%s %v\nwant %v", m.Type, m.Value, value)
	}
	for cut := 0; cut < len(payload); cut += 13 {
		if m := decode(t, reg.decoder(), record(version, payload[:cut])); m.Err == nil {
			t.Fatalf("decoded without its last %d bytes", len(payload)-cut)
		}
	}
}

func TestAvroErrorsNameTheField(t *testing.T) {
	var reg fakeRegistry
	reg.add(version, "r", Avro, `{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"record","name":"S","fields":[{"name":"b","type":"boolean"}]}}]}`)
	if m := decode(t, reg.decoder(), record(version, []byte{7})); m.Err == nil || !strings.Contains(m.Err.Error(), "field a.b: a boolean is 7") {
		t.Error(m.Err)
	}
}

// Two schemas may use one name for different things.
func TestSchemasDoNotShareNames(t *testing.T) {
	var reg fakeRegistry
	reg.add(versionNumber(1), "one", Avro, `{"type":"record","name":"N","fields":[{"name":"a","type":"int"}]}`)
	reg.add(versionNumber(2), "two", Avro, `{"type":"record","name":"N","fields":[{"name":"b","type":"string"}]}`)
	reg.add(versionNumber(3), "three", Avro, `{"type":"array","items":"N"}`)
	reg.add(versionNumber(4), "four", Protobuf, `syntax="proto3"; message N { int32 a = 1; }`)
	reg.add(versionNumber(5), "five", Protobuf, `syntax="proto3"; message N { string b = 1; }`)
	d := reg.decoder()
	for n, c := range map[int]struct{ payload, want string }{
		1: {"\x02", `{"a":1}`}, 2: {"\x02x", `{"b":"x"}`}, 4: {"\x00\x08\x01", `{"a":1}`}, 5: {"\x00\x0a\x01x", `{"b":"x"}`},
	} {
		if got, err := decode(t, d, record(versionNumber(n), []byte(c.payload))).JSON(); err != nil || string(got) != c.want {
			t.Errorf("%d: %s, %v; want %s", n, got, err, c.want)
		}
	}
	if m := decode(t, d, record(versionNumber(3), []byte{0})); m.Err == nil || !strings.Contains(m.Err.Error(), "unknown type") {
		t.Errorf("a schema that uses another's name: %v", m.Err)
	}
}

func TestProtobufImports(t *testing.T) {
	var reg fakeRegistry
	reg.add(version, "price", Protobuf, `syntax = "proto3"; package p;
		import "google/type/money.proto"; import "google/protobuf/any.proto"; import "google/protobuf/wrappers.proto";
		message Price { google.type.Money of = 1; google.protobuf.Any more = 2; google.protobuf.StringValue note = 3; }`)
	money := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "EUR")
	url := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "type.googleapis.com/google.type.Money")
	any := protowire.AppendBytes(protowire.AppendTag(url, 2, protowire.BytesType), money)
	payload := protowire.AppendBytes([]byte{0, 0x0a}, money)
	payload = protowire.AppendBytes(append(payload, 0x12), any)
	got, err := decode(t, reg.decoder(), record(version, payload)).JSON()
	if want := `{"of":{"currencyCode":"EUR"},"more":{"@type":"type.googleapis.com/google.type.Money","currencyCode":"EUR"}}`; err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

func TestJSONOfValuesThatJSONDoesNotHave(t *testing.T) {
	var reg fakeRegistry
	reg.add(version, "f", Avro, `{"type":"array","items":["double","float","bytes","string"]}`)
	payload := []byte{12}
	for _, f := range []float64{math.NaN(), math.Inf(1), 0.1} {
		payload = binary.LittleEndian.AppendUint64(append(payload, 0), math.Float64bits(f))
	}
	payload = binary.LittleEndian.AppendUint32(append(payload, 2), math.Float32bits(float32(math.Inf(-1))))
	payload = append(payload, 4, 4, 0xff, 0xfe, 6, 6, '<', '"', '&', 0)
	got, err := decode(t, reg.decoder(), record(version, payload)).JSON()
	if want := `["NaN","Infinity",0.1,"-Infinity","//4=","<\"&"]`; err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

// A message stays good in a clone, whatever becomes of the page.
func TestMessageOwnsItsMemory(t *testing.T) {
	for name, c := range map[string]struct {
		format        Format
		text, payload string
	}{
		"avro":     {Avro, `{"type":"map","values":["bytes","string"]}`, "\x04\x02k\x00\x04by\x02l\x02\x04te\x00"},
		"json":     {JSON, `{}`, `{"key":["text",1.5]}`},
		"protobuf": {Protobuf, `syntax = "proto3"; message M { string s = 1; bytes b = 2; repeated string r = 3; }`, "\x00\x0a\x04text\x12\x04byte\x1a\x02re\x7a\x02un"},
	} {
		t.Run(name, func(t *testing.T) {
			var reg fakeRegistry
			reg.add(version, "s", c.format, c.text)
			r := record(version, []byte(c.payload))
			whole := r.Data
			m := decode(t, reg.decoder(), r)
			before, err := m.JSON()
			if err != nil {
				t.Fatal(err)
			}
			kept := r.Clone()
			for i := range whole {
				whole[i] = 0xdb
			}
			if after, err := kept.Native.(*Message).JSON(); err != nil || !bytes.Equal(before, after) {
				t.Errorf("%s became %s, %v", before, after, err)
			}
		})
	}
}

func TestPlainPayloadIsAView(t *testing.T) {
	var reg fakeRegistry
	reg.add(version, "s", JSON, "{}")
	r := record(version, []byte("17"))
	whole := r.Data
	decode(t, reg.decoder(), r)
	if &r.Data[0] != &whole[headerBytes] {
		t.Error("the payload was copied")
	}
}

func TestBadRecordsAreLoggedLessAndLess(t *testing.T) {
	var reg fakeRegistry
	var log strings.Builder
	d := reg.decoder(Logger(slog.New(slog.NewTextHandler(&log, nil))))
	for range 1000 {
		decode(t, d, record(version, nil))
	}
	if n := strings.Count(log.String(), "\n"); n != 10 || d.Counts().Bad != 1000 {
		t.Errorf("%d lines for %d records:\n%s", n, d.Counts().Bad, log.String())
	}
}

func FuzzDecode(f *testing.F) {
	var reg fakeRegistry
	texts := []struct {
		format Format
		text   string
	}{
		{Avro, readVectors(f, "java.json")[0].Schema}, {Avro, list}, {Avro, arrays}, {JSON, "{}"}, {Protobuf, protoTree},
		{Protobuf, `syntax = "proto2"; message A { required int32 n = 1; optional group G = 2 { optional A a = 3; } extensions 100 to 200; } message B { repeated fixed64 f = 1; oneof o { string s = 2; bytes b = 3; } }`},
	}
	for i, s := range texts {
		reg.add(versionNumber(i), "s", s.format, s.text)
	}
	d := reg.decoder(MaxBytes(1 << 20))
	for i := range texts {
		for _, file := range []string{"java.json", "broken.json"} {
			for _, v := range readVectors(f, file) {
				if len(v.Data) > headerBytes && len(v.Data) < 1000 {
					f.Add(uint8(i), v.Data[1] == compressed, v.Data[headerBytes:])
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, zlib bool, payload []byte) {
		r := record(versionNumber(int(which)%len(texts)), payload)
		if zlib {
			r.Data[1] = compressed
		}
		was := bytes.Clone(r.Data)
		size, err := d.Decode(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		m := r.Native.(*Message)
		switch {
		case m.Err != nil && (!bytes.Equal(r.Data, was) || m.Value != nil || size != 0):
			t.Fatalf("%v, but data %x became %x", m.Err, was, r.Data)
		case m.Err == nil && size > 1<<20+messageSize:
			t.Fatalf("takes %d bytes", size)
		case m.Err == nil && !zlib && !bytes.Equal(r.Data, payload):
			t.Fatalf("payload %x became %x", payload, r.Data)
		}
		if _, err := m.JSON(); err != nil && m.Err == nil && m.Format != Protobuf {
			t.Fatalf("%v in JSON: %v", m.Value, err)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for _, v := range readVectors(b, "java.json") {
		switch v.Name {
		case "java_avro_everything_plain", "java_json_order_plain", "java_json_order_zlib", "java_protobuf_shop_shop_v1_Alpha_plain":
			b.Run(v.Name, func(b *testing.B) {
				var reg fakeRegistry
				reg.add(v.Version, v.Title, v.Format, v.Schema)
				d := reg.decoder()
				b.ReportAllocs()
				for b.Loop() {
					r := core.Record{Data: v.Data}
					if _, err := d.Decode(b.Context(), &r); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
