package dynamo_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// putDump writes a dump's rows into a table.
func (s *service) putDump(t *testing.T, table, dump string) {
	t.Helper()
	for _, row := range readDump(t, dump).Items {
		s.putIn(t, table, string(row))
	}
}

// Each KCL's tables, as they were left by it, show what they are; looking writes nothing.
func TestInspect(t *testing.T) {
	for _, c := range []struct {
		name    string
		dumps   map[string]string // by table
		layout  dynamo.LayoutKind
		regime  string
		leases  int
		untyped int
		leader  string // and the table
		version string
		changes string
		workers string
		streams string
		sides   string
	}{
		{"1.15", map[string]string{app: "kcl-1.15.3.single.3-on-dynalite-with-checkpoints.json"}, dynamo.KCL2, "kcl2", 4, 4, "", "", "[]", "[]", "[]", "map[]"},
		{"2.7", map[string]string{app: "kcl-2.7.2.single.after-split.json"}, dynamo.KCL2, "kcl2", 4, 4, "", "", "[]", "[]", "[]", "map[]"},
		{"3.4", map[string]string{
			app:              "kcl-3.4.2.single.after-split.lease.json",
			coordinatorTable: "kcl-3.4.2.single.after-split.lease-CoordinatorState.json",
			metricsTable:     "kcl-3.4.2.single.after-split.lease-WorkerMetricStats.json",
		}, dynamo.KCL3Tables, "kcl3", 4, 4, "worker-1 " + coordinatorTable, "CLIENT_VERSION_3X",
			"[Migration3.0 CLIENT_VERSION_3X by worker-1, Migration3.0 CLIENT_VERSION_INIT by worker-1]",
			"[worker-1 in " + metricsTable + " at 1796039609: 5 of CPU up to [100], support 0, ours false]", "[]",
			"map[" + coordinatorTable + ":ACTIVE " + metricsTable + ":ACTIVE]"},
		{"3.5", map[string]string{app: "kcl-3.5.1.single.2-after-split.json"}, dynamo.KCL3Single, "kcl3", 4, 0, "worker-1 " + app, "CLIENT_VERSION_3X",
			"[Migration3.0 CLIENT_VERSION_3X by worker-1, Migration3.0 CLIENT_VERSION_INIT by worker-1]",
			"[worker-1 in " + app + " at 1796039607: 10 of CPU up to [100], support 1, ours false]", "[]", "map[]"},
		{"3.5 that has stopped", map[string]string{app: "kcl-3.5.1.single.3-after-shutdown.json"}, dynamo.KCL3Single, "kcl3", 4, 0, "", "CLIENT_VERSION_3X",
			"[Migration3.0 CLIENT_VERSION_3X by worker-1, Migration3.0 CLIENT_VERSION_INIT by worker-1]",
			"[worker-1 in " + app + " at 1796039747: 10 of CPU up to [100], support 1, ours false]", "[]", "map[]"},
		{"3.5 of several streams", map[string]string{app: "kcl-3.5.1.multi.1-parent-unfinished.json"}, dynamo.KCL3Single, "kcl3", 4, 0, "worker-1 " + app, "CLIENT_VERSION_3X",
			"[Migration3.0 CLIENT_VERSION_3X by worker-1, Migration3.0 CLIENT_VERSION_INIT by worker-1]",
			"[worker-1 in " + app + " at 1796039676: 10 of CPU up to [100], support 1, ours false]",
			"[123456789012:m1:1796039487 123456789012:m2:1796039487]", "map[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			makeTable(t, srv, app, "leaseKey")
			if len(c.dumps) > 1 {
				sideTables(t, srv)
			}
			for table, dump := range c.dumps {
				srv.putDump(t, table, dump)
			}
			writes := func() (n int64) {
				for op, calls := range srv.Calls() {
					if op != "Scan" && op != "GetItem" && op != "DescribeTable" && op != "Query" {
						n += calls
					}
				}
				return n
			}
			before := writes()
			in, err := srv.store().Inspect(t.Context())
			must(t, err)
			if n := writes() - before; n != 0 {
				t.Errorf("it wrote %d times", n)
			}
			if !in.Exists || in.Table != app || in.Billing != "PAY_PER_REQUEST" || in.Layout != c.layout || in.Regime != c.regime || in.Why == "" ||
				in.Leases != c.leases || in.Untyped != c.untyped || in.Bad+in.Others != 0 || in.ClientVersion != c.version || in.TableMigration != "" {
				t.Errorf("%+v", in)
			}
			leader := ""
			if in.Leader.Owner != "" {
				leader = string(in.Leader.Owner) + " " + in.LeaderTable
			}
			var changes, workers []string
			for _, x := range in.Changes {
				changes = append(changes, fmt.Sprintf("%s %s by %s", x.Row, x.Value, x.By))
				if x.At.Year() != 2026 {
					t.Errorf("changed at %v", x.At)
				}
			}
			for _, w := range in.Workers {
				workers = append(workers, fmt.Sprintf("%s in %s at %d: %d of CPU up to %v, support %d, ours %v", w.ID, w.Table, w.Updated.Unix(), len(w.Metrics["C"]), w.Limits["C"], w.Support, w.Ours))
			}
			for what, pair := range map[string][2]string{
				"leader": {leader, c.leader}, "changes": {"[" + strings.Join(changes, ", ") + "]", c.changes}, "workers": {"[" + strings.Join(workers, ", ") + "]", c.workers},
				"streams": {fmt.Sprint(in.Streams), c.streams}, "side tables": {fmt.Sprint(in.SideTables), c.sides},
			} {
				if pair[0] != pair[1] {
					t.Errorf("%s: %s, want %s", what, pair[0], pair[1])
				}
			}
		})
	}
}

