package kinesis

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

func TestRetentionDropsRecordsThenShards(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		_, first := r.put("orders", "0", "old")
		time.Sleep(12 * time.Hour)
		r.put("orders", "0", "young")
		r.split("orders", shardID(0), hashHalf)
		read := func() string {
			return r.data(r.get(r.iterator("orders", shardID(0), types.ShardIteratorTypeTrimHorizon), 0))
		}
		time.Sleep(12 * time.Hour)
		if got := read(); got != "old young" {
			t.Errorf("after 24 h exactly: %q, want both records", got)
		}
		time.Sleep(time.Millisecond)
		if got := read(); got != "young" {
			t.Errorf("a millisecond later: %q, want the young record", got)
		}
		// A position behind the horizon begins at the horizon, without an error.
		o, err := r.c.GetShardIterator(t.Context(), &sdk.GetShardIteratorInput{StreamName: aws.String("orders"), ShardId: aws.String(shardID(0)),
			ShardIteratorType: types.ShardIteratorTypeAtSequenceNumber, StartingSequenceNumber: &first})
		r.ok(err)
		if got := r.data(r.get(o.ShardIterator, 0)); got != "young" {
			t.Errorf("from a trimmed record on: %q, want the young record", got)
		}
		it := r.iterator("orders", shardID(0), types.ShardIteratorTypeTrimHorizon)
		time.Sleep(12*time.Hour - time.Millisecond)
		if got := idsOf(r.shards("orders", nil)); got != "0 1 2" {
			t.Errorf("24 h after its end shard 0 is not listed: %s", got)
		}
		time.Sleep(time.Millisecond)
		if got := idsOf(r.shards("orders", nil)); got != "1 2" {
			t.Errorf("shards %s are listed once the parent's time is over, want 1 2", got)
		}
		_, err = r.c.GetRecords(t.Context(), &sdk.GetRecordsInput{ShardIterator: it})
		wantCode(t, err, "ResourceNotFoundException", shardID(0))
		_, err = r.c.GetShardIterator(t.Context(), &sdk.GetShardIteratorInput{StreamName: aws.String("orders"), ShardId: aws.String(shardID(0)), ShardIteratorType: "LATEST"})
		wantCode(t, err, "ResourceNotFoundException", shardID(0))
		if p := r.shards("orders", nil)[0].ParentShardId; p == nil || *p != shardID(0) {
			t.Errorf("child names parent %v, want shard 0 though it is gone", p)
		}
	})
}

func TestRecordsOfShardsNobodyReadsAreDroppedToo(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.create("other", 1)
		r.put("orders", "0", "old")
		time.Sleep(24*time.Hour + time.Minute)
		r.summary("other")
		if h := r.s.streams["orders"].shards[0]; !h.log.empty() {
			t.Error("the record is still held a day later")
		}
	})
}

func TestRetentionCanBeChanged(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.put("orders", "0", "old")
		change := func(longer bool, hours int32) (err error) {
			if longer {
				_, err = r.c.IncreaseStreamRetentionPeriod(t.Context(), &sdk.IncreaseStreamRetentionPeriodInput{StreamName: aws.String("orders"), RetentionPeriodHours: &hours})
			} else {
				_, err = r.c.DecreaseStreamRetentionPeriod(t.Context(), &sdk.DecreaseStreamRetentionPeriodInput{StreamName: aws.String("orders"), RetentionPeriodHours: &hours})
			}
			return err
		}
		r.ok(change(true, 48))
		if h := *r.summary("orders").RetentionPeriodHours; h != 48 {
			t.Errorf("retention is %d h, want 48", h)
		}
		time.Sleep(47 * time.Hour)
		if got := r.data(r.get(r.iterator("orders", shardID(0), types.ShardIteratorTypeTrimHorizon), 0)); got != "old" {
			t.Errorf("after 47 of 48 hours: %q", got)
		}
		wantCode(t, change(true, 24), "InvalidArgumentException", "48")
		wantCode(t, change(false, 72), "InvalidArgumentException", "48")
		wantCode(t, change(false, 1), "ValidationException", "retentionPeriodHours")
		r.ok(change(false, 24))
		if got := r.data(r.get(r.iterator("orders", shardID(0), types.ShardIteratorTypeTrimHorizon), 0)); got != "" {
			t.Errorf("after 47 of 24 hours: %q", got)
		}
	})
}

func TestTrim(t *testing.T) {
	r := newRig(t, Config{NoLimits: true})
	r.create("orders", 1)
	var seqs []string
	for i := range 4 {
		_, q := r.put("orders", "0", fmt.Sprint(i))
		seqs = append(seqs, q)
	}
	read := func() string {
		return r.data(r.get(r.iterator("orders", shardID(0), types.ShardIteratorTypeTrimHorizon), 0))
	}
	r.ok(r.s.Trim("orders", shardID(0), seqs[2]))
	if got := read(); got != "2 3" {
		t.Errorf("trimmed before the third record: %q, want 2 3", got)
	}
	r.ok(r.s.Trim("orders", shardID(0), ""))
	if got := read(); got != "" {
		t.Errorf("trimmed altogether: %q", got)
	}
	r.put("orders", "0", "4")
	r.split("orders", shardID(0), hashHalf)
	r.ok(r.s.Trim("orders", shardID(0), *r.shards("orders", nil)[0].SequenceNumberRange.EndingSequenceNumber))
	if got := idsOf(r.shards("orders", nil)); got != "0 1 2" || read() != "" {
		t.Errorf("trimmed up to its end: shards %s, records %q; want it listed and empty", got, read())
	}
	_, child := r.put("orders", "0", "5")
	r.ok(r.s.Trim("orders", shardID(0), child))
	if got := idsOf(r.shards("orders", &types.ShardFilter{Type: types.ShardFilterTypeAtTrimHorizon})); got != "1 2" {
		t.Errorf("trimmed past its end: the horizon is at shards %s, want 1 2", got)
	}
	for _, err := range []error{r.s.Trim("nope", shardID(0), ""), r.s.Trim("orders", shardID(9), ""), r.s.Trim("orders", shardID(1), "12")} {
		if err == nil {
			t.Error("trimming what is not there succeeds")
		}
	}
}

