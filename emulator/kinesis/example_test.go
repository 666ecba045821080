package kinesis_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardwarden/shardwarden/emulator/kinesis"
)

// A test points the stock SDK client at a server of its own.
func Example() {
	ctx := context.Background()
	server := kinesis.New(kinesis.Config{})
	defer server.Close()
	endpoint := httptest.NewServer(server)
	defer endpoint.Close()

	client := sdk.New(sdk.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(endpoint.URL),
		Credentials:  credentials.NewStaticCredentialsProvider("any", "any", ""),
	})
	stream := aws.String("orders")
	if _, err := client.CreateStream(ctx, &sdk.CreateStreamInput{StreamName: stream, ShardCount: aws.Int32(2)}); err != nil {
		fmt.Println(err)
		return
	}
	put, err := client.PutRecord(ctx, &sdk.PutRecordInput{StreamName: stream, PartitionKey: aws.String("customer-7"), Data: []byte("one lamp")})
	if err != nil {
		fmt.Println(err)
		return
	}
	it, err := client.GetShardIterator(ctx, &sdk.GetShardIteratorInput{StreamName: stream, ShardId: put.ShardId, ShardIteratorType: types.ShardIteratorTypeTrimHorizon})
	if err != nil {
		fmt.Println(err)
		return
	}
	got, err := client.GetRecords(ctx, &sdk.GetRecordsInput{ShardIterator: it.ShardIterator})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range got.Records {
		fmt.Printf("%s: %s\n", *r.PartitionKey, r.Data)
	}
	// Output: customer-7: one lamp
}

// The next put is applied, but the client never hears of it; with its retry the record is there twice.
func ExampleServer_SetFault() {
	ctx := context.Background()
	server := kinesis.New(kinesis.Config{})
	defer server.Close()
	endpoint := httptest.NewServer(server)
	defer endpoint.Close()
	client := sdk.New(sdk.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(endpoint.URL),
		Credentials:  credentials.NewStaticCredentialsProvider("any", "any", ""),
	})
	stream := aws.String("orders")
	_, errCreate := client.CreateStream(ctx, &sdk.CreateStreamInput{StreamName: stream, ShardCount: aws.Int32(1)})

	errFault := server.SetFault(kinesis.Fault{Kind: kinesis.DropAnswer, Operation: "PutRecord", Times: 1})
	_, errPut := client.PutRecord(ctx, &sdk.PutRecordInput{StreamName: stream, PartitionKey: aws.String("customer-7"), Data: []byte("one lamp")})

	it, err := client.GetShardIterator(ctx, &sdk.GetShardIteratorInput{StreamName: stream, ShardId: aws.String("shardId-000000000000"), ShardIteratorType: types.ShardIteratorTypeTrimHorizon})
	if err := errors.Join(errCreate, errFault, errPut, err); err != nil {
		fmt.Println(err)
		return
	}
	got, err := client.GetRecords(ctx, &sdk.GetRecordsInput{ShardIterator: it.ShardIterator})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(got.Records), "records of", server.Calls()["PutRecord"], "calls")
	// Output: 2 records of 2 calls
}
