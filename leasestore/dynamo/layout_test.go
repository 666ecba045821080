package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

const (
	coordinatorTable = app + "-CoordinatorState"
	metricsTable     = app + "-WorkerMetricStats"

	lockRow    = `"ownerName":{"S":"java"},"leaseDuration":{"S":"120000"},"recordVersionNumber":{"S":"dae3f1c1-76cc-4049-8c21-dfc3665cb369"}`
	javaWorker = `{"leaseKey":{"S":"java"},"entityType":{"S":"WORKER_METRIC_STATS"},"lut":{"N":"1796039607"},"sts":{"M":{}},"opr":{"M":{}}}`
)

// versionRow is the row Migration3.0, under the key attribute of its table.
func versionRow(key, cv string) string {
	return fmt.Sprintf(`{%q:{"S":"Migration3.0"},"cv":{"S":%q},"mb":{"S":"java"},"mts":{"N":"1796039494833"}}`, key, cv)
}

func tablesRow(tm string) string {
	return fmt.Sprintf(`{"key":{"S":"TableMigration3.5"},"tm":{"S":"TABLE_MIGRATION_STATUS_%s"},"mb":{"S":"java"},"mts":{"N":"1796039494833"}}`, tm)
}

// putIn writes rows into any table.
func (s *service) putIn(t testing.TB, table string, rows ...string) {
	t.Helper()
	for _, r := range rows {
		must(t, s.putItem(t.Context(), table, item(t, r)))
	}
}

func (s *service) putItem(ctx context.Context, table string, row dynamo.Attributes) error {
	_, err := s.sdk().PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(table), Item: row})
	return err
}

// rowIn is a row of any table, as row.
func (s *service) rowIn(t testing.TB, table, keyAttr, key string) string {
	t.Helper()
	out, err := s.sdk().GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String(table), Key: item(t, fmt.Sprintf(`{%q:{"S":%q}}`, keyAttr, key)), ConsistentRead: aws.Bool(true)})
	must(t, err)
	return show(out.Item)
}

// sideTables makes the tables of KCL 3.0 to 3.4.
func sideTables(t testing.TB, srv *service, coordinatorRows ...string) {
	t.Helper()
	makeTable(t, srv, coordinatorTable, "key")
	makeTable(t, srv, metricsTable, "wid")
	srv.putIn(t, coordinatorTable, coordinatorRows...)
}

func typedLease(shard string, more ...string) string {
	return fmt.Sprintf(`{"leaseKey":{"S":%q},"entityType":{"S":"LEASE"},"leaseCounter":{"N":"3"},"checkpoint":{"S":"495"}%s}`, shard, strings.Join(more, ""))
}

