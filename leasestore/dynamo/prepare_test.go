package dynamo_test

import (
	"context"
	"fmt"
	"strings"
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

func (s *service) describe(t testing.TB) *types.TableDescription {
	t.Helper()
	out, err := s.sdk().DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(app)})
	must(t, err)
	return out.Table
}

// The table is as asked (case F107 of docs/reference/field-cases.md): on demand by default, with the KCL's key and no index.
func TestTableAsAsked(t *testing.T) {
	for _, c := range []struct {
		name    string
		opts    []dynamo.Option
		billing types.BillingMode
		units   int64
		protect bool
		tags    string
		backup  types.PointInTimeRecoveryStatus
	}{
		{"default", nil, types.BillingModePayPerRequest, 0, false, "", types.PointInTimeRecoveryStatusDisabled},
		{"provisioned", []dynamo.Option{dynamo.Provisioned(5, 10)}, types.BillingModeProvisioned, 10, false, "", types.PointInTimeRecoveryStatusDisabled},
		{"everything", []dynamo.Option{dynamo.Tags(map[string]string{"team": "a", "cost": "b"}), dynamo.PointInTimeRecovery(), dynamo.DeletionProtection()},
			types.BillingModePayPerRequest, 0, true, "cost=b team=a", types.PointInTimeRecoveryStatusEnabled},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			s := srv.ready(t, c.opts...)
			d := srv.describe(t)
			if len(d.KeySchema) != 1 || *d.KeySchema[0].AttributeName != "leaseKey" || d.KeySchema[0].KeyType != types.KeyTypeHash || len(d.AttributeDefinitions) != 1 ||
				d.AttributeDefinitions[0].AttributeType != types.ScalarAttributeTypeS || len(d.GlobalSecondaryIndexes) != 0 {
				t.Errorf("key %+v of %+v, indexes %+v", d.KeySchema, d.AttributeDefinitions, d.GlobalSecondaryIndexes)
			}
			billing := types.BillingModeProvisioned
			if d.BillingModeSummary != nil {
				billing = d.BillingModeSummary.BillingMode
			}
			if billing != c.billing || *d.ProvisionedThroughput.WriteCapacityUnits != c.units || c.units > 0 && *d.ProvisionedThroughput.ReadCapacityUnits != 5 || aws.ToBool(d.DeletionProtectionEnabled) != c.protect {
				t.Errorf("billing %s, throughput %+v, protection %v", billing, d.ProvisionedThroughput, d.DeletionProtectionEnabled)
			}
			tags, err := srv.sdk().ListTagsOfResource(t.Context(), &dynamodb.ListTagsOfResourceInput{ResourceArn: d.TableArn})
			must(t, err)
			var got []string
			for _, tag := range tags.Tags {
				got = append(got, *tag.Key+"="+*tag.Value)
			}
			if strings.Join(got, " ") != c.tags {
				t.Errorf("tags %v, want %s", got, c.tags)
			}
			backup, err := srv.sdk().DescribeContinuousBackups(t.Context(), &dynamodb.DescribeContinuousBackupsInput{TableName: aws.String(app)})
			must(t, err)
			if got := backup.ContinuousBackupsDescription.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus; got != c.backup {
				t.Errorf("point-in-time recovery %s, want %s", got, c.backup)
			}

			// Again, by the same store and by another process: nothing is made or changed, and the other hears what does not apply.
			before := srv.Calls()
			must(t, s.Prepare(t.Context()))
			must(t, srv.store(c.opts...).Prepare(t.Context()))
			for _, op := range []string{"CreateTable", "UpdateTable", "UpdateContinuousBackups", "TagResource"} {
				if n := srv.Calls()[op] - before[op]; n != 0 {
					t.Errorf("preparing what is there called %s %d times", op, n)
				}
			}
			if said := srv.log.lines("not applied"); (len(said) > 0) != (len(c.opts) > 0) {
				t.Errorf("log: %q", said)
			}
		})
	}
}

// Case F106: twenty workers at once, no table, eight seconds in CREATING: one table, all ready soon after, nothing to worry about in the log.
func TestManyWorkersCreateTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serve(t, emulator.Config{CreateDelay: 8 * time.Second})
		start := time.Now()
		var wg sync.WaitGroup
		for range 20 {
			s := srv.store(dynamo.PointInTimeRecovery())
			wg.Go(func() {
				if err := s.Prepare(t.Context()); err != nil {
					t.Error(err)
				}
				if _, err := s.Look(t.Context(), stream); err != nil {
					t.Errorf("the table can't be used after Prepare: %v", err)
				}
			})
		}
		wg.Wait()
		if d := time.Since(start); d > 12*time.Second {
			t.Errorf("ready after %v, want 12 s at most", d)
		}
		for _, level := range []string{"WARN", "ERROR"} {
			if said := srv.log.lines(level); len(said) > 0 {
				t.Errorf("log: %q", said)
			}
		}
	})
}

