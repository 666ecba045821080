package tablestore

import (
	"errors"
	"strings"
	"testing"

	pb "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"

	"github.com/shardwarden/shardwarden/internal/plainbuffer"
)

// wantError checks an error for a part of its text; "" wants none.
func wantError(t testing.TB, err error, part string) {
	t.Helper()
	if part == "" && err != nil || part != "" && (err == nil || !strings.Contains(err.Error(), part)) {
		t.Errorf("got error %v, want %q", err, part)
	}
}

func mustEncode(t testing.TB, m message) []byte {
	t.Helper()
	b, err := encode(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func equals(t testing.TB, name string, v plainbuffer.Value) *pb.Filter {
	t.Helper()
	return &pb.Filter{Type: pb.FilterType_FT_SINGLE_COLUMN_VALUE.Enum(), Filter: mustEncode(t, &pb.SingleColumnValueFilter{
		Comparator: pb.ComparatorType_CT_EQUAL.Enum(), ColumnName: &name, ColumnValue: plainbuffer.AppendValue(nil, v),
		FilterIfMissing: new(true), LatestVersionOnly: new(true),
	})}
}

// No bytes make the parser of filters panic, and each is a filter or an error of the service.
func FuzzFilter(f *testing.F) {
	one := equals(f, "LeaseCounter", plainbuffer.IntegerValue(1))
	and := &pb.Filter{Type: pb.FilterType_FT_COMPOSITE_COLUMN_VALUE.Enum(), Filter: mustEncode(f, &pb.CompositeColumnValueFilter{
		Combinator: pb.LogicalOperator_LO_AND.Enum(), SubFilters: []*pb.Filter{one, one},
	})}
	f.Add(mustEncode(f, one))
	f.Add(mustEncode(f, and))
	f.Add(mustEncode(f, &pb.Filter{Type: pb.FilterType_FT_COLUMN_PAGINATION.Enum(), Filter: mustEncode(f, &pb.ColumnPaginationFilter{Offset: new(int32(1)), Limit: new(int32(2))})}))
	f.Add([]byte{})
	r := &row{}
	r.set("LeaseCounter", version{1, plainbuffer.IntegerValue(1)}, 1)
	f.Fuzz(func(t *testing.T, data []byte) {
		got, page, err := parseFilter(data)
		if err != nil {
			if _, ok := errors.AsType[*apiError](err); !ok {
				t.Errorf("not an error of the service: %v", err)
			}
			return
		}
		if got != nil {
			got(r.versions)
			got((*row)(nil).versions)
		}
		if len(data) > 0 && (got == nil) == (page == nil) {
			t.Errorf("neither a filter nor a pagination, or both")
		}
	})
}

// Iterators are read as they were written, and nothing else is one.
func FuzzIterator(f *testing.F) {
	s := New(Config{Seed: 7})
	other := New(Config{Seed: 8})
	it := iterator{shard: "6b0a0b2e-0000-4000-8000-000000000001_0001500000000000", next: 5, us: 1500000000000000}
	f.Add(s.writeIterator(it))
	f.Add(other.writeIterator(it))
	f.Add("TRIM_HORIZON")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		if got, ok := s.readIterator(text); ok && s.writeIterator(got) != text {
			t.Errorf("%q is read as %+v, which is written as %q", text, got, s.writeIterator(got))
		}
	})
}

func TestIteratorsAreSealed(t *testing.T) {
	s, other := New(Config{Seed: 7}), New(Config{Seed: 8})
	it := iterator{shard: "a-shard", next: 5, us: 1500000000000000}
	text := s.writeIterator(it)
	if got, ok := s.readIterator(text); !ok || got != it {
		t.Errorf("%+v, %t", got, ok)
	}
	if _, ok := other.readIterator(text); ok {
		t.Error("another server takes it")
	}
	for i := range text {
		b := []byte(text)
		b[i] ^= 1
		if got, ok := s.readIterator(string(b)); ok && got != it { // the last bits of base64 may mean nothing
			t.Errorf("changed at %d it is read as %+v", i, got)
		}
	}
}

