package kinesis

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// inBubble runs a test on fake time with a server of its own.
func inBubble(t *testing.T, c Config, f func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, c)
		defer r.stop()
		f(t, r)
	})
}

func TestTheFiveIterators(t *testing.T) {
	var seqs []string
	var times []time.Time
	var first string
	for name, tc := range map[string]struct {
		kind types.ShardIteratorType
		seq  func() *string
		at   func() time.Time
		want string
	}{
		"horizon":               {types.ShardIteratorTypeTrimHorizon, nil, nil, "0 1 2 3 4 5 new"},
		"at a record":           {types.ShardIteratorTypeAtSequenceNumber, func() *string { return &seqs[2] }, nil, "2 3 4 5 new"},
		"after a record":        {types.ShardIteratorTypeAfterSequenceNumber, func() *string { return &seqs[2] }, nil, "3 4 5 new"},
		"after the last":        {types.ShardIteratorTypeAfterSequenceNumber, func() *string { return &seqs[5] }, nil, "new"},
		"at the shard's start":  {types.ShardIteratorTypeAtSequenceNumber, func() *string { return &first }, nil, "0 1 2 3 4 5 new"},
		"after the shard start": {types.ShardIteratorTypeAfterSequenceNumber, func() *string { return &first }, nil, "0 1 2 3 4 5 new"},
		"at the time of one":    {types.ShardIteratorTypeAtTimestamp, nil, func() time.Time { return times[3] }, "3 4 5 new"},
		"between two":           {types.ShardIteratorTypeAtTimestamp, nil, func() time.Time { return times[3].Add(time.Millisecond) }, "4 5 new"},
		"before the stream":     {types.ShardIteratorTypeAtTimestamp, nil, func() time.Time { return times[0].Add(-time.Hour) }, "0 1 2 3 4 5 new"},
		"now":                   {types.ShardIteratorTypeAtTimestamp, nil, time.Now, "new"},
		"latest":                {types.ShardIteratorTypeLatest, nil, nil, "new"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, r *rig) {
				r.create("orders", 2)
				seqs, times = nil, nil
				for i := range 6 {
					times = append(times, time.Now())
					_, q := r.put("orders", "0", fmt.Sprint(i))
					seqs = append(seqs, q)
					r.put("orders", hashLast, "other shard")
					time.Sleep(1500 * time.Millisecond)
				}
				first = *r.shards("orders", nil)[0].SequenceNumberRange.StartingSequenceNumber
				in := &sdk.GetShardIteratorInput{StreamName: aws.String("orders"), ShardId: aws.String(shardID(0)), ShardIteratorType: tc.kind}
				if tc.seq != nil {
					in.StartingSequenceNumber = tc.seq()
				}
				if tc.at != nil {
					in.Timestamp = aws.Time(tc.at())
				}
				o, err := r.c.GetShardIterator(t.Context(), in)
				r.ok(err)
				r.put("orders", "0", "new")
				if got := r.data(r.get(o.ShardIterator, 0)); got != tc.want {
					t.Errorf("got %q, want %q", got, tc.want)
				}
			})
		})
	}
}

func TestGetShardIteratorRefusals(t *testing.T) {
	r := newRig(t, Config{NoLimits: true})
	r.create("orders", 2)
	_, own := r.put("orders", "0", "a")
	_, foreign := r.put("orders", hashLast, "b")
	r.create("other", 1)
	_, stranger := r.put("other", "0", "c")
	q, _ := parseSequence(own)
	q.n += 1000
	future := q.String()
	for name, tc := range map[string]struct {
		in         sdk.GetShardIteratorInput
		code, word string
	}{
		"unknown shard":            {sdk.GetShardIteratorInput{ShardId: aws.String(shardID(7)), ShardIteratorType: "LATEST"}, "ResourceNotFoundException", shardID(7)},
		"not a shard":              {sdk.GetShardIteratorInput{ShardId: aws.String("one"), ShardIteratorType: "LATEST"}, "ResourceNotFoundException", "one"},
		"unknown type":             {sdk.GetShardIteratorInput{ShardIteratorType: "FIRST"}, "ValidationException", "shardIteratorType"},
		"no number":                {sdk.GetShardIteratorInput{ShardIteratorType: "AT_SEQUENCE_NUMBER"}, "InvalidArgumentException", "StartingSequenceNumber"},
		"needless number":          {sdk.GetShardIteratorInput{ShardIteratorType: "LATEST", StartingSequenceNumber: &own}, "InvalidArgumentException", "StartingSequenceNumber"},
		"not a number":             {sdk.GetShardIteratorInput{ShardIteratorType: "AT_SEQUENCE_NUMBER", StartingSequenceNumber: aws.String("LATEST")}, "ValidationException", "startingSequenceNumber"},
		"number of another stream": {sdk.GetShardIteratorInput{ShardIteratorType: "AT_SEQUENCE_NUMBER", StartingSequenceNumber: &stranger}, "InvalidArgumentException", "did not come from this stream"},
		"number of another shard":  {sdk.GetShardIteratorInput{ShardIteratorType: "AT_SEQUENCE_NUMBER", StartingSequenceNumber: &foreign}, "InvalidArgumentException", shardID(1)},
		"number to come":           {sdk.GetShardIteratorInput{ShardIteratorType: "AFTER_SEQUENCE_NUMBER", StartingSequenceNumber: &future}, "InvalidArgumentException", future},
		"no time":                  {sdk.GetShardIteratorInput{ShardIteratorType: "AT_TIMESTAMP"}, "InvalidArgumentException", "timestampInMillis"},
		"needless time":            {sdk.GetShardIteratorInput{ShardIteratorType: "TRIM_HORIZON", Timestamp: aws.Time(time.Now())}, "InvalidArgumentException", "Timestamp"},
		"time to come":             {sdk.GetShardIteratorInput{ShardIteratorType: "AT_TIMESTAMP", Timestamp: aws.Time(time.Now().Add(time.Minute))}, "InvalidArgumentException", "timestampInMillis"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.in.StreamName = aws.String("orders")
			if tc.in.ShardId == nil {
				tc.in.ShardId = aws.String(shardID(0))
			}
			_, err := r.c.GetShardIterator(t.Context(), &tc.in)
			wantCode(t, err, tc.code, tc.word)
		})
	}
}

func TestIteratorsExpire(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		it := r.iterator("orders", shardID(0), types.ShardIteratorTypeTrimHorizon)
		time.Sleep(5 * time.Minute)
		next := r.get(it, 0).NextShardIterator
		time.Sleep(time.Millisecond)
		_, err := r.c.GetRecords(t.Context(), &sdk.GetRecordsInput{ShardIterator: it})
		wantCode(t, err, "ExpiredIteratorException")
		r.get(next, 0)
		r.s.ExpireIterators()
		_, err = r.c.GetRecords(t.Context(), &sdk.GetRecordsInput{ShardIterator: next})
		wantCode(t, err, "ExpiredIteratorException")
		r.get(r.iterator("orders", shardID(0), types.ShardIteratorTypeTrimHorizon), 0)
	})
}
