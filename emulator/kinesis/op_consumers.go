package kinesis

import (
	"maps"
	"slices"
)

type registerConsumerInput struct {
	StreamARN    *string
	StreamId     *string
	ConsumerName *string
	Tags         map[string]string
}

func (in *registerConsumerInput) aim(s *Server) target {
	return (&streamRef{StreamARN: in.StreamARN}).aim(s)
}

func registerConsumer(s *Server, c *call, in *registerConsumerInput) (answer, error) {
	var v validation
	if in.StreamARN == nil {
		v.null("streamARN")
	}
	v.stream(streamRef{StreamARN: in.StreamARN, StreamId: in.StreamId})
	v.name("consumerName", in.ConsumerName, true)
	v.tags(in.Tags)
	if err := v.err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.findActive(streamRef{StreamARN: in.StreamARN}, c.ms)
	if err != nil {
		return nil, err
	}
	name := *in.ConsumerName
	if st.consumers[name] != nil {
		return nil, inUse("Consumer %s of stream %s under account %s already exists.", name, st.name, s.config.Account)
	}
	if err := s.roomForConsumer(st); err != nil {
		return nil, err
	}
	made := st.name + "/" + name // a stream's name has no slash
	created := c.ms
	if last, ok := s.lastMade[made]; ok {
		created = max(created, last-last%1000+1000)
	}
	s.lastMade[made] = created
	k := &consumer{name: name, created: created, tags: maps.Clone(in.Tags), state: stateCreating, due: c.ms + s.config.ConsumerDelay.Milliseconds(),
		subscriptions: map[string]*subscription{}}
	if st.consumers == nil {
		st.consumers = map[string]*consumer{}
	}
	st.consumers[name] = k
	d := s.consumerView(st, k) // CREATING, also where that is over at once
	st.settleConsumers(c.ms)
	return func(w *writer) {
		w.key("Consumer")
		w.openMap()
		w.consumer(d)
		w.closeMap()
	}, nil
}

type describeConsumerInput struct{ consumerRef }

func describeConsumer(s *Server, c *call, in *describeConsumerInput) (answer, error) {
	var v validation
	v.consumer(in.consumerRef)
	if err := v.err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, k, err := s.findConsumer(in.consumerRef, c.ms)
	if err != nil {
		return nil, err
	}
	d, arn := s.consumerView(st, k), s.arnOf(st.name)
	return func(w *writer) {
		w.key("ConsumerDescription")
		w.openMap()
		w.consumer(d)
		w.textField("StreamARN", arn)
		w.closeMap()
	}, nil
}

type deregisterConsumerInput struct{ consumerRef }

func deregisterConsumer(s *Server, c *call, in *deregisterConsumerInput) (answer, error) {
	var v validation
	v.consumer(in.consumerRef)
	if err := v.err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, k, err := s.findConsumer(in.consumerRef, c.ms)
	if err != nil || k.state == stateDeleting {
		return nil, err
	}
	if k.state == stateCreating {
		return nil, inUse("Consumer %s of stream %s under account %s not ACTIVE, instead in state %s", k.name, st.name, s.config.Account, k.state)
	}
	k.state, k.due = stateDeleting, c.ms+s.config.ConsumerDelay.Milliseconds()
	for _, sub := range k.subscriptions {
		sub.fail(s.noSuchConsumer(st, k.name))
	}
	st.settleConsumers(c.ms)
	return nil, nil
}

type listConsumersInput struct {
	StreamARN               *string
	StreamId                *string
	NextToken               *string
	MaxResults              *int64
	StreamCreationTimestamp *moment
}

func (in *listConsumersInput) aim(s *Server) target {
	return (&streamRef{StreamARN: in.StreamARN}).aim(s)
}

const listConsumersPage = 100

func listConsumers(s *Server, c *call, in *listConsumersInput) (answer, error) {
	var v validation
	if in.StreamARN == nil {
		v.null("streamARN")
	}
	v.stream(streamRef{StreamARN: in.StreamARN, StreamId: in.StreamId})
	v.number("maxResults", in.MaxResults, 1, 10_000, false)
	if err := v.err(); err != nil {
		return nil, err
	}
	if in.NextToken != nil && in.StreamCreationTimestamp != nil {
		return nil, invalidArgument("NextToken and StreamCreationTimestamp cannot be provided together.")
	}
	limit := listConsumersPage
	if in.MaxResults != nil {
		limit = int(*in.MaxResults)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.find(streamRef{StreamARN: in.StreamARN}, c.ms)
	if err != nil {
		return nil, err
	}
	after := ""
	if in.NextToken != nil {
		t, err := openPageToken(*in.NextToken, "consumers", c.ms)
		if err != nil {
			return nil, err
		}
		if t.Stream != st.name || t.Created != st.created {
			return nil, invalidArgument("NextToken %s is of another stream.", *in.NextToken)
		}
		after = t.After
	}
	if t := in.StreamCreationTimestamp; t != nil && int64(*t)/1000 != st.created/1000 {
		return nil, notFound("Stream %s under account %s with the creation time %d not found.", st.name, s.config.Account, int64(*t)/1000)
	}
	names := slices.Sorted(maps.Keys(st.consumers))
	names = slices.DeleteFunc(names, func(n string) bool { return n <= after })
	more := len(names) > limit
	names = names[:min(len(names), limit)]
	var page []consumerView
	for _, n := range names {
		page = append(page, s.consumerView(st, st.consumers[n]))
	}
	next := ""
	if more {
		next = pageToken{Of: "consumers", After: names[limit-1], Issued: c.ms, Stream: st.name, Created: st.created}.seal()
	}
	return func(w *writer) {
		w.key("Consumers")
		w.openList()
		for _, d := range page {
			w.openMap()
			w.consumer(d)
			w.closeMap()
		}
		w.closeList()
		if next != "" {
			w.textField("NextToken", next)
		}
	}, nil
}