// What is in the table says by which rules it is shared, and where a worker's row goes.
func TestRegimes(t *testing.T) {
	const upgrade, two, rollback, three = "CLIENT_VERSION_UPGRADE_FROM_2X", "CLIENT_VERSION_2X", "CLIENT_VERSION_3X_WITH_ROLLBACK", "CLIENT_VERSION_3X"
	untyped := []string{untypedLease}
	leader := `{"leaseKey":{"S":"Leader"},"entityType":{"S":"LEADER"},` + lockRow + `}`
	for _, c := range []struct {
		name   string
		layout dynamo.LayoutKind
		rows   []string
		side   []string // of the coordinator's own table; nil: there is none
		regime string
		worker string // where the row of a worker goes: lease, metrics, or nowhere
		typed  bool
	}{
		{"auto: empty", dynamo.Auto, nil, nil, "native", "lease", true},
		{"auto: ours", dynamo.Auto, []string{typedLease("1", `,"leaseOwner":{"S":"go"},"sw_run":{"S":"go:1"},"sw_ready":{"BOOL":true}`)}, nil, "native", "lease", true},
		{"auto: handed over by ours, not yet accepted", dynamo.Auto, []string{typedLease("1", `,"leaseOwner":{"S":"go"},"sw_ready":{"BOOL":true}`)}, nil, "native", "lease", true},
		{"auto: asked for by ours", dynamo.Auto, []string{typedLease("1", `,"leaseOwner":{"S":"b"},"checkpointOwner":{"S":"a"},"sw_asked":{"S":"b"},"sw_run":{"S":"a:1"},"sw_ready":{"BOOL":true}`)}, nil, "native", "lease", true},
		{"auto: 2.x", dynamo.Auto, untyped, nil, "kcl2", "", false},
		{"auto: taken from ours by a taker", dynamo.Auto, []string{typedLease("1", `,"leaseOwner":{"S":"java"},"sw_run":{"S":"go:1"},"sw_ready":{"BOOL":true}`)}, nil, "kcl2", "", false},
		{"auto: taken in the middle of a hand-over", dynamo.Auto, []string{typedLease("1", `,"leaseOwner":{"S":"java"},"checkpointOwner":{"S":"a"},"sw_asked":{"S":"b"},"sw_run":{"S":"a:1"},"sw_ready":{"BOOL":true}`)}, nil, "kcl2", "", false},
		{"auto: 3.5 that takes and says nothing", dynamo.Auto, []string{typedLease("1", `,"leaseOwner":{"S":"java"}`)}, nil, "kcl2", "", false},
		{"auto: 3.5, single table", dynamo.Auto, []string{typedLease("1"), versionRow("leaseKey", three), leader, javaWorker}, nil, "kcl3", "lease", true},
		{"auto: 3.5, no lock at the moment", dynamo.Auto, []string{typedLease("1"), versionRow("leaseKey", three)}, nil, "kcl3", "lease", true},
		{"auto: a lock and nothing else", dynamo.Auto, []string{leader}, nil, "kcl3", "lease", true},
		{"auto: 3.5 that comes from 2.x", dynamo.Auto, []string{untypedLease, versionRow("leaseKey", upgrade)}, nil, "kcl2", "lease", true},
		{"auto: 3.5 rolled back", dynamo.Auto, []string{untypedLease, versionRow("leaseKey", two), leader, javaWorker}, nil, "kcl2", "", true},
		{"auto: 3.5 with rollback", dynamo.Auto, []string{untypedLease, versionRow("leaseKey", rollback)}, nil, "kcl3", "lease", true},
		{"auto: 3.4", dynamo.Auto, untyped, []string{versionRow("key", three)}, "kcl3", "metrics", false},
		{"auto: 3.4 that comes from 2.x", dynamo.Auto, untyped, []string{versionRow("key", upgrade)}, "kcl2", "metrics", false},
		{"auto: 3.4 rolled back", dynamo.Auto, untyped, []string{versionRow("key", two)}, "kcl2", "", false},
		{"auto: 3.4 that has just made its tables", dynamo.Auto, untyped, []string{}, "kcl3", "metrics", false},
		{"auto: 3.5 in three tables", dynamo.Auto, []string{typedLease("1")}, []string{versionRow("key", three), tablesRow("INIT")}, "kcl3", "metrics", false},
		{"auto: ready to move", dynamo.Auto, untyped, []string{versionRow("key", three), tablesRow("DEPLOYED")}, "kcl3", "metrics", false},
		{"auto: moving", dynamo.Auto, []string{untypedLease, versionRow("leaseKey", three)}, []string{tablesRow("PENDING")}, "kcl3", "lease", true},
		{"auto: moving, the version not yet moved", dynamo.Auto, untyped, []string{versionRow("key", three), tablesRow("PENDING")}, "kcl3", "lease", false},
		{"auto: moved", dynamo.Auto, []string{untypedLease, versionRow("leaseKey", three)}, []string{versionRow("key", two), tablesRow("COMPLETE")}, "kcl3", "lease", true},
		{"kcl2: empty", dynamo.KCL2, nil, nil, "kcl2", "", false},
		{"kcl2: ours, typed", dynamo.KCL2, []string{typedLease("1")}, nil, "kcl2", "", false},
		{"kcl2: 2.x on its way to 3.x", dynamo.KCL2, untyped, []string{versionRow("key", upgrade)}, "kcl2", "", false},
		{"kcl3-tables: empty", dynamo.KCL3Tables, nil, nil, "kcl3", "metrics", false},
		{"kcl3-tables: 3.4", dynamo.KCL3Tables, untyped, []string{versionRow("key", three)}, "kcl3", "metrics", false},
		{"kcl3-tables: while others move", dynamo.KCL3Tables, untyped, []string{versionRow("key", three), tablesRow("PENDING")}, "kcl3", "metrics", false},
		{"kcl3-single: empty", dynamo.KCL3Single, nil, nil, "kcl3", "lease", true},
		{"kcl3-single: 3.5", dynamo.KCL3Single, []string{typedLease("1"), versionRow("leaseKey", three)}, nil, "kcl3", "lease", true},
		{"kcl3-single: the first to move", dynamo.KCL3Single, untyped, []string{versionRow("key", three), tablesRow("DEPLOYED")}, "kcl3", "lease", true},
		{"kcl3-single: rolled back to 2.x", dynamo.KCL3Single, []string{untypedLease, versionRow("leaseKey", two)}, nil, "kcl2", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			makeTable(t, srv, app, "leaseKey")
			srv.put(t, c.rows...)
			if c.side != nil {
				sideTables(t, srv, c.side...)
			}
			s := srv.ready(t, dynamo.Layout(c.layout))
			for _, when := range []string{"after Prepare", "after a look"} {
				if f := s.SharedWith(); f == nil || f.Regime != c.regime {
					t.Fatalf("%s: shared with %+v, want regime %s", when, f, c.regime)
				}
				must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "w1"}))
				at := ""
				if srv.row(t, "w1") != "" {
					at = "lease"
				}
				if c.side != nil || c.layout == dynamo.KCL3Tables {
					if srv.rowIn(t, metricsTable, "wid", "w1") != "" {
						at += "metrics"
					}
				}
				if at != c.worker {
					t.Errorf("%s: the worker's row is in %q, want %q", when, at, c.worker)
				}
				_, err := s.Look(t.Context(), stream)
				must(t, err)
			}
			_, err := s.Create(t.Context(), lease("99"))
			must(t, err)
			if typed := strings.Contains(srv.row(t, "99"), "entityType"); typed != c.typed {
				t.Errorf("a new lease has a type: %v, want %v", typed, c.typed)
			}
			if said := srv.log.lines("rules of the lease table"); len(said) != 1 {
				t.Errorf("log: %q, want it said once", said)
			}
		})
	}
}

