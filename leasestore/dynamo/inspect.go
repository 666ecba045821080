package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/core"
)

// Inspection is what a lease table shows of those who share it. [Store.Inspect] makes it.
type Inspection struct {
	Table   string
	Exists  bool
	Billing string     // as the service names it; "" where the table may not be described
	Layout  LayoutKind // as found: Native where nothing of the KCL is in it
	Regime  string     // as core.Foreigners.Regime; "" where it can't be told
	Why     string     // what it was told by, in words; or why it can't be

	Leader         core.Lock // the zero value: nobody leads
	LeaderTable    string    // which table the lock is in
	ClientVersion  string    // cv of the row Migration3.0; "" where there is none
	TableMigration string    // tm of the row TableMigration3.5; "" where there is none
	Changes        []Change  // of these two rows, newest first

	Workers []WorkerMetrics // rows of workers, by id
	Index   string          // state of the index over owners, "" where there is none
	// SideTables are the tables of KCL 3.0 to 3.4 that there are, by name, with their state; "denied" where that may not be asked.
	SideTables map[string]string

	Leases  int      // rows that are leases,
	Untyped int      // those of them without entityType: made by a KCL before 3.5
	Bad     int      // and those that can't be read
	Others  int      // rows of kinds that neither we nor the KCL know
	Streams []string // stream identifiers in a table of several streams
}

// Change is a change of a row of the KCL's coordinator, from its history.
type Change struct {
	Row   string // Migration3.0 or TableMigration3.5
	Value string
	By    string
	At    time.Time
}

// WorkerMetrics is the row of a worker.
type WorkerMetrics struct {
	ID      core.WorkerID
	Table   string
	Updated time.Time // by the worker's clock
	// Metrics are the last averages and Limits the greatest value by the KCL's name of the metric: "C" is CPU in percent. Oldest first.
	Metrics, Limits map[string][]float64
	Support         int64     // 1: knows the layout of one table
	SupportAt       time.Time // when it last said so
	Ours            bool
	Unfit           string // why a leader gives it nothing; "" where it does
}

// Inspect reads all there is of the application, and writes nothing. The table need not be prepared, nor exist. What may not be read for lack of
// permission beside the lease table is left out, and Why says so.
func (s *Store) Inspect(ctx context.Context) (Inspection, error) {
	v, err := s.view(ctx)
	if err != nil {
		return Inspection{}, err
	}
	return v.Inspection, nil
}

// view is an inspection with the rows it was made of.
type view struct {
	Inspection
	found    findings
	standing standing
	table    *types.TableDescription // nil where it may not be described
	leases   []Attributes
	metrics  []Attributes // rows of workers in the table of their own
}

func (s *Store) view(ctx context.Context) (*view, error) {
	v := &view{Inspection: Inspection{Table: s.table, SideTables: map[string]string{}}, found: findings{marks: newMarks(), side: coordinatorRows{}}}
	t, err := s.describeTable(ctx, s.table)
	switch {
	case errors.Is(err, core.ErrNotFound):
		v.Regime, v.Why = string(native), "there is no table"
		return v, nil
	case err != nil && !errors.Is(err, core.ErrDenied):
		return nil, err
	case err == nil:
		if err := s.verify(t); err != nil {
			return nil, err
		}
		v.table, v.Index, v.Billing = t, indexStatus(t), string(types.BillingModeProvisioned)
		if b := t.BillingModeSummary; b != nil && b.BillingMode != "" {
			v.Billing = string(b.BillingMode)
		}
	}
	rows, err := s.scanTable(ctx, s.table)
	if err != nil {
		return nil, err
	}
	v.Exists = true
	v.count(s.table, rows)
	if err := s.viewAside(ctx, v); err != nil {
		return nil, err
	}
	v.judge(s)
	slices.SortFunc(v.Workers, func(a, b WorkerMetrics) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Table, b.Table))
	})
	return v, nil
}

// count sorts the rows of the lease table.
func (v *view) count(table string, rows []Attributes) {
	streams := map[string]bool{}
	for _, row := range rows {
		switch kindOf(row) {
		case isOther:
			v.Others++
		case isCoordinator:
			v.found.typed = true
			v.found.rows[plain(row[attrKey])] = row
		case isWorker:
			w := workerMetrics(table, row, attrKey)
			v.Workers = append(v.Workers, w)
			v.found.typed, v.found.java = v.found.typed || !w.Ours, v.found.java || !w.Ours
		case isLease:
			v.Leases++
			if row[attrEntity] == nil {
				v.Untyped++
			}
			v.found.lease(row)
			v.leases = append(v.leases, row)
			l, err := decodeLease(row, false)
			if err != nil {
				v.Bad++
			}
			if ofSeveral(row) && l.Key.Stream != "" {
				streams[string(l.Key.Stream)] = true
			}
		}
	}
	v.Streams = slices.Sorted(maps.Keys(streams))
}

