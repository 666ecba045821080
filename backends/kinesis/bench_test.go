package kinesis

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// cannedJSON is a page as the service writes it.
func cannedJSON(records, bytesEach int) []byte {
	var page bytes.Buffer
	page.WriteString(`{"MillisBehindLatest":1,"NextShardIterator":"` + cannedIterator + `","Records":[`)
	data := make([]byte, bytesEach)
	for i := range records {
		if i > 0 {
			page.WriteByte(',')
		}
		fillRandom(data, i)
		fmt.Fprintf(&page, `{"ApproximateArrivalTimestamp":1.787036486712E9,"Data":%q,"PartitionKey":"key-%d","SequenceNumber":"%056d"}`, base64.StdEncoding.EncodeToString(data), i, i+1)
	}
	page.WriteString(`]}`)
	return page.Bytes()
}

// cannedCBOR is the same in CBOR.
func cannedCBOR(records, bytesEach int) []byte {
	page := chain(0xbf, "MillisBehindLatest", 0x01, "NextShardIterator", cannedIterator, "Records", 0x9f)
	data := make([]byte, bytesEach)
	for i := range records {
		fillRandom(data, i)
		page = append(page, chain(0xbf, "ApproximateArrivalTimestamp", 0xc1, 0x1b, []byte{0, 0, 1, 0xa0, 0x15, 0x80, 0xf2, 0xb8}, "Data", cbytes(string(data)), "PartitionKey", fmt.Sprintf("key-%d", i), "SequenceNumber", fmt.Sprintf("%056d", i+1), 0xff)...)
	}
	return append(page, 0xff, 0xff)
}

var cannedIterator = strings.Repeat("AAAA", 50)

// fillRandom makes data that base64 has all characters for.
func fillRandom(b []byte, seed int) {
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// canned answers GetShardIterator and GetRecords from memory: what is measured is the client alone.
func canned(records, bytesEach int) doer {
	page := cannedJSON(records, bytesEach)
	header := http.Header{"Content-Type": {"application/x-amz-json-1.1"}}
	return func(r *http.Request) (*http.Response, error) {
		body := page
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
				p, err := rd.Next(b.Context())
				if err != nil || len(p.Records) != c.records {
					b.Fatal(err)
				}
				p.Release()
			}
			if c.records > 0 {
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.records), "ns/record")
			}
		})
	}
}