// What the engine is told of each regime.
func TestForeigners(t *testing.T) {
	srv := serve(t, emulator.Config{})
	for _, c := range []struct {
		layout dynamo.LayoutKind
		want   string
	}{
		{dynamo.Auto, "native steal=true kept=true led=false lister=false every=0s"},
		{dynamo.KCL2, "kcl2 steal=true kept=true led=false lister=true every=0s"},
		{dynamo.KCL3Single, "kcl3 steal=false kept=true led=true lister=false every=30s"},
	} {
		f := srv.ready(t, dynamo.Layout(c.layout)).SharedWith()
		if got := fmt.Sprintf("%s steal=%v kept=%v led=%v lister=%v every=%v", f.Regime, f.Steal, f.KeepFinished, f.Led, f.Lister != nil, f.Announce); got != c.want {
			t.Errorf("%s: %s, want %s", c.layout, got, c.want)
		}
	}
	if f := srv.ready(t).SharedWith(); f != nil {
		t.Errorf("the native layout is shared: %+v", f)
	}
}

// A layout that the table can't have is refused before anything is made, with what to do.
func TestLayoutsThatContradictTheTable(t *testing.T) {
	const two, three = "CLIENT_VERSION_2X", "CLIENT_VERSION_3X"
	for _, c := range []struct {
		name   string
		layout dynamo.LayoutKind
		rows   []string
		side   []string
		says   []string
	}{
		{"kcl2 where a leader assigns", dynamo.KCL2, []string{untypedLease}, []string{versionRow("key", three)}, []string{"kcl2", three, "leader", "Auto", "--to kcl2"}},
		{"kcl2 in a single table", dynamo.KCL2, []string{typedLease("1"), versionRow("leaseKey", three)}, nil, []string{"kcl2", three}},
		{"tables where 3.5 has one", dynamo.KCL3Tables, []string{typedLease("1"), versionRow("leaseKey", three)}, nil, []string{"one table", coordinatorTable, "kcl3-single"}},
		{"tables after the move", dynamo.KCL3Tables, []string{versionRow("leaseKey", three)}, []string{tablesRow("COMPLETE")}, []string{"moved into one table", "kcl3-single"}},
		{"tables over 2.x", dynamo.KCL3Tables, []string{untypedLease}, nil, []string{"older than 3.5", "--to kcl3"}},
		{"single over 2.x", dynamo.KCL3Single, []string{untypedLease}, nil, []string{"older than 3.5", "kcl2"}},
		{"single over 3.4", dynamo.KCL3Single, []string{untypedLease}, []string{versionRow("key", three)}, []string{coordinatorTable, "TableMigration3.5", "migrateAllEntitiesToLeaseTable"}},
		{"single before everybody is ready", dynamo.KCL3Single, []string{untypedLease}, []string{versionRow("key", three), tablesRow("INIT")}, []string{coordinatorTable, "INIT"}},
		{"an unknown version", dynamo.Auto, []string{versionRow("leaseKey", "CLIENT_VERSION_4X")}, nil, []string{"Migration3.0", "cv", "CLIENT_VERSION_4X", "expected CLIENT_VERSION_UPGRADE_FROM_2X"}},
		{"an unknown state of the move", dynamo.Auto, nil, []string{versionRow("key", two), tablesRow("HALFWAY")}, []string{coordinatorTable, "TableMigration3.5", "tm", "HALFWAY", "expected TABLE_MIGRATION_STATUS_INIT"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			makeTable(t, srv, app, "leaseKey")
			srv.put(t, c.rows...)
			if c.side != nil {
				sideTables(t, srv, c.side...)
			}
			before := srv.size()
			expect(t, "prepare", srv.store(dynamo.Layout(c.layout)).Prepare(t.Context()), core.ErrInvalid, append(c.says, app)...)
			if n := srv.size(); n != before || len(srv.describe(t).GlobalSecondaryIndexes) > 0 {
				t.Errorf("%d rows, %d before, %d indexes", n, before, len(srv.describe(t).GlobalSecondaryIndexes))
			}
			tables, err := srv.sdk().ListTables(t.Context(), &dynamodb.ListTablesInput{})
			must(t, err)
			if n := len(tables.TableNames); (n > 1) != (c.side != nil) {
				t.Errorf("tables %v", tables.TableNames)
			}
		})
	}
}

