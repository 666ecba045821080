package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"

	"github.com/shardwarden/shardwarden/backends/kinesis"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leasetable"
	"github.com/shardwarden/shardwarden/core"
)

// gather asks the services, and watches the table for a while.
func (o *options) gather(ctx context.Context) (*Facts, error) {
	cfg, err := o.Config(ctx)
	if err != nil {
		return nil, err
	}
	f := &Facts{Stream: o.Stream, App: o.App, Table: o.Name(), LeaseDuration: o.lease, WorkerID: o.worker, SideErrs: map[string]error{}}
	source := kinesis.New(cfg, o.Stream, append(o.Kinesis(), kinesis.MaxRecords(1), kinesis.Patience(5*time.Second))...)
	f.gatherStream(ctx, source)
	tables := tables{o.Client(cfg)}
	if !o.noProbes {
		f.Denied = tables.probe(ctx, f.Table, "leaseKey")
	}
	for i, name := range o.SideTables() {
		err := tables.describe(ctx, name)
		switch {
		case denied(err):
			f.SideErrs[name] = errors.New("it may not be asked whether it exists")
		case err != nil && !missing(err):
			f.SideErrs[name] = err
		case err == nil && !o.noProbes:
			f.Denied = append(f.Denied, tables.probe(ctx, name, []string{"key", "wid"}[i])...)
		}
	}
	f.gatherTable(ctx, o)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return f, nil
}

func (f *Facts) gatherStream(ctx context.Context, source *kinesis.Source) {
	bounded, cancel := context.WithTimeout(ctx, time.Minute) // a stream that is being made is waited for
	defer cancel()
	if f.Info, f.StreamErr = source.Describe(bounded); f.StreamErr != nil && !errors.Is(f.StreamErr, core.ErrDenied) {
		return
	}
	if f.StreamErr == nil { // where describing is denied the rest is tried all the same, to name all that is
		before := time.Now()
		served, err := source.Now(ctx)
		// The service tells whole seconds, cut off: the middle of the second that it means.
		middle := before.Add(time.Since(before) / 2)
		f.Ahead, f.ClockErr = middle.Sub(served.Add(500*time.Millisecond)), err
	}
	if f.Shards, f.ShardsErr = source.Shards(ctx, core.Position{}); f.ShardsErr != nil {
		return
	}
	i := slices.IndexFunc(f.Shards, func(s core.Shard) bool { return !s.Closed })
	if i < 0 {
		return
	}
	reader, err := source.Open(bounded, f.Shards[i], core.FromHorizon)
	if err == nil {
		var page *core.Page
		if page, err = reader.Next(bounded); err == nil && page.Release != nil {
			page.Release()
		}
		_ = reader.Close() // nothing was written
	}
	f.ReadErr = err
}

// wholeEvery is how often all that belongs to a table is read, beside its leases.
const wholeEvery = 5 * time.Second

// gatherTable watches the lease table: its leases often enough to see each renewal, but a big table less often.
func (f *Facts) gatherTable(ctx context.Context, o *options) {
	t, err := o.Open(ctx)
	var first *leasetable.Reading
	if err == nil {
		first, err = t.Read(ctx)
	}
	if errors.Is(err, core.ErrNotFound) {
		f.Missing = true
		return
	}
	if err != nil {
		f.TableErr = err
		return
	}
	if err := f.gatherRows(ctx, t); err != nil {
		f.TableErr = err
		return
	}
	var seen leasetable.Observer
	begun := time.Now()
	seen.See(first, begun)
	f.Before = t.Report(first, &seen)
	w := watched{samples: []Sample{{begun, first.Sight.Leases}}, leader: leaderOf(first)}
	last, whole := first, begun
	pitch := max(500*time.Millisecond, time.Duration(len(first.Sight.Leases))*time.Millisecond)
	for time.Since(begun) < o.observe {
		if leasetable.Pause(ctx, pitch) != nil {
			return
		}
		// A look that fails is left out; were it the last, the one before shows what there is to see.
		if time.Since(whole) < wholeEvery && time.Since(begun) < o.observe {
			if r, err := t.ReadLeases(ctx); err == nil {
				w.samples = append(w.samples, Sample{time.Now(), r.Sight.Leases})
			}
			continue
		}
		r, err := t.Read(ctx)
		if err != nil {
			continue
		}
		whole, last = time.Now(), r
		seen.See(r, whole)
		w.samples = append(w.samples, Sample{whole, r.Sight.Leases})
		w.leads(leaderOf(r))
	}
	f.Report = t.Report(last, &seen)
	f.Renewals, f.Acquired, f.LeaderChanges = renewals(w.samples), w.acquired(), w.changes
}

