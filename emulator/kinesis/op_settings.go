package kinesis

import (
	"maps"
	"slices"
	"time"
)

type retentionInput struct {
	streamRef
	RetentionPeriodHours *int64
}

type (
	increaseRetentionInput struct{ retentionInput }
	decreaseRetentionInput struct{ retentionInput }
)

const (
	leastRetentionHours = 24
	mostRetentionHours  = 8760
)

func increaseRetention(s *Server, c *call, in *increaseRetentionInput) (answer, error) {
	return setRetention(s, c, in.retentionInput, 1)
}

func decreaseRetention(s *Server, c *call, in *decreaseRetentionInput) (answer, error) {
	return setRetention(s, c, in.retentionInput, -1)
}

func setRetention(s *Server, c *call, in retentionInput, direction int) (answer, error) {
	var v validation
	v.stream(in.streamRef)
	v.number("retentionPeriodHours", in.RetentionPeriodHours, leastRetentionHours, mostRetentionHours, true)
	if err := v.err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.findActive(in.streamRef, c.ms)
	if err != nil {
		return nil, err
	}
	d := time.Duration(*in.RetentionPeriodHours) * time.Hour
	if direction > 0 && d < st.retention || direction < 0 && d > st.retention {
		return nil, invalidArgument("Requested retention period (%d hours) for stream %s can not be %s than existing retention period (%d hours). Use %sStreamRetentionPeriod API.",
			*in.RetentionPeriodHours, st.name, pick(direction > 0, "shorter", "longer"), retentionHours(st.retention), pick(direction > 0, "Decrease", "Increase"))
	}
	s.begin(st, stateUpdating, c.ms, s.config.UpdateDelay, func(int64) { st.retention = d })
	return nil, nil
}

type updateMaxRecordSizeInput struct {
	streamRef
	MaxRecordSizeInKiB *int64
}

func updateMaxRecordSize(s *Server, c *call, in *updateMaxRecordSizeInput) (answer, error) {
	var v validation
	v.stream(in.streamRef)
	v.number("maxRecordSizeInKiB", in.MaxRecordSizeInKiB, leastRecordKiB, mostRecordKiB, true)
	if err := v.err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.findActive(in.streamRef, c.ms)
	if err != nil {
		return nil, err
	}
	size := int(*in.MaxRecordSizeInKiB) << 10
	s.begin(st, stateUpdating, c.ms, s.config.UpdateDelay, func(int64) { st.maxRecord = size })
	return nil, nil
}

type updateStreamModeInput struct {
	StreamARN           *string
	StreamModeDetails   *streamModeDetails
	WarmThroughputMiBps *int64
}

func (in *updateStreamModeInput) aim(s *Server) target {
	return (&streamRef{StreamARN: in.StreamARN}).aim(s)
}

func updateStreamMode(s *Server, c *call, in *updateStreamModeInput) (answer, error) {
	var v validation
	if in.StreamARN == nil {
		v.null("streamARN")
	}
	if in.StreamModeDetails == nil {
		v.null("streamModeDetails")
	}
	v.unsupported("WarmThroughputMiBps", in.WarmThroughputMiBps != nil)
	v.stream(streamRef{StreamARN: in.StreamARN})
	v.mode(in.StreamModeDetails)
	if err := v.err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.findActive(streamRef{StreamARN: in.StreamARN}, c.ms)
	if err != nil {
		return nil, err
	}
	mode := *in.StreamModeDetails.StreamMode
	s.begin(st, stateUpdating, c.ms, s.config.UpdateDelay, func(int64) { st.mode = mode })
	return nil, nil
}

type describeLimitsInput struct{}

func describeLimits(s *Server, c *call, _ *describeLimitsInput) (answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	open, onDemand := 0, 0
	for name := range maps.Clone(s.streams) {
		st, err := s.named(name, c.ms)
		if err != nil {
			continue // its deletion was due
		}
		open += len(st.openShards)
		if st.mode == modeOnDemand {
			onDemand++
		}
	}
	return func(w *writer) {
		w.intField("ShardLimit", int64(s.config.ShardLimit))
		w.intField("OpenShardCount", int64(open))
		w.intField("OnDemandStreamCount", int64(onDemand))
		w.intField("OnDemandStreamCountLimit", onDemandStreams)
	}, nil
}

const mostTags = 50

func (v *validation) tags(tags map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		v.text("tags", &k, 1, 128)
		v.text("tags."+k, new(tags[k]), 0, 256)
	}
}

type addTagsInput struct {
	streamRef
	Tags map[string]string
}

func addTags(s *Server, c *call, in *addTagsInput) (answer, error) {
	var v validation
	v.stream(in.streamRef)
	if len(in.Tags) == 0 {
		v.null("tags")
	}
	v.tags(in.Tags)
	if err := v.err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.find(in.streamRef, c.ms)
	if err != nil {
		return nil, err
	}
	tags := maps.Clone(st.tags)
	if tags == nil {
		tags = map[string]string{}
	}
	maps.Copy(tags, in.Tags)
	if len(tags) > mostTags {
		return nil, invalidArgument("Failed to add tags to stream %s under account %s because a given stream cannot have more than %d tags associated with it.",
			st.name, s.config.Account, mostTags)
	}
	st.tags = tags
	return nil, nil
}

type removeTagsInput struct {
	streamRef
	TagKeys []string
}

func removeTags(s *Server, c *call, in *removeTagsInput) (answer, error) {
	var v validation
	v.stream(in.streamRef)
	if len(in.TagKeys) == 0 {
		v.null("tagKeys")
	}
	if err := v.err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.find(in.streamRef, c.ms)
	if err != nil {
		return nil, err
	}
	for _, k := range in.TagKeys {
		delete(st.tags, k)
	}
	return nil, nil
}

type listTagsInput struct {
	streamRef
	ExclusiveStartTagKey *string
	Limit                *int64
}

func listTags(s *Server, c *call, in *listTagsInput) (answer, error) {
	var v validation
	v.stream(in.streamRef)
	v.number("limit", in.Limit, 1, mostTags, false)
	if err := v.err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.find(in.streamRef, c.ms)
	if err != nil {
		return nil, err
	}
	keys := slices.Sorted(maps.Keys(st.tags))
	if in.ExclusiveStartTagKey != nil {
		keys = slices.DeleteFunc(keys, func(k string) bool { return k <= *in.ExclusiveStartTagKey })
	}
	limit := mostTags
	if in.Limit != nil {
		limit = int(*in.Limit)
	}
	more := len(keys) > limit
	keys = keys[:min(limit, len(keys))]
	tags := maps.Clone(st.tags)
	return func(w *writer) {
		w.key("Tags")
		w.openList()
		for _, k := range keys {
			w.openMap()
			w.textField("Key", k)
			w.textField("Value", tags[k])
			w.closeMap()
		}
		w.closeList()
		w.boolField("HasMoreTags", more)
	}, nil
}
