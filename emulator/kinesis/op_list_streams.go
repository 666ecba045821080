package kinesis

import (
	"maps"
	"slices"
)

type listStreamsInput struct {
	ExclusiveStartStreamName *string
	NextToken                *string
	Limit                    *int64
}

const listStreamsPage = 100

func listStreams(s *Server, c *call, in *listStreamsInput) (answer, error) {
	var v validation
	v.name("exclusiveStartStreamName", in.ExclusiveStartStreamName, false)
	v.number("limit", in.Limit, 1, 10_000, false)
	if err := v.err(); err != nil {
		return nil, err
	}
	after := ""
	if in.ExclusiveStartStreamName != nil {
		after = *in.ExclusiveStartStreamName
	}
	if in.NextToken != nil {
		t, err := openPageToken(*in.NextToken, "streams", c.ms)
		if err != nil {
			return nil, err
		}
		after = t.After
	}
	limit := listStreamsPage
	if in.Limit != nil {
		limit = int(min(*in.Limit, listStreamsPage))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range maps.Clone(s.streams) {
		_, _ = s.named(name, c.ms) // those whose deletion is due are gone after this
	}
	names := slices.Sorted(maps.Keys(s.streams))
	i, found := slices.BinarySearch(names, after)
	if found {
		i++
	}
	more := len(names)-i > limit
	var page []description
	for _, name := range names[i:min(len(names), i+limit)] {
		page = append(page, s.description(s.streams[name]))
	}
	return func(w *writer) {
		w.key("StreamNames")
		w.openList()
		for _, d := range page {
			w.text(d.name)
		}
		w.closeList()
		w.key("StreamSummaries")
		w.openList()
		for _, d := range page {
			w.openMap()
			w.textField("StreamName", d.name)
			w.textField("StreamARN", d.arn)
			w.textField("StreamStatus", d.state)
			w.key("StreamModeDetails")
			w.openMap()
			w.textField("StreamMode", d.mode)
			w.closeMap()
			w.timeField("StreamCreationTimestamp", d.created)
			w.closeMap()
		}
		w.closeList()
		w.boolField("HasMoreStreams", more)
		if more {
			w.textField("NextToken", pageToken{Of: "streams", After: page[len(page)-1].name, Issued: c.ms}.seal())
		}
	}, nil
}
