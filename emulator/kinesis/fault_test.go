package kinesis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"
)

func TestRefusingFaults(t *testing.T) {
	for kind, want := range map[Kind]struct {
		code  string
		words []string
	}{
		Throttle:       {"ProvisionedThroughputExceededException", []string{shardID(0), "orders"}},
		LimitExceeded:  {"LimitExceededException", []string{"GetRecords"}},
		KMSThrottle:    {"KMSThrottlingException", nil},
		Internal:       {"InternalFailure", nil},
		Unavailable:    {"ServiceUnavailable", nil},
		AccessDenied:   {"AccessDeniedException", []string{"kinesis:GetRecords", "arn:aws:kinesis:us-east-1:000000000000:stream/orders"}},
		ExpireIterator: {"ExpiredIteratorException", nil},
	} {
		t.Run(string(kind), func(t *testing.T) {
			r := newRig(t, Config{NoLimits: true})
			r.create("orders", 1)
			r.put("orders", "0", "x")
			it := r.iterator("orders", shardID(0), types.ShardIteratorTypeTrimHorizon)
			r.ok(r.s.SetFault(Fault{Kind: kind, Operation: "GetRecords", Times: 2}))
			for range 2 {
				_, err := r.c.GetRecords(t.Context(), &sdk.GetRecordsInput{ShardIterator: it})
				wantCode(t, err, want.code, want.words...)
			}
			if got := r.data(r.get(it, 0)); got != "x" {
				t.Errorf("once the fault is spent: %q", got)
			}
		})
	}
}

func TestFaultsAreAimed(t *testing.T) {
	r := newRig(t, Config{NoLimits: true})
	r.create("orders", 2)
	r.create("other", 1)
	arn := r.s.arnOf("orders")
	it := r.iterator("orders", shardID(1), types.ShardIteratorTypeLatest)
	page, err := r.c.ListShards(t.Context(), &sdk.ListShardsInput{StreamName: aws.String("orders"), MaxResults: aws.Int32(1)})
	r.ok(err)
	calls := map[string]func() error{
		"put to shard 0": func() error {
			_, err := r.c.PutRecord(t.Context(), &sdk.PutRecordInput{StreamName: aws.String("orders"), PartitionKey: aws.String("k"), ExplicitHashKey: aws.String("0"), Data: []byte("x")})
			return err
		},
		"get from shard 1": func() error {
			_, err := r.c.GetRecords(t.Context(), &sdk.GetRecordsInput{ShardIterator: it})
			return err
		},
		"iterator of shard 1 by ARN": func() error {
			_, err := r.c.GetShardIterator(t.Context(), &sdk.GetShardIteratorInput{StreamARN: &arn, ShardId: aws.String(shardID(1)), ShardIteratorType: "LATEST"})
			return err
		},
		"next page of orders": func() error {
			_, err := r.c.ListShards(t.Context(), &sdk.ListShardsInput{NextToken: page.NextToken})
			return err
		},
		"summary of other": func() error {
			_, err := r.c.DescribeStreamSummary(t.Context(), &sdk.DescribeStreamSummaryInput{StreamName: aws.String("other")})
			return err
		},
		"list of streams": func() error {
			_, err := r.c.ListStreams(t.Context(), &sdk.ListStreamsInput{})
			return err
		},
	}
	for name, tc := range map[string]struct {
		fault Fault
		hits  []string
	}{
		"all":       {Fault{Kind: Internal}, []string{"put to shard 0", "get from shard 1", "iterator of shard 1 by ARN", "next page of orders", "summary of other", "list of streams"}},
		"operation": {Fault{Kind: Internal, Operation: "GetRecords"}, []string{"get from shard 1"}},
		"stream":    {Fault{Kind: Internal, Stream: "orders"}, []string{"put to shard 0", "get from shard 1", "iterator of shard 1 by ARN", "next page of orders"}},
		"shard":     {Fault{Kind: Internal, Shard: shardID(1)}, []string{"get from shard 1", "iterator of shard 1 by ARN"}},
		"placement": {Fault{Kind: Internal, Shard: shardID(0)}, []string{"put to shard 0"}},
		"both":      {Fault{Kind: Internal, Stream: "other", Shard: shardID(0)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r.ok(r.s.SetFault(tc.fault))
			defer r.s.ClearFaults()
			for call, f := range calls {
				hit := f() != nil
				want := strings.Contains(strings.Join(tc.hits, "|")+"|", call+"|")
				if hit != want {
					t.Errorf("%s is hit: %v, want %v", call, hit, want)
				}
			}
		})
	}
	for call, f := range calls {
		if err := f(); err != nil {
			t.Errorf("after ClearFaults %s: %v", call, err)
		}
	}
}

