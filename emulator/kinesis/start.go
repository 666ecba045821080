package kinesis

const (
	atSequence    = "AT_SEQUENCE_NUMBER"
	afterSequence = "AFTER_SEQUENCE_NUMBER"
	atTimestamp   = "AT_TIMESTAMP"
	trimHorizon   = "TRIM_HORIZON"
	latest        = "LATEST"
)

// start is where GetShardIterator or SubscribeToShard is asked to begin.
type start struct {
	kind     string
	sequence *string
	time     *moment
}

// check says whether what is given goes together.
func (f start) check(now int64) error {
	bySequence := f.kind == atSequence || f.kind == afterSequence
	switch {
	case bySequence != (f.sequence != nil):
		return invalidArgument("Must either specify (1) AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER and StartingSequenceNumber or (2) TRIM_HORIZON or LATEST and no StartingSequenceNumber. Request specified %s and %s StartingSequenceNumber.",
			f.kind, pick(bySequence, "no", "also a"))
	case f.kind == atTimestamp && f.time == nil:
		return invalidArgument("Must specify timestampInMillis parameter for iterator of type AT_TIMESTAMP. Current value: null")
	case f.kind != atTimestamp && f.time != nil:
		return invalidArgument("Timestamp can't be given for an iterator of type %s.", f.kind)
	case f.kind == atTimestamp:
		return notFuture("timestampInMillis", *f.time, now)
	}
	return nil
}

// begins gives the counter of the first record, if there is one, of what was asked for. The server is locked by the caller.
func (s *Server) begins(st *stream, h *shard, f start) (uint64, error) {
	switch f.kind {
	case trimHorizon:
		return h.first, nil
	case latest:
		return st.counter + 1, nil
	case atTimestamp:
		if m, ok := h.log.at(h.log.find(func(m meta) bool { return m.arrived >= int64(*f.time) })); ok {
			return m.n, nil
		}
		return st.counter + 1, nil
	}
	q, err := s.sequenceOf(st, h, *f.sequence)
	if err != nil {
		return 0, err
	}
	if f.kind == afterSequence {
		return q.n + 1, nil
	}
	return q.n, nil
}

// sequenceOf reads a sequence number that has to be one given out for a shard.
func (s *Server) sequenceOf(st *stream, h *shard, text string) (sequence, error) {
	q, ok := parseSequence(text)
	if !ok || q.stream != st.created || q.n > st.counter {
		return q, invalidArgument("StartingSequenceNumber %s used on shard %s in stream %s under account %s is invalid because it did not come from this stream.",
			text, h.id, st.name, s.config.Account)
	}
	if q.shard != h.index {
		return q, invalidArgument("Invalid StartingSequenceNumber. It encodes %s, while it was used in a call to a shard with %s", shardID(q.shard), h.id)
	}
	return q, nil
}
