package kinesis

import (
	"fmt"
	"unicode/utf8"
)

type recordInput struct {
	Data            []byte
	PartitionKey    *string
	ExplicitHashKey *string
}

const (
	mostPuts         = 500
	mostPutBytes     = 5 << 20
	mostPutBytesWide = 10 << 20 // of a stream whose records may be larger than 1 MiB
	mostRecordBytes  = mostRecordKiB << 10
	mostKeyChars     = 256
)

// plain is true of records that need no closer look: nearly all. It spares PutRecords 500 names of members.
func (r *recordInput) plain() bool {
	return r.PartitionKey != nil && *r.PartitionKey != "" && len(*r.PartitionKey) <= mostKeyChars && utf8.ValidString(*r.PartitionKey) &&
		r.Data != nil && len(r.Data) <= mostRecordBytes && r.ExplicitHashKey == nil
}

// record checks what holds for records of any stream; at is the member's name up to the record, "" or "records.N.member.".
func (v *validation) record(at string, r *recordInput) {
	if r.PartitionKey == nil {
		v.null(at + "partitionKey")
	} else {
		v.text(at+"partitionKey", r.PartitionKey, 1, mostKeyChars)
		if !utf8.ValidString(*r.PartitionKey) {
			v.add(at+"partitionKey", fmt.Sprintf("%q", *r.PartitionKey), "Member must be valid UTF-8")
		}
	}
	switch {
	case r.Data == nil:
		v.null(at + "data")
	case len(r.Data) > mostRecordBytes:
		v.add(at+"data", fmt.Sprintf("of %d bytes", len(r.Data)), fmt.Sprintf("Member must have length less than or equal to %d", mostRecordBytes))
	}
	v.decimal(at+"explicitHashKey", r.ExplicitHashKey, false)
}

// hash gives a record's place among the shards.
func (r *recordInput) hash() (hashKey, error) {
	if r.ExplicitHashKey == nil {
		return hashOf(*r.PartitionKey), nil
	}
	k, ok := parseHashKey(*r.ExplicitHashKey)
	if !ok {
		return k, invalidArgument("Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]. Specified value was %s", *r.ExplicitHashKey)
	}
	return k, nil
}

func (r *recordInput) size() int { return len(*r.PartitionKey) + len(r.Data) }

func (st *stream) checkSize(r *recordInput) error {
	if r.size() > st.maxRecord {
		return invalidArgument("Record of %d bytes (partition key and data) exceeds the stream's maximum record size of %d bytes; raise MaxRecordSizeInKiB.", r.size(), st.maxRecord)
	}
	return nil
}

// put stores a record unless its shard is over its limits.
func (s *Server) put(st *stream, c *call, r *recordInput, k hashKey) (h *shard, q sequence, err *apiError) {
	h = st.shardFor(k)
	if !s.config.NoLimits && !h.limits.mayWrite(c.now, r.size()) {
		return h, q, s.rateExceeded(st.name, h.id)
	}
	q = sequence{stream: st.created, n: st.tick(), shard: h.index}
	h.log.append(q.n, c.ms, *r.PartitionKey, r.Data)
	h.changed()
	return h, q, nil
}

type putRecordInput struct {
	streamRef
	recordInput
	SequenceNumberForOrdering *string
}

func (in *putRecordInput) aim(s *Server) target {
	t := in.streamRef.aim(s)
	if in.PartitionKey == nil {
		return t
	}
	k, err := in.hash()
	if err != nil {
		return t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.streams[t.stream]; st != nil && len(st.openShards) > 0 {
		t.shard = st.shardFor(k).id
	}
	return t
}

func putRecord(s *Server, c *call, in *putRecordInput) (answer, error) {
	var v validation
	v.stream(in.streamRef)
	v.record("", &in.recordInput)
	v.decimal("sequenceNumberForOrdering", in.SequenceNumberForOrdering, false)
	if err := v.err(); err != nil {
		return nil, err
	}
	k, err := in.hash()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.findReadable(in.streamRef, c.ms)
	if err != nil {
		return nil, err
	}
	if err := st.checkSize(&in.recordInput); err != nil {
		return nil, err
	}
	// Later records always have larger numbers here, so the number is only checked.
	if n := in.SequenceNumberForOrdering; n != nil {
		if q, ok := parseSequence(*n); !ok || q.stream != st.created || q.n > st.counter {
			return nil, invalidArgument("ExclusiveMinimumSequenceNumber %s used in PutRecord on stream %s under account %s is invalid.", *n, st.name, s.config.Account)
		}
	}
	h, q, refused := s.put(st, c, &in.recordInput, k)
	if refused != nil {
		return nil, refused
	}
	return func(w *writer) {
		w.textField("ShardId", h.id)
		w.textField("SequenceNumber", q.String())
	}, nil
}

type putRecordsInput struct {
	streamRef
	Records []recordInput
}

func putRecords(s *Server, c *call, in *putRecordsInput) (answer, error) {
	var v validation
	v.stream(in.streamRef)
	switch n := len(in.Records); {
	case in.Records == nil:
		v.null("records")
	case n < 1:
		v.add("records", "of 0 records", "Member must have length greater than or equal to 1")
	case n > mostPuts:
		v.add("records", fmt.Sprintf("of %d records", n), fmt.Sprintf("Member must have length less than or equal to %d", mostPuts))
	default:
		for i := range in.Records {
			if r := &in.Records[i]; !r.plain() {
				v.record(fmt.Sprintf("records.%d.member.", i+1), r)
			}
		}
	}
	if err := v.err(); err != nil {
		return nil, err
	}
	keys := make([]hashKey, len(in.Records))
	total := 0
	for i := range in.Records {
		var err error
		if keys[i], err = in.Records[i].hash(); err != nil {
			return nil, err
		}
		total += in.Records[i].size()
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.findReadable(in.streamRef, c.ms)
	if err != nil {
		return nil, err
	}
	if most := pick(st.maxRecord > defaultRecordSize, mostPutBytesWide, mostPutBytes); total > most {
		return nil, invalidArgument("Records size exceeds %d MB limit", most>>20)
	}
	for i := range in.Records {
		if err := st.checkSize(&in.Records[i]); err != nil {
			return nil, err
		}
	}
	type result struct {
		shard string
		q     sequence
		err   *apiError
	}
	results := make([]result, len(in.Records))
	failed := 0
	for i := range in.Records {
		r := &results[i]
		if r.err = s.recordFault(st.name, st.shardFor(keys[i]).id); r.err == nil {
			var h *shard
			if h, r.q, r.err = s.put(st, c, &in.Records[i], keys[i]); r.err == nil {
				r.shard = h.id
			}
		}
		if r.err != nil {
			failed++
		}
	}
	return func(w *writer) {
		w.intField("FailedRecordCount", int64(failed))
		w.key("Records")
		w.openList()
		for _, r := range results {
			w.openMap()
			if r.err != nil {
				w.textField("ErrorCode", r.err.code)
				w.textField("ErrorMessage", r.err.message)
			} else {
				w.textField("SequenceNumber", r.q.String())
				w.textField("ShardId", r.shard)
			}
			w.closeMap()
		}
		w.closeList()
	}, nil
}