// watched is what was seen of a table.
type watched struct {
	samples []Sample
	leader  string
	changes int
}

func leaderOf(r *leasetable.Reading) string {
	if r.KCL == nil || r.KCL.Leader == nil {
		return ""
	}
	return r.KCL.Leader.Owner
}

func (w *watched) leads(leader string) {
	if leader != w.leader {
		w.leader = leader
		w.changes++
	}
}

// acquired counts leases that came to the worker that owned them already.
func (w *watched) acquired() map[string]int {
	out := map[string]int{}
	last := map[core.LeaseKey]core.Lease{}
	for _, s := range w.samples {
		for _, l := range s.Leases {
			if was, ok := last[l.Key]; ok && was.Owner == l.Owner && was.Run != "" && l.Run != "" && was.Run != l.Run {
				out[string(l.Owner)]++
			}
			last[l.Key] = l
		}
	}
	return out
}

// gatherRows looks at the rows themselves, for what no lease shows: rows that are none, and the locks in whichever table.
func (f *Facts) gatherRows(ctx context.Context, t *leasetable.Table) error {
	for row, err := range t.Rows(ctx) {
		switch {
		case errors.Is(err, core.ErrDenied) || denied(err):
			return nil // of a side table, which is a finding of its own
		case err != nil:
			return err
		}
		key := row.Text("leaseKey")
		if row.Table != t.Name {
			key = row.Text("key")
		}
		if owner := row.Text("ownerName"); key == "Leader" && owner != "" {
			f.Leaders = append(f.Leaders, LockRow{row.Table, owner})
		}
		if row.Table != t.Name {
			continue
		}
		if row.Attributes["leaseCounter"] != nil || row.Attributes["checkpoint"] != nil {
			if row.Text("checkpointOwner") != "" {
				f.Asked = append(f.Asked, key)
			}
			continue
		}
		kind := row.Text("entityType")
		if kind == "" && (key == "Leader" || key == "Migration3.0" || key == "TableMigration3.5") {
			kind = "coordinator"
		}
		f.Foreign = append(f.Foreign, ForeignRow{Key: key, Type: kind, Ours: row.Attributes["sw_beat"] != nil})
	}
	return nil
}

// tables makes the calls that only show whether they are allowed.
type tables struct{ client *dynamodb.Client }

func (t tables) describe(ctx context.Context, table string) error {
	_, err := t.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	return err
}

func missing(err error) bool { return code(err) == "ResourceNotFoundException" }

func denied(err error) bool { return strings.HasPrefix(code(err), "AccessDenied") }

func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

// probe makes each call that a worker makes, the writes on a condition that never holds: nothing is changed.
func (t tables) probe(ctx context.Context, table, keyName string) []Denial {
	key := leasetable.Key(keyName, "shardwarden doctor")
	names := map[string]string{"#k": keyName}
	never, consistent := "attribute_exists(#k) AND attribute_not_exists(#k)", true
	var out []Denial
	for _, call := range []struct {
		name string
		make func() error
	}{
		{"DescribeTable", func() error { return t.describe(ctx, table) }},
		{"Scan", func() error {
			_, err := t.client.Scan(ctx, &dynamodb.ScanInput{TableName: &table, Limit: new(int32(1))})
			return err
		}},
		{"GetItem", func() error {
			_, err := t.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, Key: key, ConsistentRead: &consistent})
			return err
		}},
		{"PutItem", func() error {
			_, err := t.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: key, ConditionExpression: &never, ExpressionAttributeNames: names})
			return err
		}},
		{"UpdateItem", func() error {
			_, err := t.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: &table, Key: key, ConditionExpression: &never, UpdateExpression: new("REMOVE probe"), ExpressionAttributeNames: names,
			})
			return err
		}},
		{"DeleteItem", func() error {
			_, err := t.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &table, Key: key, ConditionExpression: &never, ExpressionAttributeNames: names})
			return err
		}},
	} {
		err := call.make()
		if missing(err) {
			return nil // there is nothing to be allowed
		}
		if denied(err) {
			out = append(out, Denial{Call: call.name, Table: table})
		}
	}
	return out
}
