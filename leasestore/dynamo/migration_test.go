package dynamo_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

const (
	versionUpgrade  = "CLIENT_VERSION_UPGRADE_FROM_2X"
	version2        = "CLIENT_VERSION_2X"
	version3        = "CLIENT_VERSION_3X"
	versionRollback = "CLIENT_VERSION_3X_WITH_ROLLBACK"
)

// fleet is a table under migration, in a bubble.
type fleet struct {
	*service
	t *testing.T
	s *dynamo.Store
}

func inBubble(t *testing.T, f func(t *testing.T, f *fleet)) {
	synctest.Test(t, func(t *testing.T) {
		srv := serve(t, emulator.Config{IndexDelay: 20 * time.Second})
		srv.external(true) // no network in a bubble
		makeTable(t, srv, app, "leaseKey")
		f(t, &fleet{srv, t, srv.store()})
	})
}

func (f *fleet) plan(to dynamo.LayoutKind) dynamo.Migration {
	f.t.Helper()
	rows := f.all()
	m, err := f.s.PlanMigration(f.t.Context(), to)
	must(f.t, err)
	if now := f.all(); now != rows {
		f.t.Errorf("planning wrote:\n%s\nbefore\n%s", now, rows)
	}
	return m
}

// all is every row of every table, without those that a running worker of the test writes.
func (f *fleet) all() string {
	f.t.Helper()
	var out []string
	for _, table := range []string{app, coordinatorTable, metricsTable} {
		rows, err := f.s.ScanTable(f.t.Context(), table)
		if err != nil {
			continue
		}
		for _, row := range rows {
			if s := show(row); !strings.Contains(s, "busy") {
				out = append(out, table+": "+s)
			}
		}
	}
	return strings.Join(out, "\n")
}

// refused plans what can't be done, and says why.
func (f *fleet) refused(to dynamo.LayoutKind, says ...string) {
	f.t.Helper()
	m := f.plan(to)
	text := strings.Join(m.Refused, "; ")
	if len(m.Refused) == 0 || len(m.Steps) > 0 {
		f.t.Fatalf("to %s: not refused, steps %v", to, texts(m))
	}
	for _, s := range says {
		if !strings.Contains(text, s) {
			f.t.Errorf("refused because %q, without %q", text, s)
		}
	}
	expect(f.t, "migrate all the same", f.s.Migrate(f.t.Context(), m, nil), core.ErrConflict, app)
}

// run plans and carries out, twice: the second time nothing is left to do.
func (f *fleet) run(to dynamo.LayoutKind, steps ...string) dynamo.Migration {
	f.t.Helper()
	m := f.plan(to)
	if len(m.Refused) > 0 || len(m.Steps) != len(steps) {
		f.t.Fatalf("to %s: refused %q, steps\n%s\nwant %q", to, m.Refused, strings.Join(texts(m), "\n"), steps)
	}
	for i, s := range steps {
		if !strings.Contains(m.Steps[i].Text, s) {
			f.t.Errorf("step %d is %q, want %q in it", i, m.Steps[i].Text, s)
		}
	}
	var did []string
	must(f.t, f.s.Migrate(f.t.Context(), m, func(s dynamo.MigrationStep) { did = append(did, s.Text) }))
	if len(did) != len(m.Steps) {
		f.t.Errorf("it told of %q", did)
	}
	after := f.all()
	if err := f.s.Migrate(f.t.Context(), m, nil); err != nil && !strings.Contains(err.Error(), "move rows") {
		f.t.Errorf("the same plan once more: %v", err)
	}
	if now := f.all(); now != after {
		f.t.Errorf("the same plan once more changed\n%s\nto\n%s", after, now)
	}
	return m
}

func texts(m dynamo.Migration) (out []string) {
	for _, s := range m.Steps {
		out = append(out, s.Text)
	}
	return out
}

func (f *fleet) regime(want string) {
	f.t.Helper()
	s := f.ready(f.t, dynamo.Layout(dynamo.Auto))
	if got := s.SharedWith().Regime; got != want {
		f.t.Errorf("regime %s, want %s", got, want)
	}
}

