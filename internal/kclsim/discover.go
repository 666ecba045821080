package kclsim

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// discover finds leases that were given to this worker, by the index. It writes nothing: the first renewal does.
func (w *Worker) discover(ctx context.Context) {
	var from item
	for {
		out, err := w.s.DynamoDB.Query(ctx, &dynamodb.QueryInput{
			TableName: aws.String(w.s.App), IndexName: aws.String(indexName), KeyConditionExpression: aws.String("leaseOwner = :me"),
			ExpressionAttributeValues: item{":me": str(w.s.ID)}, ExclusiveStartKey: from,
		})
		if err != nil {
			return
		}
		for _, row := range out.Items {
			key := textOf(row, "leaseKey")
			w.mu.Lock()
			known := w.held[key] != nil
			w.mu.Unlock()
			if known {
				continue
			}
			l, err := w.lease(ctx, key)
			if err == nil && l != nil && l.owner == w.s.ID && l.checkpointOwner == "" {
				w.hold(*l, "found")
			}
		}
		if from = out.LastEvaluatedKey; len(from) == 0 {
			return
		}
	}
}
