package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	kinesissource "github.com/shardwarden/shardwarden/backends/kinesis"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// workerMain is `interop worker`: a worker of the library that says what it does as interop/peers/kclpeer does, and has the same oddities on demand:
// handlers that take their time, and a checkpoint in the middle of an aggregated record after which nothing is stored any more.
func workerMain(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("interop worker", flag.ContinueOnError)
	var streams []string
	f.Func("stream", "a stream, again for each further one", func(s string) error { streams = append(streams, s); return nil })
	table := f.String("app", "", "")
	id := f.String("worker-id", "", "")
	kinesisURL, dynamoURL := f.String("endpoint-url", "", ""), f.String("dynamodb-endpoint-url", "", "")
	layout := f.String("layout", "native", "")
	lease := f.Duration("lease-duration", 10*time.Second, "")
	leaderLease := f.Duration("leader-lease", 0, "0: the library's default")
	metricsEvery := f.Duration("metrics-every", 0, "0: the library's default")
	handler := f.Duration("handler", 0, "each batch takes so long")
	midway := f.Bool("checkpoint-midway", false, "of each shard store the middle of the first aggregated record, and nothing after it")
	none := f.Bool("no-checkpoints", false, "store nothing")
	metrics := f.Bool("worker-metrics", false, "announce how busy the processor is")
	never := f.Bool("never-lead", false, "")
	if err := f.Parse(args); err != nil {
		return err
	}
	kind, err := dynamo.ParseLayout(*layout)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	cfg := aws.Config{Region: region, Credentials: credentials.NewStaticCredentialsProvider(account, "secret", "")}
	store := []dynamo.Option{dynamo.Logger(log), dynamo.Endpoint(*dynamoURL), dynamo.Layout(kind)}
	if *leaderLease > 0 {
		store = append(store, dynamo.LeaderLease(*leaderLease))
	}
	if *metricsEvery > 0 {
		store = append(store, dynamo.MetricsEvery(*metricsEvery))
	}
	if !*metrics {
		store = append(store, dynamo.NoWorkerMetrics())
	}
	source := []kinesissource.Option{kinesissource.Logger(log), kinesissource.Endpoint(*kinesisURL)}
	var catalog core.Catalog
	if len(streams) == 1 {
		catalog = worker.One(kinesissource.New(cfg, streams[0], source...), core.FromHorizon)
	} else {
		var list []kinesissource.Tracked
		for _, s := range streams {
			list = append(list, kinesissource.Tracked{Stream: s, Start: core.FromHorizon})
		}
		catalog = kinesissource.Streams(cfg, kinesissource.Track(list...), source...)
		store = append(store, dynamo.SeveralStreams())
	}
	t := &teller{out: out, began: time.Now()}
	c := worker.Config{ID: core.WorkerID(*id), Streams: catalog, Store: dynamo.New(cfg, *table, store...), LeaseDuration: *lease, NeverLead: *never,
		Factory: func(_ context.Context, s core.Session) (core.Processor, error) {
			p := &peerProcessor{teller: t, key: s.Key(), handler: *handler, midway: *midway}
			p.tell("initialize", p.key, nil)
			return p, nil
		}}
	if *midway || *none {
		c.Checkpoints = worker.Manual
	}
	w, err := worker.New(c, worker.WithLogger(log))
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// teller prints lines, one batch or event in one piece.
type teller struct {
	out   io.Writer
	began time.Time
	mu    sync.Mutex
}

// peerLine is a line of kclpeer, see parsePeer.
type peerLine struct {
	MS       int64  `json:"ms"`
	Event    string `json:"event"`
	Stream   string `json:"stream"`
	Shard    string `json:"shard"`
	Sequence string `json:"sequence,omitempty"`
	Sub      uint64 `json:"sub"`
	Key      string `json:"key,omitempty"`
	Data     []byte `json:"data,omitempty"`
	Error    string `json:"error,omitempty"`
}

func (t *teller) tell(event string, k core.LeaseKey, records []core.Record) {
	lines := []peerLine{{Event: event}}
	if records != nil {
		lines = lines[:0]
		for i := range records {
			r := &records[i]
			lines = append(lines, peerLine{Event: event, Sequence: r.Sequence, Sub: r.Sub, Key: r.Key, Data: r.Data})
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, l := range lines {
		l.MS, l.Stream, l.Shard = time.Since(t.began).Milliseconds(), string(k.Stream), string(k.Shard)
		_ = e.Encode(l) // a buffer takes all
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = t.out.Write(b.Bytes()) // who does not read it misses it
}

// peerProcessor handles one shard.
type peerProcessor struct {
	*teller
	key     core.LeaseKey
	handler time.Duration
	midway  bool
}

// Process tells the records, and is busy for a while even where it is asked to return.
func (p *peerProcessor) Process(ctx context.Context, b *core.Batch) error {
	if len(b.Records) > 0 {
		p.tell("record", p.key, b.Records)
	}
	if p.handler > 0 {
		time.Sleep(p.handler) // on purpose: a handler that does not look at its context
		p.tell("batch-end", p.key, nil)
	}
	if !p.midway {
		return nil
	}
	i := midOfAggregate(len(b.Records), func(i int) (string, uint64) { return b.Records[i].Sequence, b.Records[i].Sub })
	if i < 0 {
		return nil
	}
	if err := b.CheckpointAfter(ctx, i); err != nil {
		return fmt.Errorf("checkpoint within an aggregated record: %w", err)
	}
	p.tell("checkpointed-midway", p.key, nil)
	<-ctx.Done()
	return context.Cause(ctx)
}

// midOfAggregate is the index of a record in the middle of the first aggregated record, -1: there is none.
func midOfAggregate(n int, at func(i int) (sequence string, sub uint64)) int {
	for i := range n {
		s, sub := at(i)
		if sub == 0 {
			continue
		}
		last := i
		for last+1 < n {
			if next, _ := at(last + 1); next != s {
				break
			}
			last++
		}
		return i + (last-i)/2
	}
	return -1
}

// ShardEnded tells it.
func (p *peerProcessor) ShardEnded(context.Context) error {
	p.tell("shard-ended", p.key, nil)
	return nil
}

// Stopping tells why the shard is given up.
func (p *peerProcessor) Stopping(_ context.Context, why error) {
	event := "shutdown-requested"
	if errors.Is(why, core.ErrLeaseLost) {
		event = "lease-lost"
	}
	p.tell(event, p.key, nil)
}
