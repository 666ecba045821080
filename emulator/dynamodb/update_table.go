package dynamodb

import (
	"maps"
	"slices"
	"time"
)

type indexUpdate struct {
	Create *indexDefinition
	Delete *struct{ IndexName string }
	Update *struct {
		IndexName             string
		ProvisionedThroughput *throughput
	}
}

type updateTable struct {
	TableName                   tableName
	AttributeDefinitions        []attributeDefinition
	BillingMode                 string
	ProvisionedThroughput       *throughput
	GlobalSecondaryIndexUpdates []indexUpdate
	DeletionProtectionEnabled   *bool
}

func (r *updateTable) touches() []touch { return []touch{{table: string(r.TableName)}} }

func (r *updateTable) check() error {
	if err := r.TableName.check(); err != nil {
		return err
	}
	if r.BillingMode == "" && r.ProvisionedThroughput == nil && len(r.GlobalSecondaryIndexUpdates) == 0 && r.DeletionProtectionEnabled == nil {
		return invalid("At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, GlobalSecondaryIndexUpdates or SSESpecification or ReplicaUpdates is required")
	}
	online := 0
	for _, u := range r.GlobalSecondaryIndexUpdates {
		if len(given("Create", u.Create != nil, "Delete", u.Delete != nil, "Update", u.Update != nil)) != 1 {
			return badValue("One of GlobalSecondaryIndexUpdate Create, Delete or Update must be set")
		}
		if u.Update == nil {
			online++
		}
	}
	if online > 1 {
		return fail("LimitExceededException", "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table")
	}
	return oneOf("billingMode", r.BillingMode, "PROVISIONED", "PAY_PER_REQUEST")
}

func (r *updateTable) run(s *Server) (obj, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	t, err := s.find(string(r.TableName), now)
	if err != nil {
		return nil, err
	}
	if st := t.status(now); st != "ACTIVE" {
		return nil, fail("ResourceInUseException", "Attempt to change a resource which is still in use: Table is being %s: %s",
			map[string]string{"CREATING": "created", "UPDATING": "updated"}[st], t.name)
	}
	// All of it is worked out on the side, then put in place: a refused update
	// changes nothing.
	b, err := r.billing(t, now)
	if err != nil {
		return nil, err
	}
	apply, err := r.indexChanges(s, t, b.onDemand, now)
	if err != nil {
		return nil, err
	}
	t.billing = b
	for _, f := range apply {
		f()
	}
	if r.DeletionProtectionEnabled != nil {
		t.protected = *r.DeletionProtectionEnabled
	}
	d := t.describe(now)
	for _, x := range d.members("GlobalSecondaryIndexes") {
		if r.creates(x[0].v.(string)) {
			answering(x, "IndexStatus", "CREATING")
		}
	}
	return answering(d, "TableStatus", "UPDATING"), nil
}

func (r *updateTable) creates(index string) bool {
	return slices.ContainsFunc(r.GlobalSecondaryIndexUpdates, func(u indexUpdate) bool { return u.Create != nil && u.Create.IndexName == index })
}

func (r *updateTable) billing(t *table, now time.Time) (billing, error) {
	if r.BillingMode == "" && r.ProvisionedThroughput == nil {
		return t.billing, nil
	}
	onDemand := t.billing.onDemand
	if r.BillingMode != "" {
		onDemand = r.BillingMode == "PAY_PER_REQUEST"
	}
	p := r.ProvisionedThroughput
	b, err := buildBilling(onDemand, p)
	if err != nil {
		return b, err
	}
	if p != nil && !t.billing.onDemand && b.read == t.billing.read && b.write == t.billing.write {
		return b, invalid("The provisioned throughput for the table will not change. The requested value equals the current value. Current ReadCapacityUnits provisioned for the table: %d. Requested ReadCapacityUnits: %d. Current WriteCapacityUnits provisioned for the table: %d. Requested WriteCapacityUnits: %d.",
			t.billing.read, b.read, t.billing.write, b.write)
	}
	b.onDemandSince = t.billing.onDemandSince
	if onDemand && !t.billing.onDemand {
		b.onDemandSince = now
	}
	return b, nil
}

// indexChanges checks the index updates and answers what carries them out.
func (r *updateTable) indexChanges(s *Server, t *table, onDemand bool, now time.Time) (apply []func(), err error) {
	kinds, err := attributeKinds(t.attrs)
	if err != nil {
		return nil, err
	}
	more, err := attributeKinds(r.AttributeDefinitions)
	if err != nil {
		return nil, err
	}
	for a, k := range more {
		if was, ok := kinds[a]; ok && was != k {
			return nil, badValue("Attribute %s is already defined with type %s, not %s", a, was, k)
		}
		kinds[a] = k
	}
	// One that is being made or dropped blocks the next.
	if busy := slices.ContainsFunc(t.indexes, func(x *index) bool { return x.status(now) != "ACTIVE" }); busy && len(r.GlobalSecondaryIndexUpdates) > 0 {
		return nil, fail("LimitExceededException", "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table")
	}
	if onDemand != t.billing.onDemand && !onDemand {
		for _, x := range t.indexes {
			if !slices.ContainsFunc(r.GlobalSecondaryIndexUpdates, func(u indexUpdate) bool { return u.Update != nil && u.Update.IndexName == x.name }) {
				return nil, badValue("ProvisionedThroughput must be specified for index: %s", x.name)
			}
		}
	}
	if onDemand && !t.billing.onDemand {
		for _, x := range t.indexes {
			apply = append(apply, func() { x.billing = billing{onDemand: true} })
		}
	}
	for _, u := range r.GlobalSecondaryIndexUpdates {
		f, err := u.plan(t, kinds, onDemand, now, s.config.IndexDelay)
		if err != nil {
			return nil, err
		}
		apply = append(apply, f)
	}
	return append(apply, func() { t.define(kinds) }), nil
}

func (u indexUpdate) plan(t *table, kinds map[string]kind, onDemand bool, now time.Time, delay time.Duration) (func(), error) {
	if u.Create != nil {
		if t.index(u.Create.IndexName) != nil {
			return nil, invalid("Attempting to create an index which already exists")
		}
		x, err := u.Create.build(kinds, onDemand)
		if err != nil {
			return nil, err
		}
		return func() {
			// The first half allocates, the table UPDATING meanwhile; the second
			// back-fills ("Managing global secondary indexes", Developer Guide).
			x.backfillAt, x.activeAt = now.Add(delay/2), now.Add(delay)
			t.settledAt = x.backfillAt
			x.fill(t)
			t.indexes = append(t.indexes, x)
		}, nil
	}
	var name string
	if u.Delete != nil {
		name = u.Delete.IndexName
	} else {
		name = u.Update.IndexName
	}
	x := t.index(name)
	if x == nil {
		return nil, fail("ResourceNotFoundException", "Requested resource not found: Index: %s not found", name)
	}
	if u.Delete != nil {
		return func() { x.goneAt = now.Add(delay) }, nil
	}
	b, err := buildBilling(onDemand, u.Update.ProvisionedThroughput)
	return func() { x.billing = b }, err
}

// define sets the attribute definitions to those that are a key of something.
func (t *table) define(kinds map[string]kind) {
	used := t.keys.attributes()
	for _, x := range t.indexes {
		used = append(used, x.keys.attributes()...)
	}
	t.attrs = nil
	for _, a := range slices.Sorted(maps.Keys(kinds)) {
		if slices.Contains(used, a) {
			t.attrs = append(t.attrs, attributeDefinition{a, kinds[a].String()})
		}
	}
}
