package kinesis

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/schemas"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/encoding/cbor"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/aws/smithy-go/transport/http/protocol/awsjson"

	"github.com/shardwarden/shardwarden/core"
)

// decoded is a page as our decoders make it.
func decoded(t testing.TB, body []byte) (*page, error) {
	t.Helper()
	e := exchange{}
	err := e.decode(t.Context(), &http.Response{StatusCode: 200, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))})
	return e.page, err
}

var (
	stockProtocol = awsjson.New11(schemas.Kinesis_20131202)
	stockSchema   = smithy.NewOperationSchema(schemas.GetRecords, schemas.GetRecordsInput, schemas.GetRecordsOutput)
)

// stock is what the SDK makes of the same bytes.
func stock(body []byte) (p *page, err error) {
	defer func() {
		if r := recover(); r != nil { // it does, for a time that is NaN
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	var out sdk.GetRecordsOutput
	resp := &smithyhttp.Response{Response: &http.Response{StatusCode: 200, Body: io.NopCloser(bytes.NewReader(body))}}
	if err := stockProtocol.DeserializeResponse(context.Background(), stockSchema, sdk.TypeRegistry, resp, &out); err != nil {
		return nil, err
	}
	return stockPage(&out)
}

// difference says how two pages differ; arrival times may by a millisecond, see decodeJSON.
func difference(got, want *page) string {
	switch {
	case got.next != want.next:
		return fmt.Sprintf("next iterator %q, want %q", got.next, want.next)
	case got.Lag != want.Lag && (got.Lag >= 0 || want.Lag >= 0):
		return fmt.Sprintf("lag %v, want %v", got.Lag, want.Lag)
	case got.read != want.read:
		return fmt.Sprintf("%d bytes read, want %d", got.read, want.read)
	case len(got.Records) != len(want.Records):
		return fmt.Sprintf("%d records, want %d", len(got.Records), len(want.Records))
	case len(got.children)+len(want.children) > 0 && !reflect.DeepEqual(plainChildren(got.children), plainChildren(want.children)):
		return fmt.Sprintf("children %+v, want %+v", plainChildren(got.children), plainChildren(want.children))
	}
	for i := range got.Records {
		g, w := &got.Records[i], &want.Records[i]
		if !bytes.Equal(g.Data, w.Data) || g.Key != w.Key || g.Sequence != w.Sequence || g.Sub != 0 || g.Native != nil || g.Arrived-w.Arrived < -1 || g.Arrived-w.Arrived > 1 {
			return fmt.Sprintf("record %d: %+v, want %+v", i, *g, *w)
		}
	}
	return ""
}

// plainChildren is children without pointers, and without what a list of none differs in from none.
func plainChildren(in []types.ChildShard) []map[string]any {
	var out []map[string]any
	for _, c := range in {
		b, err := json.Marshal(c)
		if err != nil {
			panic(err)
		}
		m := map[string]any{}
		if err := json.Unmarshal(b, &m); err != nil {
			panic(err)
		}
		if parents, ok := m["ParentShards"].([]any); !ok || len(parents) == 0 {
			delete(m, "ParentShards")
		}
		out = append(out, m)
	}
	return out
}

const (
	sequenceOne = "49545115243490985018280067714973144582180062593244200961"
	recordOne   = `{"ApproximateArrivalTimestamp":1.441215410867E9,"Data":"AAECAwQF","PartitionKey":"partitionKey-3","SequenceNumber":"` + sequenceOne + `"}`
)

// jsonPages are answers that both decoders must take, with something in each that may go wrong.
var jsonPages = map[string]string{
	"as documented":          `{"MillisBehindLatest":2100,"NextShardIterator":"AAAAAAAAAAHsW8zCWf9164uy8Epue6WS3w6wmj4a4USt+CNvMd6uXQ+HL5vAJMznqqC0DLKsIjuoiTi1BpT6nW0LN2M2D56zM5H8anHm30Gbri9ua+qaGgj+3XTyvbhpERfrezgLHbPB/rIcVpykJbaSj5tmcXYRmFnqZBEyHwtZYFmh6hvWVFkIwLuMZLMrpWhG5r5hzkE=","Records":[` + recordOne + `]}`,
	"nothing":                `{}`,
	"null":                   `{"Records":null,"NextShardIterator":null,"MillisBehindLatest":null,"ChildShards":null}`,
	"no records":             `{"Records":[],"MillisBehindLatest":0,"NextShardIterator":"x"}`,
	"an empty iterator":      `{"Records":[],"NextShardIterator":""}`,
	"space everywhere":       " \t\r\n{ \"Records\" : [ " + strings.ReplaceAll(recordOne, ":", " :\n") + " , " + recordOne + " ] , \"MillisBehindLatest\" : 7 } \n",
	"members in disorder":    `{"Records":[{"SequenceNumber":"1","Data":"eA==","ApproximateArrivalTimestamp":1,"PartitionKey":"k"}],"MillisBehindLatest":1}`,
	"unknown members":        `{"New":{"a":[1,-2.5e-3,true,false,null,{"b":"]}\""}],"c":{}},"Records":[{"SequenceNumber":"1","More":[[[]]],"EncryptionType":"KMS","Data":"","PartitionKey":"k"}]}`,
	"null members":           `{"Records":[{"SequenceNumber":"1","Data":null,"PartitionKey":null,"ApproximateArrivalTimestamp":null,"EncryptionType":null}]}`,
	"nothing but a number":   `{"Records":[{"SequenceNumber":"1"}]}`,
	"escapes in a key":       `{"Records":[{"SequenceNumber":"1","Data":"eA==","PartitionKey":"a\"\\\/\b\f\n\r\té\u20ac\ud83d\ude00z"}]}`,
	"half a surrogate":       `{"Records":[{"SequenceNumber":"1","PartitionKey":"\ud83dx\ude00\ud83d\ud83d\ude00\u0000\uFFFD"}]}`,
	"escapes in data":        `{"Records":[{"SequenceNumber":"1","Data":"\/\/\/\/","PartitionKey":"k"},{"SequenceNumber":"2","Data":"/w\u003d\u003d","PartitionKey":"k"}]}`,
	"escapes in a name":      `{"Rec\u006frds":[{"Sequence\u004eumber":"1","D\u0061ta":"eA=="}]}`,
	"keys of any characters": `{"Records":[{"SequenceNumber":"1","PartitionKey":"ключ-鍵-🔑"},{"SequenceNumber":"2","PartitionKey":"` + "\xff\xfe" + `"}]}`,
	"loose bits in base64":   `{"Records":[{"SequenceNumber":"1","Data":"eB=="},{"SequenceNumber":"2","Data":"eHl="}]}`,
	"a member twice":         `{"MillisBehindLatest":1,"MillisBehindLatest":2,"Records":[` + recordOne + `],"Records":[{"SequenceNumber":"1","SequenceNumber":"2","Data":"eA==","Data":"eQ=="}]}`,
	"times":                  `{"Records":[{"SequenceNumber":"1","ApproximateArrivalTimestamp":1441215410.867},{"SequenceNumber":"2","ApproximateArrivalTimestamp":1441215410},{"SequenceNumber":"3","ApproximateArrivalTimestamp":1.5E9},{"SequenceNumber":"4","ApproximateArrivalTimestamp":0},{"SequenceNumber":"5","ApproximateArrivalTimestamp":-1.5},{"SequenceNumber":"6","ApproximateArrivalTimestamp":15e+8},{"SequenceNumber":"7","ApproximateArrivalTimestamp":1441215410.86712345678901234567890},{"SequenceNumber":"8","ApproximateArrivalTimestamp":1.441215410867E09},{"SequenceNumber":"9","ApproximateArrivalTimestamp":14412154108670000e-7}]}`,
	"children":               `{"Records":[],"ChildShards":[{"ShardId":"shardId-000000000002","ParentShards":["shardId-000000000000","shardId-000000000001"],"HashKeyRange":{"StartingHashKey":"0","EndingHashKey":"340282366920938463463374607431768211455"},"New":1},{"ShardId":null,"ParentShards":null,"HashKeyRange":null},{"ShardId":"a\/b","ParentShards":[],"HashKeyRange":{"New":[],"StartingHashKey":null}}]}`,
	"something behind":       `{"Records":[` + recordOne + `]}  trailing`,
}

func TestJSONPagesAreTheSDKs(t *testing.T) {
	for name, body := range jsonPages {
		t.Run(name, func(t *testing.T) {
			want, err := stock([]byte(body))
			if err != nil {
				t.Fatalf("the SDK: %v", err)
			}
			got, err := decoded(t, []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			if d := difference(got, want); d != "" {
				t.Error(d)
			}
			got.Release()
		})
	}
}

// The SDK goes by way of a float64 and loses a millisecond now and then; we do not.
func TestTimesAreExact(t *testing.T) {
	for range 2000 {
		ms := rand.N(int64(4102444800000)) // up to 2100
		for _, form := range []string{
			fmt.Sprintf("%d.%03d", ms/1000, ms%1000),
			strings.Replace(fmt.Sprintf("%.12E", float64(ms)/1000), "E+0", "E", 1),
		} {
			if form[len(form)-2] == 'E' && ms < 1e12 {
				continue // Java writes as many digits as there are, which Sprintf does not
			}
			if got, ok := exactMillis([]byte(form)); !ok || got != ms {
				t.Fatalf("%s: %d %v, want %d", form, got, ok, ms)
			}
		}
	}
	for form, want := range map[string]int64{"1.787036486712E9": 1787036486712, "1787036486.7129": 1787036486712, "0": 0, "5e-1": -1, "12": 12000, "1E2": 100000, "0.0e99": 0, "9223372036.854": 9223372036854} {
		got, ok := exactMillis([]byte(form))
		if ok != (want >= 0) || (ok && got != want) {
			t.Errorf("%s: %d, %v", form, got, ok)
		}
	}
	for _, form := range []string{"9223372036.855", "1e99", "99999999999999999999", "123456789012345678901234567890e-20", "-1", "1E", "1E123"} {
		if got, ok := exactMillis([]byte(form)); ok {
			t.Errorf("%s: %d", form, got)
		}
	}
}

// badPages are answers that are none.
var badPages = map[string]string{
	"no JSON":                   `<html>`,
	"nothing at all":            ``,
	"a list":                    `[]`,
	"records that are none":     `{"Records":{}}`,
	"a record that is none":     `{"Records":["x"]}`,
	"no sequence number":        `{"Records":[{"Data":"eA=="}]}`,
	"a null record":             `{"Records":[null]}`,
	"base64 of no length":       `{"Records":[{"SequenceNumber":"1","Data":"eA="}]}`,
	"a character not of base64": `{"Records":[{"SequenceNumber":"1","Data":"eA*="}]}`,
	"padding inside":            `{"Records":[{"SequenceNumber":"1","Data":"eA==eA=="}]}`,
	"padding alone":             `{"Records":[{"SequenceNumber":"1","Data":"===="}]}`,
	"the other base64":          `{"Records":[{"SequenceNumber":"1","Data":"eA-_"}]}`,
	"data that is a number":     `{"Records":[{"SequenceNumber":"1","Data":5}]}`,
	"a time that is text":       `{"Records":[{"SequenceNumber":"1","ApproximateArrivalTimestamp":"NaN"}]}`,
	"a time of no calendar":     `{"Records":[{"SequenceNumber":"1","ApproximateArrivalTimestamp":1e300}]}`,
	"a lag that is no integer":  `{"MillisBehindLatest":1.5}`,
	"a lag beyond 64 bits":      `{"MillisBehindLatest":9223372036854775808}`,
	"a leading zero":            `{"MillisBehindLatest":01}`,
	"a control character":       "{\"Records\":[{\"SequenceNumber\":\"1\n\"}]}",
	"an unknown escape":         `{"Records":[{"SequenceNumber":"\x"}]}`,
	"half an escape":            `{"Records":[{"SequenceNumber":"\u12"}]}`,
	"a comma too many":          `{"Records":[` + recordOne + `,]}`,
	"a comma too few":           `{"Records":[` + recordOne + recordOne + `]}`,
	"too deep":                  `{"New":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`,
	"a word":                    `{"New":nul}`,
}

func TestBadPages(t *testing.T) {
	limitPages(t, 1<<30)
	for name, body := range badPages {
		p, err := decoded(t, []byte(body))
		if _, ok := errors.AsType[*pageError](err); !ok || p != nil {
			t.Errorf("%s: error %v, page %v", name, err, p)
		}
	}
	// What is cut off is no page, wherever it is.
	for _, whole := range [][]byte{[]byte(strings.TrimSuffix(jsonPages["as documented"], "}")), javaCBOR()[:len(javaCBOR())-1]} {
		for n := range whole {
			if p, err := decoded(t, slices.Clone(whole[:n])); err == nil {
				t.Fatalf("%q: %+v", whole[:n], p)
			}
		}
	}
	if used := PageMemory(); used != 0 {
		t.Errorf("pages that are none hold %d bytes", used)
	}
}

// cborText and so on write CBOR with heads of one byte, as far as the tests need.
func ctext(s string) []byte { return appendCBORText(nil, s) }

func cbytes(b string) []byte { return append(appendCBORHead(nil, cborBytes, uint64(len(b))), b...) }

func chain(parts ...any) (out []byte) {
	for _, p := range parts {
		switch p := p.(type) {
		case byte:
			out = append(out, p)
		case int:
			out = append(out, byte(p))
		case string:
			out = append(out, ctext(p)...)
		case []byte:
			out = append(out, p...)
		}
	}
	return out
}

// javaCBOR is a page as the service writes it: maps and lists without length, times as tag 1 with whole milliseconds.
func javaCBOR() []byte {
	return chain(0xbf, "MillisBehindLatest", 0x19, 0x08, 0x34, "NextShardIterator", "AAAA", "Records", 0x9f,
		0xbf, "ApproximateArrivalTimestamp", 0xc1, 0x1b, []byte{0, 0, 1, 0x4f, 0x8f, 0x3d, 0x31, 0x73}, "Data", cbytes("\x00\x01\x02\x03\x04\x05"), "PartitionKey", "partitionKey-3", "SequenceNumber", sequenceOne, 0xff,
		0xff, 0xff)
}

func TestCBORPages(t *testing.T) {
	const ms = 0x14f8f3d3173
	record := func(time, data []byte) []byte {
		return chain(0xa1, "Records", 0x81, 0xa4, "SequenceNumber", "1", "PartitionKey", "k", "ApproximateArrivalTimestamp", time, "Data", data)
	}
	float := func(f float64) []byte {
		b := math.Float64bits(f)
		return []byte{0xfb, byte(b >> 56), byte(b >> 48), byte(b >> 40), byte(b >> 32), byte(b >> 24), byte(b >> 16), byte(b >> 8), byte(b)}
	}
	data := cbytes("data")
	for name, c := range map[string]struct {
		body    []byte
		arrived int64
		data    string
	}{
		"the service's":               {record(chain(0xc1, 0x1b, []byte{0, 0, 1, 0x4f, 0x8f, 0x3d, 0x31, 0x73}), data), ms, "data"},
		"without the tag":             {record(chain(0x1b, []byte{0, 0, 1, 0x4f, 0x8f, 0x3d, 0x31, 0x73}), data), ms, "data"},
		"whole seconds":               {record(chain(0x1a, []byte{0x55, 0xe7, 0x36, 0x32}), data), 1441216050_000, "data"},
		"seconds as a float":          {record(float(1441216050.867), data), 1441216050_867, "data"},
		"tagged seconds as a float":   {record(chain(0xc1, float(1441216050.867)), data), 1441216050_867, "data"},
		"milliseconds as a float":     {record(float(1441216050867), data), 1441216050_867, "data"},
		"a float of 32 bits":          {record(chain(0xfa, []byte{0x42, 0xc8, 0, 0}), data), 100_000, "data"},
		"a float of 16 bits":          {record(chain(0xf9, []byte{0x3e, 0}), data), 1500, "data"},
		"data as text":                {record([]byte{0xf6}, ctext("ZGF0YQ==")), 0, "data"},
		"data in chunks":              {record([]byte{0xf6}, chain(0x5f, cbytes("da"), cbytes(""), cbytes("ta"), 0xff)), 0, "data"},
		"data as text in chunks":      {record([]byte{0xf6}, chain(0x7f, ctext("ZGF"), ctext("0YQ=="), 0xff)), 0, "data"},
		"no data":                     {record([]byte{0xf7}, []byte{0xf6}), 0, ""},
		"unknown members":             {chain(0xbf, "New", 0xa2, 0x01, 0x9f, 0xf5, 0xf4, 0xf8, 0x20, 0x3b, []byte{0, 0, 0, 0, 0, 0, 0, 1}, 0xff, 0x42, 1, 2, 0xc1, 0x00, record([]byte{0}, data)[1:], 0xff), 0, "data"},
		"lengths longer than needed":  {chain(0xb8, 1, 0x79, 0, 7, []byte("Records"), 0x9b, []byte{0, 0, 0, 0, 0, 0, 0, 1}, record([]byte{0}, data)[10:]), 0, "data"},
		"names and numbers in chunks": {chain(0xa1, 0x7f, ctext("Rec"), ctext("ords"), 0xff, 0x81, 0xa3, "Data", data, "SequenceNumber", 0x7f, ctext("1"), ctext(""), 0xff, "PartitionKey", 0x7f, ctext("k"), 0xff), 0, "data"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := decoded(t, c.body)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Release()
			if len(p.Records) != 1 {
				t.Fatalf("%d records", len(p.Records))
			}
			r := p.Records[0]
			if string(r.Data) != c.data || r.Key != "k" || r.Sequence != "1" || r.Arrived != c.arrived || p.Lag != -1 || p.next != "" {
				t.Errorf("%+v, lag %v, next %q; want data %q, arrived %d", r, p.Lag, p.next, c.data, c.arrived)
			}
		})
	}
	t.Run("a whole page", func(t *testing.T) {
		p, err := decoded(t, javaCBOR())
		if err != nil {
			t.Fatal(err)
		}
		defer p.Release()
		want, err := stock([]byte(strings.Replace(strings.Replace(jsonPages["as documented"], "1.441215410867E9", "1441055010.163", 1), p.next, p.next, 1)))
		if err != nil {
			t.Fatal(err)
		}
		want.next, want.Records[0].Arrived = "AAAA", ms
		if d := difference(p, want); d != "" {
			t.Error(d)
		}
	})
	t.Run("children", func(t *testing.T) {
		p, err := decoded(t, chain(0xbf, "Records", 0x80, "MillisBehindLatest", 0xfb, []byte{0x40, 0x24, 0, 0, 0, 0, 0, 0}, "ChildShards", 0x9f,
			0xbf, "ShardId", "shardId-000000000002", "New", 0x01, "ParentShards", 0x9f, "shardId-000000000000", "shardId-000000000001", 0xff, "HashKeyRange", 0xbf, "StartingHashKey", "0", "EndingHashKey", "5", 0xff, 0xff,
			0xa3, "ShardId", 0xf6, "ParentShards", 0xf6, "HashKeyRange", 0xa2, "New", 0x80, "StartingHashKey", 0xf6, 0xff, 0xff))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Release()
		want, err := stock([]byte(`{"Records":[],"MillisBehindLatest":10,"ChildShards":[{"ShardId":"shardId-000000000002","ParentShards":["shardId-000000000000","shardId-000000000001"],"HashKeyRange":{"StartingHashKey":"0","EndingHashKey":"5"}},{"ShardId":null,"HashKeyRange":{}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if d := difference(p, want); d != "" {
			t.Error(d)
		}
	})
}

func TestBadCBORPages(t *testing.T) {
	deep := append(ctext("New"), bytes.Repeat([]byte{0x81}, 5000)...)
	for name, body := range map[string][]byte{
		"a list for records' map":   chain(0xa1, "Records", 0xa0),
		"a record that is text":     chain(0xa1, "Records", 0x81, "x"),
		"no sequence number":        chain(0xa1, "Records", 0x81, 0xa0),
		"a sequence that is bytes":  chain(0xa1, "Records", 0x81, 0xa1, "SequenceNumber", cbytes("1")),
		"text that is not base64":   chain(0xa1, "Records", 0x81, 0xa2, "SequenceNumber", "1", "Data", "data!"),
		"more records than bytes":   chain(0xa1, "Records", 0x9b, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}),
		"more members than bytes":   chain(0xbb, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}),
		"text longer than all":      chain(0xa1, 0x7b, []byte{0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, "x"),
		"a chunk of another kind":   chain(0xa1, "Records", 0x81, 0xa1, "Data", 0x5f, "x", 0xff),
		"a chunk in chunks":         chain(0xa1, "Records", 0x81, 0xa1, "Data", 0x5f, 0x5f, 0xff, 0xff),
		"a break in the open":       chain(0xa1, "New", 0xff),
		"a head that is reserved":   chain(0xa1, "New", 0x1c),
		"a number without a length": chain(0xa1, "New", 0x1f),
		"a name that is a number":   chain(0xa1, 0x01, 0x01),
		"a lag with a fraction":     chain(0xa1, "MillisBehindLatest", 0xfb, []byte{0x3f, 0xf8, 0, 0, 0, 0, 0, 0}),
		"a lag that is no number":   chain(0xa1, "MillisBehindLatest", 0xf9, []byte{0x7e, 0}),
		"a lag of 64 bits":          chain(0xa1, "MillisBehindLatest", 0x1b, []byte{0xff, 0, 0, 0, 0, 0, 0, 0}),
		"a time that is infinite":   chain(0xa1, "Records", 0x81, 0xa1, "ApproximateArrivalTimestamp", 0xf9, []byte{0x7c, 0}),
		"too deep":                  append([]byte{0xa1}, deep...),
	} {
		p, err := decoded(t, body)
		if _, ok := errors.AsType[*pageError](err); !ok || p != nil {
			t.Errorf("%s: error %v, page %v", name, err, p)
		}
	}
}

func TestBase64(t *testing.T) {
	for n := range 200 {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(rand.Uint32())
		}
		text := []byte(base64.StdEncoding.EncodeToString(data))
		if got, ok := decodeBase64(slices.Clone(text)); !ok || !bytes.Equal(got, data) {
			t.Fatalf("%s: %x, %v", text, got, ok)
		}
		for i := range text { // each place matters
			bad := slices.Clone(text)
			bad[i] = "*-_\x00\xff\n="[rand.N(7)]
			want, err := base64.StdEncoding.DecodeString(string(bad))
			got, ok := decodeBase64(slices.Clone(bad))
			if ok && (err != nil || !bytes.Equal(got, want)) {
				t.Fatalf("%q: %x, want %x, %v", bad, got, want, err)
			}
			if !ok && err == nil && !bytes.Contains(bad, []byte("\n")) {
				t.Fatalf("%q: refused", bad)
			}
		}
	}
}

// Each byte at each place of a text that is decoded in blocks: with the instructions for it, and without.
func TestBase64InBlocks(t *testing.T) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	text := []byte(alphabet[17:] + alphabet + alphabet[:21])
	for at := range text {
		for ch := range 256 {
			in := slices.Clone(text)
			in[at] = byte(ch)
			want, err := base64.StdEncoding.DecodeString(string(in))
			good := err == nil && ch != '\n' && ch != '\r'
			block := slices.Clone(in)
			done := decodeBlocks(block)
			if done%32 != 0 || done > len(in) || !strings.Contains(alphabet, string(rune(ch))) && done > at/32*32 || good && done > 0 && done < len(in)/32*32 {
				t.Fatalf("%q at %d: %d characters are done", rune(ch), at, done)
			}
			if good && !bytes.Equal(block[:done/4*3], want[:done/4*3]) || !bytes.Equal(block[done:], in[done:]) {
				t.Fatalf("%q at %d: %q became %q", rune(ch), at, in, block)
			}
			if got, ok := decodeBase64(in); ok != good || ok && !bytes.Equal(got, want) {
				t.Fatalf("%q at %d: %x, %v, want %x", rune(ch), at, got, ok, want)
			}
		}
	}
}

// Whatever the length of a string, and with characters of it escaped, and behind it more that could be base64.
func TestBase64InStrings(t *testing.T) {
	for n := range 300 {
		data := make([]byte, n)
		fillRandom(data, n)
		plain := base64.StdEncoding.EncodeToString(data)
		for _, text := range []string{plain, strings.ReplaceAll(plain, "/", `\/`), strings.ReplaceAll(plain, "+", `\u002b`)} {
			const behind = `ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZ`
			c := jsonCursor{b: []byte(`"` + text + `"` + behind)}
			got, err := c.base64()
			if err != nil || !bytes.Equal(got, data) || cap(got) != n || string(c.b[c.i:]) != behind {
				t.Fatalf("%s: %x, %v, want %x; then comes %q", text, got, err, data, c.b[c.i:])
			}
			for _, bad := range []string{text, text + `*"`, "*" + text + `"`} {
				c := jsonCursor{b: []byte(`"` + bad)}
				if got, err := c.base64(); err == nil {
					t.Fatalf("%s: %x", bad, got)
				}
			}
		}
	}
}

// What our decoder takes the SDK's takes, and makes the same of it.
func FuzzDecodeJSON(f *testing.F) {
	for _, s := range jsonPages {
		f.Add([]byte(s))
	}
	for name, s := range badPages {
		if name != "too deep" {
			f.Add([]byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		p := newPage(len(body))
		p.body = append(p.body, body...)
		if p.decodeJSON() != nil {
			return
		}
		p.finish()
		want, err := stock(body)
		if err != nil {
			t.Fatalf("we take what the SDK does not: %v", err)
		}
		if d := difference(p, want); d != "" {
			t.Fatal(d)
		}
	})
}

// What our decoder takes is what another reads out of the same bytes.
func FuzzDecodeCBOR(f *testing.F) {
	f.Add(javaCBOR())
	f.Add(chain(0xa1, "Records", 0x81, 0xa4, "SequenceNumber", "1", "PartitionKey", "k", "ApproximateArrivalTimestamp", 0xf9, []byte{0x3e, 0}, "Data", 0x5f, cbytes("da"), cbytes("ta"), 0xff))
	f.Add(chain(0xa1, "Records", 0x81, 0xa2, "SequenceNumber", "1", "Data", "ZGF0YQ=="))
	f.Add(chain(0xbf, "New", 0xa2, "a", 0x9f, 0xf5, 0xf8, 0x20, 0xff, "b", 0xc1, 0x00, "MillisBehindLatest", 0x39, 1, 1, 0xff))
	f.Fuzz(func(t *testing.T, body []byte) {
		p := newPage(len(body))
		p.body = append(p.body, body...)
		if p.decodeCBOR() != nil {
			return
		}
		p.finish()
		v, err := cbor.Decode(body)
		if err != nil {
			return // it takes less: no simple values, no trailing bytes
		}
		want, ok := pageOf(v)
		if !ok {
			return
		}
		if d := difference(p, want); d != "" {
			t.Fatal(d)
		}
	})
}

// pageOf makes a page of a tree of values, the slow way.
func pageOf(v cbor.Value) (*page, bool) {
	m, ok := v.(cbor.Map)
	if !ok {
		return nil, false
	}
	p := &page{}
	p.Lag = -1
	p.next = ctextOf(m["NextShardIterator"]) + ctextOf(m["ContinuationSequenceNumber"])
	if m["NextShardIterator"] != nil && m["ContinuationSequenceNumber"] != nil || m["ChildShards"] != nil {
		return nil, false
	}
	switch n := untag(m["MillisBehindLatest"]).(type) {
	case cbor.Uint:
		p.Lag = lag(int64(n))
	case cbor.Float64:
		p.Lag = lag(int64(n))
	case cbor.Float32:
		p.Lag = lag(int64(n))
	}
	list, _ := untag(m["Records"]).(cbor.List)
	for _, item := range list {
		in, ok := untag(item).(cbor.Map)
		if !ok {
			return nil, false
		}
		r := core.Record{Key: ctextOf(in["PartitionKey"]), Sequence: ctextOf(in["SequenceNumber"])}
		switch d := untag(in["Data"]).(type) {
		case cbor.Slice:
			r.Data = d
		case cbor.String:
			b, err := base64.StdEncoding.DecodeString(string(d))
			if err != nil {
				return nil, false
			}
			r.Data = b
		}
		ms := 0.0
		switch n := untag(in["ApproximateArrivalTimestamp"]).(type) {
		case cbor.Uint:
			ms = float64(n)
		case cbor.NegInt:
			ms = -float64(n)
		case cbor.Float64:
			ms = float64(n)
		case cbor.Float32:
			ms = float64(n)
		}
		if math.Abs(ms) < secondsBelow {
			ms *= 1000
		}
		r.Arrived = int64(ms)
		p.read += len(r.Data) + len(r.Key)
		p.Records = append(p.Records, r)
	}
	return p, true
}

func untag(v cbor.Value) cbor.Value {
	for {
		t, ok := v.(*cbor.Tag)
		if !ok {
			return v
		}
		v = t.Value
	}
}

func ctextOf(v cbor.Value) string {
	s, _ := untag(v).(cbor.String)
	return string(s)
}
