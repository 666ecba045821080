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

func getShardIterator(s *Server, c *call, in *getShardIteratorInput) (answer, error) {
	var v validation
	v.stream(in.streamRef)
	v.name("shardId", in.ShardId, true)
	v.oneOf("shardIteratorType", in.ShardIteratorType, true, atSequence, afterSequence, atTimestamp, trimHorizon, latest)
	v.decimal("startingSequenceNumber", in.StartingSequenceNumber, false)
	if err := v.err(); err != nil {
		return nil, err
	}
	from := start{kind: *in.ShardIteratorType, sequence: in.StartingSequenceNumber, time: in.Timestamp}
	if err := from.check(c.ms); err != nil {
		return nil, err
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
	next, err := s.begins(st, h, from)
	if err != nil {
		return nil, err
	}
	token := iterator{stream: st.name, created: st.created, shard: h.index, issued: c.ms, next: next, generation: s.iterators}.seal()
	return func(w *writer) { w.textField("ShardIterator", token) }, nil
}

// rateExceeded is the service's word for a shard over its limits. The server need not be locked.
func (s *Server) rateExceeded(stream, shard string) *apiError {
	return throttled("Rate exceeded for shard %s in stream %s under account %s.", shard, stream, s.config.Account)
}