// A table that never gets ready is given up after ten minutes, with its name.
func TestTableThatNeverGetsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serve(t, emulator.Config{CreateDelay: 24 * time.Hour})
		start := time.Now()
		expect(t, "prepare", srv.store().Prepare(t.Context()), core.ErrUnavailable, app, "10m0s")
		if d := time.Since(start); d > 10*time.Minute+10*time.Second {
			t.Errorf("gave up after %v", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start = time.Now()
		expect(t, "prepare with less time", srv.store().Prepare(ctx), context.DeadlineExceeded)
		if d := time.Since(start); d > 3*time.Second {
			t.Errorf("returned after %v", d)
		}
	})
}

// Case F105: a table that exists needs no right to create, nor to describe; a control plane that is down doesn't matter then.
func TestLeastPrivilege(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults []emulator.Fault
	}{
		{"may not create", []emulator.Fault{{Kind: emulator.FaultDenied, Op: "CreateTable"}}},
		{"may neither create nor describe", []emulator.Fault{{Kind: emulator.FaultDenied, Op: "CreateTable"}, {Kind: emulator.FaultDenied, Op: "DescribeTable"}}},
		{"creating times out", []emulator.Fault{{Kind: emulator.FaultDropBefore, Op: "CreateTable"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			srv.ready(t)
			for _, f := range c.faults {
				srv.SetFault(f)
			}
			s := srv.ready(t)
			_, err := s.Create(t.Context(), lease("1"))
			must(t, err)
			if _, err := s.Look(t.Context(), stream); err != nil {
				t.Error(err)
			}
		})
	}
}

// Each permission that is missing is named, with the resource it is missing on.
func TestDeniedCalls(t *testing.T) {
	const arn = "arn:aws:dynamodb:us-east-1:*:table/orders-app"
	for _, c := range []struct {
		op   string
		opts []dynamo.Option
		made bool // the table exists
		call func(ctx context.Context, s *dynamo.Store, l core.Lease) error
	}{
		{"CreateTable", nil, false, func(ctx context.Context, s *dynamo.Store, _ core.Lease) error { return s.Prepare(ctx) }},
		{"UpdateContinuousBackups", []dynamo.Option{dynamo.PointInTimeRecovery()}, false, func(ctx context.Context, s *dynamo.Store, _ core.Lease) error { return s.Prepare(ctx) }},
		{"Scan", nil, true, func(ctx context.Context, s *dynamo.Store, _ core.Lease) error { return s.Prepare(ctx) }},
		{"Scan", nil, true, func(ctx context.Context, s *dynamo.Store, _ core.Lease) error { _, err := s.Look(ctx); return err }},
		{"GetItem", nil, true, func(ctx context.Context, s *dynamo.Store, l core.Lease) error {
			_, err := s.Get(ctx, l.Key)
			return err
		}},
		{"PutItem", nil, true, func(ctx context.Context, s *dynamo.Store, _ core.Lease) error {
			_, err := s.Create(ctx, lease("2"))
			return err
		}},
		{"UpdateItem", nil, true, func(ctx context.Context, s *dynamo.Store, l core.Lease) error {
			w := core.Renew(nil)
			_, err := s.Update(ctx, l, w.Same, w.Set)
			return err
		}},
		{"UpdateItem", nil, true, func(ctx context.Context, s *dynamo.Store, _ core.Lease) error {
			return s.Announce(ctx, core.WorkerInfo{ID: "w"})
		}},
		{"DeleteItem", nil, true, func(ctx context.Context, s *dynamo.Store, l core.Lease) error { return s.Delete(ctx, l, 0) }},
		{"DeleteItem", nil, true, func(ctx context.Context, s *dynamo.Store, _ core.Lease) error { return s.Withdraw(ctx, "w") }},
	} {
		t.Run(c.op, func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			s := srv.store(c.opts...)
			l := lease("1")
			if c.made {
				must(t, s.Prepare(t.Context()))
				var err error
				l, err = s.Create(t.Context(), l)
				must(t, err)
			}
			srv.SetFault(emulator.Fault{Kind: emulator.FaultDenied, Op: c.op})
			expect(t, c.op, c.call(t.Context(), s, l), core.ErrDenied, "dynamodb:"+c.op+" on "+arn, "not authorized")
		})
	}
	t.Run("DescribeTable and Scan", func(t *testing.T) {
		srv := serve(t, emulator.Config{})
		srv.ready(t)
		srv.SetFault(emulator.Fault{Kind: emulator.FaultDenied})
		expect(t, "prepare", srv.store().Prepare(t.Context()), core.ErrDenied, "dynamodb:DescribeTable on "+arn)
	})
	t.Run("DescribeTable of a table that is missing", func(t *testing.T) {
		srv := serve(t, emulator.Config{})
		srv.SetFault(emulator.Fault{Kind: emulator.FaultDenied, Op: "DescribeTable"})
		s := srv.ready(t) // it is created, and found by reading
		_, err := s.Look(t.Context(), stream)
		must(t, err)
	})
}