// No body makes an operation panic; it is an answer or an error of the service.
func FuzzRequests(f *testing.F) {
	key := plainbuffer.Encode(plainbuffer.Row{PrimaryKey: []plainbuffer.Cell{plainbuffer.Key("id", plainbuffer.StringValue("a"))}})
	first := plainbuffer.Encode(plainbuffer.Row{PrimaryKey: []plainbuffer.Cell{plainbuffer.Key("id", plainbuffer.Value{Kind: plainbuffer.InfMin})}})
	last := plainbuffer.Encode(plainbuffer.Row{PrimaryKey: []plainbuffer.Cell{plainbuffer.Key("id", plainbuffer.Value{Kind: plainbuffer.InfMax})}})
	change := plainbuffer.Encode(plainbuffer.Row{
		PrimaryKey: []plainbuffer.Cell{plainbuffer.Key("id", plainbuffer.StringValue("a"))},
		Cells:      []plainbuffer.Cell{plainbuffer.Key("n", plainbuffer.IntegerValue(1))},
	})
	ignore := &pb.Condition{RowExistence: pb.RowExistenceExpectation_IGNORE.Enum()}
	create := &pb.CreateTableRequest{
		TableMeta:          &pb.TableMeta{TableName: new("t"), PrimaryKey: []*pb.PrimaryKeySchema{{Name: new("id"), Type: pb.PrimaryKeyType_STRING.Enum()}}},
		ReservedThroughput: &pb.ReservedThroughput{CapacityUnit: &pb.CapacityUnit{}},
		StreamSpec:         &pb.StreamSpecification{EnableStream: new(true), ExpirationTime: new(int32(1))},
	}
	for name, m := range map[string]message{
		"CreateTable":      create,
		"PutRow":           &pb.PutRowRequest{TableName: new("t"), Row: change, Condition: ignore},
		"UpdateRow":        &pb.UpdateRowRequest{TableName: new("t"), RowChange: change, Condition: ignore},
		"GetRow":           &pb.GetRowRequest{TableName: new("t"), PrimaryKey: key, MaxVersions: new(int32(1))},
		"DeleteRow":        &pb.DeleteRowRequest{TableName: new("t"), PrimaryKey: key, Condition: ignore},
		"GetRange":         &pb.GetRangeRequest{TableName: new("t"), Direction: pb.Direction_BACKWARD.Enum(), MaxVersions: new(int32(1)), InclusiveStartPrimaryKey: last, ExclusiveEndPrimaryKey: first},
		"BatchGetRow":      &pb.BatchGetRowRequest{Tables: []*pb.TableInBatchGetRowRequest{{TableName: new("t"), PrimaryKey: [][]byte{key}, MaxVersions: new(int32(1))}}},
		"BatchWriteRow":    &pb.BatchWriteRowRequest{Tables: []*pb.TableInBatchWriteRowRequest{{TableName: new("t"), Rows: []*pb.RowInBatchWriteRowRequest{{Type: pb.OperationType_PUT.Enum(), RowChange: change, Condition: ignore}}}}},
		"UpdateTable":      &pb.UpdateTableRequest{TableName: new("t"), StreamSpec: &pb.StreamSpecification{EnableStream: new(false)}},
		"DescribeTable":    &pb.DescribeTableRequest{TableName: new("t")},
		"DeleteTable":      &pb.DeleteTableRequest{TableName: new("t")},
		"ListTable":        &pb.ListTableRequest{},
		"ListStream":       &pb.ListStreamRequest{TableName: new("t")},
		"DescribeStream":   &pb.DescribeStreamRequest{StreamId: new("t_1"), ShardLimit: new(int32(1))},
		"GetShardIterator": &pb.GetShardIteratorRequest{StreamId: new("t_1"), ShardId: new("s"), Timestamp: new(int64(1))},
		"GetStreamRecord":  &pb.GetStreamRecordRequest{ShardIterator: new("x"), Limit: new(int32(1))},
	} {
		f.Add(name, mustEncode(f, m))
	}
	createBody := mustEncode(f, create)
	putBody := mustEncode(f, &pb.PutRowRequest{TableName: new("t"), Row: change, Condition: ignore})
	f.Fuzz(func(t *testing.T, name string, body []byte) {
		run, ok := operations[name]
		if !ok {
			return
		}
		s := New(Config{})
		for _, step := range []struct {
			name string
			body []byte
		}{{"CreateTable", createBody}, {"PutRow", putBody}} {
			if _, err := operations[step.name](t.Context(), s, &call{operation: step.name, instance: "i"}, step.body); err != nil {
				t.Fatal(err)
			}
		}
		out, err := run(t.Context(), s, &call{operation: name, instance: "i"}, body)
		if err != nil {
			if _, ok := errors.AsType[*apiError](err); !ok {
				t.Errorf("not an error of the service: %v", err)
			}
			return
		}
		if _, err := encode(out); err != nil {
			t.Errorf("the answer lacks something: %v", err)
		}
	})
}
