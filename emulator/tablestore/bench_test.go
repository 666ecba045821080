package tablestore

import (
	"fmt"
	"math"
	"testing"
	"time"

	pb "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"

	"github.com/shardwarden/shardwarden/internal/plainbuffer"
)

// twentyColumns is a change of a row with 20 columns.
func twentyColumns(id int64) []byte {
	r := plainbuffer.Row{PrimaryKey: []plainbuffer.Cell{plainbuffer.Key("id", plainbuffer.IntegerValue(id))}}
	for i := range 20 {
		r.Cells = append(r.Cells, plainbuffer.Key(fmt.Sprintf("column%02d", i), plainbuffer.StringValue("a value of middling length")))
	}
	return plainbuffer.Encode(r)
}

// bench gives a server with a table that has a stream, and what carries a call out: body to body, without HTTP.
func bench(b *testing.B) (*Server, func(name string, in message) []byte) {
	s := New(Config{PageRecordBytes: math.MaxInt})
	run := func(name string, in message) []byte {
		out, err := operations[name](b.Context(), s, &call{operation: name, instance: "i"}, mustEncode(b, in))
		if err != nil {
			b.Fatal(err)
		}
		return mustEncode(b, out)
	}
	run("CreateTable", &pb.CreateTableRequest{
		TableMeta:          &pb.TableMeta{TableName: new("t"), PrimaryKey: []*pb.PrimaryKeySchema{{Name: new("id"), Type: pb.PrimaryKeyType_INTEGER.Enum()}}},
		ReservedThroughput: &pb.ReservedThroughput{CapacityUnit: &pb.CapacityUnit{}},
		StreamSpec:         &pb.StreamSpecification{EnableStream: new(true), ExpirationTime: new(int32(1))},
	})
	return s, run
}

func BenchmarkPutRow20Columns(b *testing.B) {
	_, run := bench(b)
	ignore := &pb.Condition{RowExistence: pb.RowExistenceExpectation_IGNORE.Enum()}
	change := twentyColumns(1)
	b.ReportAllocs()
	for b.Loop() {
		run("PutRow", &pb.PutRowRequest{TableName: new("t"), Row: change, Condition: ignore})
	}
}

func BenchmarkGetStreamRecord1000x20Columns(b *testing.B) {
	s, run := bench(b)
	ignore := &pb.Condition{RowExistence: pb.RowExistenceExpectation_IGNORE.Enum()}
	for i := range int64(1000) {
		run("PutRow", &pb.PutRowRequest{TableName: new("t"), Row: twentyColumns(i), Condition: ignore})
	}
	s.mu.Lock()
	h := s.instance("i").tables["t"].parts[0].shard
	text := s.writeIterator(h.oldest(time.Now()))
	s.mu.Unlock()
	b.ReportAllocs()
	for b.Loop() {
		b.SetBytes(int64(len(run("GetStreamRecord", &pb.GetStreamRecordRequest{ShardIterator: &text}))))
	}
}
