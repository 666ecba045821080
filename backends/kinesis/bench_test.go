package kinesis

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// canned answers GetShardIterator and GetRecords from memory: what is measured is the client alone.
func canned(records, bytesEach int) doer {
	var page bytes.Buffer
	page.WriteString(`{"MillisBehindLatest":1,"NextShardIterator":"AAAA","Records":[`)
	for i := range records {
		if i > 0 {
			page.WriteByte(',')
		}
		fmt.Fprintf(&page, `{"SequenceNumber":"%056d","ApproximateArrivalTimestamp":1.7e9,"Data":%q,"PartitionKey":"key-%d"}`, i+1, base64.StdEncoding.EncodeToString(make([]byte, bytesEach)), i)
	}
	page.WriteString(`]}`)
	header := http.Header{"Content-Type": {"application/x-amz-json-1.1"}}
	return func(r *http.Request) (*http.Response, error) {
		body := page.Bytes()
		if r.Header.Get("X-Amz-Target") == "Kinesis_20131202.GetShardIterator" {
			body = []byte(`{"ShardIterator":"AAAA"}`)
		}
		return &http.Response{StatusCode: 200, Request: r, ProtoMajor: 1, ProtoMinor: 1, Header: header, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))}, nil
	}
}

func BenchmarkRead(b *testing.B) {
	for _, c := range []struct {
		name           string
		records, bytes int
	}{{"empty", 0, 0}, {"2500x200B", 2500, 200}, {"500x1KB", 500, 1000}} {
		b.Run(c.name, func(b *testing.B) {
			s := New(testConfig(), "orders", Endpoint("http://kinesis.test"), HTTPClient(canned(c.records, c.bytes)))
			rd, err := s.Open(b.Context(), core.Shard{ID: one}, core.FromHorizon)
			if err != nil {
				b.Fatal(err)
			}
			defer rd.Close()
			b.ReportAllocs()
			for b.Loop() {
				rd.(*reader).pace.next = time.Time{}
				if p, err := rd.Next(b.Context()); err != nil || len(p.Records) != c.records {
					b.Fatal(err)
				}
			}
			if c.records > 0 {
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.records), "ns/record")
			}
		})
	}
}
