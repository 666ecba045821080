package kinesis

type deleteStreamInput struct {
	streamRef
	EnforceConsumerDeletion *bool
}

func deleteStream(s *Server, c *call, in *deleteStreamInput) (answer, error) {
	var v validation
	v.stream(in.streamRef)
	if err := v.err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.find(in.streamRef, c.ms)
	if err != nil || st.state == stateDeleting {
		return nil, err
	}
	if st.state == stateCreating {
		return nil, inUse("Stream %s under account %s not ACTIVE, instead in state %s", st.name, s.config.Account, st.state)
	}
	if n := len(st.consumers); n > 0 && (in.EnforceConsumerDeletion == nil || !*in.EnforceConsumerDeletion) {
		return nil, inUse("Stream %s under account %s has %d registered consumers; deregister them, or set EnforceConsumerDeletion.", st.name, s.config.Account, n)
	}
	st.openShards = nil
	st.consumers = nil
	for _, h := range st.shards {
		h.changed()
	}
	s.begin(st, stateDeleting, c.ms, s.config.CreateDelay, func(int64) { delete(s.streams, st.name) })
	return nil, nil
}
