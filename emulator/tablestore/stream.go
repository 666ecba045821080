package tablestore

import (
	"fmt"
	"slices"
	"sort"
	"time"

	pb "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"

	"github.com/shardwarden/shardwarden/internal/plainbuffer"
)

// stream is the changes of a table since it was switched on.
type stream struct {
	id      string
	table   *table
	created int64 // us
	ready   time.Time
	hours   int32    // how long records are kept
	origin  []string // columns whose former values records carry
	shards  []*shard // in the order in which they were made
}

// shard is the changes of one partition, from its making to its split or merge.
type shard struct {
	id      string
	stream  *stream
	parents []string // one after a split, two after a merge
	created int64    // us
	closed  int64    // us; 0: it is open

	records []record // those not trimmed
	trimmed int64    // how many records were before them
	cut     int64    // us; what Trim was told last
}

type record struct {
	us     int64 // when it was written
	action pb.ActionType
	row    []byte
	origin []byte // nil: there is none
}

// end is the number of the record that comes next.
func (h *shard) end() int64 { return h.trimmed + int64(len(h.records)) }

// horizon is the time, in us, before which nothing is kept.
func (h *shard) horizon(now time.Time) int64 {
	return max(h.cut, now.Add(-time.Duration(h.stream.hours)*time.Hour).UnixMicro())
}

// settle drops records that have left retention.
func (h *shard) settle(now time.Time) {
	old := h.horizon(now)
	n := sort.Search(len(h.records), func(i int) bool { return h.records[i].us >= old })
	h.drop(n)
}

func (h *shard) drop(n int) {
	clear(h.records[:n])
	h.records, h.trimmed = h.records[n:], h.trimmed+int64(n)
}

// openStream switches a table's stream on: a new one, with a new shard for each partition.
func (w *work) openStream(t *table, spec *pb.StreamSpecification) {
	us := max(w.now.UnixMicro(), w.lastStream[t.name]+1) // an id is never used twice
	w.lastStream[t.name] = us
	id := fmt.Sprintf("%s_%d", t.name, us)
	st := &stream{id: id, table: t, created: us, ready: w.now.Add(w.config.StreamDelay), hours: spec.GetExpirationTime(), origin: spec.GetColumnsToGet()}
	t.stream, w.streams[id] = st, st
	for i := range t.parts {
		t.parts[i].shard = w.newShard(st, w.now)
	}
}

// closeStream switches a table's stream off: it is gone with all its records.
func (w *work) closeStream(t *table) {
	if t.stream == nil {
		return
	}
	for _, h := range t.stream.shards {
		delete(w.shards, h.id)
	}
	delete(w.streams, t.stream.id)
	for i := range t.parts {
		t.parts[i].shard = nil
	}
	t.stream = nil
}

// newShard makes an open shard. Its id has the form of those seen in the wild: a uuid and 16 digits of a time.
func (w *work) newShard(st *stream, now time.Time, parents ...string) *shard {
	us := now.UnixMicro()
	a, b := w.dice.Uint64(), w.dice.Uint64()
	id := fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x_%016d", a>>32, a>>16&0xffff, a&0xfff, 0x8000|b>>48&0x3fff, b&(1<<48-1), us)
	h := &shard{id: id, stream: st, parents: parents, created: us}
	st.shards = append(st.shards, h)
	w.shards[id] = h
	return h
}

// sweep drops closed shards of which nothing is kept any more.
func (w *work) sweep(st *stream) {
	st.shards = slices.DeleteFunc(st.shards, func(h *shard) bool {
		h.settle(w.now)
		gone := h.closed > 0 && len(h.records) == 0 && h.closed < h.horizon(w.now)
		if gone {
			delete(w.shards, h.id)
		}
		return gone
	})
}

// stampFor gives a place after all records of a table's streams so far, whatever the clock does.
func (w *work) stampFor(t *table) stamp {
	last := t.lastStamp
	if us := w.now.UnixMicro(); us > last.us {
		return stamp{us, 0}
	}
	return stamp{last.us, last.row + 1}
}

// record appends a change to the shard of its row's partition.
func (w *work) record(t *table, kind pb.OperationType, k key, cells []plainbuffer.Cell, before *row, at stamp) {
	t.lastStamp = at
	r := plainbuffer.Row{
		PrimaryKey: t.keyCells(k), Cells: cells, Deleted: kind == pb.OperationType_DELETE,
		HasSequence: true, Sequence: plainbuffer.Sequence{Timestamp: at.us, RowIndex: at.row},
	}
	h := t.parts[t.partition(k[0])].shard
	h.records = append(h.records, record{us: at.us, action: pb.ActionType(kind), row: plainbuffer.Encode(r), origin: t.originOf(before)})
}

// originOf is the row before a change, with the columns that the stream asks for; nil if it had none of them.
func (t *table) originOf(before *row) []byte {
	if before == nil {
		return nil
	}
	r := plainbuffer.Row{PrimaryKey: t.keyCells(before.key)}
	for _, name := range slices.Sorted(slices.Values(t.stream.origin)) {
		if have := before.versions(name); len(have) > 0 {
			r.Cells = append(r.Cells, plainbuffer.Cell{Name: []byte(name), Value: have[0].value, HasTimestamp: true, Timestamp: have[0].time})
		}
	}
	if len(r.Cells) == 0 {
		return nil
	}
	return plainbuffer.Encode(r)
}
