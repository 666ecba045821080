// Package leases works on lease tables that no worker uses at the moment.
package leases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/shardwarden/shardwarden/backends/kinesis"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/interrupt"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

const about = `shardwarden leases migrate: turn the lease table of one Kinesis stream into one of several, with all progress.

Stop every worker of the application first; the table is watched for a while, and nothing is done if anybody uses it. Without --yes it only
says what would be done. Afterwards start the workers with several streams (dynamo.SeveralStreams, consume kinesis --several-streams). If it is
cut off, run it again: until it is through, workers of both kinds refuse the table. There is no way back but a backup of the table.`

const examples = `  shardwarden leases migrate --to multi-stream --app billing --stream orders          # says what it would do
  shardwarden leases migrate --to multi-stream --app billing --stream orders --yes`

type migrate struct {
	to, app, stream, region, endpoint, dynamoEndpoint string
	watch                                             time.Duration
	yes                                               bool
}

// Run is the command.
func Run(ctx context.Context, args []string, stdout, _ io.Writer) error {
	m := &migrate{}
	f := command.NewFlags("shardwarden leases migrate", about, examples, stdout)
	f.StringVar(&m.to, "to", "", "what the table becomes: multi-stream (required)")
	f.StringVar(&m.app, "app", "", "application, and name of its lease table (required)")
	f.StringVar(&m.stream, "stream", "", "the stream whose leases the table holds: name, ARN or account:name:creationEpoch (required)")
	f.StringVar(&m.region, "region", "", "region (default: that of the SDK, as AWS_REGION or the profile say)")
	f.StringVar(&m.endpoint, "endpoint-url", "", "send calls here instead of to the service (as AWS_ENDPOINT_URL)")
	f.StringVar(&m.dynamoEndpoint, "dynamodb-endpoint-url", "", "the same for the lease table alone (as AWS_ENDPOINT_URL_DYNAMODB)")
	f.DurationVar(&m.watch, "watch", 15*time.Second, "how long to watch whether somebody uses the table; longer than the lease duration of its workers")
	f.BoolVar(&m.yes, "yes", false, "do it")
	f.Require("to", "app", "stream")
	f.Positive("watch", &m.watch)
	f.Check(func() error {
		if m.to != "" && m.to != "multi-stream" {
			return fmt.Errorf("--to is %q: must be multi-stream", m.to)
		}
		return nil
	})
	switch {
	case len(args) > 0 && args[0] == "migrate":
		args = args[1:]
	case len(args) == 0 || args[0] != "--help" && args[0] != "-h":
		return f.Bad("leases what? Say migrate")
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	ctx, stop := interrupt.Context(ctx)
	defer stop()
	return m.run(ctx, stdout)
}

func (m *migrate) run(ctx context.Context, stdout io.Writer) error {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(m.region))
	if err != nil {
		return fmt.Errorf("settings of the AWS SDK (environment, profile): %w", err)
	}
	if cfg.Region == "" {
		if m.endpoint == "" {
			return errors.New("no region: say --region, or set AWS_REGION or a region in the AWS profile")
		}
		cfg.Region = "us-east-1"
	}
	source, store := m.connect(cfg)
	info, err := source.Describe(ctx)
	if err != nil {
		return err
	}
	plan, err := store.PlanSeveralStreams(ctx, info.ID, m.watch)
	if err != nil {
		return err
	}
	for _, l := range plan.Leases {
		if _, err := fmt.Fprintf(stdout, "%s at %s becomes %s:%s\n", l.Key.Shard, l.Checkpoint, info.ID, l.Key.Shard); err != nil {
			return err
		}
	}
	switch {
	case len(plan.Leases) == 0:
		_, err = fmt.Fprintf(stdout, "table %s has no leases of one stream: there is nothing to do\n", m.app)
		return err
	case !m.yes:
		_, err = fmt.Fprintf(stdout, "%d leases; nothing was changed. Say --yes to do it.\n", len(plan.Leases))
		return err
	}
	if err := plan.Run(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%d leases; done. Table %s is one of several streams now.\n", len(plan.Leases), m.app)
	return err
}

// connect calls no service.
func (m *migrate) connect(cfg aws.Config) (*kinesis.Source, *dynamo.Store) {
	source := []kinesis.Option{kinesis.Unchecked()} // nothing is read
	var store []dynamo.Option
	if m.endpoint != "" {
		source = append(source, kinesis.Endpoint(m.endpoint))
	}
	switch {
	case m.dynamoEndpoint != "":
		store = append(store, dynamo.Endpoint(m.dynamoEndpoint))
	case m.endpoint != "" && os.Getenv("AWS_ENDPOINT_URL_DYNAMODB") == "":
		store = append(store, dynamo.Endpoint(m.endpoint))
	}
	return kinesis.New(cfg, m.stream, source...), dynamo.New(cfg, m.app, store...)
}
