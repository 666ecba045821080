package kinesis

import "time"

type startingPosition struct {
	Type           *string
	SequenceNumber *string
	Timestamp      *moment
}

type subscribeInput struct {
	ConsumerARN      *string
	ShardId          *string
	StartingPosition *startingPosition
	DryRun           *bool
	StreamId         *string
}

func (in *subscribeInput) aim(s *Server) target {
	t := (&consumerRef{ConsumerARN: in.ConsumerARN}).aim(s)
	if in.ShardId != nil {
		t.shard = *in.ShardId
	}
	return t
}

// takeOverAfter is how long a subscription is safe from another of the same consumer and shard (API reference of SubscribeToShard).
const takeOverAfter = 5 * time.Second

func subscribe(s *Server, c *call, in *subscribeInput) (answer, error) {
	var v validation
	if in.ConsumerARN == nil {
		v.null("consumerARN")
	}
	v.consumerARN(in.ConsumerARN)
	v.name("shardId", in.ShardId, true)
	v.unsupported("StreamId", in.StreamId != nil)
	v.unsupported("DryRun", in.DryRun != nil && *in.DryRun)
	var from start
	if p := in.StartingPosition; p == nil {
		v.null("startingPosition")
	} else {
		v.oneOf("startingPosition.type", p.Type, true, atSequence, afterSequence, atTimestamp, trimHorizon, latest)
		v.decimal("startingPosition.sequenceNumber", p.SequenceNumber, false)
		from = start{sequence: p.SequenceNumber, time: p.Timestamp}
		if p.Type != nil {
			from.kind = *p.Type
		}
	}
	if err := v.err(); err != nil {
		return nil, err
	}
	if err := from.check(c.ms); err != nil {
		return nil, err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	st, k, err := s.findConsumer(consumerRef{ConsumerARN: in.ConsumerARN}, c.ms)
	if err != nil {
		return nil, err
	}
	if err := s.readable(st); err != nil {
		return nil, err
	}
	if k.state != stateActive {
		return nil, inUse("Consumer %s of stream %s under account %s not ACTIVE, instead in state %s", k.name, st.name, s.config.Account, k.state)
	}
	h, ok := st.shard(*in.ShardId)
	if !ok {
		return nil, s.noSuchShard(st, *in.ShardId)
	}
	next, err := s.begins(st, h, from)
	if err != nil {
		return nil, err
	}
	if former := k.subscriptions[h.id]; former != nil {
		if c.now.Sub(former.began) < takeOverAfter {
			return nil, inUse("Another active subscription exists for this consumer: %s:%s:%s:%s", s.config.Account, st.name, h.id, k.name)
		}
		former.fail(inUse("Another subscription of consumer %s to shard %s of stream %s under account %s has taken over.", k.name, h.id, st.name, s.config.Account))
	}
	sub := &subscription{s: s, stream: st, shard: h, next: next, began: c.now, quiet: c.now, wake: make(chan struct{}, 1)}
	k.subscriptions[h.id] = sub
	h.subscriptions = append(h.subscriptions, sub)
	c.subscription = sub
	return nil, nil
}