// What a worker of ours left among the leases is told where a KCL 2.x may come: it would fail on it.
func TestRowsInTheWayOf2x(t *testing.T) {
	srv := serve(t, emulator.Config{})
	must(t, srv.ready(t).Announce(t.Context(), core.WorkerInfo{ID: "go"}))
	srv.ready(t, dynamo.Layout(dynamo.KCL2))
	if said := srv.log.lines("WARN"); len(said) != 1 || !strings.Contains(said[0], "--to kcl2") || !strings.Contains(said[0], "rows=1") {
		t.Errorf("log: %q", said)
	}
}

// Where nobody may ask whether the coordinator's table is there, it is not known where rows go: then nothing starts but what needs none.
func TestCoordinatorDenied(t *testing.T) {
	for _, op := range []string{"DescribeTable", "GetItem"} {
		for k, refused := range map[dynamo.LayoutKind]bool{dynamo.Native: false, dynamo.KCL2: false, dynamo.Auto: true, dynamo.KCL3Single: true} {
			srv := serve(t, emulator.Config{})
			srv.ready(t)
			if k != dynamo.KCL3Single {
				sideTables(t, srv)
			} else if op == "GetItem" {
				refused = false // there is nothing to read
			}
			srv.SetFault(emulator.Fault{Kind: emulator.FaultDenied, Op: op, Table: coordinatorTable})
			err := srv.store(dynamo.Layout(k)).Prepare(t.Context())
			if (err != nil) != refused {
				t.Errorf("layout %s, %s denied: error %v, want one: %v", k, op, err, refused)
			}
			if refused {
				expect(t, "prepare", err, core.ErrDenied, "dynamodb:"+op, coordinatorTable)
			}
		}
	}
}

