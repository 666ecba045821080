package main

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardwarden/shardwarden/backends/kinesis/kpl/kpltest"
)

// keysPerBatch is also how many partition keys there are: each batch holds each key once, so that a batch refused in part and sent
// again can't turn the order of a key around.
const keysPerBatch = 200

// put is where the service said a record went.
type put struct {
	key, shard, seq string
	sub             uint64 // within an aggregated record
}

// producer writes a stream and keeps the ledger of what was put.
type producer struct {
	k      *kinesis.Client
	stream string
	prefix string // of its keys and its shards, where there are several streams
	batch  int
	within int            // so many user records of one key stand in one record, aggregated as the KPL does; 0: none are
	ledger map[string]put // by id: "KEY NUMBER"
	ids    map[string][]string
}

func newProducer(ctx context.Context, k *kinesis.Client, stream string, shards int) (*producer, error) {
	p := &producer{k: k, stream: stream, ledger: map[string]put{}, ids: map[string][]string{}}
	if _, err := k.CreateStream(ctx, &kinesis.CreateStreamInput{StreamName: &stream, ShardCount: new(int32(shards))}); err != nil {
		return nil, err
	}
	return p, p.active(ctx)
}

// active waits until the stream has taken in the last change.
func (p *producer) active(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		d, err := p.k.DescribeStreamSummary(ctx, &kinesis.DescribeStreamSummaryInput{StreamName: &p.stream})
		if err != nil && !isNotFound(err) {
			return err
		}
		if err == nil && d.StreamDescriptionSummary.StreamStatus == types.StreamStatusActive {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stream %s never became ACTIVE: %w", p.stream, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func isNotFound(err error) bool {
	_, ok := errors.AsType[*types.ResourceNotFoundException](err)
	return ok
}

// put writes n batches of one record a key.
func (p *producer) put(ctx context.Context, n int) error {
	for range n {
		var entries []types.PutRecordsRequestEntry
		var ids [][]string
		for k := range keysPerBatch {
			key := fmt.Sprintf("%sk%03d", p.prefix, k)
			user, data := p.compose(key)
			ids = append(ids, user)
			entries = append(entries, types.PutRecordsRequestEntry{PartitionKey: &key, Data: data})
		}
		p.batch++
		for tries := 0; len(entries) > 0; tries++ {
			o, err := p.k.PutRecords(ctx, &kinesis.PutRecordsInput{StreamName: &p.stream, Records: entries})
			if err != nil {
				return err
			}
			var again []types.PutRecordsRequestEntry
			var againIDs [][]string
			for i, r := range o.Records {
				if r.ErrorCode != nil || r.ShardId == nil {
					again, againIDs = append(again, entries[i]), append(againIDs, ids[i])
					continue
				}
				key := *entries[i].PartitionKey
				for sub, id := range ids[i] {
					p.ledger[id] = put{key: key, shard: p.prefix + *r.ShardId, seq: *r.SequenceNumber, sub: uint64(sub)}
				}
				p.ids[key] = append(p.ids[key], ids[i]...)
			}
			if len(again) > 0 && tries > 100 {
				return fmt.Errorf("%d records were refused a hundred times", len(again))
			}
			entries, ids = again, againIDs
		}
	}
	return nil
}

// compose makes the record of a key for this batch, and the ids of the user records in it.
func (p *producer) compose(key string) (ids []string, data []byte) {
	var records []kpltest.Record
	for i := range max(1, p.within) {
		id := fmt.Sprintf("%s %d", key, p.batch*max(1, p.within)+i)
		ids = append(ids, id)
		records = append(records, kpltest.Record{Key: key, Data: []byte(id + " " + strings.Repeat("x", 90-len(id)))})
	}
	if p.within == 0 {
		return ids, records[0].Data
	}
	return ids, kpltest.Aggregate(records...)
}

// shard is a shard as ListShards tells it, complete and in the order listed.
type shard struct {
	id, start, end string
	parents        []string
	closed         bool
}

func (p *producer) shards(ctx context.Context) ([]shard, error) {
	var all []shard
	in := &kinesis.ListShardsInput{StreamName: &p.stream}
	for {
		o, err := p.k.ListShards(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, s := range o.Shards {
			x := shard{id: *s.ShardId, start: *s.HashKeyRange.StartingHashKey, end: *s.HashKeyRange.EndingHashKey,
				closed: s.SequenceNumberRange != nil && s.SequenceNumberRange.EndingSequenceNumber != nil}
			for _, id := range []*string{s.ParentShardId, s.AdjacentParentShardId} {
				if id != nil && *id != "" {
					x.parents = append(x.parents, *id)
				}
			}
			all = append(all, x)
		}
		if o.NextToken == nil || *o.NextToken == "" {
			return all, nil
		}
		in = &kinesis.ListShardsInput{NextToken: o.NextToken}
	}
}

func integer(s string) *big.Int {
	i, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return big.NewInt(-1)
	}
	return i
}

// split cuts the first open shard in the middle and returns its id.
func (p *producer) split(ctx context.Context) (string, error) {
	all, err := p.shards(ctx)
	if err != nil {
		return "", err
	}
	for _, s := range all {
		if !s.closed {
			return s.id, p.cut(ctx, s)
		}
	}
	return "", errors.New("no open shard to split")
}

// cut splits a shard in the middle.
func (p *producer) cut(ctx context.Context, s shard) error {
	mid := new(big.Int).Add(integer(s.start), integer(s.end))
	mid.Rsh(mid, 1)
	if _, err := p.k.SplitShard(ctx, &kinesis.SplitShardInput{StreamName: &p.stream, ShardToSplit: &s.id, NewStartingHashKey: new(mid.String())}); err != nil {
		return err
	}
	return p.active(ctx)
}

// join merges two neighbours.
func (p *producer) join(ctx context.Context, a, b shard) error {
	if _, err := p.k.MergeShards(ctx, &kinesis.MergeShardsInput{StreamName: &p.stream, ShardToMerge: &a.id, AdjacentShardToMerge: &b.id}); err != nil {
		return err
	}
	return p.active(ctx)
}

func neighbours(a, b shard) bool {
	return !a.closed && !b.closed && b.start == new(big.Int).Add(integer(a.end), big.NewInt(1)).String()
}

// merge joins two neighbours that are not children of the same split.
func (p *producer) merge(ctx context.Context) (string, error) {
	all, err := p.shards(ctx)
	if err != nil {
		return "", err
	}
	for _, a := range all {
		for _, b := range all {
			if neighbours(a, b) && (len(a.parents) == 0 || len(b.parents) == 0) {
				return a.id + " and " + b.id, p.join(ctx, a, b)
			}
		}
	}
	return "", errors.New("no neighbours to merge")
}
