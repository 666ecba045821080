package ots_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	source "github.com/shardwarden/shardwarden/backends/memory"
	backend "github.com/shardwarden/shardwarden/backends/tablestore"
	"github.com/shardwarden/shardwarden/core"
)

// mixedStream is a stream that workers of both kinds read.
type mixedStream interface {
	id() core.StreamID
	ours(g *gate) (src core.StreamSource, cut func()) // cut: beyond what the gate does
	java() javaSource
	record(r *core.Record) (key string, n int)
	put(key string, n int) error
	open() ([]core.ShardID, error)
	split(s core.ShardID) error
	merge(s core.ShardID) error // with its neighbour
}

// inMemory is a stream in memory.
type inMemory struct{ *source.Stream }

func (s inMemory) id() core.StreamID { return stream }

func (s inMemory) ours(*gate) (core.StreamSource, func()) {
	h := s.Handle()
	return h, func() { h.Break(source.Fault{Hang: true}) }
}

func (s inMemory) java() javaSource { return memorySource{s.Handle()} }

func (s inMemory) record(r *core.Record) (key string, n int) { return memoryRecord(r) }

func memoryRecord(r *core.Record) (key string, n int) {
	if _, err := fmt.Sscan(string(r.Data), &n); err != nil {
		panic(err)
	}
	return strings.Clone(r.Key), n
}

func (s inMemory) put(key string, n int) error {
	s.Put(key, fmt.Append(nil, n))
	return nil
}

func (s inMemory) open() (out []core.ShardID, err error) {
	shards, err := s.Shards(context.Background(), core.Position{})
	for _, x := range shards {
		if !x.Closed {
			out = append(out, x.ID)
		}
	}
	return out, err
}

func (s inMemory) split(shard core.ShardID) error { _, _, err := s.Split(shard); return err }

func (s inMemory) merge(shard core.ShardID) error {
	all, err := s.open()
	for _, other := range all {
		if other != shard && err == nil {
			if _, err = s.Merge(shard, other); err == nil {
				return nil
			}
			err = nil
		}
	}
	return fmt.Errorf("%s has no neighbour: %w", shard, core.ErrInvalid)
}

// ofTable is the stream of a table of the emulator that holds the status table too. Java workers read it through the SDK, and checkpoint
// iterators. A key lives in the partition that its first column says.
type ofTable struct {
	s      *service
	stream core.StreamID
}

const orders = "orders"

func newTable(t *testing.T, s *service, partitions int) *ofTable {
	s.makeTable(t, orders, forEver(), "part INTEGER", "key STRING")
	for i := 1; i < partitions; i++ {
		_, _, err := s.Split(instance, orders, int64(i*1000/partitions))
		must(t, err)
	}
	_, err := s.sdk.UpdateTable(&tablestore.UpdateTableRequest{TableName: orders, StreamSpec: &tablestore.StreamSpecification{EnableStream: true, ExpirationTime: 24}})
	must(t, err)
	d, err := s.sdk.DescribeTable(&tablestore.DescribeTableRequest{TableName: orders})
	must(t, err)
	return &ofTable{s, core.StreamID(*d.StreamDetails.StreamId)}
}

func (o *ofTable) id() core.StreamID { return o.stream }

func (o *ofTable) ours(g *gate) (core.StreamSource, func()) {
	return backend.New(backend.Instance{Endpoint: "http://emulator", Name: instance, Credentials: keys}, orders, backend.Transport(g)), func() {}
}

func (o *ofTable) java() javaSource { return tableSource{o} }

func (o *ofTable) record(r *core.Record) (key string, n int) {
	c := r.Native.(*backend.Change)
	v, _ := c.Column("n")
	return strings.Clone(c.Key[1].Value.(string)), int(v.Value.(int64))
}

func (o *ofTable) put(key string, n int) error {
	pk := new(tablestore.PrimaryKey)
	var i int
	if _, err := fmt.Sscanf(key, "k%d", &i); err != nil {
		return err
	}
	pk.AddPrimaryKeyColumn("part", int64(i*100))
	pk.AddPrimaryKeyColumn("key", key)
	put := &tablestore.PutRowChange{TableName: orders, PrimaryKey: pk}
	put.AddColumn("n", int64(n))
	put.SetCondition(tablestore.RowExistenceExpectation_IGNORE)
	_, err := o.s.sdk.PutRow(&tablestore.PutRowRequest{PutRowChange: put})
	return err
}

