package tablestore

import (
	"bytes"

	pb "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
)

// corrupted is an answer with one bit wrong in each row blob that it has, within the name of the first column of the
// key: a reader that verifies checksums finds it, another one reads on with the wrong name. An answer without rows
// stays as it is. Stored bytes are shared, so they are copied.
func corrupted(m message) message {
	switch m := m.(type) {
	case *pb.GetRowResponse:
		m.Row = flip(m.Row)
	case *pb.GetRangeResponse:
		m.Rows = flip(m.Rows)
	case *pb.GetStreamRecordResponse:
		if len(m.StreamRecords) > 0 {
			m.StreamRecords[0].Record = flip(m.StreamRecords[0].Record)
		}
	case *pb.BatchGetRowResponse:
		for _, tb := range m.Tables {
			for _, r := range tb.Rows {
				r.Row = flip(r.Row)
			}
		}
	}
	return m
}

func flip(b []byte) []byte {
	const name = 4 + 1 + 1 + 1 + 4 // after header, tags of key, cell and name, and the length of the name
	if len(b) <= name {
		return b
	}
	b = bytes.Clone(b)
	b[name] ^= 1
	return b
}
