package kinesis

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	leases "github.com/shardwarden/shardwarden/leasestore/memory"
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

// touch reads every byte once, as a handler would.
func touch(data []byte) (sum uint64) {
	for ; len(data) >= 8; data = data[8:] {
		sum ^= binary.LittleEndian.Uint64(data)
	}
	for _, ch := range data {
		sum ^= uint64(ch)
	}
	return sum
}

// BenchmarkAgainstSDK compares GetRecords with the SDK's own call, in records per CPU second of this process: "x-sdk" is how many times as many.
// Both read the same page from a server in another process, by turns; the SDK's client also copies its request bodies, so that it does not
// pay for broken connections. Run with -benchtime=5x or more; the figure is the median.
func BenchmarkAgainstSDK(b *testing.B) {
	for _, c := range []struct {
		name           string
		records, bytes int
		tls, cbor      bool
		pages          int // of one turn
	}{
		{"CBOR/10000x200B", 10_000, 200, false, true, 40},
		{"JSON/10000x200B", 10_000, 200, false, false, 40},
		{"CBOR/1000x100B", 1000, 100, false, true, 300},
		{"JSON/1000x100B", 1000, 100, false, false, 300},
		{"CBOR/10000x1KB", 10_000, 1000, false, true, 10},
		{"JSON/10000x1KB", 10_000, 1000, false, false, 10},
		{"CBOR/10000x200B/TLS", 10_000, 200, true, true, 40},
		{"CBOR/empty", 0, 0, false, true, 1000},
	} {
		b.Run(c.name, func(b *testing.B) {
			url := startBench(b, benchStream{Shards: 1, Records: c.records, Bytes: c.bytes, TLS: c.tls})
			opts := []Option{Endpoint(url)}
			if c.cbor {
				opts = append(opts, CBOR())
			}
			s := New(benchConfig(), "bench", opts...)
			client := sdk.NewFromConfig(benchConfig(), func(o *sdk.Options) {
				o.BaseEndpoint, o.HTTPClient = &url, ownBody{o.HTTPClient}
			})
			it, err := client.GetShardIterator(b.Context(), &sdk.GetShardIteratorInput{StreamName: aws.String("bench"), ShardId: aws.String("shardId-000000000000"), ShardIteratorType: types.ShardIteratorTypeTrimHorizon})
			if err != nil {
				b.Fatal(err)
			}
			limit := int32(max(1, c.records))
			var sum uint64
			stock := func() {
				out, err := client.GetRecords(b.Context(), &sdk.GetRecordsInput{ShardIterator: it.ShardIterator, Limit: &limit})
				if err != nil || len(out.Records) != c.records {
					b.Fatal(err)
				}
				for i := range out.Records {
					sum ^= touch(out.Records[i].Data)
				}
			}
			ours := func() {
				p, err := s.getRecords(b.Context(), request{iterator: *it.ShardIterator, limit: limit})
				if err != nil || len(p.Records) != c.records {
					b.Fatal(err)
				}
				for i := range p.Records {
					sum ^= touch(p.Records[i].Data)
				}
				p.Release()
			}
			turn := func(read func()) float64 {
				debug.FreeOSMemory() // the garbage of the one is not returned at the cost of the other
				start := cpu()
				for range c.pages {
					read()
				}
				return float64(cpu() - start)
			}
			turn(stock)
			turn(ours)
			var ratios []float64
			var theirs, mine float64
			for b.Loop() {
				theirs, mine = turn(stock), turn(ours)
				ratios = append(ratios, theirs/mine)
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "x-sdk")
			b.ReportMetric(0, "ns/op")
			if c.records > 0 {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				turn(ours)
				runtime.ReadMemStats(&after)
				n := float64(c.pages * c.records)
				b.ReportMetric(theirs/n, "sdk-ns/record")
				b.ReportMetric(mine/n, "ns/record")
				b.ReportMetric(float64(after.Mallocs-before.Mallocs)/n, "allocs/record")
				b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/n, "B/record")
			}
			if n := s.Pages(); n.Fallbacks > 0 || n.Stock > 0 || (n.CBOR > 0) != c.cbor {
				b.Fatalf("pages were decoded in another way: %+v", n)
			}
		})
	}
}

