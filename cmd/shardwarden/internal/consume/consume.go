// Package consume joins an application as one worker and prints the records it gets.
package consume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/shardwarden/shardwarden/backends/kinesis"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/interrupt"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

const about = `shardwarden consume kinesis: join an application as one worker and print the records of its share of the stream.

Start it as often as wanted, on as many machines as wanted: all that name the same --app share the shards, whose leases are in the DynamoDB
table of that name (made if it is missing). Each record is one JSON object on stdout, with the keys stream shard sequence sub key arrived data:
arrived in milliseconds since 1970, data in base64. A record is acknowledged once it was written, so after a kill -9 some may come again and
none is lost. Logs go to stderr.

SIGINT or SIGTERM finishes what is being printed, stores the checkpoints, gives the leases up and exits with 0; a second one, half a second
later or more, ends it at once. A reader of stdout that goes away ends it in order too. Exit status 1: it could not go on; 2: the command line
makes no sense.`

const examples = `  shardwarden consume kinesis --stream orders --app billing
  shardwarden consume kinesis --stream orders --app peek --from latest --text | jq .text
  shardwarden consume kinesis --stream orders --app batch --max 1000     # the next run goes on with record 1001
  shardwarden consume kinesis --stream orders --app nightly --idle-exit 30s --events events.jsonl
  shardwarden consume kinesis --stream orders --app try --endpoint-url http://127.0.0.1:4567   # with: shardwarden emulator all`

type options struct {
	stream, app, region, endpoint, dynamoEndpoint, worker, from, events string
	lease, checkpoint, idle                                             time.Duration
	max                                                                 int64
	text                                                                bool
	start                                                               core.Position
}

// Run is the command.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o options
	f := o.flags(stdout)
	backend := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		backend, args = args[0], args[1:]
	}
	if err := f.Parse(args); err != nil {
		if errors.Is(err, command.ErrHelp) || backend == "kinesis" {
			return err
		}
	}
	switch backend {
	case "kinesis":
	case "":
		return f.Bad("consume what? Say kinesis")
	default:
		return f.Bad("%q cannot be consumed from here: it is kinesis so far", backend)
	}
	ctx, stop := interrupt.Context(ctx)
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // so that a reader who went away is an error of the write
	return o.consume(ctx, stdout, slog.New(slog.NewTextHandler(stderr, nil)))
}

func (o *options) flags(stdout io.Writer) *command.Flags {
	f := command.NewFlags("shardwarden consume kinesis", about, examples, stdout)
	f.StringVar(&o.stream, "stream", "", "name or ARN of the stream (required)")
	f.StringVar(&o.app, "app", "", "application: workers of one application share the shards; its lease table has this name (required)")
	f.StringVar(&o.region, "region", "", "region (default: that of the SDK, as AWS_REGION or the profile say)")
	f.StringVar(&o.endpoint, "endpoint-url", "", "send calls here instead of to the service: an emulator, a private endpoint (as AWS_ENDPOINT_URL)")
	f.StringVar(&o.dynamoEndpoint, "dynamodb-endpoint-url", "", "the same for the lease table alone (as AWS_ENDPOINT_URL_DYNAMODB)")
	f.StringVar(&o.worker, "worker-id", "", "name of this worker in the lease table (default: host, process and a random part)")
	f.StringVar(&o.from, "from", "trim-horizon", "where an application begins that has no leases yet: trim-horizon, latest, or a time as 2006-01-02T15:04:05Z")
	f.DurationVar(&o.lease, "lease-duration", 10*time.Second, "how long a worker is silent before others take its leases; the same for all of an application")
	f.DurationVar(&o.checkpoint, "checkpoint-interval", 5*time.Second, "how long a printed record may wait to be stored as done")
	f.Int64Var(&o.max, "max", 0, "print so many records, then stop in order (default: no limit)")
	f.DurationVar(&o.idle, "idle-exit", 0, "stop in order once no record came for so long (default: never)")
	f.StringVar(&o.events, "events", "", "append what happens to this file, one JSON object a line (docs/events.md)")
	f.BoolVar(&o.text, "text", false, "print data that is UTF-8 as it is, under the key text instead of data")
	f.Require("stream", "app")
	f.Positive("lease-duration", &o.lease)
	f.Positive("checkpoint-interval", &o.checkpoint)
	f.Positive("idle-exit", &o.idle)
	f.Check(func() error {
		if f.Changed("max") && o.max < 1 {
			return fmt.Errorf("--max is %d: must be at least 1", o.max)
		}
		return nil
	})
	f.Check(func() error { return checkURL("endpoint-url", o.endpoint) })
	f.Check(func() error { return checkURL("dynamodb-endpoint-url", o.dynamoEndpoint) })
	f.Check(func() (err error) { o.start, err = parseStart(o.from); return err })
	return f
}