func (o *ofTable) open() (out []core.ShardID, err error) {
	parts, err := o.s.Partitions(instance, orders)
	for _, p := range parts {
		out = append(out, core.ShardID(p.Shard))
	}
	return out, err
}

// split halves the range of a partition.
func (o *ofTable) split(shard core.ShardID) error {
	parts, err := o.s.Partitions(instance, orders)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if p.Shard == string(shard) {
			from, to := int64(0), int64(1000)
			if v, ok := p.From.(int64); ok {
				from = max(v, 0)
			}
			if v, ok := p.To.(int64); ok {
				to = min(v, 1000)
			}
			_, _, err := o.s.Split(instance, orders, from/2+to/2)
			return err
		}
	}
	return fmt.Errorf("no shard %s: %w", shard, core.ErrNotFound)
}

func (o *ofTable) merge(shard core.ShardID) error {
	all, err := o.open()
	if err != nil {
		return err
	}
	i := slices.Index(all, shard)
	if i < 0 || i+1 >= len(all) {
		i = max(i-1, 0)
	}
	_, err = o.s.Merge(instance, orders, string(all[i]), string(all[i+1]))
	return err
}

// tableSource is the stream as StreamClientHelper reads it.
type tableSource struct{ o *ofTable }

func (s tableSource) shards(context.Context) ([]core.Shard, error) {
	id := tablestore.StreamId(s.o.stream)
	var out []core.Shard
	in := &tablestore.DescribeStreamRequest{StreamId: &id}
	for {
		page, err := s.o.s.sdk.DescribeStream(in)
		if err != nil {
			return nil, err
		}
		for _, x := range page.Shards {
			shard := core.Shard{ID: core.ShardID(*x.SelfShard)}
			for _, p := range []*tablestore.ShardId{x.FatherShard, x.MotherShard} {
				if p != nil {
					shard.Parents = append(shard.Parents, core.ShardID(*p))
				}
			}
			out = append(out, shard)
		}
		if page.NextShardId == nil {
			break
		}
		in.InclusiveStartShardId = page.NextShardId
	}
	depth := map[core.ShardID]int{}
	for range out { // parents first
		for _, x := range out {
			for _, p := range x.Parents {
				depth[x.ID] = max(depth[x.ID], depth[p]+1)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b core.Shard) int { return cmp.Compare(depth[a.ID], depth[b.ID]) })
	return out, nil
}

func (s tableSource) open(_ context.Context, shard, checkpoint string) (javaReader, error) {
	it := tablestore.ShardIterator(checkpoint)
	if checkpoint == "TRIM_HORIZON" {
		stream, id := tablestore.StreamId(s.o.stream), tablestore.ShardId(shard)
		out, err := s.o.s.sdk.GetShardIterator(&tablestore.GetShardIteratorRequest{StreamId: &stream, ShardId: &id})
		if err != nil {
			return nil, err
		}
		it = *out.ShardIterator
	}
	return &tableReader{s.o, it}, nil
}

type tableReader struct {
	o  *ofTable
	it tablestore.ShardIterator
}

func (r *tableReader) close() {}

// next polls until there is a batch, and gives the iterator behind it as the checkpoint.
func (r *tableReader) next(ctx context.Context) (batch []javaRecord, checkpoint string, err error) {
	limit := int32(1000)
	out, err := r.o.s.sdk.GetStreamRecord(&tablestore.GetStreamRecordRequest{ShardIterator: &r.it, Limit: &limit})
	if err != nil {
		return nil, "", err
	}
	for _, x := range out.Records {
		batch = append(batch, javaRecord{x.PrimaryKey.PrimaryKeys[1].Value.(string), int(x.Columns[0].Value.(int64))})
	}
	if out.NextShardIterator == nil {
		return batch, "SHARD_END", nil
	}
	if r.it = *out.NextShardIterator; len(batch) == 0 {
		sleep(ctx, 200*time.Millisecond) // Java polls harder; nothing depends on it
		if ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		return nil, "", nil
	}
	return batch, string(r.it), nil
}
