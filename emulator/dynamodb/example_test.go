package dynamodb_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	ddb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/emulator/dynamodb"
)

// A lease table in this process, reached by the ordinary client; then a write
// whose answer gets lost after it was applied.
func Example() {
	emulator := dynamodb.New(dynamodb.Config{})
	defer emulator.Close()
	server := httptest.NewServer(emulator)
	defer server.Close()

	client := ddb.New(ddb.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(server.URL),
		Credentials:  credentials.NewStaticCredentialsProvider("any", "any", ""),
		Retryer:      aws.NopRetryer{}, // or it would hide the lost answer
	})
	ctx := context.Background()
	if _, err := client.CreateTable(ctx, &ddb.CreateTableInput{
		TableName:            aws.String("leases"),
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("leaseKey"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("leaseKey"), KeyType: types.KeyTypeHash}},
	}); err != nil {
		log.Fatal(err)
	}

	emulator.SetFault(dynamodb.Fault{Kind: dynamodb.FaultDropAfter, Op: "PutItem", KeyPrefix: "shardId-", Times: 1})
	_, err := client.PutItem(ctx, &ddb.PutItemInput{
		TableName:           aws.String("leases"),
		Item:                map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: "shardId-000000000000"}},
		ConditionExpression: aws.String("attribute_not_exists(leaseKey)"),
	})
	fmt.Println("answered:", err == nil)
	fmt.Println("stored:", emulator.Items("leases"))
	fmt.Println("calls:", emulator.Calls())
	// Output:
	// answered: false
	// stored: [map[leaseKey:map[S:shardId-000000000000]]]
	// calls: map[CreateTable:1 PutItem:1]
}
