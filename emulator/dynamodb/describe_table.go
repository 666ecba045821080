package dynamodb

import "time"

type describeTable struct{ TableName tableName }

func (r *describeTable) touches() []touch { return []touch{{table: string(r.TableName)}} }
func (r *describeTable) check() error     { return r.TableName.check() }

func (r *describeTable) run(s *Server) (obj, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	t, err := s.find(string(r.TableName), now)
	if err != nil {
		return nil, err
	}
	return obj{{"Table", t.describe(now)}}, nil
}

// describe is the TableDescription. Counts are as of now; the service's are
// up to six hours old.
func (t *table) describe(now time.Time) obj {
	var defs []obj
	for _, d := range t.attrs {
		defs = append(defs, obj{{"AttributeName", d.AttributeName}, {"AttributeType", d.AttributeType}})
	}
	o := obj{
		{"TableName", t.name}, {"TableArn", t.arn}, {"TableId", t.id},
		{"TableStatus", t.status(now)}, {"CreationDateTime", t.created},
		{"AttributeDefinitions", defs}, {"KeySchema", t.keys.describe()},
		{"ItemCount", t.count}, {"TableSizeBytes", t.bytes},
		{"DeletionProtectionEnabled", t.protected},
		{"ProvisionedThroughput", t.billing.describe()},
	}
	if since := t.billing.onDemandSince; !since.IsZero() {
		mode := "PROVISIONED"
		if t.billing.onDemand {
			mode = "PAY_PER_REQUEST"
		}
		o = append(o, pair{"BillingModeSummary", obj{{"BillingMode", mode}, {"LastUpdateToPayPerRequestDateTime", since}}})
	}
	var xs []obj
	for _, x := range t.indexes {
		xs = append(xs, x.describe(t, now))
	}
	return o.with(len(xs) > 0, "GlobalSecondaryIndexes", xs)
}

func (k schema) describe() []obj {
	types := []string{"HASH", "RANGE"}
	var o []obj
	for i, a := range k.attributes() {
		o = append(o, obj{{"AttributeName", a}, {"KeyType", types[i]}})
	}
	return o
}

func (b billing) describe() obj {
	return obj{{"NumberOfDecreasesToday", 0}, {"ReadCapacityUnits", b.read}, {"WriteCapacityUnits", b.write}}
}

func (x *index) describe(t *table, now time.Time) obj {
	count, bytes := 0, 0
	for _, e := range x.entries.entries {
		it := e.row.latest().item
		if p, ok := x.position(it, e.row.pos); ok && p == e.pos {
			count++
			bytes += x.project(it, t.keys).size()
		}
	}
	proj := obj{{"ProjectionType", x.projection.ProjectionType}}.
		with(len(x.projection.NonKeyAttributes) > 0, "NonKeyAttributes", x.projection.NonKeyAttributes)
	status := x.status(now)
	return obj{
		{"IndexName", x.name}, {"IndexArn", t.arn + "/index/" + x.name}, {"IndexStatus", status},
		{"KeySchema", x.keys.describe()}, {"Projection", proj}, {"ProvisionedThroughput", x.billing.describe()},
		{"ItemCount", count}, {"IndexSizeBytes", bytes},
	}.with(status == "CREATING" && !t.activeAt.After(now), "Backfilling", !now.Before(x.backfillAt))
}

// answering replaces the status in a description: some calls answer the state
// they begin, however soon it is over.
func answering(d obj, member, status string) obj {
	for i := range d {
		if d[i].name == member {
			d[i].v = status
		}
	}
	return obj{{"TableDescription", d}}
}