func TestTableOfTheWrongShape(t *testing.T) {
	key := func(name string, kind types.KeyType, scalar types.ScalarAttributeType) func(*dynamodb.CreateTableInput) {
		return func(in *dynamodb.CreateTableInput) {
			in.KeySchema = append(in.KeySchema, types.KeySchemaElement{AttributeName: &name, KeyType: kind})
			in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: &name, AttributeType: scalar})
		}
	}
	for _, c := range []struct {
		name string
		keys []func(*dynamodb.CreateTableInput)
		says string
	}{
		{"another key", []func(*dynamodb.CreateTableInput){key("id", types.KeyTypeHash, types.ScalarAttributeTypeS)}, "hash key id (S)"},
		{"a number", []func(*dynamodb.CreateTableInput){key("leaseKey", types.KeyTypeHash, types.ScalarAttributeTypeN)}, "hash key leaseKey (N)"},
		{"a sort key", []func(*dynamodb.CreateTableInput){key("leaseKey", types.KeyTypeHash, types.ScalarAttributeTypeS), key("at", types.KeyTypeRange, types.ScalarAttributeTypeN)}, "hash key leaseKey (S) and range key at (N)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			in := &dynamodb.CreateTableInput{TableName: aws.String(app), BillingMode: types.BillingModePayPerRequest}
			for _, k := range c.keys {
				k(in)
			}
			_, err := srv.sdk().CreateTable(t.Context(), in)
			must(t, err)
			expect(t, "prepare", srv.store().Prepare(t.Context()), core.ErrInvalid, app, c.says, "expected hash key leaseKey (S) alone", "another name")
		})
	}
	t.Run("rows of something else", func(t *testing.T) {
		srv := serve(t, emulator.Config{})
		makeTable(t, srv, app, "leaseKey")
		srv.put(t, `{"leaseKey":{"S":"user-7"},"colour":{"S":"blue"}}`)
		expect(t, "prepare", srv.store().Prepare(t.Context()), core.ErrInvalid, app, "user-7", "another application")
	})
	t.Run("a lease that can't be read is no stranger", func(t *testing.T) {
		srv := serve(t, emulator.Config{})
		makeTable(t, srv, app, "leaseKey")
		srv.put(t, `{"leaseKey":{"S":"1"},"leaseCounter":{"S":"x"}}`)
		must(t, srv.store().Prepare(t.Context()))
	})
	for _, name := range []string{"", "ab", "with blank", strings.Repeat("x", 256), "ünïcode"} {
		t.Run(fmt.Sprintf("name %.10q", name), func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			expect(t, "prepare", srv.store(dynamo.Table(name)).Prepare(t.Context()), core.ErrInvalid, "3 to 255")
			if n := srv.Calls()["DescribeTable"]; n != 0 {
				t.Errorf("%d calls with a name that can't be", n)
			}
		})
	}
}

// With MustExist a missing table is an error that names it; without Prepare every call says what is missing.
func TestMissingTable(t *testing.T) {
	srv := serve(t, emulator.Config{})
	expect(t, "prepare", srv.store(dynamo.MustExist()).Prepare(t.Context()), core.ErrNotFound, app, "us-east-1", "http://emulator", "leaseKey (S)")
	if n := srv.Calls()["CreateTable"]; n != 0 {
		t.Errorf("it was created all the same: %d calls", n)
	}
	s := srv.store()
	l := lease("1")
	w := core.Renew(nil)
	for name, err := range map[string]error{
		"get":      func() error { _, err := s.Get(t.Context(), l.Key); return err }(),
		"create":   func() error { _, err := s.Create(t.Context(), l); return err }(),
		"update":   func() error { _, err := s.Update(t.Context(), l, w.Same, w.Set); return err }(),
		"delete":   s.Delete(t.Context(), l, core.Remove),
		"look":     func() error { _, err := s.Look(t.Context(), stream); return err }(),
		"withdraw": s.Withdraw(t.Context(), "w"),
	} {
		expect(t, name, err, core.ErrNotFound, "table "+app, "does not exist in region us-east-1", "Prepare")
	}
}

// A table that is being deleted is waited for and made anew.
func TestTableThatIsGoing(t *testing.T) {
	srv := serve(t, emulator.Config{}, edit(func(_, body string) string { return body }))
	s := srv.ready(t)
	must(t, s.Prepare(t.Context()))
	_, err := srv.sdk().DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String(app)})
	must(t, err)
	must(t, s.Prepare(t.Context()))
	_, err = s.Create(t.Context(), lease("1"))
	must(t, err)
}

// Lost answers and throttling on the way do not keep the table from being made.
func TestPrepareWhileTheServiceStumbles(t *testing.T) {
	for _, f := range []emulator.Fault{
		{Kind: emulator.FaultDropAfter, Op: "CreateTable", Times: 1}, {Kind: emulator.FaultDropBefore, Op: "CreateTable", Times: 1},
		{Kind: emulator.FaultThrottleRequests, Op: "CreateTable", Times: 1}, {Kind: emulator.FaultServerError, Op: "DescribeTable", Times: 2},
		{Kind: emulator.FaultThrottleRequests, Op: "DescribeTable", Times: 5},
	} {
		t.Run(string(f.Kind)+" "+f.Op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := serve(t, emulator.Config{CreateDelay: time.Second})
				srv.SetFault(f)
				s := srv.ready(t)
				_, err := s.Create(t.Context(), lease("1"))
				must(t, err)
			})
		})
	}
}