// busy renews a lease and a worker's row until stopped, as somebody who lives does.
func (f *fleet) busy() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	ctx := f.t.Context()
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			row := fmt.Sprintf(`{"leaseKey":{"S":"busy"},"leaseOwner":{"S":"busy"},"entityType":{"S":"LEASE"},"leaseCounter":{"N":"%d"},"checkpoint":{"S":"495"}}`, i)
			it, err := parseItem([]byte(row))
			if err == nil {
				err = f.putItem(ctx, app, it)
			}
			if err != nil {
				f.t.Error(err)
			}
			select {
			case <-time.After(3 * time.Second):
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

// From three tables of KCL 3.x back to takers, as Java's own tool does it, with the history that it keeps.
func TestMigrateBackToTakers(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		f.put(t, untypedLease)
		sideTables(t, f.service, versionRow("key", versionRollback))
		must(t, f.store(dynamo.Layout(dynamo.KCL3Tables)).Prepare(t.Context())) // the index
		time.Sleep(time.Minute)
		f.regime("kcl3")
		m := f.run(dynamo.KCL2, "Migration3.0 of table "+coordinatorTable+" from "+versionRollback+" to "+version2, "delete index")
		if m.From != dynamo.KCL3Tables || m.To != dynamo.KCL2 || m.Next != "" {
			t.Errorf("from %s to %s, next %q", m.From, m.To, m.Next)
		}
		f.regime("kcl2")
		row := f.rowIn(t, coordinatorTable, "key", "Migration3.0")
		if !strings.Contains(row, "cv=S "+version2) || !strings.Contains(row, "h=L[M{cv=S "+versionRollback+" mb=S java mts=N 1796039494833}]") || !strings.Contains(row, "mb=S shardwarden") {
			t.Errorf("row %s", row)
		}
		time.Sleep(time.Minute)
		if n := len(f.describe(t).GlobalSecondaryIndexes); n != 0 {
			t.Errorf("%d indexes", n)
		}
		if m := f.plan(dynamo.KCL2); len(m.Steps)+len(m.Refused) > 0 {
			t.Errorf("nothing is left to do, and there is %v %v", texts(m), m.Refused)
		}
	})
}

// A single table is given back in two stages: the rules while workers run, and the rows that a KCL 2.x fails on once none does.
func TestMigrateSingleTableToTakers(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		f.put(t, typedLease("1"), versionRow("leaseKey", versionRollback), javaWorker, `{"leaseKey":{"S":"Leader"},`+lockRow+`}`)
		if m := f.run(dynamo.KCL2, "to "+version2); !strings.Contains(m.Next, "older than 3.5") {
			t.Errorf("next: %q", m.Next)
		}
		f.regime("kcl2")
		stop := f.busy()
		if m := f.plan(dynamo.KCL2); len(m.Steps)+len(m.Refused) > 0 || !strings.Contains(m.Next, "busy") {
			t.Errorf("in use: steps %v, refused %v, next %q", texts(m), m.Refused, m.Next)
		}
		stop()
		f.run(dynamo.KCL2, "entityType off 2 leases", "row of worker java", "delete row Leader", "delete row Migration3.0")
		f.regime("kcl2") // told by the leases: nothing else says so
		if strings.Contains(f.all(), "entityType") {
			t.Errorf("a lease has an entityType still:\n%s", f.all())
		}
		if n := f.size(); n != 2 {
			t.Errorf("%d rows, want the leases:\n%s", n, f.all())
		}
		if m := f.plan(dynamo.KCL2); len(m.Steps)+len(m.Refused) > 0 {
			t.Errorf("nothing is left to do, and there is %v %v", texts(m), m.Refused)
		}
	})
}

// What is final for running workers is so until all have stopped; so is what workers of ours have among the leases.
func TestMigrateToTakersWhileInUse(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		f.put(t, typedLease("1"), versionRow("leaseKey", version3))
		stop := f.busy()
		f.refused(dynamo.KCL2, version3, "stop every worker", "busy")
		stop()
		f.run(dynamo.KCL2, "entityType off 2 leases", "delete row Migration3.0")
	})
	inBubble(t, func(t *testing.T, f *fleet) {
		f.put(t, untypedLease)
		sideTables(t, f.service, versionRow("key", version3))
		f.run(dynamo.KCL2, "from "+version3+" to "+version2)
		f.regime("kcl2")
	})
	inBubble(t, func(t *testing.T, f *fleet) {
		must(t, f.ready(t).Announce(t.Context(), core.WorkerInfo{ID: "go"}))
		stop := f.busy()
		f.refused(dynamo.KCL2, "older than 3.5", "layout kcl2", "busy")
		stop()
		f.run(dynamo.KCL2, "entityType off 1 leases", "row of worker go")
	})
}

