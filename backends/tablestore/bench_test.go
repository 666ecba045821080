package tablestore

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	leases "github.com/shardwarden/shardwarden/leasestore/memory"
)

// canned answers the calls of a source from memory, so that what is measured is the client alone. Its shards are open, and each read gives
// the same changes.
type canned struct {
	shards int
	body   []byte // of GetStreamRecord
	reads  atomic.Int64
}

// wideRows are changes of rows with 20 columns: integers, doubles, texts, a boolean and a little binary.
func wideRows(n int) []*Change {
	now := time.Now().UnixMicro()
	out := make([]*Change, n)
	for i := range out {
		c := &Change{Sequence: Sequence{0, now + int64(i), 0}, Key: []KeyColumn{{"user", fmt.Sprint("user-", i)}, {"order", int64(i)}}}
		for j := range 20 {
			col := Column{Name: fmt.Sprintf("column_%02d", j), Timestamp: now / 1000}
			switch j % 5 {
			case 0:
				col.Value = int64(i * j)
			case 1:
				col.Value = float64(i) / 7
			case 2, 3:
				col.Value = strings.Repeat("text ", 4) + fmt.Sprint(i)
			case 4:
				col.Value = j == 4
				if j > 15 {
					col.Value = make([]byte, 16)
				}
			}
			c.Columns = append(c.Columns, col)
		}
		out[i] = c
	}
	return out
}

func (c *canned) RoundTrip(r *http.Request) (*http.Response, error) {
	body := c.body
	switch r.URL.Path {
	case "/GetStreamRecord":
		c.reads.Add(1)
	case "/GetShardIterator":
		body = marshal(&otsprotocol.GetShardIteratorResponse{ShardIterator: new("iterator")})
	case "/DescribeTable":
		one := new(int32(1))
		body = marshal(&otsprotocol.DescribeTableResponse{
			TableMeta:                 &otsprotocol.TableMeta{TableName: new(table)},
			ReservedThroughputDetails: &otsprotocol.ReservedThroughputDetails{CapacityUnit: &otsprotocol.CapacityUnit{Read: one, Write: one}, LastIncreaseTime: new(int64(0))},
			TableOptions:              &otsprotocol.TableOptions{TimeToLive: one, MaxVersions: one, DeviationCellVersionInSec: new(int64(1))},
			TableStatus:               otsprotocol.TableStatus_ACTIVE.Enum(),
			StreamDetails:             &otsprotocol.StreamDetails{EnableStream: new(true), StreamId: new("stream"), ExpirationTime: new(int32(24)), LastEnableTime: new(int64(0))},
		})
	case "/DescribeStream":
		out := &otsprotocol.DescribeStreamResponse{StreamId: new("stream"), ExpirationTime: new(int32(24)), TableName: new(table), CreationTime: new(int64(0)), StreamStatus: otsprotocol.StreamStatus_STREAM_ACTIVE.Enum()}
		for i := range c.shards {
			out.Shards = append(out.Shards, &otsprotocol.StreamShard{ShardId: new(fmt.Sprintf("%s_%016d", strings.Repeat("u", 36), i))})
		}
		body = marshal(out)
	}
	return &http.Response{StatusCode: 200, Request: r, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))}, nil
}

// cpu is the processor time of this process, garbage collection included.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkChanges reads changes of 20 columns: with the bare SDK, with a reader alone, and with a worker. What counts is changes/cpu-s.
func BenchmarkChanges(b *testing.B) {
	const rows = 300
	body := wireAnswer(b, "iterator", wideRows(rows)...)
	count := func(b *testing.B, read func() int) {
		b.ReportAllocs()
		n, before := 0, cpu()
		for b.Loop() {
			n += read()
		}
		b.ReportMetric(float64(n)/(cpu()-before).Seconds(), "changes/cpu-s")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("sdk", func(b *testing.B) {
		config := sdk.NewDefaultTableStoreConfig()
		config.Transport = &canned{body: body}
		client := sdk.NewClientWithConfig("http://emulator", instance, "x", "x", "", config)
		it := sdk.ShardIterator("iterator")
		count(b, func() int {
			out, err := client.GetStreamRecord(&sdk.GetStreamRecordRequest{ShardIterator: &it})
			if err != nil {
				b.Fatal(err)
			}
			it = *out.NextShardIterator
			return len(out.Records)
		})
	})
	b.Run("source", func(b *testing.B) {
		s := New(there(), table, Transport(&canned{body: body}), MaxRecords(rows))
		rd, err := s.Open(b.Context(), core.Shard{ID: "shard"}, core.FromHorizon)
		if err != nil {
			b.Fatal(err)
		}
		defer rd.Close()
		count(b, func() int {
			rd.(*reader).pace.next = time.Time{}
			p, err := rd.Next(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			defer p.Release()
			return len(p.Records)
		})
	})
	b.Run("worker", func(b *testing.B) {
		ctx, stop := context.WithCancel(b.Context())
		batches := make(chan int, 16)
		w, err := worker.New(worker.Config{
			Streams: Tables(there(), core.FromHorizon, []string{table}, Transport(&canned{body: body, shards: 1}), MaxRecords(rows)),
			Store:   leases.New(),
			Process: func(ctx context.Context, batch *core.Batch) error {
				select {
				case batches <- len(batch.Records):
				case <-ctx.Done():
				}
				return nil
			},
		})
		if err != nil {
			b.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		<-batches
		count(b, func() int { return <-batches })
		stop()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
}

// BenchmarkIdleShards holds 1,000 shards without records in one worker: memory, and reads a shard and second.
func BenchmarkIdleShards(b *testing.B) {
	const shards = 1000
	for b.Loop() {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		service := &canned{body: marshal(&otsprotocol.GetStreamRecordResponse{NextShardIterator: new("iterator")}), shards: shards}
		ctx, stop := context.WithCancel(b.Context())
		w, err := worker.New(worker.Config{
			Streams: Tables(there(), core.FromHorizon, []string{table}, Transport(service)),
			Store:   leases.New(),
			Process: func(context.Context, *core.Batch) error { return nil },
		})
		if err != nil {
			b.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		for service.reads.Load() < 10*shards { // until all are idle
			time.Sleep(10 * time.Millisecond)
		}
		reads, began, used := service.reads.Load(), time.Now(), cpu()
		time.Sleep(5 * time.Second)
		took := time.Since(began).Seconds()
		b.ReportMetric(float64(service.reads.Load()-reads)/took/shards, "reads/shard/s")
		b.ReportMetric((cpu()-used).Seconds()/took*100, "%cpu")
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse)/1e6, "MB")
		b.ReportMetric(float64(after.Sys)/1e6, "MB-of-the-process")
		stop()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
	b.ReportMetric(0, "ns/op")
}
