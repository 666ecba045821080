package kinesis

import (
	"math"
	"time"
)

// description is a copy of what the answers say about a stream.
type description struct {
	name, arn, state, mode string
	created                int64
	retention              time.Duration
	open                   int
	maxRecord              int
	consumers              int
}

func (s *Server) description(st *stream) description {
	return description{name: st.name, arn: s.arnOf(st.name), state: st.state, mode: st.mode, created: st.created,
		retention: st.retention, open: len(st.openShards), maxRecord: st.maxRecord, consumers: len(st.consumers)}
}

func retentionHours(d time.Duration) int64 { return int64(math.Ceil(d.Hours())) }

func (w *writer) description(d description) {
	w.textField("StreamName", d.name)
	w.textField("StreamARN", d.arn)
	w.textField("StreamStatus", d.state)
	w.key("StreamModeDetails")
	w.openMap()
	w.textField("StreamMode", d.mode)
	w.closeMap()
	w.intField("RetentionPeriodHours", retentionHours(d.retention))
	w.timeField("StreamCreationTimestamp", d.created)
	w.key("EnhancedMonitoring")
	w.openList()
	w.openMap()
	w.key("ShardLevelMetrics")
	w.openList()
	w.closeList()
	w.closeMap()
	w.closeList()
	w.textField("EncryptionType", "NONE")
}

type describeStreamSummaryInput struct{ streamRef }

func describeStreamSummary(s *Server, c *call, in *describeStreamSummaryInput) (answer, error) {
	var v validation
	v.stream(in.streamRef)
	if err := v.err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.find(in.streamRef, c.ms)
	if err != nil {
		return nil, err
	}
	d := s.description(st)
	return func(w *writer) {
		w.key("StreamDescriptionSummary")
		w.openMap()
		w.description(d)
		w.intField("OpenShardCount", int64(d.open))
		w.intField("ConsumerCount", int64(d.consumers))
		w.intField("MaxRecordSizeInKiB", int64(d.maxRecord>>10))
		w.closeMap()
	}, nil
}

type describeStreamInput struct {
	streamRef
	ExclusiveStartShardId *string
	Limit                 *int64
}

const describeStreamPage = 100

func describeStream(s *Server, c *call, in *describeStreamInput) (answer, error) {
	var v validation
	v.stream(in.streamRef)
	v.name("exclusiveStartShardId", in.ExclusiveStartShardId, false)
	v.number("limit", in.Limit, 1, 10_000, false)
	if err := v.err(); err != nil {
		return nil, err
	}
	limit := describeStreamPage
	if in.Limit != nil {
		limit = int(min(*in.Limit, describeStreamPage))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.find(in.streamRef, c.ms)
	if err != nil {
		return nil, err
	}
	after, err := afterShard(in.ExclusiveStartShardId)
	if err != nil {
		return nil, err
	}
	views, more := st.list(c, after, limit, nil)
	d := s.description(st)
	return func(w *writer) {
		w.key("StreamDescription")
		w.openMap()
		w.description(d)
		w.shards(views)
		w.boolField("HasMoreShards", more)
		w.closeMap()
	}, nil
}