// viewAside looks at the tables of KCL 3.0 to 3.4.
func (s *Store) viewAside(ctx context.Context, v *view) error {
	for _, name := range []string{s.coordinatorName(), s.metricsName()} {
		t, err := s.describeTable(ctx, name)
		state := present
		switch {
		case errors.Is(err, core.ErrNotFound):
			state = absent
		case errors.Is(err, core.ErrDenied):
			state = unknown
			v.SideTables[name] = "denied"
		case err != nil:
			return err
		default:
			v.SideTables[name] = string(t.TableStatus)
		}
		coordinator := name == s.coordinatorName()
		if coordinator {
			v.found.coordinator = state
		}
		if state != present || t.TableStatus == types.TableStatusCreating || t.TableStatus == types.TableStatusDeleting {
			continue
		}
		rows, err := s.scanTable(ctx, name)
		if errors.Is(err, core.ErrDenied) {
			v.SideTables[name] += ", denied"
			v.Why = fmt.Sprintf("table %s may not be read; ", name)
			continue
		}
		if err != nil {
			return err
		}
		for _, row := range rows {
			if coordinator {
				v.found.side[plain(row[attrSideKey])] = row
			} else if w := workerMetrics(name, row, attrMetricKey); w.ID != core.Nobody {
				v.Workers, v.metrics = append(v.Workers, w), append(v.metrics, row)
			}
		}
	}
	return nil
}

// judge tells the rules as an Auto store would.
func (v *view) judge(s *Store) {
	st, err := v.found.judge(Auto, s.coordinatorName(), "")
	if err != nil {
		v.Why += err.Error()
	} else {
		v.standing, v.Layout, v.Regime = st, st.found, string(st.regime)
		v.Why += st.why
	}
	v.LeaderTable = s.table
	lock := v.found.rows[keyLeader]
	if st.lockAside() {
		v.LeaderTable, lock = s.coordinatorName(), v.found.side[keyLeader]
	}
	if l, err := decodeLock(lock); err == nil && lock != nil {
		v.Leader = l
	}
	if v.Leader == (core.Lock{}) {
		v.LeaderTable = ""
	}
	version, _ := v.found.version(st.phase)
	v.ClientVersion, v.TableMigration = string(version), v.found.side.text(keyTables, attrTables)
	if v.TableMigration == "" {
		v.TableMigration = v.found.rows.text(keyTables, attrTables)
	}
	for _, of := range []struct{ row, attr string }{{keyVersion, attrVersion}, {keyTables, attrTables}} {
		for _, rows := range []coordinatorRows{v.found.rows, v.found.side} {
			v.Changes = append(v.Changes, changes(of.row, of.attr, rows[of.row])...)
		}
	}
	slices.SortStableFunc(v.Changes, func(a, b Change) int { return b.At.Compare(a.At) })
	v.Changes = slices.Compact(v.Changes)
}

// changes are the state of a row and those before it.
func changes(row, attr string, columns Attributes) (out []Change) {
	one := func(c Attributes) {
		if value := plain(c[attr]); value != "" {
			out = append(out, Change{Row: row, Value: value, By: plain(c[attrModifiedBy]), At: milliseconds(c[attrModifiedAt])})
		}
	}
	one(columns)
	if h, ok := columns[attrHistory].(*types.AttributeValueMemberL); ok {
		for _, e := range h.Value {
			if m, ok := e.(*types.AttributeValueMemberM); ok {
				one(m.Value)
			}
		}
	}
	return out
}

func milliseconds(v types.AttributeValue) time.Time {
	n, err := strconv.ParseInt(numeral(v), 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

func seconds(v types.AttributeValue) time.Time {
	n, err := strconv.ParseInt(numeral(v), 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(n, 0).UTC()
}

func workerMetrics(table string, row Attributes, keyAttr string) WorkerMetrics {
	w := decodeWorker(row, keyAttr)
	m := WorkerMetrics{
		ID: w.info.ID, Table: table, Updated: seconds(row[attrUpdated]), Metrics: figures(row[attrStats]), Limits: figures(row[attrRanges]),
		SupportAt: seconds(row[attrSupportAt]), Ours: w.ours, Unfit: w.unfit,
	}
	m.Support, _ = strconv.ParseInt(numeral(row[attrSupport]), 10, 64)
	return m
}
