package tablestore

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	pb "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
)

func listStream(w *work, in *pb.ListStreamRequest) (message, error) {
	if in.TableName != nil && w.tables[in.GetTableName()] == nil {
		return nil, noTable()
	}
	out := &pb.ListStreamResponse{}
	for _, id := range slices.Sorted(maps.Keys(w.streams)) {
		if st := w.streams[id]; in.TableName == nil || st.table.name == in.GetTableName() {
			out.Streams = append(out.Streams, &pb.Stream{StreamId: new(id), TableName: new(st.table.name), CreationTime: new(st.created)})
		}
	}
	return out, nil
}

func (w *work) unknownStream(what, id string) error {
	return fail(w.config.UnknownStream, "Requested %s does not exist: '%s'.", what, id)
}

func describeStream(w *work, in *pb.DescribeStreamRequest) (message, error) {
	st := w.streams[in.GetStreamId()]
	if st == nil {
		return nil, w.unknownStream("stream", in.GetStreamId())
	}
	limit := w.config.PageShards
	if in.ShardLimit != nil {
		if in.GetShardLimit() < 1 {
			return nil, invalid("Invalid shard limit: %d.", in.GetShardLimit())
		}
		limit = min(limit, int(in.GetShardLimit()))
	}
	w.sweep(st)
	out := &pb.DescribeStreamResponse{
		StreamId: new(st.id), ExpirationTime: new(st.hours), TableName: new(st.table.name), CreationTime: new(st.created),
		StreamStatus: pb.StreamStatus_STREAM_ACTIVE.Enum(),
	}
	if w.now.Before(st.ready) {
		out.StreamStatus = pb.StreamStatus_STREAM_ENABLING.Enum()
	}
	if w.fx.emptyList {
		return out, nil
	}
	shards := slices.Clone(st.shards)
	if w.fx.listAge > 0 {
		seen := w.now.Add(-w.fx.listAge).UnixMicro()
		shards = slices.DeleteFunc(shards, func(h *shard) bool { return h.created > seen })
	}
	if w.config.ShardsByID {
		slices.SortFunc(shards, func(a, b *shard) int { return cmp.Compare(a.id, b.id) })
	}
	if from := in.GetInclusiveStartShardId(); from != "" {
		i := slices.IndexFunc(shards, func(h *shard) bool { return h.id == from })
		if i < 0 {
			return nil, w.unknownStream("shard", from)
		}
		shards = shards[i:]
	}
	if len(shards) > limit {
		out.NextShardId = new(shards[limit].id)
		shards = shards[:limit]
	}
	for _, h := range shards {
		e := &pb.StreamShard{ShardId: new(h.id)}
		if len(h.parents) > 0 {
			e.ParentId = new(h.parents[0])
		}
		if len(h.parents) > 1 {
			e.ParentSiblingId = new(h.parents[1])
		}
		out.Shards = append(out.Shards, e)
	}
	return out, nil
}

func getShardIterator(w *work, in *pb.GetShardIteratorRequest) (message, error) {
	st := w.streams[in.GetStreamId()]
	if st == nil {
		return nil, w.unknownStream("stream", in.GetStreamId())
	}
	w.sweep(st)
	h := w.shards[in.GetShardId()]
	if h == nil || h.stream != st {
		return nil, w.unknownStream("shard", in.GetShardId())
	}
	if in.Timestamp == nil {
		if in.Token != nil {
			return nil, invalid("A token goes with the timestamp that it was given for.")
		}
		return &pb.GetShardIteratorResponse{ShardIterator: new(w.writeIterator(h.oldest(w.now)))}, nil
	}
	if *in.Timestamp < 0 {
		return nil, invalid("Invalid timestamp: %d.", *in.Timestamp)
	}
	step := 0
	if in.Token != nil {
		var err error
		if step, err = readToken(in); err != nil {
			return nil, err
		}
	}
	if step < w.config.TimestampPages {
		return &pb.GetShardIteratorResponse{
			// Not one to read from: a client that stops here must find out.
			ShardIterator: new(base64.StdEncoding.EncodeToString([]byte("not found yet: call again with the token"))),
			NextToken:     new(token(in, step+1)),
		}, nil
	}
	return &pb.GetShardIteratorResponse{ShardIterator: new(w.writeIterator(h.since(*in.Timestamp, w.now)))}, nil
}

