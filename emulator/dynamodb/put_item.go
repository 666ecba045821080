package dynamodb

type putItem struct {
	TableName tableName
	Item      item
	single
	w write
}

func (r *putItem) touches() []touch { return []touch{{string(r.TableName), "", r.Item}} }

func (r *putItem) check() error {
	if err := r.TableName.check(); err != nil {
		return err
	}
	if err := required("Item", r.Item != nil); err != nil {
		return err
	}
	if err := oneOf("returnValues", r.ReturnValues, "ALL_OLD", "NONE"); err != nil {
		return err
	}
	if err := noMix(given("Expected", r.Expected != nil, "ConditionalOperator", r.ConditionalOperator != ""),
		given("ConditionExpression", r.ConditionExpression != nil)); err != nil {
		return err
	}
	r.w = write{kind: writePut, table: string(r.TableName), item: r.Item}
	return r.parse(&r.w, nil)
}

func (r *putItem) run(s *Server) (obj, error) {
	c, u, err := s.do(&r.w)
	if err != nil {
		return nil, err
	}
	answer := obj{}.with(r.ReturnValues == "ALL_OLD" && c.old != nil, "Attributes", c.old)
	return r.one(answer, u), nil
}

// required refuses a request without one of its parameters.
func required(name string, there bool) error {
	if there {
		return nil
	}
	return invalid("The parameter '%s' is required but was not present in the request", name)
}