func checkURL(flag, value string) error {
	if value == "" {
		return nil
	}
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("--%s is %q: must be a URL such as http://127.0.0.1:4567", flag, value)
	}
	return nil
}

func parseStart(from string) (core.Position, error) {
	switch from {
	case "trim-horizon":
		return core.FromHorizon, nil
	case "latest":
		return core.FromLatest, nil
	}
	t, err := time.Parse(time.RFC3339, from)
	if err != nil {
		return core.Position{}, fmt.Errorf("--from is %q: must be trim-horizon, latest, or a time such as 2006-01-02T15:04:05Z", from)
	}
	return core.From(t), nil
}

// consume runs a worker until something ends it.
func (o *options) consume(ctx context.Context, stdout io.Writer, log *slog.Logger) (err error) {
	opts := []worker.Option{worker.WithLogger(log)}
	if o.events != "" {
		events, e := openEvents(o.events)
		if e != nil {
			return fmt.Errorf("--events: %w", e)
		}
		defer func() {
			if e := events.Close(); e != nil {
				err = errors.Join(err, fmt.Errorf("--events: %w", e))
			}
		}()
		opts = append(opts, worker.WithHooks(events))
	}
	defer context.AfterFunc(ctx, func() {
		log.Info("stopping in order; once more ends it at once", "signal", context.Cause(ctx))
	})()
	source, store, err := o.connect(ctx, log)
	if err != nil {
		return err
	}
	info, err := source.Describe(ctx)
	if ctx.Err() != nil {
		return o.outcome(log, context.Cause(ctx), nil)
	}
	if err != nil {
		return err
	}
	work, end := context.WithCancelCause(ctx)
	defer end(nil)
	p := &printer{out: stdout, stream: info.Name, text: o.text, max: o.max, end: end}
	opts = append(opts, worker.WithHooks(p))
	w, err := worker.New(worker.Config{
		ID: core.WorkerID(o.worker), Streams: worker.One(source, o.start), Store: store, Process: p.process,
		LeaseDuration: o.lease, CheckpointEvery: o.checkpoint, StallAfter: max(time.Minute, o.lease),
	}, opts...)
	if err != nil {
		return &command.UsageError{Command: "shardwarden consume kinesis", Err: err}
	}
	var watching sync.WaitGroup
	if o.idle > 0 {
		watching.Go(func() { p.watch(work, o.idle) })
	}
	err = w.Run(work)
	why := context.Cause(work)
	end(nil)
	watching.Wait()
	return o.outcome(log, why, err)
}

// outcome says what the end of the worker means for the program: why it was asked to end, nil if it was not, and what it returned.
func (o *options) outcome(log *slog.Logger, why, err error) error {
	signal, asked := errors.AsType[interrupt.Signal](why)
	switch {
	case asked:
		log.Info("stopped in order", "why", signal.Error())
	case errors.Is(why, errEnough), errors.Is(why, errIdle), errors.Is(why, errReader):
		log.Info("stopped in order", "why", why.Error())
	case why != nil:
		return errors.Join(why, err)
	}
	return err
}

// connect makes the two clients. It calls no service but, where the SDK is set up so, the one that gives credentials.
func (o *options) connect(ctx context.Context, log *slog.Logger) (*kinesis.Source, *dynamo.Store, error) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(o.region))
	if err != nil {
		return nil, nil, fmt.Errorf("settings of the AWS SDK (environment, profile): %w", err)
	}
	if cfg.Region == "" {
		if o.endpoint == "" {
			return nil, nil, errors.New("no region: say --region, or set AWS_REGION or a region in the AWS profile")
		}
		cfg.Region = "us-east-1" // what stands at an address of its own rarely asks
	}
	source := []kinesis.Option{kinesis.Logger(log)}
	store := []dynamo.Option{dynamo.Logger(log)}
	if o.endpoint != "" {
		source = append(source, kinesis.Endpoint(o.endpoint))
	}
	// The flag for both services gives way to what is said of DynamoDB alone, be it in the environment.
	switch {
	case o.dynamoEndpoint != "":
		store = append(store, dynamo.Endpoint(o.dynamoEndpoint))
	case o.endpoint != "" && os.Getenv("AWS_ENDPOINT_URL_DYNAMODB") == "":
		store = append(store, dynamo.Endpoint(o.endpoint))
	}
	return kinesis.New(cfg, o.stream, source...), dynamo.New(cfg, o.app, store...), nil
}
