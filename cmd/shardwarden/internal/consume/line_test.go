package consume

import (
	"encoding/json"
	"testing"

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
