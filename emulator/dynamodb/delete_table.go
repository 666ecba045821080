package dynamodb

import "time"

type deleteTable struct{ TableName tableName }

func (r *deleteTable) touches() []touch { return []touch{{table: string(r.TableName)}} }
func (r *deleteTable) check() error     { return r.TableName.check() }

func (r *deleteTable) run(s *Server) (obj, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	t, err := s.find(string(r.TableName), now)
	if err != nil {
		return nil, err
	}
	switch {
	case t.protected:
		return nil, invalid("Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first.")
	case t.status(now) != "ACTIVE":
		return nil, fail("ResourceInUseException", "Attempt to change a resource which is still in use: Table is in status %s: %s", t.status(now), t.name)
	}
	delete(s.tables, t.name)
	return answering(t.describe(now), "TableStatus", "DELETING"), nil // though it is gone at once
}
