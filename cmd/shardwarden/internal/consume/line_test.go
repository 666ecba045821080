package consume

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/shardwarden/shardwarden/backends/kinesis/glue"
	"github.com/shardwarden/shardwarden/core"
)

func TestAppendLine(t *testing.T) {
	t.Parallel()
	plain := core.Record{Data: []byte("hello"), Key: "k", Sequence: "495", Arrived: 1700000000123}
	tests := []struct {
		name   string
		record core.Record
		form   form
		want   string
	}{
		{"data", plain, asBase64, `{"stream":"s","shard":"shardId-0","sequence":"495","sub":0,"key":"k","arrived":1700000000123,"data":"aGVsbG8="}`},
		{"text", plain, asText, `{"stream":"s","shard":"shardId-0","sequence":"495","sub":0,"key":"k","arrived":1700000000123,"text":"hello"}`},
		{"text that is none", core.Record{Data: []byte{0xff, 0}, Key: "k", Sequence: "1", Sub: 7}, asText,
			`{"stream":"s","shard":"shardId-0","sequence":"1","sub":7,"key":"k","arrived":0,"data":"/wA="}`},
		{"empty", core.Record{Key: "k", Sequence: "1"}, asBase64, `{"stream":"s","shard":"shardId-0","sequence":"1","sub":0,"key":"k","arrived":0,"data":""}`},
		{"JSON", core.Record{Data: []byte(`{"type":"put"}`), Key: `"a",1`, Sequence: "1"}, asJSON,
			`{"stream":"s","shard":"shardId-0","sequence":"1","sub":0,"key":"\"a\",1","arrived":0,"data":{"type":"put"}}`},
		{"JSON as text", core.Record{Data: []byte(`{"type":"put"}`), Key: "k", Sequence: "1"}, asText,
			`{"stream":"s","shard":"shardId-0","sequence":"1","sub":0,"key":"k","arrived":0,"text":"{\"type\":\"put\"}"}`},
		{"decoded", core.Record{Data: []byte("\x02"), Key: "k", Sequence: "1", Native: &glue.Message{Schema: "a<b", Version: "0a", Value: map[string]any{"n": int32(1), "s": "<"}}}, asBase64,
			`{"stream":"s","shard":"shardId-0","sequence":"1","sub":0,"key":"k","arrived":0,"schema":"a<b","schema_version":"0a","data":{"n":1,"s":"<"}}`},
		{"not to be decoded", core.Record{Data: []byte("\x03\x00?"), Key: "k", Sequence: "1", Native: &glue.Message{Version: "0a", Err: errors.New("no \"schema\"")}}, asBase64,
			`{"stream":"s","shard":"shardId-0","sequence":"1","sub":0,"key":"k","arrived":0,"schema":"","schema_version":"0a","error":"no \"schema\"","data":"AwA/"}`},
		{"quotes, lines, umlauts", core.Record{Data: []byte("a\"b\\c\n\x01ü"), Key: "k\"ü", Sequence: "1"}, asText,
			`{"stream":"s","shard":"shardId-0","sequence":"1","sub":0,"key":"k\"ü","arrived":0,"text":"a\"b\\c\n\u0001ü"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := string(appendLine(nil, "s", "shardId-0", &tt.record, tt.form))
			if got != tt.want+"\n" {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
			var back struct{ Key, Text string }
			if err := json.Unmarshal([]byte(got), &back); err != nil || back.Key != tt.record.Key {
				t.Errorf("read back: %+v, %v", back, err)
			}
		})
	}
}

func BenchmarkAppendLine(b *testing.B) {
	r := core.Record{Data: make([]byte, 200), Key: "customer-17", Sequence: "49590338271490256608559692538361571095921575989136588898", Arrived: 1700000000123}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = appendLine(buf[:0], "orders", "shardId-000000000000", &r, asBase64)
	}
}
