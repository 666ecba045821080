package kinesis

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
)

// raw sends a request as bytes, unsigned but for the header's presence.
func raw(t testing.TB, c *http.Client, url, contentType, operation string, body []byte) (int, http.Header, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("X-Amz-Target", targetPrefix+operation)
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 any")
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, b
}

// BenchmarkGetRecords reads 8 shards of 50,000 records of 200 bytes over loopback, client and server in one process;
// run it with -cpu 1 for what one core serves.
func BenchmarkGetRecords(b *testing.B) {
	s := New(Config{NoLimits: true})
	hs := httptest.NewServer(s)
	defer hs.Close()
	defer hs.Client().CloseIdleConnections()
	const shards, records = 8, 50_000
	st := &stream{name: "bench", created: 1_700_000_000_000, retention: s.config.Retention * 1e4, maxRecord: defaultRecordSize, state: stateActive}
	s.streams["bench"] = st
	data := bytes.Repeat([]byte("0123456789"), 20)
	for i := range uint64(shards) {
		end := lastHashKey
		if i+1 < shards {
			end = evenStart(i+1, shards).prev()
		}
		h := st.addShard(st.created, evenStart(i, shards), end)
		st.openShards = append(st.openShards, h)
		for j := range records {
			h.log.append(st.tick(), st.created+int64(j), fmt.Sprintf("key-%d", j), data)
		}
	}
	for _, p := range []string{jsonType, cborType} {
		b.Run(p[len("application/x-amz-"):], func(b *testing.B) {
			var n, size int
			for b.Loop() {
				for i := range uint32(shards) {
					it := iterator{created: st.created, issued: 1 << 50, shard: i, stream: st.name}
					for got := 0; got < records; {
						body := fmt.Appendf(nil, `{"ShardIterator":%q}`, it.seal())
						if p == cborType {
							body, _ = cbor.Marshal(map[string]string{"ShardIterator": it.seal()})
						}
						req, _ := http.NewRequest(http.MethodPost, hs.URL, bytes.NewReader(body))
						req.Header.Set("Content-Type", p)
						req.Header.Set("X-Amz-Target", targetPrefix+"GetRecords")
						req.Header.Set("Authorization", "AWS4-HMAC-SHA256 any")
						res, err := hs.Client().Do(req)
						if err != nil {
							b.Fatal(err)
						}
						k, err := io.Copy(io.Discard, res.Body)
						res.Body.Close()
						if err != nil || res.StatusCode != http.StatusOK {
							b.Fatal(res.Status, err)
						}
						got += mostRecords
						it.next = st.shards[i].log.blocks[(got-1)/blockRecords].meta[(got-1)%blockRecords].n + 1
						size += int(k)
					}
					n += records
				}
			}
			if size < n*200 {
				b.Fatalf("%d bytes of %d records", size, n)
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// BenchmarkPutRecords is what the server alone spends on 500 records of 200 bytes.
func BenchmarkPutRecords(b *testing.B) {
	data := bytes.Repeat([]byte("0123456789"), 20)
	var records []string
	list := make([]map[string]any, 0, mostPuts)
	for i := range mostPuts {
		records = append(records, fmt.Sprintf(`{"Data":%q,"PartitionKey":"key-%d"}`, base64.StdEncoding.EncodeToString(data), i))
		list = append(list, map[string]any{"Data": data, "PartitionKey": fmt.Sprintf("key-%d", i)})
	}
	bodies := map[string][]byte{jsonType: []byte(`{"StreamName":"bench","Records":[` + strings.Join(records, ",") + `]}`)}
	bodies[cborType], _ = cbor.Marshal(map[string]any{"StreamName": "bench", "Records": list})
	for _, p := range []string{jsonType, cborType} {
		b.Run(p[len("application/x-amz-"):], func(b *testing.B) {
			s := New(Config{NoLimits: true, Retention: 1e6})
			create := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"StreamName":"bench","ShardCount":8}`))
			send := func(r *http.Request, p, op string) *httptest.ResponseRecorder {
				r.Header.Set("Content-Type", p)
				r.Header.Set("X-Amz-Target", targetPrefix+op)
				r.Header.Set("Authorization", "any")
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				return w
			}
			send(create, jsonType, "CreateStream")
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				w := send(httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(bodies[p])), p, "PutRecords")
				if w.Code != http.StatusOK {
					b.Fatal(w.Body)
				}
				n += mostPuts
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
