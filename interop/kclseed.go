package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
)

const ownerIndex = "LeaseOwnerToLeaseKeyIndex"

// seed makes the lease table as the fleet's version of the KCL would have (docs/reference/kcl.md 1), with a free lease at the beginning of each
// shard: a worker of the KCL that finds an empty table sleeps up to 30 s.
func (f *kclFleet) seed(ctx context.Context) error {
	in := &dynamodb.CreateTableInput{TableName: new(app), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: new("leaseKey"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: new("leaseKey"), AttributeType: types.ScalarAttributeTypeS}}}
	if f.led() {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: new("leaseOwner"), AttributeType: types.ScalarAttributeTypeS})
		in.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{{IndexName: new(ownerIndex), Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
			KeySchema: []types.KeySchemaElement{{AttributeName: new("leaseOwner"), KeyType: types.KeyTypeHash}, {AttributeName: new("leaseKey"), KeyType: types.KeyTypeRange}}}}
	}
	if _, err := f.d.CreateTable(ctx, in); err != nil {
		return err
	}
	if err := poll(ctx, stepTime, func() (string, error) {
		o, err := f.d.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: new(app)})
		if err != nil {
			return "", err
		}
		if o.Table.TableStatus != types.TableStatusActive {
			return "the lease table is " + string(o.Table.TableStatus), nil
		}
		return "", nil
	}); err != nil {
		return err
	}
	for _, p := range f.ps {
		if err := f.seedStream(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (f *kclFleet) seedStream(ctx context.Context, p *producer) error {
	shards, err := p.shards(ctx)
	if err != nil {
		return err
	}
	id := ""
	if f.model.several {
		d, err := p.k.DescribeStreamSummary(ctx, &kinesis.DescribeStreamSummaryInput{StreamName: &p.stream})
		if err != nil {
			return err
		}
		id = fmt.Sprintf("%s:%s:%d", strings.Split(*d.StreamDescriptionSummary.StreamARN, ":")[4], p.stream, d.StreamDescriptionSummary.StreamCreationTimestamp.Unix())
	}
	for _, s := range shards {
		row := map[string]types.AttributeValue{
			"leaseKey": text(s.id), "checkpoint": text("TRIM_HORIZON"), "checkpointSubSequenceNumber": number("0"), "leaseCounter": number("0"),
			"ownerSwitchesSinceCheckpoint": number("0"), "startingHashKey": text(s.start), "endingHashKey": text(s.end),
		}
		if f.layout() == "kcl3-single" {
			row["entityType"] = text(leaseKind)
		}
		if id != "" {
			row["leaseKey"], row["streamName"], row["shardId"] = text(id+":"+s.id), text(id), text(s.id)
		}
		if _, err := f.d.PutItem(ctx, &dynamodb.PutItemInput{TableName: new(app), Item: row}); err != nil {
			return err
		}
	}
	return nil
}

func text(s string) types.AttributeValue   { return &types.AttributeValueMemberS{Value: s} }
func number(n string) types.AttributeValue { return &types.AttributeValueMemberN{Value: n} }
