package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// item is a row as the dumps in testdata/kcl-tables hold it: by attribute, then by type letter.
type item map[string]map[string]jsonRaw

type jsonRaw = json.RawMessage

// owner is who may process: while a hand-over is asked for the row has the next owner in leaseOwner (docs/reference/kcl.md 3.5).
func (i item) owner() string {
	if o := i.str("checkpointOwner"); o != "" {
		return o
	}
	return i.str("leaseOwner")
}

func (i item) str(attr string) string {
	var s string
	for _, raw := range i[attr] {
		if json.Unmarshal(raw, &s) != nil {
			return ""
		}
	}
	return s
}

func (i item) set(attr string) []string {
	var s []string
	_ = json.Unmarshal(i[attr]["SS"], &s) // of another type: no members, and the type is complained of elsewhere
	slices.Sort(s)
	return s
}

// table is a lease table with its shape.
type table struct {
	AttributeDefinitions   []struct{ AttributeName, AttributeType string }
	KeySchema              []keyPart
	BillingModeSummary     struct{ BillingMode string }
	GlobalSecondaryIndexes []struct {
		IndexName  string
		KeySchema  []keyPart
		Projection struct{ ProjectionType string }
	}
	Items []item `json:"items"`
}

type keyPart struct{ AttributeName, KeyType string }

// readTable scans the whole table, consistently.
func readTable(ctx context.Context, d *dynamodb.Client, name string) (table, error) {
	var t table
	desc, err := d.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
	if err != nil {
		return t, err
	}
	// The SDK's description has the fields of the dumps under the same names.
	b, err := json.Marshal(desc.Table)
	if err != nil {
		return t, err
	}
	if err := json.Unmarshal(b, &t); err != nil {
		return t, err
	}
	in := &dynamodb.ScanInput{TableName: &name, ConsistentRead: new(true)}
	for {
		o, err := d.Scan(ctx, in)
		if err != nil {
			return t, err
		}
		for _, row := range o.Items {
			i, err := plainItem(row)
			if err != nil {
				return t, err
			}
			t.Items = append(t.Items, i)
		}
		if len(o.LastEvaluatedKey) == 0 {
			return t, nil
		}
		in.ExclusiveStartKey = o.LastEvaluatedKey
	}
}

func plainItem(row map[string]types.AttributeValue) (item, error) {
	i := item{}
	for attr, v := range row {
		letter, raw, err := plain(v)
		if err != nil {
			return nil, fmt.Errorf("row %v, attribute %s: %w", row["leaseKey"], attr, err)
		}
		i[attr] = map[string]jsonRaw{letter: raw}
	}
	return i, nil
}

func plain(v types.AttributeValue) (letter string, raw jsonRaw, err error) {
	var x any
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		letter, x = "S", v.Value
	case *types.AttributeValueMemberN:
		letter, x = "N", v.Value
	case *types.AttributeValueMemberSS:
		letter, x = "SS", v.Value
	case *types.AttributeValueMemberB:
		letter, x = "B", v.Value
	case *types.AttributeValueMemberBOOL:
		letter, x = "BOOL", v.Value
	case *types.AttributeValueMemberM:
		m := map[string]map[string]jsonRaw{}
		for k, e := range v.Value {
			l, r, err := plain(e)
			if err != nil {
				return "", nil, err
			}
			m[k] = map[string]jsonRaw{l: r}
		}
		letter, x = "M", m
	case *types.AttributeValueMemberL:
		l := []map[string]jsonRaw{}
		for _, e := range v.Value {
			t, r, err := plain(e)
			if err != nil {
				return "", nil, err
			}
			l = append(l, map[string]jsonRaw{t: r})
		}
		letter, x = "L", l
	default:
		return "", nil, fmt.Errorf("no lease table holds a %T", v)
	}
	raw, err = json.Marshal(x)
	return letter, raw, err
}

