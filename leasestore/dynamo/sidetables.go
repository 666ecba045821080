package dynamo

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/core"
)

// makeSideTables creates what is missing of the two tables that KCL 3.0 to 3.4 keeps beside the leases, on demand as it does, and waits for them.
func (s *Store) makeSideTables(ctx context.Context) error {
	for _, t := range []struct{ name, key string }{{s.metricsName(), attrMetricKey}, {s.coordinatorName(), attrSideKey}} {
		if err := s.makeSideTable(ctx, t.name, t.key); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.found.coordinator = present // the one that tells, so the last to be made
	s.mu.Unlock()
	return s.rejudge()
}

func (s *Store) makeSideTable(ctx context.Context, name, key string) error {
	pause := pauses{next: firstPause}
	for {
		out, err := call(ctx, s, operation{name: "DescribeTable", table: name}, s.client.DescribeTable, &dynamodb.DescribeTableInput{TableName: &name})
		switch {
		case errors.Is(err, core.ErrNotFound):
			if s.mustExist {
				return fmt.Errorf("table %s does not exist, and is not to be created: create it with the partition key %s (S): %w", name, key, core.ErrNotFound)
			}
			_, err := call(ctx, s, operation{name: "CreateTable", once: true, table: name}, s.client.CreateTable, &dynamodb.CreateTableInput{
				TableName:            &name,
				AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &key, AttributeType: types.ScalarAttributeTypeS}},
				KeySchema:            []types.KeySchemaElement{{AttributeName: &key, KeyType: types.KeyTypeHash}},
				BillingMode:          types.BillingModePayPerRequest,
			})
			if err != nil && !errors.Is(err, core.ErrExists) && !errors.Is(err, core.ErrThrottled) && !errors.Is(err, core.ErrUnavailable) {
				return err
			}
			if err == nil {
				continue
			}
		case err != nil && !errors.Is(err, core.ErrThrottled):
			return err
		case err == nil:
			if err := verifyKey(out.Table, name, key); err != nil {
				return err
			}
			if st := out.Table.TableStatus; st == types.TableStatusActive || st == types.TableStatusUpdating {
				return nil
			}
		}
		if err := pause.wait(ctx); err != nil {
			return err
		}
	}
}