// oldest is the place before the oldest record kept. Without one it stands for now.
func (h *shard) oldest(now time.Time) iterator {
	h.settle(now)
	it := iterator{shard: h.id, next: h.trimmed, us: now.UnixMicro()}
	if len(h.records) > 0 {
		it.us = h.records[0].us
	}
	return it
}

// since is the place before the first record of a time or later.
func (h *shard) since(us int64, now time.Time) iterator {
	h.settle(now)
	n := sort.Search(len(h.records), func(i int) bool { return h.records[i].us >= us })
	if n == 0 {
		if old := h.oldest(now); old.us >= us && len(h.records) > 0 {
			return old
		}
	}
	return iterator{shard: h.id, next: h.trimmed + int64(n), us: min(max(us, h.horizon(now)), now.UnixMicro())}
}

func token(in *pb.GetShardIteratorRequest, step int) string {
	return fmt.Sprintf("%d@%d@%s", step, in.GetTimestamp(), in.GetShardId())
}

func readToken(in *pb.GetShardIteratorRequest) (int, error) {
	text, _, _ := strings.Cut(in.GetToken(), "@")
	step, err := strconv.Atoi(text)
	if err != nil || step < 1 || token(in, step) != in.GetToken() {
		return 0, invalid("Invalid token: it was not given for this shard and timestamp.")
	}
	return step, nil
}

func getStreamRecord(w *work, in *pb.GetStreamRecordRequest) (message, error) {
	if p := in.GetNewRowReturnPolicy(); in.NewRowReturnPolicy != nil && p != pb.NewRowReturnPolicy_NO_NEW_ROW {
		return nil, notHere(fmt.Sprintf("new rows in stream records (new_row_return_policy %v)", p))
	}
	if in.GetReturnSysColumns() {
		return nil, notHere("system columns in stream records (return_sys_columns)")
	}
	limit := w.config.PageRecords
	if in.Limit != nil {
		if in.GetLimit() < 1 {
			return nil, invalid("Invalid limit: %d.", in.GetLimit())
		}
		limit = min(limit, int(in.GetLimit()))
	}
	it, ok := w.readIterator(in.GetShardIterator())
	if !ok {
		if w.config.UnknownIterator == codeTrimmed {
			return nil, trimmed()
		}
		return nil, fail(w.config.UnknownIterator, "Invalid shard iterator.")
	}
	h := w.shards[it.shard]
	if h == nil {
		return nil, trimmed()
	}
	if in.TableName != nil && in.GetTableName() != h.stream.table.name {
		return nil, invalid("The shard iterator is of table '%s', not of '%s'.", h.stream.table.name, in.GetTableName())
	}
	h.settle(w.now)
	if it.next < h.trimmed || !w.config.IteratorsStay && it.us < h.horizon(w.now) {
		return nil, trimmed()
	}
	if w.fx.page >= 0 {
		limit = min(limit, w.fx.page)
	}
	return w.page(h, it, limit, in.GetShardIterator()), nil
}

// page reads from a place. The iterator of a place with nothing after it stays the same text.
func (w *work) page(h *shard, it iterator, limit int, text string) *pb.GetStreamRecordResponse {
	visible := int64(math.MaxInt64) // whatever the clock did since a record was written
	if d := w.config.RecordDelay; d > 0 {
		visible = w.now.Add(-d).UnixMicro()
	}
	out := &pb.GetStreamRecordResponse{}
	size := 0
	for _, r := range h.records[it.next-h.trimmed:] {
		n := len(r.row) + len(r.origin)
		if len(out.StreamRecords) >= limit || r.us > visible || size > 0 && size+n > w.config.PageRecordBytes {
			break
		}
		size += n
		out.StreamRecords = append(out.StreamRecords, &pb.GetStreamRecordResponse_StreamRecord{
			ActionType: new(r.action), Record: r.row, OriginRecord: r.origin,
		})
		it.next++
		it.us = r.us
	}
	if len(out.StreamRecords) > 0 {
		text = w.writeIterator(it)
	}
	cost := 0
	if size > 0 {
		cost = units(size)
	}
	out.Consumed = consumed(cost, 0)
	ended := h.closed > 0 && h.closed <= visible && it.next == h.end() && !(w.config.LateEnd && len(out.StreamRecords) > 0)
	if !ended && !w.fx.endEarly {
		out.NextShardIterator = new(text)
	}
	return out
}
