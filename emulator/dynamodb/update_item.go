package dynamodb

type updateItem struct {
	TableName        tableName
	Key              item
	UpdateExpression *string
	AttributeUpdates map[string]legacyUpdate
	single
	w write
}

func (r *updateItem) touches() []touch { return []touch{{string(r.TableName), "", r.Key}} }

func (r *updateItem) check() error {
	if err := r.TableName.check(); err != nil {
		return err
	}
	if err := required("Key", r.Key != nil); err != nil {
		return err
	}
	if err := oneOf("returnValues", r.ReturnValues, "NONE", "ALL_OLD", "UPDATED_OLD", "ALL_NEW", "UPDATED_NEW"); err != nil {
		return err
	}
	if err := noMix(
		given("AttributeUpdates", r.AttributeUpdates != nil, "Expected", r.Expected != nil, "ConditionalOperator", r.ConditionalOperator != ""),
		given("UpdateExpression", r.UpdateExpression != nil, "ConditionExpression", r.ConditionExpression != nil)); err != nil {
		return err
	}
	r.w = write{kind: writeUpdate, table: string(r.TableName), key: r.Key}
	err := r.parse(&r.w, func(sc *scope) (err error) {
		if r.UpdateExpression != nil {
			r.w.update, err = parse(sc, "UpdateExpression", *r.UpdateExpression, updateRule)
		}
		return err
	})
	if err != nil || r.AttributeUpdates == nil {
		return err
	}
	u, err := legacyChange(r.AttributeUpdates)
	if err != nil {
		return err
	}
	r.w.update = u
	r.w.needsItem = len(r.AttributeUpdates) > 0 && len(u.sets) == 0 && len(u.adds) == 0
	return nil
}

func (r *updateItem) run(s *Server) (obj, error) {
	c, u, err := s.do(&r.w)
	if err != nil {
		return nil, err
	}
	var attributes item
	switch r.ReturnValues {
	case "ALL_OLD":
		attributes = c.old
	case "ALL_NEW":
		attributes = c.new
	case "UPDATED_OLD":
		attributes = r.updated(c.old)
	case "UPDATED_NEW":
		attributes = r.updated(c.new)
	}
	answer := obj{}.with(len(attributes) > 0, "Attributes", attributes)
	return r.one(answer, u), nil
}

// updated is the part of an item that the update names.
func (r *updateItem) updated(it item) item {
	if r.w.update == nil {
		return nil
	}
	return project(it, r.w.update.paths())
}