// From takers to a leader: first everybody says that he lives, then one leads, and not before.
func TestMigrateToALeaderInThreeTables(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		f.put(t, untypedLease) // of worker "java"
		m := f.run(dynamo.KCL3Tables, "create tables "+coordinatorTable+" and "+metricsTable, "create index", "Migration3.0 of table "+coordinatorTable+" from none to "+versionUpgrade)
		if !strings.Contains(m.Next, "plan again") {
			t.Errorf("next: %q", m.Next)
		}
		if x := f.describe(t).GlobalSecondaryIndexes; len(x) != 1 || x[0].IndexStatus != "ACTIVE" {
			t.Errorf("indexes %+v: it was not waited for", x)
		}
		f.regime("kcl2")
		f.refused(dynamo.KCL3Tables, "java", "KCL 2.x", "layout auto")
		f.putIn(t, metricsTable, metricRow("wid", "java", 200, "", ""))
		f.refused(dynamo.KCL3Tables, "java")
		f.putIn(t, metricsTable, metricRow("wid", "java", 10, "", ""))
		f.run(dynamo.KCL3Tables, "from "+versionUpgrade+" to "+versionRollback)
		f.regime("kcl3")
		if m := f.plan(dynamo.KCL3Tables); len(m.Steps)+len(m.Refused) > 0 {
			t.Errorf("nothing is left to do, and there is %v %v", texts(m), m.Refused)
		}
		if row := f.rowIn(t, coordinatorTable, "key", "Migration3.0"); strings.Contains(row, "entityType") || !strings.Contains(row, "h=L[M{cv=S "+versionUpgrade) {
			t.Errorf("row %s", row)
		}
		// And forward again after a way back.
		f.run(dynamo.KCL2, "to "+version2, "delete index")
		time.Sleep(time.Minute)
		f.run(dynamo.KCL3Tables, "create index", "from "+version2+" to "+versionUpgrade)
	})
}

func TestMigrateToALeaderInOneTable(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		f.put(t, untypedLease)
		f.refused(dynamo.KCL3Single, "java", "older than 3.5", "kcl3-tables")
	})
	inBubble(t, func(t *testing.T, f *fleet) {
		f.put(t, typedLease("1", `,"leaseOwner":{"S":"go"},"sw_run":{"S":"go:1"},"sw_ready":{"BOOL":true}`))
		f.run(dynamo.KCL3Single, "create index", "from none to "+versionUpgrade)
		if row := f.row(t, "Migration3.0"); !strings.Contains(row, "entityType=S CLIENT_VERSION_MIGRATION") {
			t.Errorf("row %s", row)
		}
		f.refused(dynamo.KCL3Single, "worker go")
		s := f.ready(t, dynamo.Layout(dynamo.Auto))
		must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "go"}))
		f.run(dynamo.KCL3Single, "to "+versionRollback)
		f.refused(dynamo.KCL3Tables, "no way back")
	})
}

