package dynamodb

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

type attributeDefinition struct{ AttributeName, AttributeType string }

type keyElement struct{ AttributeName, KeyType string }

type throughput struct{ ReadCapacityUnits, WriteCapacityUnits int64 }

type projectionDescription struct {
	ProjectionType   string
	NonKeyAttributes []string
}

type indexDefinition struct {
	IndexName             string
	KeySchema             []keyElement
	Projection            *projectionDescription
	ProvisionedThroughput *throughput
}

type tag struct{ Key, Value string }

// billing is the billing mode and throughput of a table or index.
type billing struct {
	onDemand      bool
	onDemandSince time.Time // of tables; zero if never
	read, write   int64
}

type createTable struct {
	TableName                 tableName
	AttributeDefinitions      []attributeDefinition
	KeySchema                 []keyElement
	BillingMode               string
	ProvisionedThroughput     *throughput
	GlobalSecondaryIndexes    []indexDefinition
	Tags                      []tag
	DeletionProtectionEnabled bool
}

func (r *createTable) touches() []touch { return []touch{{table: string(r.TableName)}} }

func (r *createTable) check() error {
	if err := r.TableName.check(); err != nil {
		return err
	}
	if err := oneOf("billingMode", r.BillingMode, "PROVISIONED", "PAY_PER_REQUEST"); err != nil {
		return err
	}
	if err := checkTags(r.Tags); err != nil {
		return err
	}
	_, err := r.build()
	return err
}

// build makes the table without putting it in place.
func (r *createTable) build() (*table, error) {
	kinds, err := attributeKinds(r.AttributeDefinitions)
	if err != nil {
		return nil, err
	}
	keys, err := buildSchema(r.KeySchema, kinds)
	if err != nil {
		return nil, err
	}
	t := &table{name: string(r.TableName), keys: keys, attrs: r.AttributeDefinitions, protected: r.DeletionProtectionEnabled, tags: r.Tags}
	if t.billing, err = buildBilling(r.BillingMode == "PAY_PER_REQUEST", r.ProvisionedThroughput); err != nil {
		return nil, err
	}
	for _, d := range r.GlobalSecondaryIndexes {
		x, err := d.build(kinds, t.billing.onDemand)
		if err != nil {
			return nil, err
		}
		if t.index(x.name) != nil {
			return nil, badValue("Duplicate index name: %s", x.name)
		}
		t.indexes = append(t.indexes, x)
	}
	return t, t.checkDefinitions(kinds)
}

func attributeKinds(defs []attributeDefinition) (map[string]kind, error) {
	kinds := map[string]kind{}
	for _, d := range defs {
		if err := oneOf("attributeDefinitions.member.attributeType", d.AttributeType, "B", "N", "S"); err != nil {
			return nil, err
		}
		if d.AttributeName == "" || d.AttributeType == "" {
			return nil, invalid("AttributeDefinitions: AttributeName and AttributeType are required")
		}
		if _, twice := kinds[d.AttributeName]; twice {
			return nil, badValue("Duplicate AttributeName in AttributeDefinitions: %s", d.AttributeName)
		}
		kinds[d.AttributeName] = kindOf(d.AttributeType)
	}
	return kinds, nil
}

func buildSchema(elements []keyElement, kinds map[string]kind) (k schema, err error) {
	if len(elements) == 0 || len(elements) > 2 {
		return k, constraint(fmt.Sprint(elements), "keySchema", "Member must have length between 1 and 2")
	}
	for i, e := range elements {
		want := []string{"HASH", "RANGE"}[i]
		if err := oneOf("keySchema.member.keyType", e.KeyType, "HASH", "RANGE"); err != nil {
			return k, err
		}
		if e.KeyType != want {
			return k, invalid("Invalid KeySchema: The %s KeySchemaElement is not a %s key type", []string{"first", "second"}[i], want)
		}
		if kinds[e.AttributeName] == kindNone {
			return k, badValue("Some index key attributes are not defined in AttributeDefinitions. Keys: [%s], AttributeDefinitions: %v", e.AttributeName, slices.Sorted(maps.Keys(kinds)))
		}
	}
	k.hash, k.hashKind = elements[0].AttributeName, kinds[elements[0].AttributeName]
	if len(elements) == 2 {
		k.rng, k.rngKind = elements[1].AttributeName, kinds[elements[1].AttributeName]
		if k.rng == k.hash {
			return k, badValue("Both the Hash Key and the Range Key element in the KeySchema have the same name")
		}
	}
	return k, nil
}

