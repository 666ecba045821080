package kinesis

type getShardIteratorInput struct {
	streamRef
	ShardId                *string
	ShardIteratorType      *string
	StartingSequenceNumber *string
	Timestamp              *moment
}

func (in *getShardIteratorInput) aim(s *Server) target {
	t := in.streamRef.aim(s)
	if in.ShardId != nil {
		t.shard = *in.ShardId
	}
	return t
}

const (
	atSequence    = "AT_SEQUENCE_NUMBER"
	afterSequence = "AFTER_SEQUENCE_NUMBER"
	atTimestamp   = "AT_TIMESTAMP"
	trimHorizon   = "TRIM_HORIZON"
	latest        = "LATEST"
)

func getShardIterator(s *Server, c *call, in *getShardIteratorInput) (answer, error) {
	var v validation
	v.stream(in.streamRef)
	v.name("shardId", in.ShardId, true)
	v.oneOf("shardIteratorType", in.ShardIteratorType, true, atSequence, afterSequence, atTimestamp, trimHorizon, latest)
	v.decimal("startingSequenceNumber", in.StartingSequenceNumber, false)
	if err := v.err(); err != nil {
		return nil, err
	}
	kind := *in.ShardIteratorType
	bySequence := kind == atSequence || kind == afterSequence
	switch {
	case bySequence != (in.StartingSequenceNumber != nil):
		return nil, invalidArgument("Must either specify (1) AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER and StartingSequenceNumber or (2) TRIM_HORIZON or LATEST and no StartingSequenceNumber. Request specified %s and %s StartingSequenceNumber.",
			kind, pick(bySequence, "no", "also a"))
	case kind == atTimestamp && in.Timestamp == nil:
		return nil, invalidArgument("Must specify timestampInMillis parameter for iterator of type AT_TIMESTAMP. Current value: null")
	case kind != atTimestamp && in.Timestamp != nil:
		return nil, invalidArgument("Timestamp can't be given for an iterator of type %s.", kind)
	case kind == atTimestamp:
		if err := notFuture("timestampInMillis", *in.Timestamp, c.ms); err != nil {
			return nil, err
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.findReadable(in.streamRef, c.ms)
	if err != nil {
		return nil, err
	}
	h, ok := st.shard(*in.ShardId)
	if !ok {
		return nil, s.noSuchShard(st, *in.ShardId)
	}
	if !s.config.NoLimits && !h.limits.mayGetIterator(c.now) {
		return nil, s.rateExceeded(st.name, h.id)
	}
	it := iterator{stream: st.name, created: st.created, shard: h.index, issued: c.ms, generation: s.iterators}
	switch kind {
	case trimHorizon:
		it.next = h.first
	case latest:
		it.next = st.counter + 1
	case atTimestamp:
		it.next = st.counter + 1
		if m, ok := h.log.at(h.log.find(func(m meta) bool { return m.arrived >= int64(*in.Timestamp) })); ok {
			it.next = m.n
		}
	default:
		q, err := s.sequenceOf(st, h, *in.StartingSequenceNumber)
		if err != nil {
			return nil, err
		}
		it.next = q.n
		if kind == afterSequence {
			it.next++
		}
	}
	token := it.seal()
	return func(w *writer) { w.textField("ShardIterator", token) }, nil
}

// sequenceOf reads a sequence number that has to be one given out for a shard.
func (s *Server) sequenceOf(st *stream, h *shard, text string) (sequence, error) {
	q, ok := parseSequence(text)
	if !ok || q.stream != st.created || q.n > st.counter {
		return q, invalidArgument("StartingSequenceNumber %s used in GetShardIterator on shard %s in stream %s under account %s is invalid because it did not come from this stream.",
			text, h.id, st.name, s.config.Account)
	}
	if q.shard != h.index {
		return q, invalidArgument("Invalid StartingSequenceNumber. It encodes %s, while it was used in a call to a shard with %s", shardID(q.shard), h.id)
	}
	return q, nil
}

// rateExceeded is the service's word for a shard over its limits. The server need not be locked.
func (s *Server) rateExceeded(stream, shard string) *apiError {
	return throttled("Rate exceeded for shard %s in stream %s under account %s.", shard, stream, s.config.Account)
}
