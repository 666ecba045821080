package dynamo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/core"
)

// ownerIndex is where Java's workers of 3.x look for what they were given (docs/reference/kcl.md 1.1). We scan, and need none.
const ownerIndex = "LeaseOwnerToLeaseKeyIndex"

// makeIndex asks for that index where it is missing, and does not wait for it: no worker of ours does, and Java's wait for themselves. Without the
// right to it the fleet goes on: Java's workers make it when they come.
func (s *Store) makeIndex(ctx context.Context) error {
	t, err := s.describeTable(ctx, s.table)
	if err == nil && indexStatus(t) == "" {
		err = s.createIndex(ctx, t)
	}
	if errors.Is(err, core.ErrDenied) {
		s.log.Warn("the index over owners can't be made; Java's workers need it to find what they are given, and make it themselves where they may", "table", s.table, "index", ownerIndex, "err", err)
		return nil
	}
	return err
}

func (s *Store) describeTable(ctx context.Context, name string) (*types.TableDescription, error) {
	out, err := call(ctx, s, operation{name: "DescribeTable", table: name}, s.client.DescribeTable, &dynamodb.DescribeTableInput{TableName: &name})
	if err != nil {
		return nil, err
	}
	return out.Table, nil
}

// indexStatus is the state of the index over owners, empty where there is none.
func indexStatus(t *types.TableDescription) string {
	for _, x := range t.GlobalSecondaryIndexes {
		if value(x.IndexName) == ownerIndex {
			return string(x.IndexStatus)
		}
	}
	return ""
}

// createIndex asks for the index, keys only as the KCL does, with the units the table has at the moment.
func (s *Store) createIndex(ctx context.Context, t *types.TableDescription) error {
	create := &types.CreateGlobalSecondaryIndexAction{
		IndexName: new(ownerIndex),
		KeySchema: []types.KeySchemaElement{
			{AttributeName: new(attrOwner), KeyType: types.KeyTypeHash}, {AttributeName: new(attrKey), KeyType: types.KeyTypeRange},
		},
		Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
	}
	if b := t.BillingModeSummary; b == nil || b.BillingMode != types.BillingModePayPerRequest {
		create.ProvisionedThroughput = &types.ProvisionedThroughput{
			ReadCapacityUnits: t.ProvisionedThroughput.ReadCapacityUnits, WriteCapacityUnits: t.ProvisionedThroughput.WriteCapacityUnits,
		}
	}
	in := &dynamodb.UpdateTableInput{
		TableName: &s.table,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: new(attrKey), AttributeType: types.ScalarAttributeTypeS}, {AttributeName: new(attrOwner), AttributeType: types.ScalarAttributeTypeS},
		},
		GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Create: create}},
	}
	pause := pauses{next: firstPause}
	for {
		_, err := call(ctx, s, operation{name: "UpdateTable", once: true}, s.client.UpdateTable, in)
		if err == nil || !errors.Is(err, core.ErrExists) && !errors.Is(err, core.ErrThrottled) && !errors.Is(err, core.ErrInvalid) {
			return err
		}
		// The table is being changed, or somebody was quicker.
		now, describeErr := s.describeTable(ctx, s.table)
		if describeErr == nil && indexStatus(now) != "" {
			return nil
		}
		if errors.Is(err, core.ErrInvalid) {
			return err
		}
		if err := pause.wait(ctx); err != nil {
			return err
		}
	}
}

// indexWait is how long an index may take to be built, as with the KCL (docs/reference/kcl.md 1.1).
const indexWait = time.Hour

// waitForIndex returns once the index can be used.
func (s *Store) waitForIndex(ctx context.Context) error {
	bounded, cancel := context.WithTimeoutCause(ctx, indexWait, fmt.Errorf("index %s of table %s can still not be used after %v: %w", ownerIndex, s.table, indexWait, core.ErrUnavailable))
	defer cancel()
	pause := pauses{next: firstPause}
	for {
		t, err := s.describeTable(bounded, s.table)
		switch {
		case err == nil && indexStatus(t) == string(types.IndexStatusActive):
			return nil
		case err == nil && indexStatus(t) == "":
			return fmt.Errorf("index %s of table %s is gone: somebody deletes it: %w", ownerIndex, s.table, core.ErrNotFound)
		case err != nil && bounded.Err() == nil && !errors.Is(err, core.ErrThrottled):
			return err
		}
		if err := pause.wait(bounded); err != nil {
			return err
		}
	}
}

// deleteIndex asks for the end of the index, and does not wait for it.
func (s *Store) deleteIndex(ctx context.Context) error {
	t, err := s.describeTable(ctx, s.table)
	if err != nil {
		return err
	}
	if st := indexStatus(t); st == "" || st == string(types.IndexStatusDeleting) {
		return nil
	}
	_, err = call(ctx, s, operation{name: "UpdateTable", once: true}, s.client.UpdateTable, &dynamodb.UpdateTableInput{
		TableName:                   &s.table,
		GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Delete: &types.DeleteGlobalSecondaryIndexAction{IndexName: new(ownerIndex)}}},
	})
	return err
}
