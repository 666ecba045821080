package consume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/shardwarden/shardwarden/backends/kinesis"
	"github.com/shardwarden/shardwarden/backends/kinesis/glue"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/reach"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// kinesisFlags are those of one or several Kinesis streams with leases in DynamoDB.
type kinesisFlags struct {
	reach.AWS
	app, table          string
	streams             []string
	several, glue, cbor bool
	fanOut, orPoll      bool
	consumer            string
	layoutName          string
	layout              dynamo.LayoutKind
	coordinator         string
	metrics             string
	neverLead           bool
	leaderLease         time.Duration
	metricsEvery        time.Duration
	noMetrics           bool
}

func (*kinesisFlags) name() string { return "kinesis" }

func (*kinesisFlags) data() form { return asBase64 }

func (*kinesisFlags) about() string {
	return `shardwarden consume kinesis: join an application as one worker and print the records of its share of the stream, or streams.

Start it as often as wanted, on as many machines as wanted: all that name the same --app share the shards, whose leases are in the DynamoDB
table of that name (made if it is missing). data is in base64.

With --stream more than once the leases are in the form of the KCL's multi-stream mode, and all workers of the application must name several
streams, or say --several-streams. A stream that cannot be had troubles no other; one that is deleted and made again is begun anew.

With --fan-out the service pushes the records to a consumer of the stream (it costs extra). The consumer is registered if it is missing, and stays
when the worker ends: aws kinesis deregister-stream-consumer removes it.

With --layout the lease table may be one that workers of the Java KCL use: auto finds out by which rules, and follows them while they change. --never-lead keeps this worker from leading
such a fleet, for a first try (docs/migrating-from-kcl.md). Without it a table that a Java worker uses is left alone.`
}

func (*kinesisFlags) examples() string {
	return `  shardwarden consume kinesis --stream orders --app billing
  shardwarden consume kinesis --stream orders --app peek --from latest --text | jq .text
  shardwarden consume kinesis --stream orders --app batch --max 1000     # the next run goes on with record 1001
  shardwarden consume kinesis --stream orders --app values --glue | jq .data
  shardwarden consume kinesis --stream orders --app nightly --idle-exit 30s --events events.jsonl
  shardwarden consume kinesis --stream orders --stream payments --app ledger
  shardwarden consume kinesis --stream orders --app alerts --fan-out
  shardwarden consume kinesis --stream orders --app billing --layout auto --never-lead   # beside Java workers
  shardwarden consume kinesis --stream orders --app try --endpoint-url http://127.0.0.1:4567   # with: shardwarden emulator all`
}

func (k *kinesisFlags) flags(f *command.Flags) {
	f.StringArrayVar(&k.streams, "stream", nil, "name of the stream, or its ARN, or account:name:creationEpoch (required); again for each further one")
	f.BoolVar(&k.several, "several-streams", false, "the lease table is one of several streams, though one is named here")
	f.StringVar(&k.app, "app", "", "application: workers of one application share the shards; its lease table has this name, but for --table (required)")
	f.StringVar(&k.table, "table", "", "the lease table, where it is not called like the application")
	f.BoolVar(&k.fanOut, "fan-out", false, "have the records pushed (enhanced fan-out) instead of polling for them")
	f.StringVar(&k.consumer, "consumer", "", "with --fan-out, name or ARN of the stream's consumer; each application needs its own (default: the name of the application)")
	f.BoolVar(&k.orPoll, "or-poll", false, "with --fan-out, poll where it cannot be had")
	k.AWS.Flags(f)
	f.BoolVar(&k.cbor, "cbor", false, "read pages in the service's binary format, which costs less; where that fails, JSON is used")
	f.BoolVar(&k.glue, "glue", false, "print records that have a schema in the Glue Schema Registry decoded: name and version of the schema, and the value as JSON under the key data")
	f.StringVar(&k.layoutName, "layout", "native", "whose rules the lease table goes by: native (ours alone), auto (what is found), kcl2, kcl3-tables, kcl3-single")
	f.BoolVar(&k.neverLead, "never-lead", false, "do not become the leader of a fleet of the KCL 3.x; goes with --layout")
	f.DurationVar(&k.leaderLease, "leader-lease", 0, "the duration in the leader's lock, for others to wait for when this worker leads and dies; 30s if not given; goes with --layout")
	f.DurationVar(&k.metricsEvery, "worker-metrics-every", 0, "how often the fleet's workers write the rows by which they are known to live (workerMetricsReporterFreqInMillis); 30s if not given; goes with --layout")
	f.BoolVar(&k.noMetrics, "no-worker-metrics", false, "say nothing of how busy the processor is, as workers of the KCL with disableWorkerMetrics; goes with --layout")
	f.Positive("leader-lease", &k.leaderLease)
	f.Positive("worker-metrics-every", &k.metricsEvery)
	f.StringVar(&k.coordinator, "coordinator-table", "", "the KCL's coordinator table, where it is not APP-CoordinatorState; goes with --layout")
	f.StringVar(&k.metrics, "metrics-table", "", "the KCL's table of worker metrics, where it is not APP-WorkerMetricStats; goes with --layout")
	f.Require("app")
	f.Check(k.checkLayout)
	f.Check(k.checkStreams)
	f.Check(k.checkFanOut)
}

