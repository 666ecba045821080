package dynamodb

type deleteItem struct {
	TableName tableName
	Key       item
	single
	w write
}

func (r *deleteItem) touches() []touch { return []touch{{string(r.TableName), "", r.Key}} }

func (r *deleteItem) check() error {
	if err := r.TableName.check(); err != nil {
		return err
	}
	if err := required("Key", r.Key != nil); err != nil {
		return err
	}
	if err := oneOf("returnValues", r.ReturnValues, "ALL_OLD", "NONE"); err != nil {
		return err
	}
	if err := noMix(given("Expected", r.Expected != nil, "ConditionalOperator", r.ConditionalOperator != ""),
		given("ConditionExpression", r.ConditionExpression != nil)); err != nil {
		return err
	}
	r.w = write{kind: writeDelete, table: string(r.TableName), key: r.Key}
	return r.parse(&r.w, nil)
}

func (r *deleteItem) run(s *Server) (obj, error) {
	c, u, err := s.do(&r.w)
	if err != nil {
		return nil, err
	}
	answer := obj{}.with(r.ReturnValues == "ALL_OLD" && c.old != nil, "Attributes", c.old)
	return r.one(answer, u), nil
}
