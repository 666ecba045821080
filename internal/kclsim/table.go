package kclsim

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const indexName = "LeaseOwnerToLeaseKeyIndex"

// place is where rows of a kind stand.
type place struct {
	table, key string
	typed      bool // rows carry entityType
}

func (w *Worker) leases() place { return place{w.s.App, "leaseKey", w.s.Version >= V35} }

// write is a conditional update of one row.
type write struct {
	at         place
	key        string
	condition  string
	expression string
	values     item
	names      map[string]string
}

var errCondition = errors.New("the condition did not hold")

// update carries a write out. It returns the row after it; with errCondition the row as it was, nil where there is none.
func (w *Worker) update(ctx context.Context, u write) (item, error) {
	in := &dynamodb.UpdateItemInput{
		TableName: aws.String(u.at.table), Key: item{u.at.key: str(u.key)}, UpdateExpression: aws.String(u.expression), ExpressionAttributeValues: u.values,
		ReturnValues: types.ReturnValueAllNew, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld, ExpressionAttributeNames: u.names,
	}
	if u.condition != "" {
		in.ConditionExpression = aws.String(u.condition)
	}
	out, err := w.s.DynamoDB.UpdateItem(ctx, in)
	if failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return failed.Item, errCondition
	}
	if err != nil {
		return nil, err
	}
	return out.Attributes, nil
}

func (w *Worker) put(ctx context.Context, at place, row item, condition string, values item) error {
	in := &dynamodb.PutItemInput{TableName: aws.String(at.table), Item: row, ConditionExpression: aws.String(condition), ExpressionAttributeNames: map[string]string{"#pk": at.key}}
	if len(values) > 0 {
		in.ExpressionAttributeValues = values
	}
	_, err := w.s.DynamoDB.PutItem(ctx, in)
	if _, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return errCondition
	}
	return err
}

// read is a GetItem; nil where there is no row. Rows of the coordinator are read strongly consistent, leases are not (consistentReads).
func (w *Worker) read(ctx context.Context, at place, key string) (item, error) {
	out, err := w.s.DynamoDB.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(at.table), Key: item{at.key: str(key)}, ConsistentRead: aws.Bool(at != w.leases())})
	if err != nil {
		return nil, err
	}
	return out.Item, nil
}

func (w *Worker) remove(ctx context.Context, at place, key, condition string, values item, names map[string]string) error {
	in := &dynamodb.DeleteItemInput{TableName: aws.String(at.table), Key: item{at.key: str(key)}}
	if condition != "" {
		in.ConditionExpression, in.ExpressionAttributeValues, in.ExpressionAttributeNames = aws.String(condition), values, names
	}
	_, err := w.s.DynamoDB.DeleteItem(ctx, in)
	if _, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return errCondition
	}
	return err
}

func (w *Worker) scan(ctx context.Context, table string) ([]item, error) {
	var rows []item
	var from item
	for {
		out, err := w.s.DynamoDB.Scan(ctx, &dynamodb.ScanInput{TableName: aws.String(table), ExclusiveStartKey: from})
		if err != nil {
			return nil, err
		}
		rows = append(rows, out.Items...)
		if from = out.LastEvaluatedKey; len(from) == 0 {
			return rows, nil
		}
	}
}

// list are all leases. A release before 3.5 has no guard for rows that are none (V4): the test has failed then.
func (w *Worker) list(ctx context.Context) ([]lease, error) {
	rows, err := w.scan(ctx, w.s.App)
	if err != nil {
		return nil, err
	}
	return w.readLeases(rows)
}