// The way of three tables into one, each stage when its time has come.
func TestMigrateIntoOneTable(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		live := func(table, keyAttr string, support bool) {
			row := metricRow(keyAttr, "java", 5, "", "")
			if support {
				row = strings.Replace(row, "{", fmt.Sprintf(`{"entityType":{"S":"WORKER_METRIC_STATS"},"sup":{"N":"1"},"slu":{"N":"%d"},`, time.Now().Unix()), 1)
			}
			f.putIn(t, table, row)
		}
		f.put(t, untypedLease)
		sideTables(t, f.service, versionRow("key", version2), `{"key":{"S":"Leader"},`+lockRow+`}`)
		f.refused(dynamo.KCL3Single, "kcl3-tables first")
		f.putIn(t, coordinatorTable, versionRow("key", version3))
		live(metricsTable, "wid", false)
		f.refused(dynamo.KCL3Single, "worker java", "3.5 or later")
		live(metricsTable, "wid", true)
		f.run(dynamo.KCL3Single, "from none to TABLE_MIGRATION_STATUS_INIT")
		f.refused(dynamo.KCL3Single, "not before", "an hour")
		time.Sleep(time.Hour)
		live(metricsTable, "wid", true)
		f.run(dynamo.KCL3Single, "from TABLE_MIGRATION_STATUS_INIT to TABLE_MIGRATION_STATUS_DEPLOYED")
		f.refused(dynamo.KCL3Single, "java", metricsTable, "migrateAllEntitiesToLeaseTable")
		time.Sleep(3 * time.Minute)
		live(app, "leaseKey", true)
		before := f.rowIn(t, coordinatorTable, "key", "Migration3.0")
		f.run(dynamo.KCL3Single, `move rows ["Migration3.0"]`, "to TABLE_MIGRATION_STATUS_PENDING")
		if f.rowIn(t, coordinatorTable, "key", "Migration3.0") != "" || f.rowIn(t, coordinatorTable, "key", "Leader") == "" {
			t.Errorf("rows are now\n%s", f.all())
		}
		want := "entityType=S CLIENT_VERSION_MIGRATION " + before
		if got := f.row(t, "Migration3.0"); fmt.Sprint(sortedWords(strings.Replace(got, "leaseKey=", "key=", 1))) != fmt.Sprint(sortedWords(want)) {
			t.Errorf("row\n%s, want\n%s", got, want)
		}
		f.regime("kcl3")
		f.refused(dynamo.KCL3Single, "not before", "a day")
		f.putIn(t, coordinatorTable, `{"key":{"S":"a-stream"},"entityType":{"S":"STREAM"}}`)
		f.run(dynamo.KCL3Single, "came back")
		live(app, "leaseKey", true)
		f.run(dynamo.KCL3Single, `move rows ["a-stream"]`, "to TABLE_MIGRATION_STATUS_PENDING")
		time.Sleep(24 * time.Hour)
		live(app, "leaseKey", true)
		f.run(dynamo.KCL3Single, "TABLE_MIGRATION_STATUS_COMPLETE")
		for _, row := range []string{f.rowIn(t, coordinatorTable, "key", "TableMigration3.5"), f.row(t, "TableMigration3.5")} {
			if !strings.Contains(row, "tm=S TABLE_MIGRATION_STATUS_COMPLETE") || strings.Count(row, "M{mb=") != 5 {
				t.Errorf("row %s", row)
			}
		}
		s := f.ready(t, dynamo.Layout(dynamo.Auto))
		if l, err := s.Leader(t.Context()); err != nil || l != (core.Lock{}) {
			t.Errorf("the lock after the move is %+v, %v", l, err)
		}
		if m := f.plan(dynamo.KCL3Single); len(m.Steps)+len(m.Refused) > 0 {
			t.Errorf("nothing is left to do, and there is %v %v", texts(m), m.Refused)
		}
		f.refused(dynamo.KCL3Tables, "no way back")
	})
}

func sortedWords(row string) []string {
	words := splitAttrs(row)
	for i := range words {
		for j := range i {
			if words[i] < words[j] {
				words[i], words[j] = words[j], words[i]
			}
		}
	}
	return words
}

// Somebody who changes the row between plan and step is not written over; an answer that is lost is found out.
func TestMigrationStepsAreConditional(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		f.put(t, untypedLease)
		sideTables(t, f.service, versionRow("key", versionUpgrade))
		m := f.plan(dynamo.KCL2)
		f.putIn(t, coordinatorTable, versionRow("key", versionRollback))
		expect(t, "after a change", f.s.Migrate(t.Context(), m, nil), core.ErrConflict, "Migration3.0", versionRollback, "plan again")
		m = f.plan(dynamo.KCL2)
		f.SetFault(emulator.Fault{Kind: emulator.FaultDropAfter, Op: "UpdateItem", Times: 1})
		must(t, f.s.Migrate(t.Context(), m, nil))
		f.regime("kcl2")
		m = f.plan(dynamo.KCL3Tables)
		f.SetFault(emulator.Fault{Kind: emulator.FaultDenied, Op: "UpdateItem", Table: coordinatorTable})
		expect(t, "denied", f.s.Migrate(t.Context(), m, nil), core.ErrDenied, "dynamodb:UpdateItem", coordinatorTable)
	})
}

