package tablestore

import (
	pb "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"

	"github.com/shardwarden/shardwarden/internal/plainbuffer"
)

// aim finds out what a request is about, for faults that choose by it.
func (s *Server) aim(c *call, in message) target {
	t := target{operation: c.operation, instance: c.instance}
	streamID := ""
	switch in := in.(type) {
	case *pb.PutRowRequest:
		t.keys = keyTexts(in.GetRow())
	case *pb.UpdateRowRequest:
		t.keys = keyTexts(in.GetRowChange())
	case *pb.DeleteRowRequest:
		t.keys = keyTexts(in.GetPrimaryKey())
	case *pb.GetRowRequest:
		t.keys = keyTexts(in.GetPrimaryKey())
	case *pb.CreateTableRequest:
		t.tables = append(t.tables, in.GetTableMeta().GetTableName())
	case *pb.BatchWriteRowRequest:
		for _, tb := range in.GetTables() {
			t.tables = append(t.tables, tb.GetTableName())
			for _, r := range tb.GetRows() {
				t.keys = append(t.keys, keyTexts(r.GetRowChange())...)
			}
		}
	case *pb.BatchGetRowRequest:
		for _, tb := range in.GetTables() {
			t.tables = append(t.tables, tb.GetTableName())
			for _, k := range tb.GetPrimaryKey() {
				t.keys = append(t.keys, keyTexts(k)...)
			}
		}
	case *pb.DescribeStreamRequest:
		streamID = in.GetStreamId()
	case *pb.GetShardIteratorRequest:
		streamID, t.shard = in.GetStreamId(), in.GetShardId()
	case *pb.GetStreamRecordRequest:
		if it, ok := s.readIterator(in.GetShardIterator()); ok {
			t.shard = it.shard
		}
	}
	if n, ok := in.(interface{ GetTableName() string }); ok && n.GetTableName() != "" {
		t.tables = append(t.tables, n.GetTableName())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.instance(c.instance)
	if st := i.streams[streamID]; st != nil {
		t.tables = append(t.tables, st.table.name)
	}
	if h := i.shards[t.shard]; h != nil {
		t.tables = append(t.tables, h.stream.table.name)
	}
	return t
}

// keyTexts are the strings in the primary key of a buffer with one row; none if it is not one.
func keyTexts(data []byte) []string {
	var r plainbuffer.Row
	if plainbuffer.DecodeRow(data, &r) != nil {
		return nil
	}
	k := make(key, len(r.PrimaryKey))
	for i, c := range r.PrimaryKey {
		k[i] = c.Value
	}
	return k.texts()
}