func (k *kinesisFlags) checkStreams() error {
	if len(k.streams) == 0 {
		return errors.New("--stream is missing: it must be given")
	}
	for i, name := range k.streams {
		switch {
		case name == "":
			return errors.New("--stream is missing: it must be given, and not empty")
		case strings.Contains(name, ","):
			return fmt.Errorf("--stream is %q: must be one stream; give --stream again for each further one", name)
		case slices.Contains(k.streams[:i], name):
			return fmt.Errorf("--stream %s is given twice", name)
		}
	}
	return nil
}

func (k *kinesisFlags) checkFanOut() error {
	switch {
	case k.fanOut:
		return nil
	case k.consumer != "":
		return errors.New("--consumer goes with --fan-out, which is not given")
	case k.orPoll:
		return errors.New("--or-poll goes with --fan-out, which is not given")
	}
	return nil
}

func (k *kinesisFlags) checkLayout() (err error) {
	if k.layout, err = dynamo.ParseLayout(k.layoutName); err != nil {
		return fmt.Errorf("--layout is %q: must be native, auto, kcl2, kcl3-tables or kcl3-single", k.layoutName)
	}
	if k.layout != dynamo.Native {
		return nil
	}
	for _, f := range []struct {
		name string
		set  bool
	}{{"never-lead", k.neverLead}, {"leader-lease", k.leaderLease != 0}, {"worker-metrics-every", k.metricsEvery != 0}, {"no-worker-metrics", k.noMetrics}, {"coordinator-table", k.coordinator != ""}, {"metrics-table", k.metrics != ""}} {
		if f.set {
			return fmt.Errorf("--%s goes with --layout auto or one of the KCL's, and it is native", f.name)
		}
	}
	return nil
}

func (*kinesisFlags) sharing() string { return "--layout auto" }

func (k *kinesisFlags) adjust(c *worker.Config) { c.NeverLead = k.neverLead }

// connect calls no service but, where the SDK is set up so, the one that gives credentials.
func (k *kinesisFlags) connect(ctx context.Context, start core.Position, log *slog.Logger) (core.Catalog, core.LeaseStore, error) {
	cfg, err := k.Config(ctx)
	if err != nil {
		return nil, nil, err
	}
	source := append(k.Kinesis(), kinesis.Logger(log))
	store := append(k.Dynamo(), dynamo.Logger(log), dynamo.Layout(k.layout), dynamo.SideTables(k.coordinator, k.metrics))
	if k.table != "" {
		store = append(store, dynamo.Table(k.table))
	}
	if k.leaderLease > 0 {
		store = append(store, dynamo.LeaderLease(k.leaderLease))
	}
	if k.metricsEvery > 0 {
		store = append(store, dynamo.MetricsEvery(k.metricsEvery))
	}
	if k.noMetrics {
		store = append(store, dynamo.NoWorkerMetrics())
	}
	if k.fanOut {
		source = append(source, kinesis.FanOut(cmp.Or(k.consumer, k.app)))
	}
	if k.orPoll {
		source = append(source, kinesis.OrPoll())
	}
	if k.cbor {
		source = append(source, kinesis.CBOR())
	}
	if k.glue {
		registry := []glue.Option{glue.Logger(log)}
		// The flag for all services gives way to what the environment says of Glue alone.
		if k.Endpoint != "" && os.Getenv("AWS_ENDPOINT_URL_GLUE") == "" {
			registry = append(registry, glue.Endpoint(k.Endpoint))
		}
		source = append(source, kinesis.Decode(glue.New(cfg, registry...)))
	}
	if len(k.streams) == 1 && !k.several {
		return worker.One(kinesis.New(cfg, k.streams[0], source...), start), dynamo.New(cfg, k.app, store...), nil
	}
	var list []kinesis.Tracked
	for _, name := range k.streams {
		list = append(list, kinesis.Tracked{Stream: name, Start: start})
	}
	return kinesis.Streams(cfg, kinesis.Track(list...), source...), dynamo.New(cfg, k.app, append(store, dynamo.SeveralStreams())...), nil
}
