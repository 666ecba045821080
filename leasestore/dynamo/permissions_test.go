package dynamo_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// Every permission that is missing is named at the start, each once, with its table, in one error.
func TestEachMissingPermissionIsNamed(t *testing.T) {
	type denial struct{ op, table string }
	for _, c := range []struct {
		name   string
		layout dynamo.LayoutKind
		denied []denial
	}{
		{"none", dynamo.Native, nil},
		{"one write", dynamo.Native, []denial{{"PutItem", app}}},
		{"all but reading", dynamo.Native, []denial{{"GetItem", app}, {"PutItem", app}, {"UpdateItem", app}, {"DeleteItem", app}}},
		{"reading and writing", dynamo.Native, []denial{{"Scan", app}, {"UpdateItem", app}}},
		{"everything", dynamo.Native, []denial{{"DescribeTable", app}, {"Scan", app}, {"GetItem", app}, {"PutItem", app}, {"UpdateItem", app}, {"DeleteItem", app}}},
		{"the coordinator's table, and a write", dynamo.Auto, []denial{{"DescribeTable", coordinatorTable}, {"UpdateItem", app}}},
		{"what a row of the coordinator says, and a write", dynamo.Auto, []denial{{"GetItem", coordinatorTable}, {"DeleteItem", app}}},
		{"rows of the coordinator among the leases", dynamo.Auto, []denial{{"GetItem", app}, {"PutItem", app}}},
		{"the side tables", dynamo.Auto, []denial{{"Scan", metricsTable}, {"UpdateItem", metricsTable}, {"DeleteItem", metricsTable}, {"PutItem", coordinatorTable}, {"UpdateItem", coordinatorTable}, {"DeleteItem", coordinatorTable}}},
		{"the side tables, where none are used", dynamo.KCL2, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			makeTable(t, srv, app, "leaseKey")
			if c.layout != dynamo.KCL2 {
				sideTables(t, srv, versionRow("key", "CLIENT_VERSION_3X"))
			}
			srv.put(t, untypedLease)
			for _, d := range c.denied {
				srv.SetFault(emulator.Fault{Kind: emulator.FaultDenied, Op: d.op, Table: d.table})
			}
			err := srv.store(dynamo.Layout(c.layout)).Prepare(t.Context())
			if len(c.denied) == 0 {
				must(t, err)
			} else {
				expect(t, "prepare", err, core.ErrDenied)
			}
			for _, d := range c.denied {
				name := "dynamodb:" + d.op + " on arn:aws:dynamodb:us-east-1:*:table/" + d.table + ":"
				if n := strings.Count(err.Error(), name); n != 1 {
					t.Errorf("%s is named %d times in\n%v", name, n, err)
				}
			}
			if err != nil && strings.Count(err.Error(), "needs permission") != len(c.denied) {
				t.Errorf("other permissions are named in\n%v", err)
			}
			srv.ClearFaults()
			if n := srv.size(); n != 1 {
				t.Errorf("%d rows after the check, want the one that was there", n)
			}
		})
	}
}

// Who gives up in the middle of the check is told so.
func TestPermissionCheckCutOff(t *testing.T) {
	srv := serve(t, emulator.Config{})
	srv.ready(t)
	srv.SetFault(emulator.Fault{Kind: emulator.FaultDelay, Op: "PutItem", Delay: time.Second})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	expect(t, "prepare", srv.store().Prepare(ctx), context.DeadlineExceeded)
}

// The check costs one call of each kind, and other troubles than missing permissions do not end it.
func TestPermissionCheckIsSmall(t *testing.T) {
	srv := serve(t, emulator.Config{})
	srv.ready(t)
	before := srv.CallsOn(app)
	srv.ready(t)
	after := srv.CallsOn(app)
	for _, op := range []string{"Scan", "GetItem", "PutItem", "UpdateItem", "DeleteItem", "DescribeTable"} {
		if n := after[op] - before[op]; n != 1 {
			t.Errorf("%d calls of %s, want 1", n, op)
		}
	}
	srv.SetFault(emulator.Fault{Kind: emulator.FaultThrottle, Op: "PutItem"})
	must(t, srv.store().Prepare(t.Context()))
}
