package kinesis

import (
	"fmt"
	"strings"
)

// shard is one shard with its records. All but its log and limits is fixed at its creation and at its end.
type shard struct {
	index      uint32
	id         string
	start, end hashKey // both inclusive

	parents  []*shard // none, the one split, or the two merged
	children []*shard // known once the shard is closed; parents are always forgotten before their children

	created int64  // ms
	first   uint64 // stream counter at creation
	closed  int64  // ms; 0 while open
	last    uint64 // stream counter at the end
	listed  bool   // false once retention has passed it by

	log    recordLog
	limits shardLimits

	subscriptions []*subscription // running ones
}

func (h *shard) open() bool { return h.closed == 0 }

func shardID(index uint32) string { return fmt.Sprintf("shardId-%012d", index) }

// shardIndex reads a shard's number from its id.
func shardIndex(id string) (uint32, bool) {
	digits, ok := strings.CutPrefix(id, "shardId-")
	if !ok || len(digits) != 12 {
		return 0, false
	}
	var n uint64
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false
		}
		n = n*10 + uint64(digits[i]-'0')
	}
	return uint32(n), n <= 1<<32-1
}

// orphan says whether no parent is listed any more: then the shard is where reading from the trim horizon begins.
func (h *shard) orphan() bool {
	for _, p := range h.parents {
		if p.listed {
			return false
		}
	}
	return true
}

// trimOlder drops what arrived before the given time.
func (h *shard) trimOlder(ms int64) { h.log.trim(func(m meta) bool { return m.arrived >= ms }) }

// shardView is a shard as listings show it.
type shardView struct {
	id, parent, adjacent string
	start, end           hashKey
	first, last          sequence
	closed               bool
}

func (st *stream) view(h *shard) shardView {
	v := shardView{id: h.id, start: h.start, end: h.end, closed: !h.open(),
		first: sequence{st.created, h.first, h.index}, last: sequence{st.created, h.last, h.index}}
	if len(h.parents) > 0 {
		v.parent = h.parents[0].id
	}
	if len(h.parents) > 1 {
		v.adjacent = h.parents[1].id
	}
	return v
}

func (w *writer) hashRange(start, end hashKey) {
	w.key("HashKeyRange")
	w.openMap()
	w.textField("StartingHashKey", start.String())
	w.textField("EndingHashKey", end.String())
	w.closeMap()
}

func (w *writer) shards(views []shardView) {
	w.key("Shards")
	w.openList()
	for _, v := range views {
		w.openMap()
		w.textField("ShardId", v.id)
		if v.parent != "" {
			w.textField("ParentShardId", v.parent)
		}
		if v.adjacent != "" {
			w.textField("AdjacentParentShardId", v.adjacent)
		}
		w.hashRange(v.start, v.end)
		w.key("SequenceNumberRange")
		w.openMap()
		w.textField("StartingSequenceNumber", v.first.String())
		if v.closed {
			w.textField("EndingSequenceNumber", v.last.String())
		}
		w.closeMap()
		w.closeMap()
	}
	w.closeList()
}
