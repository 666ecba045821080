package kinesis

import "math"

type shardFilter struct {
	Type      *string
	ShardId   *string
	Timestamp *moment
}

const (
	filterAfterShard    = "AFTER_SHARD_ID"
	filterAtHorizon     = "AT_TRIM_HORIZON"
	filterFromHorizon   = "FROM_TRIM_HORIZON"
	filterAtLatest      = "AT_LATEST"
	filterAtTimestamp   = "AT_TIMESTAMP"
	filterFromTimestamp = "FROM_TIMESTAMP"
)

func (v *validation) filter(f *shardFilter) {
	if f == nil {
		return
	}
	v.oneOf("shardFilter.type", f.Type, true, filterAfterShard, filterAtHorizon, filterFromHorizon, filterAtLatest, filterAtTimestamp, filterFromTimestamp)
	v.name("shardFilter.shardId", f.ShardId, false)
}

// check refuses members that are missing from, or do not go with, the filter's type.
func (f *shardFilter) check(now int64) error {
	if f == nil {
		return nil
	}
	timed := *f.Type == filterAtTimestamp || *f.Type == filterFromTimestamp
	switch {
	case *f.Type == filterAfterShard && f.ShardId == nil:
		return invalidArgument("ShardFilter.ShardId must be given with type %s.", *f.Type)
	case *f.Type != filterAfterShard && f.ShardId != nil:
		return invalidArgument("ShardFilter.ShardId can't be given with type %s.", *f.Type)
	case timed && f.Timestamp == nil:
		return invalidArgument("ShardFilter.Timestamp must be given with type %s.", *f.Type)
	case !timed && f.Timestamp != nil:
		return invalidArgument("ShardFilter.Timestamp can't be given with type %s.", *f.Type)
	case timed:
		return notFuture("ShardFilter.Timestamp", *f.Timestamp, now)
	}
	return nil
}

// notFuture refuses times to come. A client's rounding to milliseconds is forgiven.
func notFuture(member string, m moment, now int64) error {
	if int64(m) > now+1 {
		return invalidArgument("The timestampInMillis parameter cannot be greater than the currentTimestampInMillis. %s: %d, currentTimestampInMillis: %d", member, m, now)
	}
	return nil
}

// passes says whether a listed shard passes the filter; closed is when it ended, 0 while it is open. Words of the API
// reference; "at the trim horizon" is told by the parents: they are listed as long as they ended after it.
func (f *shardFilter) passes(h *shard, closed int64) bool {
	if f == nil {
		return true
	}
	switch *f.Type {
	case filterAtLatest:
		return closed == 0
	case filterAtHorizon:
		return h.orphan()
	case filterAtTimestamp:
		// Earlier than the horizon (or the stream) means at the horizon.
		return (h.created <= int64(*f.Timestamp) || h.orphan()) && (closed == 0 || closed >= int64(*f.Timestamp))
	case filterFromTimestamp:
		return closed == 0 || closed >= int64(*f.Timestamp)
	}
	return true // AFTER_SHARD_ID is a place to start from; FROM_TRIM_HORIZON is everything listed
}

type listShardsInput struct {
	streamRef
	NextToken               *string
	ExclusiveStartShardId   *string
	MaxResults              *int64
	StreamCreationTimestamp *moment
	ShardFilter             *shardFilter
}

func (in *listShardsInput) aim(s *Server) target {
	if in.NextToken != nil {
		t, _ := openPageToken(*in.NextToken, "shards", 0)
		return target{stream: t.Stream}
	}
	return in.streamRef.aim(s)
}

// besideToken names a member that may not be given with a token: the token alone says what is listed.
func (in *listShardsInput) besideToken() string {
	switch {
	case in.StreamName != nil:
		return "StreamName"
	case in.StreamARN != nil:
		return "StreamARN"
	case in.StreamCreationTimestamp != nil:
		return "StreamCreationTimestamp"
	case in.ExclusiveStartShardId != nil:
		return "ExclusiveStartShardId"
	case in.ShardFilter != nil:
		return "ShardFilter"
	}
	return ""
}

const listShardsPage = 1000

func listShards(s *Server, c *call, in *listShardsInput) (answer, error) {
	var v validation
	v.stream(in.streamRef)
	v.text("nextToken", in.NextToken, 1, 1<<20)
	v.name("exclusiveStartShardId", in.ExclusiveStartShardId, false)
	v.number("maxResults", in.MaxResults, 1, 10_000, false)
	v.filter(in.ShardFilter)
	if err := v.err(); err != nil {
		return nil, err
	}
	ref, filter := in.streamRef, in.ShardFilter
	after, err := afterShard(in.ExclusiveStartShardId)
	if err != nil {
		return nil, err
	}
	var created *int64
	if in.NextToken != nil {
		if member := in.besideToken(); member != "" {
			return nil, invalidArgument("NextToken and %s cannot be provided together.", member)
		}
		t, err := openPageToken(*in.NextToken, "shards", c.ms)
		if err != nil {
			return nil, err
		}
		ref, filter, created = streamRef{StreamName: &t.Stream}, t.Filter, &t.Created
		if after, err = afterShard(&t.After); err != nil {
			return nil, err
		}
	} else if err := filter.check(c.ms); err != nil {
		return nil, err
	} else if filter != nil && filter.ShardId != nil {
		from, err := afterShard(filter.ShardId)
		if err != nil {
			return nil, err
		}
		after = max(after, from)
	}
	if in.StreamCreationTimestamp != nil {
		created = new(int64(*in.StreamCreationTimestamp))
	}
	limit := listShardsPage
	if in.MaxResults != nil {
		limit = int(min(*in.MaxResults, listShardsPage))
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.find(ref, c.ms)
	if err != nil {
		return nil, err
	}
	// Clients that know whole seconds only mean the stream made in that second.
	if created != nil && *created != st.created && *created != st.created-st.created%1000 {
		return nil, notFound("Stream %s under account %s created at %d ms not found.", st.name, s.config.Account, *created)
	}
	if st.state == stateCreating || st.state == stateDeleting {
		return nil, inUse("Stream %s under account %s not ACTIVE, instead in state %s", st.name, s.config.Account, st.state)
	}
	views, more := st.list(c, after, limit, filter)
	next := pageToken{Of: "shards", Issued: c.ms, Stream: st.name, Created: st.created, Filter: filter}
	return func(w *writer) {
		w.shards(views)
		if more {
			next.After = views[len(views)-1].id
			w.textField("NextToken", next.seal())
		}
	}, nil
}

// afterShard reads the id of the last shard not wanted; -1 without one. The shard need not exist any more.
func afterShard(id *string) (int64, error) {
	if id == nil {
		return -1, nil
	}
	i, ok := shardIndex(*id)
	if !ok {
		return 0, invalidArgument("%s is not the id of a shard.", *id)
	}
	return int64(i), nil
}

// list gives the shards with an index above after that pass the filter, and whether there are more than limit. With
// the fault [StaleList] it tells how they were some time ago.
func (st *stream) list(c *call, after int64, limit int, filter *shardFilter) (views []shardView, more bool) {
	at := int64(math.MaxInt64)
	if age := c.fx.listAge; age > 0 {
		at = c.ms - age.Milliseconds()
	}
	for _, h := range st.shards {
		if int64(h.index) <= after || h.created > at && len(h.parents) > 0 {
			continue
		}
		closed := h.closed
		if closed > at {
			closed = 0
		}
		if !filter.passes(h, closed) {
			continue
		}
		if len(views) == limit {
			return views, true
		}
		v := st.view(h)
		v.closed = closed != 0
		views = append(views, v)
	}
	return views, false
}