// The rules are followed while they change, within a minute, and each change is said once.
func TestRulesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serve(t, emulator.Config{})
		srv.external(true) // no network in a bubble
		makeTable(t, srv, app, "leaseKey")
		srv.put(t, untypedLease)
		s := srv.ready(t, dynamo.Layout(dynamo.Auto))
		look := func(want string) {
			t.Helper()
			for range 3 {
				_, err := s.Look(t.Context(), stream)
				must(t, err)
			}
			if got := s.SharedWith().Regime; got != want {
				t.Fatalf("regime %s, want %s", got, want)
			}
		}
		look("kcl2")
		sideTables(t, srv, versionRow("key", "CLIENT_VERSION_UPGRADE_FROM_2X"))
		look("kcl2")
		time.Sleep(time.Minute)
		look("kcl2")
		must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "w1"}))
		if srv.rowIn(t, metricsTable, "wid", "w1") == "" {
			t.Error("no row for the leader that waits for all to have one")
		}
		for _, c := range []struct{ cv, regime string }{
			{"CLIENT_VERSION_3X_WITH_ROLLBACK", "kcl3"}, {"CLIENT_VERSION_2X", "kcl2"}, {"CLIENT_VERSION_UPGRADE_FROM_2X", "kcl2"},
			{"CLIENT_VERSION_3X_WITH_ROLLBACK", "kcl3"}, {"CLIENT_VERSION_5X", "kcl3"}, {"CLIENT_VERSION_3X", "kcl3"},
		} {
			srv.putIn(t, coordinatorTable, versionRow("key", c.cv))
			time.Sleep(time.Minute)
			look(c.regime)
			must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "w1"}))
			if there := srv.rowIn(t, metricsTable, "wid", "w1") != ""; there == (c.cv == "CLIENT_VERSION_2X") {
				t.Errorf("%s: the worker has a row: %v", c.cv, there)
			}
		}
		if said := srv.log.lines("rules of the lease table"); len(said) != 4 {
			t.Errorf("%d rules were logged, want those of the start and 3:\n%s", len(said), strings.Join(said, "\n"))
		}
		if said := srv.log.lines("CLIENT_VERSION_5X"); len(said) != 1 || !strings.Contains(said[0], "ERROR") {
			t.Errorf("what is not known is logged as %q, want once", said)
		}
		// The tables become one: rows go over, and the old one is left behind.
		srv.putIn(t, coordinatorTable, tablesRow("PENDING"))
		srv.put(t, versionRow("leaseKey", "CLIENT_VERSION_3X"))
		time.Sleep(time.Minute)
		look("kcl3")
		must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "w1"}))
		if there := srv.rowIn(t, metricsTable, "wid", "w1"); there != "" || srv.row(t, "w1") == "" {
			t.Errorf("row aside %q, among the leases %q", there, srv.row(t, "w1"))
		}
		// Its table goes, and with it the reason to ask for it.
		srv.putIn(t, coordinatorTable, tablesRow("COMPLETE"))
		time.Sleep(time.Minute)
		look("kcl3")
		before := srv.CallsOn(coordinatorTable)["GetItem"]
		time.Sleep(10 * time.Minute)
		look("kcl3")
		if n := srv.CallsOn(coordinatorTable)["GetItem"] - before; n != 0 {
			t.Errorf("%d calls to a table that is done with", n)
		}
	})
}

// A table that was led stays so while its leader changes, though nothing in it says so at the moment.
func TestLedWithoutAWord(t *testing.T) {
	srv := serve(t, emulator.Config{})
	led, s := srv.ready(t, dynamo.Layout(dynamo.KCL3Single)), srv.ready(t, dynamo.Layout(dynamo.Auto))
	l, err := led.Lead(t.Context(), core.Lock{}, "go")
	must(t, err)
	for _, want := range []string{"kcl3", "kcl3", "kcl2"} {
		_, err := s.Look(t.Context(), stream)
		must(t, err)
		if got := s.SharedWith().Regime; got != want {
			t.Errorf("regime %s, want %s", got, want)
		}
		must(t, led.Resign(t.Context(), l))
		if want == "kcl3" && srv.row(t, "Migration3.0") == "" && srv.row(t, "seen") != "" {
			srv.put(t, versionRow("leaseKey", "CLIENT_VERSION_2X"))
		}
		srv.put(t, typedLease("seen"))
	}
}