// BenchmarkWholePath compares a worker, as a user makes it, with a bare loop around the SDK's call, over the same stream: "x-sdk" is how many times
// as many records per CPU second. The worker's lease table is in memory, its handler does nothing.
func BenchmarkWholePath(b *testing.B) {
	for _, size := range []int{200, 1000} {
		stream := benchStream{Shards: 8, Records: 12_000_000 / size, Bytes: size}
		for _, format := range []string{"CBOR", "JSON"} {
			b.Run(fmt.Sprintf("%s/%dB", format, size), func(b *testing.B) {
				url := startBench(b, stream)
				var ratios []float64
				var counts PageCounts
				for b.Loop() {
					debug.FreeOSMemory() // the garbage of the one is not returned at the cost of the other
					start := cpu()
					stockLoop(b, url, stream)
					stock := cpu() - start
					debug.FreeOSMemory()
					start = cpu()
					counts = workerLoop(b, url, stream, format)
					ratios = append(ratios, float64(stock)/float64(cpu()-start))
				}
				slices.Sort(ratios)
				b.ReportMetric(ratios[len(ratios)/2], "x-sdk")
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(counts.CBOR), "cbor-pages")
				b.ReportMetric(float64(counts.JSON), "json-pages")
				b.ReportMetric(float64(counts.Stock+counts.Fallbacks), "fallen-back")
			})
		}
	}
}

func stockLoop(b *testing.B, url string, stream benchStream) {
	client := sdk.NewFromConfig(benchConfig(), func(o *sdk.Options) { o.BaseEndpoint, o.HTTPClient = &url, ownBody{o.HTTPClient} })
	var wg sync.WaitGroup
	for i := range stream.Shards {
		wg.Go(func() {
			it, err := client.GetShardIterator(b.Context(), &sdk.GetShardIteratorInput{StreamName: aws.String("bench"), ShardId: aws.String(string(shardID(i))), ShardIteratorType: types.ShardIteratorTypeTrimHorizon})
			if err != nil {
				b.Error(err)
				return
			}
			next, n := it.ShardIterator, 0
			for n < stream.Records {
				out, err := client.GetRecords(b.Context(), &sdk.GetRecordsInput{ShardIterator: next})
				if err != nil {
					b.Error(err)
					return
				}
				n += len(out.Records)
				next = out.NextShardIterator
			}
		})
	}
	wg.Wait()
}

func workerLoop(b *testing.B, url string, stream benchStream, format string) PageCounts {
	opts := []Option{Endpoint(url)}
	if format == "CBOR" {
		opts = append(opts, CBOR())
	}
	s := New(benchConfig(), "bench", opts...)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var left atomic.Int64
	left.Store(int64(stream.Shards * stream.Records))
	w, err := worker.New(worker.Config{
		Streams: worker.One(s, core.FromHorizon), Store: leases.New(),
		Process: func(_ context.Context, batch *core.Batch) error {
			if left.Add(-int64(len(batch.Records))) == 0 {
				cancel()
			}
			return nil
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := w.Run(ctx); err != nil {
		b.Fatal(err)
	}
	if n := left.Load(); n != 0 {
		b.Fatalf("%d records too few", n)
	}
	return s.Pages()
}

// BenchmarkLargePages reads 5,000 pages of 1.5 MB over real connections and reports how many attempts failed.
func BenchmarkLargePages(b *testing.B) {
	url := startBench(b, benchStream{Shards: 1, Records: 1500, Bytes: 1000})
	for _, c := range []struct {
		name string
		opts []Option
	}{{"CBOR", []Option{CBOR()}}, {"JSON", nil}, {"SDK", []Option{StockPages()}}} {
		b.Run(c.name, func(b *testing.B) {
			s := New(benchConfig(), "bench", append(c.opts, Endpoint(url))...)
			it, err := s.client.GetShardIterator(b.Context(), &sdk.GetShardIteratorInput{StreamName: aws.String("bench"), ShardId: aws.String("shardId-000000000000"), ShardIteratorType: types.ShardIteratorTypeTrimHorizon})
			if err != nil {
				b.Fatal(err)
			}
			failed := 0
			for b.Loop() {
				for range 5000 {
					p, err := s.getRecords(b.Context(), request{iterator: *it.ShardIterator, limit: 1500})
					switch {
					case err != nil:
						failed++
					case len(p.Records) != 1500:
						b.Fatalf("%d records", len(p.Records))
					case p.Release != nil:
						p.Release()
					}
				}
			}
			b.ReportMetric(float64(failed), "failed")
		})
	}
}

// BenchmarkDecode is the decoders alone, on a page of 10,000 records of 200 B, beside the SDK's.
func BenchmarkDecode(b *testing.B) {
	for _, c := range []struct {
		name   string
		body   []byte
		decode func(*page) error
	}{{"CBOR", cannedCBOR(10_000, 200), (*page).decodeCBOR}, {"JSON", cannedJSON(10_000, 200), (*page).decodeJSON}, {"SDK", cannedJSON(10_000, 200), func(p *page) error {
		_, err := stock(p.body)
		return err
	}}} {
		b.Run(c.name, func(b *testing.B) {
			p := newPage(len(c.body))
			start := cpu()
			for b.Loop() {
				p.body = append(p.body[:0], c.body...)
				if err := c.decode(p); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpu()-start)/float64(b.N)/10_000, "cpu-ns/record")
		})
	}
}
