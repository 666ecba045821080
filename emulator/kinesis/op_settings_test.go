package kinesis

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

var (
	onDemand    = &types.StreamModeDetails{StreamMode: types.StreamModeOnDemand}
	provisioned = &types.StreamModeDetails{StreamMode: types.StreamModeProvisioned}
)

func TestLargeRecordsMustBeAllowed(t *testing.T) {
	r := newRig(t, Config{NoLimits: true})
	c := cborClient{r} // base64 of so many bytes takes long
	r.create("orders", 1)
	put := func(size int) string {
		_, e := c.call("PutRecord", map[string]any{"StreamName": "orders", "PartitionKey": "key", "Data": make([]byte, size-3)}, nil)
		return e
	}
	puts := func(n, size int) string {
		var records []any
		for range n {
			records = append(records, map[string]any{"PartitionKey": "key", "Data": make([]byte, size-3)})
		}
		_, e := c.call("PutRecords", map[string]any{"StreamName": "orders", "Records": records}, nil)
		return e
	}
	want := func(what, got string, words ...string) {
		t.Helper()
		if (got == "") != (len(words) == 0) {
			t.Fatalf("%s: got %q, want %q", what, got, words)
		}
		for _, w := range words {
			if !strings.Contains(got, w) {
				t.Errorf("%s: %q does not name %q", what, got, w)
			}
		}
	}
	want("1 MiB", put(1<<20))
	want("a byte more", put(1<<20+1), "InvalidArgumentException", "MaxRecordSizeInKiB")
	want("5 MiB in all", puts(5, 1<<20))
	want("6 MiB in all", puts(6, 1<<20), "InvalidArgumentException", "5 MB")
	_, err := r.c.UpdateMaxRecordSize(t.Context(), &sdk.UpdateMaxRecordSizeInput{StreamARN: aws.String(r.s.arnOf("orders")), MaxRecordSizeInKiB: aws.Int32(10_240)})
	r.ok(err)
	if got := *r.summary("orders").MaxRecordSizeInKiB; got != 10_240 {
		t.Errorf("maximum record size is %d KiB", got)
	}
	want("10 MiB once allowed", put(10<<20))
	want("a byte more than that", put(10<<20+4), "ValidationException", "data")
	want("over 10 MiB in all", puts(2, 5<<20+1), "InvalidArgumentException", "10 MB")
	_, err = r.c.UpdateMaxRecordSize(t.Context(), &sdk.UpdateMaxRecordSizeInput{StreamARN: aws.String(r.s.arnOf("orders")), MaxRecordSizeInKiB: aws.Int32(10)})
	wantCode(t, err, "ValidationException", "maxRecordSizeInKiB")
}

func TestTags(t *testing.T) {
	r := newRig(t, Config{})
	_, err := r.c.CreateStream(t.Context(), &sdk.CreateStreamInput{StreamName: aws.String("orders"), ShardCount: aws.Int32(1), Tags: map[string]string{"a": "1", "b": "2"}})
	r.ok(err)
	_, err = r.c.AddTagsToStream(t.Context(), &sdk.AddTagsToStreamInput{StreamName: aws.String("orders"), Tags: map[string]string{"b": "3", "c": "4"}})
	r.ok(err)
	_, err = r.c.RemoveTagsFromStream(t.Context(), &sdk.RemoveTagsFromStreamInput{StreamName: aws.String("orders"), TagKeys: []string{"a"}})
	r.ok(err)
	var got []string
	in := &sdk.ListTagsForStreamInput{StreamName: aws.String("orders"), Limit: aws.Int32(1)}
	for {
		o, err := r.c.ListTagsForStream(t.Context(), in)
		r.ok(err)
		for _, tag := range o.Tags {
			got = append(got, *tag.Key+"="+*tag.Value)
			in.ExclusiveStartTagKey = tag.Key
		}
		if !*o.HasMoreTags {
			break
		}
	}
	if s := strings.Join(got, " "); s != "b=3 c=4" {
		t.Errorf("tags are %q, want b=3 c=4", s)
	}
	many := map[string]string{}
	for i := range 49 {
		many[fmt.Sprint(i)] = ""
	}
	_, err = r.c.AddTagsToStream(t.Context(), &sdk.AddTagsToStreamInput{StreamName: aws.String("orders"), Tags: many})
	wantCode(t, err, "InvalidArgumentException", "50")
}

func TestListStreamsPages(t *testing.T) {
	r := newRig(t, Config{ShardLimit: 1000})
	for i := range 5 {
		r.create(fmt.Sprint("s", i), 2)
	}
	var pages []string
	in := &sdk.ListStreamsInput{Limit: aws.Int32(2)}
	for {
		o, err := r.c.ListStreams(t.Context(), in)
		r.ok(err)
		pages = append(pages, strings.Join(o.StreamNames, " "))
		if len(o.StreamSummaries) != len(o.StreamNames) || *o.StreamSummaries[0].StreamName != o.StreamNames[0] {
			t.Errorf("names %v with %d summaries", o.StreamNames, len(o.StreamSummaries))
		}
		if !*o.HasMoreStreams {
			break
		}
		if len(pages) == 1 {
			in = &sdk.ListStreamsInput{Limit: aws.Int32(2), NextToken: o.NextToken}
		} else {
			in = &sdk.ListStreamsInput{Limit: aws.Int32(2), ExclusiveStartStreamName: &o.StreamNames[1]}
		}
	}
	if got := strings.Join(pages, "|"); got != "s0 s1|s2 s3|s4" {
		t.Errorf("pages %s", got)
	}
	l, err := r.c.DescribeLimits(t.Context(), &sdk.DescribeLimitsInput{})
	r.ok(err)
	if *l.OpenShardCount != 10 || *l.ShardLimit != 1000 {
		t.Errorf("%d open shards of %d, want 10 of 1000", *l.OpenShardCount, *l.ShardLimit)
	}
}

func TestDescribeStreamPages(t *testing.T) {
	r := newRig(t, Config{})
	r.create("orders", 150)
	var n []int
	in := &sdk.DescribeStreamInput{StreamName: aws.String("orders")}
	for {
		o, err := r.c.DescribeStream(t.Context(), in)
		r.ok(err)
		d := o.StreamDescription
		n = append(n, len(d.Shards))
		if !*d.HasMoreShards {
			break
		}
		in.ExclusiveStartShardId = d.Shards[len(d.Shards)-1].ShardId
	}
	if fmt.Sprint(n) != "[100 50]" {
		t.Errorf("pages of %v shards, want 100 and 50", n)
	}
}
