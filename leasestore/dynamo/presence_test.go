package dynamo_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
)

func workers(t testing.TB, s core.Presence) (out map[core.WorkerID]core.WorkerInfo) {
	t.Helper()
	sight, err := s.Look(t.Context(), stream)
	must(t, err)
	out = map[core.WorkerID]core.WorkerInfo{}
	for _, w := range sight.Workers {
		out[w.ID] = w
	}
	return out
}

// A worker row has the attributes and types of the KCL's, and a beat that moves within a second.
func TestAnnounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serve(t, emulator.Config{})
		srv.external(true) // no network in a bubble
		s := srv.ready(t)
		beats := map[string]bool{}
		for i := range 3 {
			must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "w1", Beat: fmt.Sprint("b", i), Load: map[string]float64{"cpu": 12.5, "goroutines": 40}}))
			must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "w2"}))
			got := workers(t, s)
			beats[got["w1"].Beat], beats[got["w2"].Beat] = true, true
			if got["w1"].Beat != fmt.Sprint("b", i) || fmt.Sprint(got["w1"].Load) != "map[cpu:12.5 goroutines:40]" || got["w2"].Load != nil {
				t.Errorf("read back %+v", got)
			}
			time.Sleep(time.Millisecond)
		}
		if len(beats) != 6 {
			t.Errorf("beats %v: two announcements look the same", beats)
		}
		now := fmt.Sprint(time.Now().Unix())
		want := "entityType=S WORKER_METRIC_STATS leaseKey=S w1 lut=N " + now + " opr=M{C=L[N 100]} slu=N " + now + " sts=M{C=L[N 12.5]} sup=N 1 sw_beat=S b2 sw_beat_at=N " + now + " sw_load=M{goroutines=N 40}"
		if row := srv.row(t, "w1"); row != want {
			t.Errorf("row\n%s, want\n%s", row, want)
		}
		if row := srv.row(t, "w2"); !strings.Contains(row, "opr=M{} ") || !strings.Contains(row, "sts=M{} ") || strings.Contains(row, "sw_load") {
			t.Errorf("row of a worker without figures: %s", row)
		}
		must(t, s.Withdraw(t.Context(), "w1"))
		must(t, s.Withdraw(t.Context(), "w1"))
		if got := workers(t, s); len(got) != 1 {
			t.Errorf("after withdrawing: %v", got)
		}
	})
}

// One look is one scan.
func TestLookIsOneScan(t *testing.T) {
	srv := serve(t, emulator.Config{})
	s := srv.ready(t)
	must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "w1"}))
	fill(t, srv, 10)
	before := srv.CallsOn(app)
	if got := workers(t, s); len(got) != 1 {
		t.Errorf("workers %v", got)
	}
	after := srv.CallsOn(app)
	for op, n := range after {
		if want := map[string]int64{"Scan": 1}[op]; n-before[op] != want {
			t.Errorf("%d calls of %s, want %d", n-before[op], op, want)
		}
	}
}

// A worker whose id is the key of a lease neither overwrites it nor deletes it.
func TestWorkerIDThatIsALease(t *testing.T) {
	srv := serve(t, emulator.Config{})
	s := srv.ready(t)
	_, err := s.Create(t.Context(), lease("shardId-000000000000"))
	must(t, err)
	before := srv.row(t, "shardId-000000000000")
	expect(t, "announce", s.Announce(t.Context(), core.WorkerInfo{ID: "shardId-000000000000"}), core.ErrInvalid, "shardId-000000000000", "another id")
	must(t, s.Withdraw(t.Context(), "shardId-000000000000"))
	if row := srv.row(t, "shardId-000000000000"); row != before {
		t.Errorf("the lease is now %s", row)
	}
	expect(t, "announce nobody", s.Announce(t.Context(), core.WorkerInfo{}), core.ErrInvalid)
}

const untypedLease = `{"leaseKey":{"S":"shardId-000000000007"},"leaseOwner":{"S":"java"},"leaseCounter":{"N":"3"},"checkpoint":{"S":"495"},"checkpointSubSequenceNumber":{"N":"0"},"ownerSwitchesSinceCheckpoint":{"N":"0"}}`

func makeTable(t testing.TB, srv *service, name, key string) {
	t.Helper()
	_, err := srv.sdk().CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String(name), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String(key), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String(key), AttributeType: types.ScalarAttributeTypeS}},
	})
	must(t, err)
}

