package kinesis

type splitShardInput struct {
	streamRef
	ShardToSplit       *string
	NewStartingHashKey *string
}

func (in *splitShardInput) aim(s *Server) target { return aimAtShard(s, in.streamRef, in.ShardToSplit) }

func aimAtShard(s *Server, r streamRef, id *string) target {
	t := r.aim(s)
	if id != nil {
		t.shard = *id
	}
	return t
}

// reshardable gives an open shard by its id.
func (s *Server) reshardable(st *stream, id string) (*shard, error) {
	h, ok := st.shard(id)
	if !ok {
		return nil, notFound("Could not find shard %s in stream %s under account %s.", id, st.name, s.config.Account)
	}
	if !h.open() {
		return nil, invalidArgument("Shard %s in stream %s under account %s has already been merged or split, and thus is not eligible for merging or splitting.",
			id, st.name, s.config.Account)
	}
	return h, nil
}

func splitShard(s *Server, c *call, in *splitShardInput) (answer, error) {
	var v validation
	v.stream(in.streamRef)
	v.name("shardToSplit", in.ShardToSplit, true)
	v.decimal("newStartingHashKey", in.NewStartingHashKey, true)
	if err := v.err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.findProvisioned(in.streamRef, c.ms, "SplitShard")
	if err != nil {
		return nil, err
	}
	h, err := s.reshardable(st, *in.ShardToSplit)
	if err != nil {
		return nil, err
	}
	middle, ok := parseHashKey(*in.NewStartingHashKey)
	if !ok || !h.start.next().less(middle) || !middle.less(h.end) {
		return nil, invalidArgument("NewStartingHashKey %s used in SplitShard() on shard %s in stream %s under account %s is not both greater than one plus the shard's StartingHashKey %s and less than the shard's EndingHashKey %s.",
			*in.NewStartingHashKey, h.id, st.name, s.config.Account, h.start, h.end)
	}
	if err := s.room(1); err != nil {
		return nil, err
	}
	s.begin(st, stateUpdating, c.ms, s.config.UpdateDelay, func(at int64) { st.split(h, middle, at) })
	return nil, nil
}

type mergeShardsInput struct {
	streamRef
	ShardToMerge         *string
	AdjacentShardToMerge *string
}

func (in *mergeShardsInput) aim(s *Server) target {
	return aimAtShard(s, in.streamRef, in.ShardToMerge)
}

func mergeShards(s *Server, c *call, in *mergeShardsInput) (answer, error) {
	var v validation
	v.stream(in.streamRef)
	v.name("shardToMerge", in.ShardToMerge, true)
	v.name("adjacentShardToMerge", in.AdjacentShardToMerge, true)
	if err := v.err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.findProvisioned(in.streamRef, c.ms, "MergeShards")
	if err != nil {
		return nil, err
	}
	h, err := s.reshardable(st, *in.ShardToMerge)
	if err != nil {
		return nil, err
	}
	other, err := s.reshardable(st, *in.AdjacentShardToMerge)
	if err != nil {
		return nil, err
	}
	// The space does not wrap: the last shard and the first are no neighbours.
	above := h.end.less(other.start) && h.end.next() == other.start
	below := other.end.less(h.start) && other.end.next() == h.start
	if !above && !below {
		return nil, invalidArgument("Shards %s and %s in stream %s under account %s are not an adjacent pair of shards eligible for merging",
			h.id, other.id, st.name, s.config.Account)
	}
	s.begin(st, stateUpdating, c.ms, s.config.UpdateDelay, func(at int64) { st.merge(h, other, at) })
	return nil, nil
}
