package kinesis

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

func TestMillisBehindLatest(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		for i := range 3 {
			r.put("orders", "0", fmt.Sprint(i))
			time.Sleep(time.Second)
		}
		it := r.iterator("orders", shardID(0), types.ShardIteratorTypeTrimHorizon)
		var behind []int64
		for it != nil && len(behind) < 4 {
			o := r.get(it, 1)
			behind = append(behind, *o.MillisBehindLatest)
			it = o.NextShardIterator
		}
		// The first answer ends at the record of 3 s ago, the second at that of 2 s ago; after the third nothing is left.
		if got := fmt.Sprint(behind); got != "[3000 2000 0 0]" {
			t.Errorf("behind by %s ms, want [3000 2000 0 0]", got)
		}
		r.put("orders", "0", "a")
		r.put("orders", "0", "b")
		if o := r.get(it, 1); *o.MillisBehindLatest == 0 {
			t.Error("0 ms behind though a record of the same instant is left")
		}
	})
}

func TestAClosedShardIsReadToItsEnd(t *testing.T) {
	r := newRig(t, Config{NoLimits: true})
	r.create("orders", 1)
	for i := range 5 {
		r.put("orders", "0", fmt.Sprint(i))
	}
	r.split("orders", shardID(0), hashHalf)
	it := r.iterator("orders", shardID(0), types.ShardIteratorTypeTrimHorizon)
	var pages []string
	for it != nil && len(pages) < 9 {
		o := r.get(it, 2)
		pages = append(pages, fmt.Sprintf("%s (%v, %d children)", r.data(o), *o.MillisBehindLatest > 0, len(o.ChildShards)))
		it = o.NextShardIterator
	}
	if got := strings.Join(pages, ", "); got != "0 1 (true, 0 children), 2 3 (true, 0 children), 4 (false, 2 children)" {
		t.Errorf("pages (behind, children): %s", got)
	}
}

func TestAPageHoldsTenMiB(t *testing.T) {
	r := newRig(t, Config{NoLimits: true})
	r.create("orders", 1)
	r.fill("orders", shardID(0), 12, 1<<20)
	_, first, next := r.getRaw(r.iterator("orders", shardID(0), types.ShardIteratorTypeTrimHorizon))
	_, second, _ := r.getRaw(next)
	if first != 10 || second != 2 {
		t.Errorf("pages of %d and %d records of 1 MiB, want 10 and 2", first, second)
	}
}

func TestAPageHoldsTenThousandRecords(t *testing.T) {
	r := newRig(t, Config{NoLimits: true})
	r.create("orders", 1)
	var entries []types.PutRecordsRequestEntry
	for i := range 500 {
		entries = append(entries, types.PutRecordsRequestEntry{PartitionKey: aws.String(fmt.Sprint(i)), Data: []byte{byte(i)}})
	}
	for range 21 {
		o, err := r.c.PutRecords(t.Context(), &sdk.PutRecordsInput{StreamName: aws.String("orders"), Records: entries})
		r.ok(err)
		if *o.FailedRecordCount != 0 || len(o.Records) != 500 {
			t.Fatalf("%d of %d failed", *o.FailedRecordCount, len(o.Records))
		}
	}
	o := r.get(r.iterator("orders", shardID(0), types.ShardIteratorTypeTrimHorizon), 0)
	if len(o.Records) != 10_000 {
		t.Fatalf("first page: %d records, want 10000", len(o.Records))
	}
	last := ""
	for i, rec := range o.Records {
		if want := fmt.Sprint(i % 500); *rec.PartitionKey != want || !bytes.Equal(rec.Data, []byte{byte(i % 500)}) || *rec.SequenceNumber <= last {
			t.Fatalf("record %d is key %s, data %x, number %s after %s", i, *rec.PartitionKey, rec.Data, *rec.SequenceNumber, last)
		}
		last = *rec.SequenceNumber
	}
	if o = r.get(o.NextShardIterator, 0); len(o.Records) != 500 {
		t.Errorf("second page: %d records, want 500", len(o.Records))
	}
}

func TestGetRecordsRefusals(t *testing.T) {
	r := newRig(t, Config{NoLimits: true})
	r.create("orders", 1)
	r.create("other", 1)
	it := r.iterator("orders", shardID(0), types.ShardIteratorTypeLatest)
	for name, tc := range map[string]struct {
		in         sdk.GetRecordsInput
		code, word string
	}{
		"no iterator":        {sdk.GetRecordsInput{ShardIterator: aws.String("AAAA")}, "InvalidArgumentException", "ShardIterator"},
		"changed iterator":   {sdk.GetRecordsInput{ShardIterator: aws.String(strings.Replace(*it, "A", "B", 1))}, "InvalidArgumentException", "ShardIterator"},
		"limit 0":            {sdk.GetRecordsInput{ShardIterator: it, Limit: aws.Int32(0)}, "ValidationException", "limit"},
		"limit 10001":        {sdk.GetRecordsInput{ShardIterator: it, Limit: aws.Int32(10_001)}, "ValidationException", "10000"},
		"ARN of another one": {sdk.GetRecordsInput{ShardIterator: it, StreamARN: aws.String(r.s.arnOf("other"))}, "InvalidArgumentException", "other"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.c.GetRecords(t.Context(), &tc.in)
			wantCode(t, err, tc.code, tc.word)
		})
	}
	r.ok(r.s.Trim("orders", shardID(0), ""))
	_, err := r.c.DeleteStream(t.Context(), &sdk.DeleteStreamInput{StreamName: aws.String("orders")})
	r.ok(err)
	_, err = r.c.GetRecords(t.Context(), &sdk.GetRecordsInput{ShardIterator: it})
	wantCode(t, err, "ResourceNotFoundException", "orders")
	r.create("orders", 1)
	_, err = r.c.GetRecords(t.Context(), &sdk.GetRecordsInput{ShardIterator: it})
	wantCode(t, err, "ResourceNotFoundException", "orders")
}