// In a table that a KCL before 3.5 may scan no foreign row is ever written (it would fail), and leases are created as it would; where 3.5
// itself has its rows, ours may stand beside them.
func TestWhereForeignRowsAreAllowed(t *testing.T) {
	leader := `{"leaseKey":{"S":"Leader"},"entityType":{"S":"LEADER"},"ownerName":{"S":"w"}}`
	javaWorker := `{"leaseKey":{"S":"java"},"entityType":{"S":"WORKER_METRIC_STATS"},"lut":{"N":"1796039607"},"sts":{"M":{}},"opr":{"M":{}}}`
	typed := strings.Replace(strings.Replace(untypedLease, "{", `{"entityType":{"S":"LEASE"},`, 1), "000000000007", "000000000008", 1)
	for _, c := range []struct {
		name     string
		rows     []string
		old      bool // the table <app>-CoordinatorState is there
		denied   bool // nobody may ask for it
		announce bool
		typed    bool // new leases carry entityType
		why      string
	}{
		{"a table we made", nil, false, false, true, true, ""},
		{"leases of 3.5", []string{typed}, false, false, true, true, ""},
		{"single table of 3.5", []string{typed, leader, javaWorker}, false, false, true, true, ""},
		{"2.x", []string{untypedLease}, false, false, false, false, "older than 3.5"},
		{"2.x in the middle of a change to 3.x", []string{untypedLease, typed}, false, false, false, false, "older than 3.5"},
		{"3.0 to 3.4", []string{untypedLease}, true, false, false, false, "older than 3.5"},
		{"3.4 with an empty table", nil, true, false, false, false, "orders-app-CoordinatorState"},
		{"3.5 that still has tables of 3.4", []string{typed}, true, false, false, false, "orders-app-CoordinatorState"},
		{"3.5 that came from 3.4 and has moved into one table", []string{untypedLease, leader, javaWorker}, true, false, true, true, ""},
		{"it can't be told", []string{typed}, false, true, false, true, "not known"},
		{"it can't be told, and need not", []string{typed, leader}, false, true, true, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			makeTable(t, srv, app, "leaseKey")
			srv.put(t, c.rows...)
			if c.old {
				makeTable(t, srv, app+"-CoordinatorState", "key")
			}
			if c.denied {
				srv.SetFault(emulator.Fault{Kind: emulator.FaultDenied, Op: "DescribeTable", Table: app + "-CoordinatorState"})
			}
			s := srv.ready(t)
			for range 2 { // by the sample that Prepare takes, and by a whole look
				must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "w1"}))
				if row := srv.row(t, "w1"); (row != "") != c.announce {
					t.Errorf("row of the worker: %q, want one %v", row, c.announce)
				}
				_, announced := workers(t, s)["w1"]
				if announced != c.announce {
					t.Errorf("the look shows it: %v", announced)
				}
			}
			if said := srv.log.lines("not announced"); !c.announce && (len(said) != 1 || !strings.Contains(said[0], c.why)) {
				t.Errorf("log: %q, want it said once and why: %s", said, c.why)
			}
			_, err := s.Create(t.Context(), lease("shardId-000000000099"))
			must(t, err)
			if row := srv.row(t, "shardId-000000000099"); strings.Contains(row, "entityType=S LEASE") != c.typed {
				t.Errorf("new lease: %s", row)
			}
		})
	}
}

// Before Prepare nothing is known, so nothing is written.
func TestAnnounceBeforePrepare(t *testing.T) {
	srv := serve(t, emulator.Config{})
	makeTable(t, srv, app, "leaseKey")
	must(t, srv.store().Announce(t.Context(), core.WorkerInfo{ID: "w1"}))
	if n := srv.size(); n != 0 {
		t.Errorf("%d rows, want none", n)
	}
}

// An older KCL that joins a table of ours makes leases without a type: our worker rows are taken away again, since it fails on them.
func TestForeignRowsGoWhenAnOldKCLComes(t *testing.T) {
	srv := serve(t, emulator.Config{})
	s := srv.ready(t)
	must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "w1"}))
	if srv.row(t, "w1") == "" {
		t.Fatal("not announced")
	}
	srv.put(t, untypedLease)
	workers(t, s)
	must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "w1"}))
	if row := srv.row(t, "w1"); row != "" {
		t.Errorf("still there: %s", row)
	}
}

// Rows of workers that crashed go after a day, those of Java's are left to Java, and one wrong clock deletes nobody.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serve(t, emulator.Config{})
		srv.external(true) // no network in a bubble
		s := srv.ready(t)
		now := time.Now().Unix()
		row := func(id string, age int64, more string) {
			srv.put(t, fmt.Sprintf(`{"leaseKey":{"S":%q},"entityType":{"S":"WORKER_METRIC_STATS"},"lut":{"N":"%d"}%s}`, id, now-age, more))
		}
		const day, beat = 24 * 3600, `,"sw_beat":{"S":"x"}`
		for i := range 7 {
			row(fmt.Sprint("crashed", i), day+100, beat)
		}
		row("resting", day-100, beat)
		row("java", 3*day, "")
		must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "me"}))
		for range 2 { // a few at a time
			workers(t, s)
			must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "me"}))
		}
		if got := fmt.Sprint(len(workers(t, s)), srv.row(t, "java") != "", srv.row(t, "resting") != ""); got != "3 true true" {
			t.Errorf("left: %s, want 3 true true: %v", got, workers(t, s))
		}
		// A worker from the future makes nobody old.
		row("future", -30*day, beat)
		workers(t, s)
		must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "me"}))
		if n := len(workers(t, s)); n != 4 {
			t.Errorf("%d workers after one with a wrong clock came, want 4", n)
		}
	})
}