// The history keeps ten states.
func TestHistoryIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		f.put(t, untypedLease)
		sideTables(t, f.service, versionRow("key", versionUpgrade))
		for range 7 {
			must(t, f.s.Migrate(t.Context(), f.plan(dynamo.KCL2), nil))
			time.Sleep(time.Minute)
			must(t, f.s.Migrate(t.Context(), f.plan(dynamo.KCL3Tables), nil))
		}
		in, err := f.s.Inspect(t.Context())
		must(t, err)
		if len(in.Changes) != 11 || in.Changes[0].Value != versionUpgrade || in.Changes[1].Value != version2 || !in.Changes[0].At.After(in.Changes[1].At) {
			t.Errorf("%d changes: %+v", len(in.Changes), in.Changes)
		}
	})
}

func TestMigrationThatCantBe(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fleet) {
		_, err := f.s.PlanMigration(t.Context(), dynamo.Native)
		expect(t, "to native", err, core.ErrInvalid, "native", "kcl3-single")
		f.put(t, versionRow("leaseKey", "CLIENT_VERSION_9X"))
		f.refused(dynamo.KCL2, "CLIENT_VERSION_9X")
	})
	inBubble(t, func(t *testing.T, f *fleet) {
		f.put(t, untypedLease)
		sideTables(t, f.service)
		f.SetFault(emulator.Fault{Kind: emulator.FaultDenied, Op: "DescribeTable", Table: coordinatorTable})
		f.refused(dynamo.KCL3Tables, coordinatorTable)
	})
	synctest.Test(t, func(t *testing.T) {
		srv := serve(t, emulator.Config{})
		srv.external(true) // no network in a bubble
		m, err := srv.store().PlanMigration(t.Context(), dynamo.KCL2)
		must(t, err)
		if len(m.Refused) != 1 || !strings.Contains(m.Refused[0], "does not exist") {
			t.Errorf("of no table: %+v", m)
		}
	})
}

// The steps that take more than a write of one row, outside of a bubble, so that they can be tried on other emulators too.
func TestMigrationStepsAnywhere(t *testing.T) {
	srv := serve(t, emulator.Config{})
	makeTable(t, srv, app, "leaseKey")
	srv.put(t, typedLease("1"))
	s := srv.store()
	migrate := func(to dynamo.LayoutKind, steps int) {
		t.Helper()
		m, err := s.PlanMigration(t.Context(), to)
		must(t, err)
		if len(m.Refused) > 0 || len(m.Steps) != steps {
			t.Fatalf("to %s: refused %q, steps %q, want %d", to, m.Refused, texts(m), steps)
		}
		must(t, s.Migrate(t.Context(), m, nil))
	}
	migrate(dynamo.KCL3Tables, 3) // tables, index, version
	migrate(dynamo.KCL3Tables, 1) // nobody owns a lease: one leads
	srv.putIn(t, coordinatorTable, tablesRow("DEPLOYED"), `{"key":{"S":"a-stream"},"entityType":{"S":"STREAM"}}`, `{"key":{"S":"Leader"},`+lockRow+`}`)
	migrate(dynamo.KCL3Single, 2)                                                                  // rows, state
	srv.putIn(t, coordinatorTable, strings.Replace(tablesRow("PENDING"), "1796039494833", "1", 1)) // long ago
	migrate(dynamo.KCL3Single, 1)                                                                  // the state in both tables
	in, err := s.Inspect(t.Context())
	must(t, err)
	if in.Layout != dynamo.KCL3Single || in.Regime != "kcl3" || in.Index != "ACTIVE" || in.TableMigration != "TABLE_MIGRATION_STATUS_COMPLETE" || in.ClientVersion != versionRollback {
		t.Errorf("%+v", in)
	}
	if srv.row(t, "a-stream") == "" || srv.rowIn(t, coordinatorTable, "key", "a-stream") != "" || srv.row(t, "Leader") != "" {
		t.Error("the rows are not where they belong")
	}
	migrate(dynamo.KCL2, 2) // version, index
}