func TestStatesOfAStream(t *testing.T) {
	inBubble(t, Config{CreateDelay: 10 * time.Second, UpdateDelay: 20 * time.Second}, func(t *testing.T, r *rig) {
		state := func() string { return string(r.summary("orders").StreamStatus) }
		r.create("orders", 2)
		if got := state(); got != "CREATING" {
			t.Errorf("new stream is %s", got)
		}
		_, err := r.c.ListShards(t.Context(), &sdk.ListShardsInput{StreamName: aws.String("orders")})
		wantCode(t, err, "ResourceInUseException", "CREATING")
		_, err = r.c.PutRecord(t.Context(), &sdk.PutRecordInput{StreamName: aws.String("orders"), PartitionKey: aws.String("k"), Data: []byte("x")})
		wantCode(t, err, "ResourceNotFoundException", "orders")
		_, err = r.c.CreateStream(t.Context(), &sdk.CreateStreamInput{StreamName: aws.String("orders"), ShardCount: aws.Int32(1)})
		wantCode(t, err, "ResourceInUseException", "orders")
		_, err = r.c.DeleteStream(t.Context(), &sdk.DeleteStreamInput{StreamName: aws.String("orders")})
		wantCode(t, err, "ResourceInUseException", "CREATING")
		time.Sleep(10 * time.Second)
		if got := state(); got != "ACTIVE" {
			t.Errorf("10 s later it is %s", got)
		}

		r.split("orders", shardID(0), "1000")
		if got := state(); got != "UPDATING" {
			t.Errorf("stream is %s during the split", got)
		}
		_, err = r.c.SplitShard(t.Context(), &sdk.SplitShardInput{StreamName: aws.String("orders"), ShardToSplit: aws.String(shardID(1)), NewStartingHashKey: aws.String(hashLast)})
		wantCode(t, err, "ResourceInUseException", "UPDATING")
		_, err = r.c.MergeShards(t.Context(), &sdk.MergeShardsInput{StreamName: aws.String("orders"), ShardToMerge: aws.String(shardID(0)), AdjacentShardToMerge: aws.String(shardID(1))})
		wantCode(t, err, "ResourceInUseException")
		_, err = r.c.UpdateShardCount(t.Context(), &sdk.UpdateShardCountInput{StreamName: aws.String("orders"), TargetShardCount: aws.Int32(4), ScalingType: "UNIFORM_SCALING"})
		wantCode(t, err, "ResourceInUseException")
		if got := idsOf(r.shards("orders", nil)); got != "0 1" {
			t.Errorf("shards %s are listed during the split, want the old ones", got)
		}
		time.Sleep(19 * time.Second)
		if shard, _ := r.put("orders", "0", "last"); shard != shardID(0) {
			t.Errorf("a record during the split went to %s, want the parent", shard)
		}
		time.Sleep(30 * time.Second) // past the end of the split: it took place then, not when someone looked
		if got := state(); got != "ACTIVE" {
			t.Errorf("stream is %s after the split", got)
		}
		at := time.Now().Add(-29 * time.Second)
		if got := idsOf(r.shards("orders", &types.ShardFilter{Type: types.ShardFilterTypeAtTimestamp, Timestamp: aws.Time(at.Add(-time.Millisecond))})); got != "0 1" {
			t.Errorf("open just before the end of the split: %s, want 0 1", got)
		}
		if got := idsOf(r.shards("orders", &types.ShardFilter{Type: types.ShardFilterTypeAtTimestamp, Timestamp: aws.Time(at.Add(time.Millisecond))})); got != "1 2 3" {
			t.Errorf("open just after the end of the split: %s, want 1 2 3", got)
		}

		_, err = r.c.DeleteStream(t.Context(), &sdk.DeleteStreamInput{StreamName: aws.String("orders")})
		r.ok(err)
		if got := state(); got != "DELETING" {
			t.Errorf("deleted stream is %s", got)
		}
		time.Sleep(10 * time.Second)
		_, err = r.c.DescribeStreamSummary(t.Context(), &sdk.DescribeStreamSummaryInput{StreamName: aws.String("orders")})
		wantCode(t, err, "ResourceNotFoundException", "orders")
	})
}

func TestIncarnationsDiffer(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		var made []time.Time
		var numbers []string
		for range 3 { // within one instant
			r.create("orders", 1)
			made = append(made, *r.summary("orders").StreamCreationTimestamp)
			_, q := r.put("orders", "0", "x")
			numbers = append(numbers, q)
			_, err := r.c.DeleteStream(t.Context(), &sdk.DeleteStreamInput{StreamName: aws.String("orders")})
			r.ok(err)
		}
		for i := 1; i < 3; i++ {
			if made[i].Unix() <= made[i-1].Unix() {
				t.Errorf("made at %v, then at %v: not a second later", made[i-1], made[i])
			}
			if numbers[i] <= numbers[i-1] {
				t.Errorf("number %s, then %s", numbers[i-1], numbers[i])
			}
		}
	})
}
