package kinesis

type deleteStreamInput struct {
	streamRef
	EnforceConsumerDeletion *bool // there are no consumers to delete
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
	st.openShards = nil
	s.begin(st, stateDeleting, c.ms, s.config.CreateDelay, func(int64) { delete(s.streams, st.name) })
	return nil, nil
}
