package kinesis

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardwarden/shardwarden/core"
)

// BenchmarkPushedAgainstSDK compares a shard's reader by fan-out with the SDK's own event reader, in records per CPU second of this process:
// "x-sdk" is how many times as many. Both read the same shard from a server in another process, by turns, and touch every byte. Run with
// -benchtime=5x or more; the figure is the median.
func BenchmarkPushedAgainstSDK(b *testing.B) {
	for _, c := range []struct {
		name                  string
		event, bytes, records int
		tls                   bool
	}{
		{"100x200B", 100, 200, 400_000, false},
		{"100x200B/HTTP2", 100, 200, 400_000, true},
		{"1x200B", 1, 200, 20_000, false},
		{"1000x1KB", 1000, 1000, 100_000, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			url := startBench(b, benchStream{Shards: 1, Records: c.records, Bytes: c.bytes, TLS: c.tls, EventRecords: c.event})
			client := sdk.NewFromConfig(benchConfig(), func(o *sdk.Options) {
				o.BaseEndpoint, o.HTTPClient = &url, ownBody{o.HTTPClient}
			})
			stream, err := client.DescribeStreamSummary(b.Context(), &sdk.DescribeStreamSummaryInput{StreamName: aws.String("bench")})
			if err != nil {
				b.Fatal(err)
			}
			made := 0
			consumer := func() string { // each turn has its own: a shard is not given to one again within 5 seconds
				made++
				out, err := client.RegisterStreamConsumer(b.Context(), &sdk.RegisterStreamConsumerInput{StreamARN: stream.StreamDescriptionSummary.StreamARN, ConsumerName: aws.String(fmt.Sprint("c", made))})
				if err != nil {
					b.Fatal(err)
				}
				return *out.Consumer.ConsumerARN
			}
			var sum uint64
			stock := func() {
				out, err := client.SubscribeToShard(b.Context(), &sdk.SubscribeToShardInput{ConsumerARN: aws.String(consumer()), ShardId: aws.String("shardId-000000000000"),
					StartingPosition: &types.StartingPosition{Type: types.ShardIteratorTypeTrimHorizon}})
				if err != nil {
					b.Fatal(err)
				}
				defer out.GetStream().Close()
				n := 0
				for e := range out.GetStream().Events() {
					records := e.(*types.SubscribeToShardEventStreamMemberSubscribeToShardEvent).Value.Records
					for i := range records {
						sum ^= touch(records[i].Data)
					}
					if n += len(records); n == c.records {
						return
					}
				}
				b.Fatalf("%d records, then %v", n, out.GetStream().Err())
			}
			ours := func() {
				s := New(benchConfig(), "bench", Endpoint(url), FanOut(consumer()))
				defer closeIdle(s)
				rd, err := s.Open(b.Context(), core.Shard{ID: one}, core.FromHorizon)
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = rd.Close() }()
				for n := 0; n < c.records; {
					p, err := rd.Next(b.Context())
					if err != nil {
						b.Fatalf("%d records, then %v", n, err)
					}
					for i := range p.Records {
						sum ^= touch(p.Records[i].Data)
					}
					n += len(p.Records)
					p.Release()
				}
				if n := s.Pages(); n.Fallbacks > 0 || n.Stock > 0 {
					b.Fatalf("events were decoded in another way: %+v", n)
				}
			}
			turn := func(read func()) float64 {
				debug.FreeOSMemory() // the garbage of the one is not returned at the cost of the other
				start := cpu()
				read()
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
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			turn(ours)
			runtime.ReadMemStats(&after)
			b.ReportMetric(theirs/float64(c.records), "sdk-ns/record")
			b.ReportMetric(mine/float64(c.records), "ns/record")
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(c.records), "allocs/record")
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(c.records), "B/record")
		})
	}
}