func TestHowOftenAFaultHits(t *testing.T) {
	run := func(c Config, n int) string {
		r := newRig(t, c)
		defer r.stop()
		var b strings.Builder
		for range n {
			_, err := r.c.ListStreams(t.Context(), &sdk.ListStreamsInput{})
			b.WriteString(pick(err == nil, ".", "x"))
		}
		return b.String()
	}
	if got := run(Config{Faults: []Fault{{Kind: Internal, Skip: 2, Times: 3}}}, 8); got != "..xxx..." {
		t.Errorf("skip 2, 3 times: %s", got)
	}
	dice := []Fault{{Kind: Internal, Probability: 0.25}}
	a, b, other := run(Config{Seed: 7, Faults: dice}, 200), run(Config{Seed: 7, Faults: dice}, 200), run(Config{Seed: 8, Faults: dice}, 200)
	if a != b {
		t.Errorf("one seed, two courses:\n%s\n%s", a, b)
	}
	if a == other {
		t.Error("two seeds, one course")
	}
	if n := strings.Count(a, "x"); n < 25 || n > 75 {
		t.Errorf("probability 0.25 hits %d of 200", n)
	}
}

func TestDelays(t *testing.T) {
	inBubble(t, Config{Faults: []Fault{{Kind: Delay, Delay: time.Second}}}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.ok(r.s.SetFault(Fault{Kind: Delay, Operation: "PutRecord", Delay: time.Minute}))
		start := time.Now()
		r.put("orders", "0", "x")
		if took := time.Since(start); took != 61*time.Second {
			t.Errorf("took %v, want the sum of both delays", took)
		}
		arrived := *r.get(r.iterator("orders", shardID(0), types.ShardIteratorTypeTrimHorizon), 0).Records[0].ApproximateArrivalTimestamp
		if !arrived.Equal(start.Add(61 * time.Second)) {
			t.Errorf("record arrived %v after the call, want it after the delay", arrived.Sub(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err := r.c.PutRecord(ctx, &sdk.PutRecordInput{StreamName: aws.String("orders"), PartitionKey: aws.String("k"), Data: []byte("gave up")})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
		time.Sleep(time.Hour)
		if n := len(r.get(r.iterator("orders", shardID(0), types.ShardIteratorTypeTrimHorizon), 0).Records); n != 1 {
			t.Errorf("%d records: a call given up during its delay was carried out", n)
		}
	})
}

func TestLostRequestsAndAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		kind    Kind
		applied string
	}{
		"request lost": {DropRequest, ""},
		"answer lost":  {DropAnswer, "x"},
		"answer cut":   {CutAnswer, "x"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{NoLimits: true})
			r.create("orders", 1)
			r.ok(r.s.SetFault(Fault{Kind: tc.kind, Operation: "PutRecord", Times: 1}))
			_, err := r.c.PutRecord(t.Context(), &sdk.PutRecordInput{StreamName: aws.String("orders"), PartitionKey: aws.String("k"), Data: []byte("x")})
			var ae smithy.APIError
			if err == nil || errors.As(err, &ae) {
				t.Errorf("got %v, want a broken connection", err)
			}
			if got := r.data(r.get(r.iterator("orders", shardID(0), types.ShardIteratorTypeTrimHorizon), 0)); got != tc.applied {
				t.Errorf("the shard holds %q, want %q", got, tc.applied)
			}
		})
	}
}

func TestHangingCallsEndWithTheClientOrTheServer(t *testing.T) {
	inBubble(t, Config{Faults: []Fault{{Kind: Hang, Operation: "ListStreams"}}}, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := r.c.ListStreams(ctx, &sdk.ListStreamsInput{})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the client's deadline", err)
		}
		time.AfterFunc(time.Minute, r.s.Close)
		start := time.Now()
		if _, err = r.c.ListStreams(t.Context(), &sdk.ListStreamsInput{}); err == nil || time.Since(start) != time.Minute {
			t.Errorf("got %v after %v, want an error when the server is closed", err, time.Since(start))
		}
		r.s.Close()
		_, err = r.c.DescribeLimits(t.Context(), &sdk.DescribeLimitsInput{})
		wantCode(t, err, "ServiceUnavailable", "closed")
	})
}

