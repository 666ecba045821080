package kinesis

import (
	"maps"
)

type streamModeDetails struct{ StreamMode *string }

func (v *validation) mode(d *streamModeDetails) {
	if d != nil {
		v.oneOf("streamModeDetails.streamMode", d.StreamMode, true, modeProvisioned, modeOnDemand)
	}
}

type createStreamInput struct {
	StreamName                 *string
	ShardCount                 *int64
	StreamModeDetails          *streamModeDetails
	MaxRecordSizeInKiB         *int64
	Tags                       map[string]string
	WarmThroughputMiBps        *int64
	RecordDistributionStrategy *string
}

func (in *createStreamInput) aim(s *Server) target {
	return (&streamRef{StreamName: in.StreamName}).aim(s)
}

const (
	onDemandShards    = 4 // what a new on-demand stream begins with
	onDemandStreams   = 50
	shardsPerStream   = 10_000
	defaultRecordSize = 1 << 20
	leastRecordKiB    = 1 << 10
	mostRecordKiB     = 10 << 10
)

func createStream(s *Server, c *call, in *createStreamInput) (answer, error) {
	var v validation
	v.name("streamName", in.StreamName, true)
	v.number("shardCount", in.ShardCount, 1, shardsPerStream, false)
	v.mode(in.StreamModeDetails)
	v.number("maxRecordSizeInKiB", in.MaxRecordSizeInKiB, leastRecordKiB, mostRecordKiB, false)
	v.tags(in.Tags)
	v.unsupported("WarmThroughputMiBps", in.WarmThroughputMiBps != nil)
	v.oneOf("recordDistributionStrategy", in.RecordDistributionStrategy, false, "AUTO", "USER_PARTITION_KEY")
	v.unsupported("RecordDistributionStrategy AUTO", in.RecordDistributionStrategy != nil && *in.RecordDistributionStrategy == "AUTO")
	if err := v.err(); err != nil {
		return nil, err
	}
	mode, count := modeProvisioned, onDemandShards
	if in.StreamModeDetails != nil {
		mode = *in.StreamModeDetails.StreamMode
	}
	switch {
	case mode == modeProvisioned && in.ShardCount == nil:
		return nil, refuse("ValidationException", "ShardCount is required for a stream in PROVISIONED mode.")
	case mode == modeOnDemand && in.ShardCount != nil:
		return nil, refuse("ValidationException", "ShardCount can't be given for a stream in ON_DEMAND mode.")
	case in.ShardCount != nil:
		count = int(*in.ShardCount)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	name := *in.StreamName
	if _, err := s.named(name, c.ms); err == nil {
		return nil, inUse("Stream %s under account %s already exists.", name, s.config.Account)
	}
	if err := s.room(count); err != nil {
		return nil, err
	}
	// A stream takes more than a second to delete on the service, so there incarnations differ in the second of their
	// creation, and consumers use that second to tell them apart. Keep it so.
	created := c.ms
	if last, ok := s.lastMade[name]; ok {
		created = max(created, last-last%1000+1000)
	}
	s.lastMade[name] = created
	st := &stream{name: name, created: created, mode: mode, retention: s.config.Retention, maxRecord: defaultRecordSize,
		tags: maps.Clone(in.Tags), state: stateActive}
	if in.MaxRecordSizeInKiB != nil {
		st.maxRecord = int(*in.MaxRecordSizeInKiB) << 10
	}
	s.streams[name] = st
	s.begin(st, stateCreating, c.ms, s.config.CreateDelay, func(at int64) {
		for i := range uint64(count) {
			end := lastHashKey
			if i+1 < uint64(count) {
				end = evenStart(i+1, uint64(count)).prev()
			}
			st.openShards = append(st.openShards, st.addShard(at, evenStart(i, uint64(count)), end))
		}
	})
	return nil, nil
}