// A Java taker that comes to leases of ours without a trace in the rows is told by its renewals; so is its going.
func TestTakerWithoutTrace(t *testing.T) {
	srv := serve(t, emulator.Config{})
	s := srv.ready(t, dynamo.Layout(dynamo.Auto))
	row := func(counter int, more string) {
		srv.put(t, typedLease("1", fmt.Sprintf(`,"leaseCounter":{"N":"%d"},"leaseOwner":{"S":"java"},"sw_ready":{"BOOL":true}%s`, counter, more)))
	}
	for i, c := range []struct {
		counter int
		more    string
		want    string
	}{{4, "", "native"}, {4, "", "native"}, {5, "", "kcl2"}, {5, "", "kcl2"}, {6, `,"sw_run":{"S":"java:1"}`, "native"}} {
		row(c.counter, c.more)
		_, err := s.Look(t.Context(), stream)
		must(t, err)
		if got := s.SharedWith().Regime; got != c.want {
			t.Errorf("reading %d: %s, want %s", i, got, c.want)
		}
	}
}

// The coordinator's own table costs two calls a minute, and none in a table of ours alone; that of the workers' metrics six.
func TestCallsAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serve(t, emulator.Config{})
		srv.external(true) // no network in a bubble
		minute := func(s *dynamo.Store) string {
			coordinator, metrics := srv.CallsOn(coordinatorTable)["GetItem"], srv.CallsOn(metricsTable)["Scan"]
			for range 27 {
				time.Sleep(time.Minute / 27)
				_, err := s.Look(t.Context(), stream)
				must(t, err)
			}
			return fmt.Sprint(srv.CallsOn(coordinatorTable)["GetItem"]-coordinator, " ", srv.CallsOn(metricsTable)["Scan"]-metrics)
		}
		if got := minute(srv.ready(t)); got != "0 0" {
			t.Errorf("native: %s calls", got)
		}
		sideTables(t, srv, versionRow("key", "CLIENT_VERSION_3X"))
		s := srv.ready(t, dynamo.Layout(dynamo.Auto))
		minute(s)
		if got := minute(s); got != "2 6" && got != "2 5" {
			t.Errorf("in three tables: %s calls, want 2 and 6", got)
		}
	})
}

// A coordinator's table that does not answer holds up no reading of the leases.
func TestCoordinatorDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := false
		srv := serve(t, emulator.Config{}, func(c aws.HTTPClient) aws.HTTPClient {
			return client(func(r *http.Request) (*http.Response, error) {
				if hang && strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".GetItem") {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				return c.Do(r)
			})
		})
		srv.external(true) // no network in a bubble
		sideTables(t, srv)
		s := srv.ready(t, dynamo.Layout(dynamo.Auto))
		hang = true
		time.Sleep(61 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := s.Look(ctx, stream); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("a reading took %v while the coordinator's table did not answer", took)
		}
	})
}

func TestParseLayout(t *testing.T) {
	for _, k := range []dynamo.LayoutKind{dynamo.Native, dynamo.Auto, dynamo.KCL2, dynamo.KCL3Tables, dynamo.KCL3Single} {
		if got, err := dynamo.ParseLayout(k.String()); got != k || err != nil {
			t.Errorf("%s is read back as %s, %v", k, got, err)
		}
	}
	_, err := dynamo.ParseLayout("kcl4")
	expect(t, "kcl4", err, core.ErrInvalid, `"kcl4"`, "kcl3-single")
	if s := dynamo.LayoutKind(99).String(); s != "layout 99" {
		t.Errorf("an unknown one is %q", s)
	}
	if !errors.Is(err, core.ErrInvalid) {
		t.Error(err)
	}
}
