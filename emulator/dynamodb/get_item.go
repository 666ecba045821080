package dynamodb

import "time"

// projecting are the parameters that choose attributes.
type projecting struct {
	ProjectionExpression     *string
	ExpressionAttributeNames map[string]string
	AttributesToGet          []string
	paths                    []path // nil: all of the item
}

func (p *projecting) parse(sc *scope) (err error) {
	if p.ProjectionExpression != nil {
		p.paths, err = parse(sc, "ProjectionExpression", *p.ProjectionExpression, projection)
		return err
	}
	if p.AttributesToGet != nil {
		if len(p.AttributesToGet) == 0 {
			return constraint("'[]'", "attributesToGet", "Member must have length greater than or equal to 1")
		}
		p.paths, err = legacyPaths(p.AttributesToGet)
	}
	return err
}

// only parses a projection that stands alone, as in reads by key.
func (p *projecting) only() error {
	if err := noMix(given("AttributesToGet", p.AttributesToGet != nil), given("ProjectionExpression", p.ProjectionExpression != nil)); err != nil {
		return err
	}
	sc, err := newScope(p.ExpressionAttributeNames, nil)
	if err != nil {
		return err
	}
	if err := p.parse(sc); err != nil {
		return err
	}
	return sc.done()
}

func (p *projecting) of(it item) item {
	if p.paths == nil || it == nil {
		return it
	}
	return project(it, p.paths)
}

type getItem struct {
	TableName      tableName
	Key            item
	ConsistentRead bool
	projecting
	metering
}

func (r *getItem) touches() []touch { return []touch{{string(r.TableName), "", r.Key}} }

func (r *getItem) check() error {
	if err := r.TableName.check(); err != nil {
		return err
	}
	if err := required("Key", r.Key != nil); err != nil {
		return err
	}
	if err := r.checkCapacity(); err != nil {
		return err
	}
	return r.only()
}

func (r *getItem) run(s *Server) (obj, error) {
	s.mu.Lock()
	it, err := s.read(string(r.TableName), r.Key, r.ConsistentRead)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	answer := obj{}.with(it != nil, "Item", r.of(it))
	return r.one(answer, usage{table: string(r.TableName), units: readUnits(it.size(), r.ConsistentRead)}), nil
}

// read finds one item; nil is none. The caller holds mu.
func (s *Server) read(name string, key item, consistent bool) (item, error) {
	now := time.Now()
	t, err := s.open(name, now)
	if err != nil {
		return nil, err
	}
	if err := t.keys.checkKey(key); err != nil {
		return nil, err
	}
	pos, _ := t.keys.position(key)
	r := t.rows.get(pos)
	if r == nil {
		return nil, nil
	}
	if consistent {
		return r.latest().item, nil
	}
	return r.asOf(s.instant(now, false)).item, nil
}