func TestFaultsOfRecords(t *testing.T) {
	r := newRig(t, Config{NoLimits: true})
	r.create("orders", 2)
	r.ok(r.s.SetFault(Fault{Kind: FailRecords, Shard: shardID(1), Times: 1}))
	r.ok(r.s.SetFault(Fault{Kind: ThrottleRecords, Shard: shardID(1), Times: 1}))
	var es []types.PutRecordsRequestEntry
	for i, hash := range []string{"0", hashLast, "0", hashLast, hashLast} {
		es = append(es, types.PutRecordsRequestEntry{PartitionKey: aws.String("k"), ExplicitHashKey: &hash, Data: fmt.Append(nil, i)})
	}
	o, err := r.c.PutRecords(t.Context(), &sdk.PutRecordsInput{StreamName: aws.String("orders"), Records: es})
	r.ok(err)
	var got []string
	for _, e := range o.Records {
		got = append(got, aws.ToString(e.ErrorCode))
	}
	if s := strings.Join(got, ","); s != ",InternalFailure,,ProvisionedThroughputExceededException," || *o.FailedRecordCount != 2 {
		t.Errorf("errors %s, %d failed", s, *o.FailedRecordCount)
	}
	if got := r.data(r.get(r.iterator("orders", shardID(1), types.ShardIteratorTypeTrimHorizon), 0)); got != "4" {
		t.Errorf("shard 1 holds %q, want the record that did not fail", got)
	}
}

func TestFaultsOfPages(t *testing.T) {
	r := newRig(t, Config{NoLimits: true})
	r.create("orders", 1)
	for i := range 3 {
		r.put("orders", "0", fmt.Sprint(i))
	}
	it := r.iterator("orders", shardID(0), types.ShardIteratorTypeTrimHorizon)
	r.ok(r.s.SetFault(Fault{Kind: PartialPage, Times: 1}))
	r.ok(r.s.SetFault(Fault{Kind: PartialPage, Records: 2, Skip: 1, Times: 1}))
	var pages []string
	for range 3 {
		o := r.get(it, 0)
		pages = append(pages, fmt.Sprintf("%s (%v)", r.data(o), *o.MillisBehindLatest > 0))
		it = o.NextShardIterator
	}
	if got := strings.Join(pages, ", "); got != " (true), 0 1 (true), 2 (false)" {
		t.Errorf("pages (behind): %s", got)
	}
	r.ok(r.s.SetFault(Fault{Kind: EndEarly, Times: 1}))
	if o := r.get(it, 0); o.NextShardIterator != nil || o.ChildShards != nil {
		t.Errorf("early end: next %v, children %v", o.NextShardIterator, o.ChildShards)
	}
	if o := r.get(it, 0); o.NextShardIterator == nil {
		t.Error("the shard stays ended")
	}
}

func TestStaleListings(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		time.Sleep(time.Minute)
		r.split("orders", shardID(0), hashHalf)
		time.Sleep(10 * time.Second)
		r.ok(r.s.SetFault(Fault{Kind: StaleList, Delay: 11 * time.Second}))
		for _, f := range []*types.ShardFilter{nil, {Type: types.ShardFilterTypeAtLatest}} {
			all := r.shards("orders", f)
			if idsOf(all) != "0" || all[0].SequenceNumberRange.EndingSequenceNumber != nil {
				t.Errorf("11 s ago with filter %v: shards %s, ended %v; want shard 0 open", f, idsOf(all), all[0].SequenceNumberRange.EndingSequenceNumber)
			}
		}
		r.s.ClearFaults()
		if got := idsOf(r.shards("orders", nil)); got != "0 1 2" {
			t.Errorf("now: %s", got)
		}
	})
}

func TestFaultsThatCannotBeAreRefused(t *testing.T) {
	s := New(Config{})
	for field, f := range map[string]Fault{
		"Kind":        {Kind: "explode"},
		"Operation":   {Kind: Internal, Operation: "GetRecord"},
		"GetRecords":  {Kind: PartialPage, Operation: "PutRecord"},
		"Probability": {Kind: Internal, Probability: 1.5},
		"Skip":        {Kind: Internal, Skip: -1},
		"Times":       {Kind: Internal, Times: -1},
		"Records":     {Kind: PartialPage, Records: -1},
		"Delay":       {Kind: Delay},
	} {
		if err := s.SetFault(f); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%+v: got %v, want an error naming %s", f, err, field)
		}
	}
	if len(s.faults.armed) != 0 {
		t.Errorf("%d faults are in force", len(s.faults.armed))
	}
}
