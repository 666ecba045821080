package kinesis

import (
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// cborClient speaks CBOR as the Java SDK does, over bytes.
type cborClient struct{ *rig }

func (c cborClient) call(operation string, in any, out any) (int, string) {
	c.t.Helper()
	body, ok := in.([]byte)
	if !ok {
		var err error
		body, err = cbor.Marshal(in)
		c.ok(err)
	}
	status, h, b := raw(c.t, c.http, "http://kinesis.test", cborType, operation, body)
	if got := h.Get("Content-Type"); got != cborType {
		c.t.Fatalf("%s answers in %s", operation, got)
	}
	if status != http.StatusOK {
		var e struct {
			Type    string `cbor:"__type"`
			Message string `cbor:"message"`
		}
		c.ok(cbor.Unmarshal(b, &e))
		return status, e.Type + ": " + e.Message
	}
	if len(b) > 0 && out != nil {
		c.ok(cbor.Unmarshal(b, out))
	}
	return status, ""
}

type cborRecords struct {
	Records []struct {
		Data                        []byte
		PartitionKey                string
		SequenceNumber              string
		ApproximateArrivalTimestamp cbor.RawTag
	}
	NextShardIterator  *string
	MillisBehindLatest int64
	ChildShards        []struct {
		ShardId      string
		ParentShards []string
		HashKeyRange struct{ StartingHashKey, EndingHashKey string }
	}
}

func TestCBOR(t *testing.T) {
	inBubble(t, Config{NoLimits: true}, func(t *testing.T, r *rig) {
		c := cborClient{r}
		must := func(operation string, in, out any) {
			t.Helper()
			if status, e := c.call(operation, in, out); status != http.StatusOK {
				t.Fatalf("%s: %s", operation, e)
			}
		}
		must("CreateStream", map[string]any{"StreamName": "orders", "ShardCount": 1}, nil)
		made := time.Now().UnixMilli()
		time.Sleep(1234 * time.Millisecond)

		data := []byte{0, 1, 0xff}
		var put struct{ ShardId, SequenceNumber string }
		must("PutRecord", map[string]any{"StreamName": "orders", "PartitionKey": "schlüssel\n", "Data": data}, &put)
		// The same again, with maps of indefinite length and strings in chunks, as Jackson may write them.
		chunked, err := hex.DecodeString("bf" + hexText("StreamName") + "7f" + hexText("ord") + hexText("ers") + "ff" +
			hexText("PartitionKey") + hexText("k") + hexText("Data") + "5f" + "420001" + "41ff" + "ff" + "ff")
		r.ok(err)
		must("PutRecord", chunked, &put)
		must("PutRecords", map[string]any{"StreamName": "orders", "Records": []any{map[string]any{"PartitionKey": "k", "Data": []byte{}}}}, nil)

		var iter struct{ ShardIterator string }
		ask := func(extra map[string]any) {
			t.Helper()
			in := map[string]any{"StreamName": "orders", "ShardId": shardID(0)}
			maps.Copy(in, extra)
			must("GetShardIterator", in, &iter)
		}
		ask(map[string]any{"ShardIteratorType": "TRIM_HORIZON"})
		var got cborRecords
		must("GetRecords", map[string]any{"ShardIterator": iter.ShardIterator, "Limit": 2}, &got)
		if len(got.Records) != 2 || string(got.Records[0].Data) != string(data) || got.Records[0].PartitionKey != "schlüssel\n" ||
			string(got.Records[1].Data) != string(data) || got.Records[1].SequenceNumber != put.SequenceNumber {
			t.Errorf("records %+v", got.Records)
		}
		at := got.Records[0].ApproximateArrivalTimestamp
		var ms int64
		r.ok(cbor.Unmarshal(at.Content, &ms))
		if at.Number != 1 || ms != made+1234 {
			t.Errorf("arrival is tag %d, %d; want tag 1 and %d milliseconds", at.Number, ms, made+1234)
		}

		for name, ts := range map[string]any{
			"tagged":   cbor.Tag{Number: 1, Content: made + 1234},
			"untagged": made + 1234,
			"float":    cbor.Tag{Number: 1, Content: float64(made + 1234)},
		} {
			ask(map[string]any{"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": ts})
			got = cborRecords{}
			must("GetRecords", map[string]any{"ShardIterator": iter.ShardIterator}, &got)
			if len(got.Records) != 3 {
				t.Errorf("%s time in milliseconds: %d records, want 3", name, len(got.Records))
			}
		}

		must("SplitShard", map[string]any{"StreamName": "orders", "ShardToSplit": shardID(0), "NewStartingHashKey": hashHalf}, nil)
		got = cborRecords{}
		must("GetRecords", map[string]any{"ShardIterator": iter.ShardIterator}, &got)
		if got.NextShardIterator != nil || len(got.ChildShards) != 2 || got.ChildShards[1].HashKeyRange.StartingHashKey != hashHalf || got.ChildShards[0].ParentShards[0] != shardID(0) {
			t.Errorf("end of the shard: next %v, children %+v", got.NextShardIterator, got.ChildShards)
		}
		var list struct {
			Shards []struct {
				ShardId       string
				ParentShardId *string
			}
		}
		must("ListShards", map[string]any{"StreamName": "orders", "ShardFilter": map[string]any{"Type": "AT_TIMESTAMP", "Timestamp": cbor.Tag{Number: 1, Content: made}}}, &list)
		if len(list.Shards) != 1 || list.Shards[0].ShardId != shardID(0) {
			t.Errorf("shards at the creation: %+v", list.Shards)
		}

		if status, e := c.call("DescribeStream", map[string]any{"StreamName": "nope"}, nil); status != http.StatusBadRequest || !strings.HasPrefix(e, "ResourceNotFoundException: Stream nope") {
			t.Errorf("unknown stream: %d %s", status, e)
		}
		for name, in := range map[string]any{
			"text for data":  map[string]any{"StreamName": "orders", "PartitionKey": "k", "Data": "AAE="},
			"bytes for text": map[string]any{"StreamName": []byte("orders"), "PartitionKey": "k", "Data": data},
			"JSON":           []byte(`{"StreamName":"orders"}`),
			"a cut body":     chunked[:20],
		} {
			if status, e := c.call("PutRecord", in, nil); status != http.StatusBadRequest || !strings.HasPrefix(e, "SerializationException: ") {
				t.Errorf("%s: %d %s", name, status, e)
			}
		}
	})
}

func hexText(s string) string {
	return hex.EncodeToString(append([]byte{cborText | byte(len(s))}, s...))
}

func TestWireRefusals(t *testing.T) {
	s := New(Config{})
	good := http.Header{"Content-Type": {jsonType}, "X-Amz-Target": {targetPrefix + "ListStreams"}, "Authorization": {"AWS4-HMAC-SHA256 x"}}
	for name, tc := range map[string]struct {
		method, body string
		change       func(http.Header)
		status       int
		code, word   string
	}{
		"good":               {"POST", `{}`, func(http.Header) {}, 200, "", "StreamNames"},
		"empty body":         {"POST", ``, func(http.Header) {}, 200, "", "StreamNames"},
		"no credentials":     {"POST", `{}`, func(h http.Header) { h.Del("Authorization") }, 400, "MissingAuthenticationTokenException", "Missing"},
		"unknown operation":  {"POST", `{}`, func(h http.Header) { h.Set("X-Amz-Target", targetPrefix+"Frobnicate") }, 400, "UnknownOperationException", "Frobnicate"},
		"fan-out, empty":     {"POST", `{}`, func(h http.Header) { h.Set("X-Amz-Target", targetPrefix+"SubscribeToShard") }, 400, "ValidationException", "startingPosition"},
		"another service":    {"POST", `{}`, func(h http.Header) { h.Set("X-Amz-Target", "DynamoDB_20120810.Scan") }, 400, "UnknownOperationException", "DynamoDB"},
		"no target":          {"POST", `{}`, func(h http.Header) { h.Del("X-Amz-Target") }, 400, "UnknownOperationException", "X-Amz-Target"},
		"unknown type":       {"POST", `{}`, func(h http.Header) { h.Set("Content-Type", "text/xml") }, 404, "UnknownOperationException", "text/xml"},
		"GET":                {"GET", ``, func(http.Header) {}, 405, "UnknownOperationException", "POST"},
		"not JSON":           {"POST", `{`, func(http.Header) {}, 400, "SerializationException", ""},
		"wrong type of JSON": {"POST", `{"Limit":"many"}`, func(http.Header) {}, 400, "SerializationException", "Limit"},
		"too large":          {"POST", strings.Repeat(" ", maxBody+1), func(http.Header) {}, 413, "RequestEntityTooLarge", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(tc.method, "/", strings.NewReader(tc.body))
			r.Header = good.Clone()
			tc.change(r.Header)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			var e struct {
				Type    string `json:"__type"`
				Message string `json:"message"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
				t.Fatalf("%v in %s", err, w.Body)
			}
			if w.Code != tc.status || e.Type != tc.code || !strings.Contains(w.Body.String(), tc.word) {
				t.Errorf("got %d %s, want %d %s naming %q", w.Code, w.Body, tc.status, tc.code, tc.word)
			}
			if w.Header().Get("X-Amzn-Requestid") == "" || w.Header().Get("Content-Length") == "" {
				t.Errorf("headers %v lack request id or length", w.Header())
			}
		})
	}
}

func TestEveryConstraintThatIsViolatedIsNamed(t *testing.T) {
	s := New(Config{})
	ask := func(operation, body string) string {
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.Header = http.Header{"Content-Type": {jsonType}, "X-Amz-Target": {targetPrefix + operation}, "Authorization": {"x"}}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Body.String()
	}
	for name, tc := range map[string]struct {
		operation, body string
		words           []string
	}{
		"two at once":    {"CreateStream", `{"ShardCount":0}`, []string{"2 validation errors", "'streamName'", "must not be null", "'shardCount'", "'0'"}},
		"name":           {"CreateStream", `{"StreamName":"a b","ShardCount":1}`, []string{"1 validation error detected", "'a b'", "[a-zA-Z0-9_.-]+"}},
		"no mode, count": {"CreateStream", `{"StreamName":"a"}`, []string{"ValidationException", "ShardCount"}},
		"mode":           {"CreateStream", `{"StreamName":"a","StreamModeDetails":{"StreamMode":"X"}}`, []string{"streamMode", "[PROVISIONED, ON_DEMAND]"}},
		"record":         {"PutRecord", `{"StreamName":"a","PartitionKey":""}`, []string{"'partitionKey'", "'data'", "must not be null"}},
		"which record":   {"PutRecords", `{"StreamName":"a","Records":[{"Data":"","PartitionKey":"k"},{"Data":"","PartitionKey":"k","ExplicitHashKey":"-1"}]}`, []string{"records.2.member.explicitHashKey", "'-1'"}},
		"hash key":       {"PutRecord", `{"StreamName":"a","PartitionKey":"k","Data":"","ExplicitHashKey":"340282366920938463463374607431768211456"}`, []string{"InvalidArgumentException", "340282366920938463463374607431768211456"}},
		"no records":     {"PutRecords", `{"StreamName":"a","Records":[]}`, []string{"'records'", "greater than or equal to 1"}},
		"stream id":      {"GetShardIterator", `{"StreamId":"a","ShardId":"b","ShardIteratorType":"LATEST"}`, []string{"StreamId is not supported"}},
		"distribution":   {"CreateStream", `{"StreamName":"a","RecordDistributionStrategy":"AUTO","WarmThroughputMiBps":5}`, []string{"2 validation", "AUTO is not supported", "WarmThroughputMiBps is not"}},
		"iterator":       {"GetShardIterator", `{"StreamName":"a"}`, []string{"'shardId'", "'shardIteratorType'"}},
		"long key":       {"PutRecord", `{"StreamName":"a","Data":"","PartitionKey":"` + strings.Repeat("ü", 257) + `"}`, []string{"'partitionKey'", "256"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(tc.operation, tc.body)
			for _, w := range tc.words {
				if !strings.Contains(got, w) {
					t.Errorf("%s lacks %q", got, w)
				}
			}
		})
	}
}

// FuzzRequests feeds any body to any operation, in both protocols: it must be answered, and without a panic.
func FuzzRequests(f *testing.F) {
	names := slices.Sorted(maps.Keys(operations))
	seeds := []string{
		`{"StreamName":"orders","ShardCount":1,"ShardId":"shardId-000000000000","ShardIteratorType":"AT_TIMESTAMP","Timestamp":1.5e9}`,
		`{"StreamName":"orders","Records":[{"Data":"AAE=","PartitionKey":"k","ExplicitHashKey":"5"}]}`,
		`{"StreamARN":"arn:aws:kinesis:us-east-1:000000000000:stream/orders","ShardToSplit":"shardId-000000000000","NewStartingHashKey":"9"}`,
		`{"NextToken":"AAAA","ShardFilter":{"Type":"AT_LATEST"}}`,
		`{"StreamName":"orders","ShardIteratorType":"AT_SEQUENCE_NUMBER","StartingSequenceNumber":"49590338271490256608559692538361571095921575989136588898"}`,
		`null`, `[]`, `{"Tags":{"a":null}}`,
	}
	for _, s := range seeds {
		var v any
		if err := json.Unmarshal([]byte(s), &v); err != nil {
			f.Fatal(err)
		}
		b, err := cbor.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		for op := range names {
			f.Add(uint8(op), false, []byte(s))
			f.Add(uint8(op), true, b)
		}
	}
	f.Add(uint8(0), true, []byte{0xbf, 0x69, 'T', 'i', 'm', 'e', 's', 't', 'a', 'm', 'p', 0xd8, 1, 0xf9, 0x7e, 0, 0xff})
	f.Fuzz(func(t *testing.T, op uint8, isCBOR bool, body []byte) {
		s := New(Config{})
		post := func(operation, contentType string, body []byte) *httptest.ResponseRecorder {
			r := httptest.NewRequest("POST", "/", strings.NewReader(string(body)))
			r.Header = http.Header{"Content-Type": {contentType}, "X-Amz-Target": {targetPrefix + operation}, "Authorization": {"x"}}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			return w
		}
		post("CreateStream", jsonType, []byte(`{"StreamName":"orders","ShardCount":2}`))
		w := post(names[int(op)%len(names)], pick(isCBOR, cborType, jsonType), body)
		if w.Code >= 500 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if w.Body.Len() > 0 {
			var v any
			var err error
			if isCBOR {
				err = cbor.Unmarshal(w.Body.Bytes(), &v)
			} else {
				err = json.Unmarshal(w.Body.Bytes(), &v)
			}
			if err != nil {
				t.Fatalf("answer %q can't be read: %v", w.Body.Bytes(), err)
			}
		}
	})
}

// FuzzTokens feeds any text to the readers of iterators, page tokens and sequence numbers.
func FuzzTokens(f *testing.F) {
	f.Add(iterator{stream: "orders", next: 5}.seal())
	f.Add(pageToken{Of: "shards", Filter: &shardFilter{Type: new(filterAtLatest)}}.seal())
	f.Add(sequence{stream: 1, n: 2, shard: 3}.String())
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, s string) {
		if it, ok := openIterator(s); ok {
			if back, ok := openIterator(it.seal()); !ok || back != it {
				t.Fatalf("iterator %+v comes back as %+v", it, back)
			}
		}
		_, _ = openPageToken(s, "shards", 0)
		if q, ok := parseSequence(s); ok && q.String() != s {
			t.Fatalf("sequence number %s comes back as %s", s, q)
		}
	})
}
