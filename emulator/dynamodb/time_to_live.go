package dynamodb

import "time"

// ttlSpecification is the expiry setting of a table. Items are not expired:
// the service too may keep them for days.
type ttlSpecification struct {
	AttributeName string
	Enabled       bool
}

type updateTimeToLive struct {
	TableName               tableName
	TimeToLiveSpecification *struct {
		AttributeName string
		Enabled       *bool
	}
}

func (r *updateTimeToLive) touches() []touch { return []touch{{table: string(r.TableName)}} }

func (r *updateTimeToLive) check() error {
	if err := r.TableName.check(); err != nil {
		return err
	}
	p := r.TimeToLiveSpecification
	return required("TimeToLiveSpecification with AttributeName and Enabled", p != nil && p.AttributeName != "" && p.Enabled != nil)
}

func (r *updateTimeToLive) run(s *Server) (obj, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.open(string(r.TableName), time.Now())
	if err != nil {
		return nil, err
	}
	want := ttlSpecification{r.TimeToLiveSpecification.AttributeName, *r.TimeToLiveSpecification.Enabled}
	switch {
	case want.Enabled == t.ttl.Enabled && want.Enabled:
		return nil, invalid("TimeToLive is already enabled")
	case want.Enabled == t.ttl.Enabled:
		return nil, invalid("TimeToLive is already disabled")
	case !want.Enabled && want.AttributeName != t.ttl.AttributeName:
		return nil, invalid("TimeToLive is active on a different AttributeName: current AttributeName is %s", t.ttl.AttributeName)
	}
	t.ttl = want
	return obj{{"TimeToLiveSpecification", obj{{"AttributeName", want.AttributeName}, {"Enabled", want.Enabled}}}}, nil
}

type describeTimeToLive struct{ TableName tableName }

func (r *describeTimeToLive) touches() []touch { return []touch{{table: string(r.TableName)}} }
func (r *describeTimeToLive) check() error     { return r.TableName.check() }

func (r *describeTimeToLive) run(s *Server) (obj, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.open(string(r.TableName), time.Now())
	if err != nil {
		return nil, err
	}
	d := obj{{"TimeToLiveStatus", "DISABLED"}}
	if t.ttl.Enabled {
		d = obj{{"TimeToLiveStatus", "ENABLED"}, {"AttributeName", t.ttl.AttributeName}}
	}
	return obj{{"TimeToLiveDescription", d}}, nil
}