// model is what the own tables of a version of the KCL look like, learnt from dumps: for each kind of row its attributes with their types, and
// which of them every row has.
type model struct {
	version  string
	several  bool // rows of several streams
	shape    table
	types    map[string]map[string]string // kind, attribute, type letter
	required map[string][]string          // by kind
}

const leaseKind = "LEASE"

// loadModel learns from the dumps of that version of the KCL, of a single stream or of several: those have a key of their own form and two more
// attributes.
func loadModel(root, version string, several bool) (*model, error) {
	files, err := filepath.Glob(filepath.Join(root, "testdata", "kcl-tables", "kcl-"+version+".*.json"))
	if err != nil {
		return nil, err
	}
	m := &model{version: version, several: several, types: map[string]map[string]string{}, required: map[string][]string{}}
	for _, f := range files {
		if strings.Contains(f, ".multi.") != several || strings.Contains(f, "lease-") {
			continue // the side tables are other tables
		}
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		var t table
		if err := json.Unmarshal(b, &t); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		m.shape = t
		for _, i := range t.Items {
			m.learn(i)
		}
	}
	if len(m.types) == 0 {
		return nil, fmt.Errorf("there are no dumps of KCL %s in %s", version, filepath.Join(root, "testdata", "kcl-tables"))
	}
	// Attributes that these dumps happen not to hold, from docs/reference/kcl.md 1.2. The throughput comes with the first renewal that has data.
	kind := leaseKind
	if m.types[kind] == nil {
		kind = "" // before 3.5 a row does not say what it is
	}
	maps.Copy(m.types[kind], map[string]string{"pendingCheckpoint": "S", "pendingCheckpointSubSequenceNumber": "N", "pendingCheckpointState": "B", "childShardIds": "SS", "parentShardId": "SS"})
	if !strings.HasPrefix(version, "2.") {
		m.types[kind]["checkpointOwner"] = "S"
	}
	m.required[kind] = slices.DeleteFunc(m.required[kind], func(a string) bool { return a == "throughputKBps" || a == "leaseOwner" })
	return m, nil
}

func (m *model) learn(i item) {
	kind := i.str("entityType")
	known, seen := m.types[kind]
	if !seen {
		known = map[string]string{}
		m.types[kind] = known
		m.required[kind] = slices.Sorted(maps.Keys(i))
	}
	for attr, v := range i {
		for letter := range v {
			known[attr] = letter
		}
	}
	m.required[kind] = slices.DeleteFunc(m.required[kind], func(a string) bool { _, ok := i[a]; return !ok })
}

// ownPrefix marks the attributes that we add to KCL's rows; Java keeps what it does not know.
const ownPrefix = "sw_"

// checkRow compares a row with the KCL's, attribute by attribute: whether every worker of the fleet can read it.
func (m *model) checkRow(i item) []string {
	var bad []string
	add := func(format string, a ...any) { bad = append(bad, fmt.Sprintf(format, a...)) }
	key, kind := i.str("leaseKey"), i.str("entityType")
	known, ok := m.types[kind]
	if !ok {
		return []string{fmt.Sprintf("row %q has entityType %q, which KCL %s doesn't write", key, kind, m.version)}
	}
	for attr, v := range i {
		for letter := range v {
			switch want := known[attr]; {
			case want == "" && !strings.HasPrefix(attr, ownPrefix):
				add("row %q: attribute %s is neither KCL's nor prefixed %q", key, attr, ownPrefix)
			case want != "" && want != letter:
				add("row %q: %s is of type %s, KCL's is %s", key, attr, letter, want)
			}
		}
	}
	for _, attr := range m.required[kind] {
		if _, ok := i[attr]; !ok {
			add("row %q (%s) lacks %s, which KCL always writes", key, kind, attr)
		}
	}
	return bad
}

func isLease(kind string) bool { return kind == "" || kind == leaseKind }

