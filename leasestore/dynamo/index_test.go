package dynamo_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// The index that Java's workers read is made as they make it, where the layout is theirs, and nobody waits for it.
func TestOwnerIndex(t *testing.T) {
	for _, c := range []struct {
		name   string
		layout dynamo.LayoutKind
		opts   []dynamo.Option
		index  bool
		units  int64
	}{
		{"native", dynamo.Native, nil, false, 0},
		{"auto", dynamo.Auto, nil, false, 0},
		{"kcl2", dynamo.KCL2, nil, false, 0},
		{"kcl3-tables", dynamo.KCL3Tables, nil, true, 0},
		{"kcl3-single", dynamo.KCL3Single, nil, true, 0},
		{"kcl3-single, provisioned", dynamo.KCL3Single, []dynamo.Option{dynamo.Provisioned(3, 7)}, true, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := serve(t, emulator.Config{IndexDelay: time.Hour})
				srv.external(true) // no network in a bubble
				start := time.Now()
				opts := append(c.opts, dynamo.Layout(c.layout))
				var wg sync.WaitGroup
				for range 3 {
					wg.Go(func() { must(t, srv.store(opts...).Prepare(t.Context())) })
				}
				wg.Wait()
				if d := time.Since(start); d > time.Minute {
					t.Errorf("prepared after %v", d)
				}
				xs := srv.describe(t).GlobalSecondaryIndexes
				if len(xs) == 0 && !c.index {
					return
				}
				if len(xs) != 1 || !c.index || *xs[0].IndexName != "LeaseOwnerToLeaseKeyIndex" || xs[0].Projection.ProjectionType != types.ProjectionTypeKeysOnly ||
					*xs[0].KeySchema[0].AttributeName != "leaseOwner" || *xs[0].KeySchema[1].AttributeName != "leaseKey" || xs[0].IndexStatus != types.IndexStatusCreating {
					t.Fatalf("indexes %+v", xs)
				}
				if *xs[0].ProvisionedThroughput.WriteCapacityUnits != c.units || c.units > 0 && *xs[0].ProvisionedThroughput.ReadCapacityUnits != 3 {
					t.Errorf("units %+v, want those of the table", xs[0].ProvisionedThroughput)
				}
				in, err := srv.store().Inspect(t.Context())
				must(t, err)
				if in.Index != "CREATING" {
					t.Errorf("the inspection shows the index as %q", in.Index)
				}
				time.Sleep(2 * time.Hour) // it is there: nothing is asked for again
				before := srv.Calls()["UpdateTable"]
				must(t, srv.store(opts...).Prepare(t.Context()))
				if n := srv.Calls()["UpdateTable"] - before; n != 0 {
					t.Errorf("%d calls for an index that is there", n)
				}
			})
		})
	}
}

// Without the right to make the index a worker goes on, and says who needs it.
func TestOwnerIndexDenied(t *testing.T) {
	srv := serve(t, emulator.Config{})
	srv.SetFault(emulator.Fault{Kind: emulator.FaultDenied, Op: "UpdateTable"})
	srv.ready(t, dynamo.Layout(dynamo.KCL3Single))
	if said := srv.log.lines("index over owners"); len(said) != 1 {
		t.Errorf("log: %q", said)
	}
}

// Many workers at once make the tables of KCL 3.0 to 3.4, once each, under their names.
func TestSideTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serve(t, emulator.Config{CreateDelay: 8 * time.Second})
		srv.external(true) // no network in a bubble
		opts := []dynamo.Option{dynamo.Layout(dynamo.KCL3Tables), dynamo.SideTables("the-coordinator", "")}
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				s := srv.store(opts...)
				must(t, s.Prepare(t.Context()))
				must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "w"}))
				_, err := s.Leader(t.Context())
				must(t, err)
			})
		}
		wg.Wait()
		for name, key := range map[string]string{"the-coordinator": "key", metricsTable: "wid"} {
			out, err := srv.sdk().DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(name)})
			must(t, err)
			if d := out.Table; len(d.KeySchema) != 1 || *d.KeySchema[0].AttributeName != key || d.BillingModeSummary == nil || d.BillingModeSummary.BillingMode != types.BillingModePayPerRequest {
				t.Errorf("table %s: key %+v, billing %+v", name, d.KeySchema, d.BillingModeSummary)
			}
		}
	})
}

func TestSideTablesThatCantBeHad(t *testing.T) {
	tables := dynamo.Layout(dynamo.KCL3Tables)
	t.Run("not to be created", func(t *testing.T) {
		srv := serve(t, emulator.Config{})
		makeTable(t, srv, app, "leaseKey")
		expect(t, "prepare", srv.store(tables, dynamo.MustExist()).Prepare(t.Context()), core.ErrNotFound, metricsTable, "wid (S)")
	})
	t.Run("of another shape", func(t *testing.T) {
		srv := serve(t, emulator.Config{})
		makeTable(t, srv, metricsTable, "id")
		expect(t, "prepare", srv.store(tables).Prepare(t.Context()), core.ErrInvalid, metricsTable, "hash key id (S)", "expected hash key wid (S)")
	})
	t.Run("denied", func(t *testing.T) {
		srv := serve(t, emulator.Config{})
		srv.SetFault(emulator.Fault{Kind: emulator.FaultDenied, Op: "CreateTable", Table: coordinatorTable})
		expect(t, "prepare", srv.store(tables).Prepare(t.Context()), core.ErrDenied, "dynamodb:CreateTable", "table/"+coordinatorTable)
	})
}
