package kinesis

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

func TestFiveReadsASecond(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 2)
		it := r.iterator("orders", shardID(0), types.ShardIteratorTypeLatest)
		for range 5 {
			r.get(it, 0)
		}
		_, err := r.c.GetRecords(t.Context(), &sdk.GetRecordsInput{ShardIterator: it})
		wantCode(t, err, "ProvisionedThroughputExceededException", shardID(0), "orders", "000000000000")
		r.get(r.iterator("orders", shardID(1), types.ShardIteratorTypeLatest), 0) // another shard has its own
		for range 20 {
			time.Sleep(200 * time.Millisecond)
			r.get(it, 0)
		}
		_, err = r.c.GetRecords(t.Context(), &sdk.GetRecordsInput{ShardIterator: it})
		wantCode(t, err, "ProvisionedThroughputExceededException")
	})
}

func TestFiveIteratorsASecond(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		for range 5 {
			r.iterator("orders", shardID(0), types.ShardIteratorTypeLatest)
		}
		_, err := r.c.GetShardIterator(t.Context(), &sdk.GetShardIteratorInput{StreamName: aws.String("orders"), ShardId: aws.String(shardID(0)), ShardIteratorType: "LATEST"})
		wantCode(t, err, "ProvisionedThroughputExceededException")
		time.Sleep(200 * time.Millisecond)
		r.iterator("orders", shardID(0), types.ShardIteratorTypeLatest)
	})
}

func TestTwoMiBReadASecond(t *testing.T) {
	for name, tc := range map[string]struct {
		records int // of 512 KiB, read in one page
		pause   time.Duration
	}{
		"a second's worth":    {4, 0},
		"a little over":       {5, 1250 * time.Millisecond},
		"the largest page":    {20, 5 * time.Second},
		"a tenth of a second": {1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, r *rig) {
				r.create("orders", 1)
				r.fill("orders", shardID(0), tc.records, 512<<10)
				_, n, next := r.getRaw(r.iterator("orders", shardID(0), types.ShardIteratorTypeTrimHorizon))
				if n != tc.records {
					t.Fatalf("%d records in the page, want %d", n, tc.records)
				}
				if tc.pause > 0 {
					time.Sleep(tc.pause - time.Millisecond)
					_, err := r.c.GetRecords(t.Context(), &sdk.GetRecordsInput{ShardIterator: next})
					wantCode(t, err, "ProvisionedThroughputExceededException")
					time.Sleep(2 * time.Millisecond)
				}
				r.get(next, 0)
			})
		})
	}
}

func TestWritesASecond(t *testing.T) {
	entries := func(n, size int, hash string) []types.PutRecordsRequestEntry {
		var es []types.PutRecordsRequestEntry
		for range n {
			es = append(es, types.PutRecordsRequestEntry{PartitionKey: aws.String("k"), ExplicitHashKey: &hash, Data: make([]byte, size-1)})
		}
		return es
	}
	for name, tc := range map[string]struct {
		size, calls, each, failed int
	}{
		"1000 records":       {10, 3, 500, 500},
		"1 MiB":              {256 << 10, 1, 6, 2},
		"one of 1 MiB":       {1 << 20, 1, 1, 0},
		"the small ones fit": {700 << 10, 1, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, r *rig) {
				r.create("orders", 2)
				write := func(hash string) int {
					failed := 0
					for range tc.calls {
						o, err := r.c.PutRecords(t.Context(), &sdk.PutRecordsInput{StreamName: aws.String("orders"), Records: entries(tc.each, tc.size, hash)})
						r.ok(err)
						got := 0
						for _, e := range o.Records {
							if e.ErrorCode != nil {
								got++
								if *e.ErrorCode != "ProvisionedThroughputExceededException" || !strings.Contains(*e.ErrorMessage, "orders") || e.SequenceNumber != nil {
									t.Errorf("failed record: %s, %s, %v", *e.ErrorCode, *e.ErrorMessage, e.SequenceNumber)
								}
							}
						}
						if int(*o.FailedRecordCount) != got {
							t.Errorf("FailedRecordCount is %d with %d failed", *o.FailedRecordCount, got)
						}
						failed += got
					}
					return failed
				}
				for _, hash := range []string{"0", hashLast} { // each shard has its own
					if got := write(hash); got != tc.failed {
						t.Errorf("%d records failed, want %d", got, tc.failed)
					}
				}
				if tc.failed > 0 {
					_, err := r.c.PutRecord(t.Context(), &sdk.PutRecordInput{StreamName: aws.String("orders"), PartitionKey: aws.String("k"), ExplicitHashKey: aws.String("0"), Data: make([]byte, tc.size-1)})
					wantCode(t, err, "ProvisionedThroughputExceededException", shardID(0))
				}
				time.Sleep(2 * time.Second)
				if got := write("0"); got != tc.failed {
					t.Errorf("two seconds later %d records failed, want %d", got, tc.failed)
				}
			})
		})
	}
}

func TestNoLimits(t *testing.T) {
	inBubble(t, Config{NoLimits: true}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		for range 3 {
			r.put("orders", "0", strings.Repeat("x", 1<<20-3))
		}
		for range 10 {
			if status, n, _ := r.getRaw(r.iterator("orders", shardID(0), types.ShardIteratorTypeTrimHorizon)); status != 200 || n != 3 {
				t.Fatalf("status %d, %d records", status, n)
			}
		}
	})
}
