package kinesis

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

func TestARNsOfEachPartition(t *testing.T) {
	for region, arn := range map[string]string{
		"eu-west-1":     "arn:aws:kinesis:eu-west-1:123456789012:stream/orders",
		"cn-north-1":    "arn:aws-cn:kinesis:cn-north-1:123456789012:stream/orders",
		"us-gov-west-1": "arn:aws-us-gov:kinesis:us-gov-west-1:123456789012:stream/orders",
	} {
		t.Run(region, func(t *testing.T) {
			r := newRig(t, Config{Region: region, Account: "123456789012"})
			r.create("orders", 1)
			if got := *r.summary("orders").StreamARN; got != arn {
				t.Fatalf("ARN is %s, want %s", got, arn)
			}
			o, err := r.c.PutRecord(t.Context(), &sdk.PutRecordInput{StreamARN: &arn, PartitionKey: aws.String("k"), Data: []byte("x")})
			r.ok(err)
			it, err := r.c.GetShardIterator(t.Context(), &sdk.GetShardIteratorInput{StreamARN: &arn, ShardId: o.ShardId, ShardIteratorType: types.ShardIteratorTypeTrimHorizon})
			r.ok(err)
			recs, err := r.c.GetRecords(t.Context(), &sdk.GetRecordsInput{StreamARN: &arn, ShardIterator: it.ShardIterator})
			r.ok(err)
			if len(recs.Records) != 1 {
				t.Errorf("%d records, want 1", len(recs.Records))
			}
			if _, err = r.c.ListShards(t.Context(), &sdk.ListShardsInput{StreamARN: &arn, StreamName: aws.String("orders")}); err != nil {
				t.Errorf("name and ARN of one stream: %v", err)
			}
		})
	}
}

func TestWrongARNs(t *testing.T) {
	r := newRig(t, Config{})
	r.create("orders", 1)
	good := r.s.arnOf("orders")
	for name, tc := range map[string]struct{ arn, name, code, word string }{
		"other region":    {strings.Replace(good, "us-east-1", "eu-west-1", 1), "", "InvalidArgumentException", "eu-west-1"},
		"other partition": {strings.Replace(good, "arn:aws:", "arn:aws-cn:", 1), "", "InvalidArgumentException", "aws-cn"},
		"other account":   {strings.Replace(good, "000000000000", "111111111111", 1), "", "ResourceNotFoundException", "111111111111"},
		"other stream":    {good + "s", "", "ResourceNotFoundException", "orderss"},
		"not an ARN":      {"orders", "", "ValidationException", "streamARN"},
		"of a consumer":   {good + "/consumer/app:1", "", "ResourceNotFoundException", "consumer"},
		"two streams":     {good, "invoices", "InvalidArgumentException", "invoices"},
	} {
		t.Run(name, func(t *testing.T) {
			in := &sdk.DescribeStreamSummaryInput{StreamARN: &tc.arn}
			if tc.name != "" {
				in.StreamName = &tc.name
			}
			_, err := r.c.DescribeStreamSummary(t.Context(), in)
			wantCode(t, err, tc.code, tc.word)
		})
	}
}