func TestInspectWhatIsOddOrMissing(t *testing.T) {
	srv := serve(t, emulator.Config{})
	in, err := srv.store().Inspect(t.Context())
	must(t, err)
	if in.Exists || in.Regime != "native" || in.Why == "" {
		t.Errorf("no table: %+v", in)
	}
	s := srv.ready(t, dynamo.Layout(dynamo.KCL3Single))
	must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "go"}))
	_, err = s.Lead(t.Context(), core.Lock{}, "go")
	must(t, err)
	srv.put(t, typedLease("1"), `{"leaseKey":{"S":"2"},"leaseCounter":{"S":"x"},"checkpoint":{"S":"1"}}`, `{"leaseKey":{"S":"user-7"},"colour":{"S":"blue"}}`)
	in, err = srv.store().Inspect(t.Context())
	must(t, err)
	if in.Leases != 2 || in.Bad != 1 || in.Others != 1 || in.Untyped != 1 || in.Index != "ACTIVE" || in.Leader.Owner != "go" || in.Leader.Duration != 30*time.Second || in.Regime != "kcl3" ||
		len(in.Workers) != 1 || !in.Workers[0].Ours || in.Workers[0].Support != 1 || in.Workers[0].SupportAt.IsZero() {
		t.Errorf("%+v", in)
	}
	srv.put(t, versionRow("leaseKey", "CLIENT_VERSION_9X"))
	in, err = srv.store().Inspect(t.Context())
	must(t, err)
	if in.Regime != "" || !strings.Contains(in.Why, "CLIENT_VERSION_9X") || in.ClientVersion != "CLIENT_VERSION_9X" {
		t.Errorf("an unknown version: regime %q, why %q", in.Regime, in.Why)
	}

	sideTables(t, srv)
	srv.SetFault(emulator.Fault{Kind: emulator.FaultDenied, Table: coordinatorTable})
	srv.SetFault(emulator.Fault{Kind: emulator.FaultDenied, Op: "Scan", Table: metricsTable})
	in, err = srv.store().Inspect(t.Context())
	must(t, err)
	if got := fmt.Sprint(in.SideTables); got != "map["+coordinatorTable+":denied "+metricsTable+":ACTIVE, denied]" || !strings.Contains(in.Why, metricsTable) {
		t.Errorf("side tables %s, why %q", got, in.Why)
	}
	srv.SetFault(emulator.Fault{Kind: emulator.FaultDenied, Op: "Scan", Table: app})
	_, err = srv.store().Inspect(t.Context())
	expect(t, "denied", err, core.ErrDenied, "dynamodb:Scan")

	other := serve(t, emulator.Config{})
	makeTable(t, other, app, "id")
	_, err = other.store().Inspect(t.Context())
	expect(t, "a table of something else", err, core.ErrInvalid, "hash key id")
}

// There is no row of any KCL that we have seen which can't be read.
func TestEveryDumpIsUnderstood(t *testing.T) {
	files, err := os.ReadDir("../../testdata/kcl-tables")
	must(t, err)
	n := 0
	for _, f := range files {
		if strings.HasSuffix(f.Name(), "-CoordinatorState.json") || strings.HasSuffix(f.Name(), "-WorkerMetricStats.json") {
			continue // read with their leases by TestInspect
		}
		n++
		t.Run(f.Name(), func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			makeTable(t, srv, app, "leaseKey")
			srv.putDump(t, app, f.Name())
			in, err := srv.store().Inspect(t.Context())
			must(t, err)
			if in.Leases == 0 || in.Bad != 0 || in.Others != 0 || in.Regime == "" {
				t.Errorf("%+v", in)
			}
		})
	}
	if n < 12 {
		t.Errorf("%d dumps of lease tables, want 12", n)
	}
}