func buildBilling(onDemand bool, p *throughput) (billing, error) {
	if onDemand {
		if p != nil && (p.ReadCapacityUnits != 0 || p.WriteCapacityUnits != 0) {
			return billing{}, badValue("Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST")
		}
		return billing{onDemand: true}, nil
	}
	if p == nil {
		return billing{}, badValue("ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED")
	}
	if p.ReadCapacityUnits < 1 || p.WriteCapacityUnits < 1 {
		return billing{}, constraint(fmt.Sprint(*p), "provisionedThroughput", "Members must have value greater than or equal to 1")
	}
	return billing{read: p.ReadCapacityUnits, write: p.WriteCapacityUnits}, nil
}

func (d indexDefinition) build(kinds map[string]kind, onDemand bool) (*index, error) {
	if err := checkName("indexName", d.IndexName); err != nil {
		return nil, err
	}
	keys, err := buildSchema(d.KeySchema, kinds)
	if err != nil {
		return nil, err
	}
	if d.Projection == nil {
		return nil, required("Projection of index "+d.IndexName, false)
	}
	if err := oneOf("projection.projectionType", d.Projection.ProjectionType, "ALL", "INCLUDE", "KEYS_ONLY"); err != nil {
		return nil, err
	}
	switch n := len(d.Projection.NonKeyAttributes); {
	case d.Projection.ProjectionType == "":
		return nil, badValue("Unknown ProjectionType: null")
	case d.Projection.ProjectionType == "INCLUDE" && n == 0:
		return nil, badValue("ProjectionType is INCLUDE, but NonKeyAttributes is not specified")
	case d.Projection.ProjectionType != "INCLUDE" && n > 0:
		return nil, badValue("ProjectionType is %s, but NonKeyAttributes is specified", d.Projection.ProjectionType)
	}
	b, err := buildBilling(onDemand, d.ProvisionedThroughput)
	return &index{name: d.IndexName, keys: keys, projection: *d.Projection, billing: b}, err
}

// checkDefinitions refuses defined attributes that are no key of anything.
func (t *table) checkDefinitions(kinds map[string]kind) error {
	used := map[string]bool{}
	for _, a := range t.keys.attributes() {
		used[a] = true
	}
	for _, x := range t.indexes {
		for _, a := range x.keys.attributes() {
			used[a] = true
		}
	}
	if len(used) == len(kinds) {
		return nil
	}
	return badValue("Some AttributeDefinitions are not used. AttributeDefinitions: [%s], keys used: [%s]",
		strings.Join(slices.Sorted(maps.Keys(kinds)), ", "), strings.Join(slices.Sorted(maps.Keys(used)), ", "))
}

func (r *createTable) run(s *Server) (obj, error) {
	t, err := r.build()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tables[t.name] != nil {
		return nil, fail("ResourceInUseException", "Table already exists: %s", t.name)
	}
	now := time.Now()
	t.created, t.activeAt = now, now.Add(s.config.CreateDelay)
	if t.billing.onDemand {
		t.billing.onDemandSince = now
	}
	t.arn, t.id, t.lag = s.arn(t.name), s.newID(), max(0, s.config.EventualLag)
	for _, x := range t.indexes {
		x.backfillAt, x.activeAt = t.activeAt, t.activeAt
	}
	s.tables[t.name] = t
	d := t.describe(now)
	for _, x := range d.members("GlobalSecondaryIndexes") {
		answering(x, "IndexStatus", "CREATING")
	}
	return answering(d, "TableStatus", "CREATING"), nil
}

// newID makes a table id, which tells a table from an earlier one of its
// name. The caller holds mu.
func (s *Server) newID() string {
	s.ids++
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(s.config.Seed), s.ids)
}