// check compares a table with KCL's and with the shards of the stream, attribute by attribute. settled says that everything was read and stored,
// released names the workers that have stopped in order and must have released their leases.
func (m *model) check(t table, shards []shard, settled bool, released func(worker string) bool) []string {
	var bad []string
	add := func(format string, a ...any) { bad = append(bad, fmt.Sprintf(format, a...)) }
	if !slices.Equal(t.KeySchema, m.shape.KeySchema) {
		add("key is %v, KCL's is %v", t.KeySchema, m.shape.KeySchema)
	}
	if t.BillingModeSummary.BillingMode != m.shape.BillingModeSummary.BillingMode {
		add("billing is %q, KCL's is %q", t.BillingModeSummary.BillingMode, m.shape.BillingModeSummary.BillingMode)
	}
	rows := map[string]item{}
	for _, i := range t.Items {
		key, kind := i.str("leaseKey"), i.str("entityType")
		bad = append(bad, m.checkRow(i)...)
		if m.several && isLease(kind) {
			if shard := i.str("shardId"); key != i.str("streamName")+":"+shard {
				add("row %q is of streamName %q and shardId %q", key, i.str("streamName"), shard)
			} else {
				key = shard
			}
		}
		if isLease(kind) {
			rows[key] = i
		}
	}
	children := map[string][]string{}
	for _, s := range shards {
		for _, p := range s.parents {
			children[p] = append(children[p], s.id)
		}
	}
	for _, s := range shards {
		i, ok := rows[s.id]
		delete(rows, s.id)
		if !ok {
			if !s.closed { // a finished shard's lease may have been cleaned up
				add("shard %s is open and has no lease", s.id)
			}
			continue
		}
		m.checkLease(i, s, children[s.id], settled, released, add)
	}
	for key := range rows {
		add("lease %q is of no shard of the stream", key)
	}
	slices.Sort(bad)
	return bad
}

func (m *model) checkLease(i item, s shard, children []string, settled bool, released func(string) bool, add func(string, ...any)) {
	if i.str("startingHashKey") != s.start || i.str("endingHashKey") != s.end {
		add("lease %s has hash range %s..%s, the shard %s..%s", s.id, i.str("startingHashKey"), i.str("endingHashKey"), s.start, s.end)
	}
	slices.Sort(children)
	parents := slices.Sorted(slices.Values(s.parents))
	if got := i.set("parentShardId"); !slices.Equal(got, parents) {
		add("lease %s has parentShardId %v, the shard has parents %v", s.id, got, parents)
	}
	cp := i.str("checkpoint")
	switch {
	case !isToken(cp) && !slices.Contains([]string{"TRIM_HORIZON", "LATEST", "AT_TIMESTAMP", "SHARD_END"}, cp):
		add("lease %s has checkpoint %q: neither a sequence number nor one of KCL's words", s.id, cp)
	case cp == "SHARD_END" && !s.closed:
		add("lease %s is at SHARD_END, the shard is open", s.id)
	case cp == "SHARD_END" && !slices.Equal(i.set("childShardIds"), children):
		add("lease %s is at SHARD_END with childShardIds %v, the shard has children %v", s.id, i.set("childShardIds"), children)
	case settled && s.closed && cp != "SHARD_END":
		add("lease %s is at %s, but the shard is closed and was read to its end", s.id, cp)
	}
	if n := i.str("leaseCounter"); !isToken(n) {
		add("lease %s has leaseCounter %q", s.id, n)
	}
	// A finished lease is no load: whoever ended the shard keeps it until it is deleted, in the KCL too (docs/reference/kcl.md V11).
	if owner := i.str("leaseOwner"); owner != "" && released(owner) && cp != "SHARD_END" {
		add("lease %s is still owned by %s, which has stopped", s.id, owner)
	}
}

// checkpoints gives each lease's checkpoint, of those that worker owns; all if worker is "".
func (t table) checkpoints(worker string) map[string]string {
	m := map[string]string{}
	for _, i := range t.Items {
		if isLease(i.str("entityType")) && (worker == "" || i.owner() == worker) {
			m[i.str("leaseKey")] = i.str("checkpoint")
		}
	}
	return m
}
