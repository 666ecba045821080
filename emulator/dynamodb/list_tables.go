package dynamodb

import (
	"maps"
	"slices"
)

type listTables struct {
	ExclusiveStartTableName tableName
	Limit                   *int
}

func (r *listTables) touches() []touch { return nil }

func (r *listTables) check() error {
	if r.Limit != nil && (*r.Limit < 1 || *r.Limit > 100) {
		return constraint("'"+itoa(*r.Limit)+"'", "limit", "Member must have value between 1 and 100")
	}
	return nil
}

func (r *listTables) run(s *Server) (obj, error) {
	s.mu.Lock()
	names := slices.Sorted(maps.Keys(s.tables))
	s.mu.Unlock()
	names = slices.DeleteFunc(names, func(n string) bool { return n <= string(r.ExclusiveStartTableName) })
	limit := 100
	if r.Limit != nil {
		limit = *r.Limit
	}
	if len(names) <= limit {
		return obj{{"TableNames", append([]string{}, names...)}}, nil
	}
	return obj{{"TableNames", names[:limit]}, {"LastEvaluatedTableName", names[limit-1]}}, nil
}
