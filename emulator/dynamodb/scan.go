package dynamodb

import "strconv"

type scan struct {
	paging
	ScanFilter    map[string]legacyFilter
	Segment       *int
	TotalSegments *int
}

// maxSegments is the service's limit on TotalSegments.
const maxSegments = 1000000

func (r *scan) check() error {
	switch {
	case r.Segment == nil && r.TotalSegments == nil:
	case r.Segment == nil:
		return invalid("The Segment parameter is required but was not present in the request when parameter TotalSegments is present")
	case r.TotalSegments == nil:
		return invalid("The TotalSegments parameter is required but was not present in the request when Segment parameter is present")
	case *r.TotalSegments < 1 || *r.TotalSegments > maxSegments:
		return constraint("'"+itoa(*r.TotalSegments)+"'", "totalSegments", "Member must have value between 1 and 1000000")
	case *r.Segment < 0 || *r.Segment >= *r.TotalSegments:
		return invalid("The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: %d is not less than TotalSegments: %d", *r.Segment, *r.TotalSegments)
	}
	return r.parse("ScanFilter", r.ScanFilter, nil, nil, nil)
}

func (r *scan) run(s *Server) (obj, error) {
	s.mu.Lock()
	p, err := r.page(s)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return r.answer(p), nil
}

func (r *scan) page(s *Server) (page, error) {
	v, err := s.view(&r.paging)
	if err != nil {
		return page{}, err
	}
	mine := func(pos string) bool { return r.Segment == nil || segmentOf(pos, *r.TotalSegments) == *r.Segment }
	after := ""
	if r.ExclusiveStartKey != nil {
		if after, err = v.start(r.ExclusiveStartKey); err != nil {
			return page{}, err
		}
		if !mine(after) {
			return page{}, invalid("The provided Exclusive start key does not map to the provided Segment: %d of TotalSegments: %d", *r.Segment, *r.TotalSegments)
		}
	}
	return v.walk(&r.paging, after, false, func(pos string, _ item) bool { return mine(pos) }), nil
}

func itoa(n int) string { return strconv.Itoa(n) }
