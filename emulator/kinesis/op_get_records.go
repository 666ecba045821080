package kinesis

import (
	"encoding/base64"
	"slices"
)

type getRecordsInput struct {
	ShardIterator *string
	StreamARN     *string
	StreamId      *string
	Limit         *int64
}

func (in *getRecordsInput) aim(*Server) target {
	if in.ShardIterator == nil {
		return target{}
	}
	it, ok := openIterator(*in.ShardIterator)
	if !ok {
		return target{}
	}
	return target{stream: it.stream, shard: shardID(it.shard)}
}

const (
	mostRecords   = 10_000
	mostPageBytes = 10 << 20
)

type childShard struct {
	id         string
	parents    []string
	start, end hashKey
}

func childrenOf(h *shard) (children []childShard) {
	for _, k := range h.children {
		ch := childShard{id: k.id, start: k.start, end: k.end}
		for _, p := range k.parents {
			ch.parents = append(ch.parents, p.id)
		}
		children = append(children, ch)
	}
	return children
}

func getRecords(s *Server, c *call, in *getRecordsInput) (answer, error) {
	var v validation
	if in.ShardIterator == nil {
		v.null("shardIterator")
	}
	v.text("shardIterator", in.ShardIterator, 1, 2048)
	v.stream(streamRef{StreamARN: in.StreamARN, StreamId: in.StreamId})
	v.number("limit", in.Limit, 1, mostRecords, false)
	if err := v.err(); err != nil {
		return nil, err
	}
	limit := mostRecords
	if in.Limit != nil {
		limit = int(*in.Limit)
	}
	if c.fx.pageRecords >= 0 {
		limit = min(limit, c.fx.pageRecords)
	}
	it, ok := openIterator(*in.ShardIterator)
	if !ok {
		return nil, invalidArgument("Invalid ShardIterator.")
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	// Nothing but the stream's own name would go with the iterator.
	st, err := s.findReadable(streamRef{StreamName: &it.stream, StreamARN: in.StreamARN}, c.ms)
	if err != nil {
		return nil, err
	}
	if st.created != it.created {
		return nil, notFound("The stream %s under account %s that the iterator is of was deleted.", it.stream, s.config.Account)
	}
	h, ok := st.shard(shardID(it.shard))
	if !ok {
		return nil, s.noSuchShard(st, shardID(it.shard))
	}
	if age := c.ms - it.issued; age > s.config.IteratorLife.Milliseconds() || it.generation != s.iterators {
		return nil, refuse("ExpiredIteratorException", "Iterator expired. The iterator was created at time %d ms while right now it is %d ms which is further in the future than the tolerated delay of %d milliseconds.",
			it.issued, c.ms, s.config.IteratorLife.Milliseconds())
	}
	if !s.config.NoLimits && !h.limits.mayRead(c.now) {
		return nil, s.rateExceeded(st.name, h.id)
	}
	h.trimOlder(c.ms - st.retention.Milliseconds())
	pg, after := h.log.read(h.log.find(func(m meta) bool { return m.n >= it.next }), limit, mostPageBytes)
	h.limits.didRead(pg.size)
	if pg.count > 0 {
		it.next = pg.last.n + 1
	}
	following, more := h.log.at(after)

	var behind int64
	if more {
		// What the answer is behind the tip of the shard: more than 0, or a client would think it had caught up.
		behind = max(1, c.ms-pick(pg.count > 0, pg.last, following).arrived)
	}
	var next string
	var children []childShard
	switch {
	case !more && !h.open():
		children = childrenOf(h)
	case c.fx.endEarly:
	default:
		it.issued, it.generation = c.ms, s.iterators
		next = it.seal()
	}
	stamp := sequence{stream: st.created, shard: h.index}
	return func(w *writer) {
		w.records(pg, stamp)
		w.intField("MillisBehindLatest", behind)
		if next != "" {
			w.textField("NextShardIterator", next)
		}
		if len(children) > 0 {
			w.children(children)
		}
	}, nil
}

func (w *writer) children(children []childShard) {
	w.key("ChildShards")
	w.openList()
	for _, k := range children {
		w.openMap()
		w.textField("ShardId", k.id)
		w.key("ParentShards")
		w.openList()
		for _, p := range k.parents {
			w.text(p)
		}
		w.closeList()
		w.hashRange(k.start, k.end)
		w.closeMap()
	}
	w.closeList()
}

// records writes a page from the stored records, without the writer's general ways: this is where a server of many
// records spends its time. stamp gives the sequence numbers all but their counter.
func (w *writer) records(pg page, stamp sequence) {
	w.key("Records")
	w.openList()
	const fixed = 160 // member names, time and sequence number of a record
	if w.cbor {
		w.b = slices.Grow(w.b, pg.count*fixed+pg.size)
	} else {
		w.b = slices.Grow(w.b, pg.count*(fixed+4)+base64.StdEncoding.EncodedLen(pg.size))
	}
	for _, sp := range pg.spans {
		for _, m := range sp.meta {
			stamp.n = m.n
			if w.cbor {
				w.cborRecord(sp, m, stamp)
			} else {
				w.jsonRecord(sp, m, stamp)
			}
		}
	}
	w.closeList()
}

func (w *writer) jsonRecord(sp span, m meta, q sequence) {
	w.comma()
	w.b = append(w.b, `{"SequenceNumber":"`...)
	w.b = q.append(w.b)
	w.b = append(w.b, `","ApproximateArrivalTimestamp":`...)
	w.time(m.arrived)
	w.b = append(w.b, `,"Data":"`...)
	w.b = base64.StdEncoding.AppendEncode(w.b, sp.data(m))
	w.b = append(w.b, `","PartitionKey":`...)
	w.b = appendJSONString(w.b, sp.key(m))
	w.b = append(w.b, '}')
}

// Member names in CBOR, each a text with its length.
const (
	cborSequenceNumber = "\x6eSequenceNumber"
	cborArrival        = "\x78\x1bApproximateArrivalTimestamp"
	cborData           = "\x64Data"
	cborPartitionKey   = "\x6cPartitionKey"
)

func (w *writer) cborRecord(sp span, m meta, q sequence) {
	w.b = append(w.b, cborOpenMap)
	w.b = append(w.b, cborSequenceNumber...)
	w.b = append(w.b, cborText|cborOneByte, 56)
	w.b = q.append(w.b)
	w.b = append(w.b, cborArrival...)
	w.time(m.arrived)
	w.b = append(w.b, cborData...)
	w.head(cborBytes, uint64(m.dataLen))
	w.b = append(w.b, sp.data(m)...)
	w.b = append(w.b, cborPartitionKey...)
	w.head(cborText, uint64(m.keyLen))
	w.b = append(w.b, sp.key(m)...)
	w.b = append(w.b, cborEnd)
}