func (w *Worker) readLeases(rows []item) ([]lease, error) {
	var out []lease
	for _, row := range rows {
		if kind := textOf(row, "entityType"); w.s.Version >= V35 && kind != "" && kind != "LEASE" {
			continue
		}
		l, err := readLease(row)
		if err != nil {
			if w.s.Version >= V35 && errors.Is(err, errNoCounter) {
				continue
			}
			w.fault("lists the leases and fails on row %q: %w", textOf(row, "leaseKey"), err)
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

// lease reads one lease; nil where there is none.
func (w *Worker) lease(ctx context.Context, key string) (*lease, error) {
	row, err := w.read(ctx, w.leases(), key)
	if err != nil || row == nil {
		return nil, err
	}
	l, err := readLease(row)
	if err != nil {
		w.fault("fails on row %q: %w", key, err)
		return nil, err
	}
	return &l, nil
}

// create makes a lease unless there is one; a race is no error.
func (w *Worker) create(ctx context.Context, l lease) error {
	err := w.put(ctx, w.leases(), newRow(l, w.leases().typed), "attribute_not_exists(#pk)", nil)
	if errors.Is(err, errCondition) {
		return nil
	}
	return err
}

// ownersAsSeen is the condition of assign and evict: the row exists, and its owners are as seen.
func ownersAsSeen(seen *lease, values item) string {
	var condition strings.Builder
	condition.WriteString("leaseKey = :k")
	values[":k"] = str(seen.key)
	for _, a := range []struct{ name, ref, value string }{{"leaseOwner", ":o", seen.owner}, {"checkpointOwner", ":co", seen.checkpointOwner}} {
		if a.value == "" {
			condition.WriteString(" AND attribute_not_exists(" + a.name + ")")
		} else {
			condition.WriteString(" AND " + a.name + " = " + a.ref)
			values[a.ref] = str(a.value)
		}
	}
	return condition.String()
}

// assign makes to the owner, or completes a hand-over. false: the row is no longer as seen.
func (w *Worker) assign(ctx context.Context, seen *lease, to string) (bool, error) {
	values := item{":to": str(to), ":one": num(1)}
	u := write{at: w.leases(), key: seen.key, condition: ownersAsSeen(seen, values), values: values}
	u.expression = "SET leaseOwner = :to REMOVE checkpointOwner ADD leaseCounter :one"
	if seen.owner != "" && seen.owner != to || seen.checkpointOwner == to {
		u.expression += ", ownerSwitchesSinceCheckpoint :one"
	}
	return done(w.update(ctx, u))
}

// startHandOff asks the owner for the lease, for another.
func (w *Worker) startHandOff(ctx context.Context, seen *lease, to string) (bool, error) {
	return done(w.update(ctx, write{
		at: w.leases(), key: seen.key, condition: "leaseKey = :k AND leaseOwner = :o AND attribute_not_exists(checkpointOwner)",
		expression: "SET leaseOwner = :to, checkpointOwner = :o", values: item{":k": str(seen.key), ":o": str(seen.owner), ":to": str(to)},
	}))
}

// take makes me the owner, under the counter. A 3.x release also ends a hand-over by it.
func (w *Worker) take(ctx context.Context, seen *lease) (bool, error) {
	u := write{at: w.leases(), key: seen.key, condition: "leaseCounter = :c", values: item{":c": num(seen.counter), ":n": num(seen.counter + 1), ":me": str(w.s.ID)}}
	u.expression = "SET leaseCounter = :n, leaseOwner = :me"
	led := w.s.Version >= V34
	if led {
		u.expression += " REMOVE checkpointOwner"
	}
	if seen.owner != "" && seen.owner != w.s.ID || led && seen.checkpointOwner == w.s.ID {
		u.expression += " ADD ownerSwitchesSinceCheckpoint :one"
		u.values[":one"] = num(1)
	}
	return done(w.update(ctx, u))
}

func done(_ item, err error) (bool, error) {
	if errors.Is(err, errCondition) {
		return false, nil
	}
	return err == nil, err
}

// prepareTable makes a table where it is missing, and waits until it can be used.
func (w *Worker) prepareTable(ctx context.Context, at place) error {
	_, err := w.s.DynamoDB.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: aws.String(at.table), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String(at.key), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String(at.key), KeyType: types.KeyTypeHash}},
	})
	if _, ok := errors.AsType[*types.ResourceInUseException](err); err != nil && !ok {
		return err
	}
	for {
		out, err := w.s.DynamoDB.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(at.table)})
		if err != nil {
			return err
		}
		if s := out.Table.TableStatus; s == types.TableStatusActive || s == types.TableStatusUpdating {
			return nil
		}
		if err := pause(ctx, tableEvery); err != nil {
			return err
		}
	}
}

// describe is the state of a table; nil where there is none.
func (w *Worker) describe(ctx context.Context, table string) (*types.TableDescription, error) {
	out, err := w.s.DynamoDB.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(table)})
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); ok {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return out.Table, nil
}

// indexStatus is ACTIVE, CREATING and so on; "" where there is no index.
func (w *Worker) indexStatus(ctx context.Context) (types.IndexStatus, error) {
	t, err := w.describe(ctx, w.s.App)
	if err != nil || t == nil {
		return "", err
	}
	for _, g := range t.GlobalSecondaryIndexes {
		if aws.ToString(g.IndexName) == indexName {
			return g.IndexStatus, nil
		}
	}
	return "", nil
}

// prepareIndex adds the index where it is missing, and waits for it where wait is set.
func (w *Worker) prepareIndex(ctx context.Context, wait bool) error {
	for {
		status, err := w.indexStatus(ctx)
		switch {
		case err != nil:
			return err
		case status == types.IndexStatusActive:
			return nil
		case status == "":
			_, err := w.s.DynamoDB.UpdateTable(ctx, &dynamodb.UpdateTableInput{
				TableName:            aws.String(w.s.App),
				AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("leaseKey"), AttributeType: types.ScalarAttributeTypeS}, {AttributeName: aws.String("leaseOwner"), AttributeType: types.ScalarAttributeTypeS}},
				GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Create: &types.CreateGlobalSecondaryIndexAction{
					IndexName:  aws.String(indexName),
					KeySchema:  []types.KeySchemaElement{{AttributeName: aws.String("leaseOwner"), KeyType: types.KeyTypeHash}, {AttributeName: aws.String("leaseKey"), KeyType: types.KeyTypeRange}},
					Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
				}}},
			})
			if _, ok := errors.AsType[*types.ResourceInUseException](err); err != nil && !ok {
				return fmt.Errorf("create index: %w", err)
			}
			if err == nil {
				if status, err = w.indexStatus(ctx); err == nil && status == types.IndexStatusActive {
					return nil
				}
			}
		}
		if !wait {
			return nil
		}
		if err := pause(ctx, tableEvery); err != nil {
			return err
		}
	}
}
