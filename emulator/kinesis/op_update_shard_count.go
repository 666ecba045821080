package kinesis

type updateShardCountInput struct {
	streamRef
	TargetShardCount *int64
	ScalingType      *string
}

func updateShardCount(s *Server, c *call, in *updateShardCountInput) (answer, error) {
	var v validation
	v.stream(in.streamRef)
	v.number("targetShardCount", in.TargetShardCount, 1, 1<<31-1, true)
	v.oneOf("scalingType", in.ScalingType, true, "UNIFORM_SCALING")
	if err := v.err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.findProvisioned(in.streamRef, c.ms, "UpdateShardCount")
	if err != nil {
		return nil, err
	}
	now, want := len(st.openShards), int(*in.TargetShardCount)
	switch {
	case want > 2*now:
		return nil, invalidArgument("UpdateShardCount cannot scale up over double your current open shard count. Current open shard count: %d Target shard count: %d", now, want)
	case 2*want < now:
		return nil, invalidArgument("UpdateShardCount cannot scale down below half your current open shard count. Current open shard count: %d Target shard count: %d", now, want)
	case want > shardsPerStream:
		return nil, limitExceeded("UpdateShardCount cannot scale over %d shards. Target shard count: %d", shardsPerStream, want)
	}
	if err := s.room(want - now); err != nil {
		return nil, err
	}
	s.begin(st, stateUpdating, c.ms, s.config.UpdateDelay, func(at int64) { st.scale(uint64(want), at) })
	name, arn := st.name, s.arnOf(st.name)
	return func(w *writer) {
		w.textField("StreamName", name)
		w.textField("StreamARN", arn)
		w.intField("CurrentShardCount", int64(now))
		w.intField("TargetShardCount", int64(want))
	}, nil
}

// scale brings the stream to n shards of equal size by splits and merges alone, as the service does: a shard that
// reaches over a border of the new division is split there, then what lies between two borders is merged pair by
// pair. Shards that lived only in between stay behind, closed and empty.
func (st *stream) scale(n uint64, at int64) {
	for i := uint64(1); i < n; i++ {
		border := evenStart(i, n)
		if h := st.shardFor(border); h.start != border {
			st.split(h, border, at)
		}
	}
	for i := range n {
		h := st.shardFor(evenStart(i, n))
		end := lastHashKey
		if i+1 < n {
			end = evenStart(i+1, n).prev()
		}
		for h.end != end {
			h = st.merge(h, st.shardFor(h.end.next()), at)
		}
	}
}
