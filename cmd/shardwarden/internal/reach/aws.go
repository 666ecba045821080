// Package reach declares the flags that say where a service is, and makes its clients from them. It calls nobody but, where the SDK is set up so,
// the service that gives credentials.
package reach

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/shardwarden/shardwarden/backends/kinesis"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// AWS says how Kinesis and DynamoDB are reached.
type AWS struct{ Region, Endpoint, DynamoEndpoint string }

// Flags declares --region, --endpoint-url and --dynamodb-endpoint-url.
func (a *AWS) Flags(f *command.Flags) {
	f.StringVar(&a.Region, "region", "", "region (default: that of the SDK, as AWS_REGION or the profile say)")
	f.StringVar(&a.Endpoint, "endpoint-url", "", "send calls here instead of to the service: an emulator, a private endpoint (as AWS_ENDPOINT_URL)")
	f.StringVar(&a.DynamoEndpoint, "dynamodb-endpoint-url", "", "the same for the lease table alone (as AWS_ENDPOINT_URL_DYNAMODB)")
	f.Check(func() error { return checkURL("endpoint-url", a.Endpoint) })
	f.Check(func() error { return checkURL("dynamodb-endpoint-url", a.DynamoEndpoint) })
}

// Config loads the settings of the SDK.
func (a *AWS) Config(ctx context.Context) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(a.Region))
	if err != nil {
		return cfg, fmt.Errorf("settings of the AWS SDK (environment, profile): %w", err)
	}
	if cfg.Region == "" {
		if a.Endpoint == "" && a.DynamoEndpoint == "" {
			return cfg, errors.New("no region: say --region, or set AWS_REGION or a region in the AWS profile")
		}
		cfg.Region = "us-east-1" // what stands at an address of its own rarely asks
	}
	return cfg, nil
}

// Kinesis are the options of a source.
func (a *AWS) Kinesis() []kinesis.Option {
	if a.Endpoint == "" {
		return nil
	}
	return []kinesis.Option{kinesis.Endpoint(a.Endpoint)}
}

// DynamoDB is the address of the lease table's service; empty: the SDK decides. The flag for all services gives way to what is said of DynamoDB
// alone, be it in the environment.
func (a *AWS) DynamoDB() string {
	switch {
	case a.DynamoEndpoint != "":
		return a.DynamoEndpoint
	case a.Endpoint != "" && os.Getenv("AWS_ENDPOINT_URL_DYNAMODB") == "":
		return a.Endpoint
	}
	return ""
}

// Dynamo are the options of a store.
func (a *AWS) Dynamo() []dynamo.Option {
	if url := a.DynamoDB(); url != "" {
		return []dynamo.Option{dynamo.Endpoint(url)}
	}
	return nil
}
