package dynamo

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/hashicorp/go-multierror"

	"github.com/shardwarden/shardwarden/core"
)

// probeKey is the key of no row. Writes to it ask for what can't be, so they change nothing; the service looks at permissions first.
const probeKey = "shardwarden-permissions"

// checkPermissions tries what a worker does with its tables, side by side, and gathers every permission that is missing beside the one already known
// to be (denied, or nil); nil where none is. Other troubles are for the work itself to meet. read: the leases were read, or that was tried.
func (s *Store) checkPermissions(ctx context.Context, denied error, read bool) error {
	probes := append([]func(context.Context) error{s.probeGet(s.table, attrKey)}, s.probeWrites(s.table, attrKey)...)
	if !read {
		probes = append(probes, s.probeScan(s.table))
	}
	if st := s.now(); s.kind != Native && s.kind != KCL2 && st.phase != oneTable {
		probes = append(probes, s.probeScan(s.metricsName()))
		probes = append(probes, s.probeWrites(s.metricsName(), attrMetricKey)[1:]...) // updates and deletes
		probes = append(probes, s.probeWrites(s.coordinatorName(), attrSideKey)...)
	}
	found := make([]error, len(probes))
	var wg sync.WaitGroup
	for i, probe := range probes {
		wg.Go(func() { found[i] = probe(ctx) })
	}
	wg.Wait()
	var missing *multierror.Error
	for _, err := range append([]error{denied}, found...) {
		if lacksPermission(err) && !named(missing, err) {
			missing = multierror.Append(missing, err)
		}
	}
	if len(missing.WrappedErrors()) == 0 && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return missing.ErrorOrNil()
}

// named reports whether the same permission is among those found already.
func named(missing *multierror.Error, err error) bool {
	one, _ := errors.AsType[*CallError](err)
	return slices.ContainsFunc(missing.WrappedErrors(), func(err error) bool {
		other, _ := errors.AsType[*CallError](err)
		return other.Call == one.Call && other.Table == one.Table
	})
}

// lacksPermission reports whether a call was refused because a policy lacks something. Where the credentials themselves are not accepted no other call
// fares better, so there is nothing to gather.
func lacksPermission(err error) bool {
	e, ok := errors.AsType[*CallError](err)
	return ok && errors.Is(e.Kind, core.ErrDenied) && isPolicy(e.Err)
}

func (s *Store) probeGet(table, keyAttr string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := s.readRow(ctx, table, keyAttr, probeKey)
		return err
	}
}

func (s *Store) probeScan(table string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := call(ctx, s, operation{name: "Scan", table: table}, s.client.Scan, &dynamodb.ScanInput{TableName: &table, Limit: new(int32(1))})
		return err
	}
}

// probeWrites are a put, an update and a delete.
func (s *Store) probeWrites(table, keyAttr string) []func(context.Context) error {
	e := newExpression()
	e.require("attribute_exists(%[1]s) AND attribute_not_exists(%[1]s)", e.name(keyAttr))
	key, never, names := Attributes{keyAttr: text(probeKey)}, e.condition(), e.attributeNames()
	return []func(context.Context) error{
		func(ctx context.Context) error {
			_, err := call(ctx, s, operation{name: "PutItem", table: table}, s.client.PutItem, &dynamodb.PutItemInput{TableName: &table, Item: key, ConditionExpression: never, ExpressionAttributeNames: names})
			return err
		},
		func(ctx context.Context) error {
			_, err := call(ctx, s, operation{name: "UpdateItem", table: table}, s.client.UpdateItem, &dynamodb.UpdateItemInput{TableName: &table, Key: key, ConditionExpression: never, ExpressionAttributeNames: names})
			return err
		},
		func(ctx context.Context) error {
			_, err := call(ctx, s, operation{name: "DeleteItem", table: table}, s.client.DeleteItem, &dynamodb.DeleteItemInput{TableName: &table, Key: key, ConditionExpression: never, ExpressionAttributeNames: names})
			return err
		},
	}
}
