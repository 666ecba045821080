package kclsim

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	source "github.com/shardwarden/shardwarden/backends/kinesis"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// goWorker is a worker of this library that runs, with its own way to both services.
type goWorker struct {
	*worker.Worker
	id     string
	pace   *pace
	gone   bool
	killed bool
	lines  []*line // to the tables, to the streams
	cancel context.CancelFunc
	ended  chan struct{}

	mu     sync.Mutex
	events []string
}

// joinGo starts a worker of this library, of layout Auto. with changes what it is configured with.
func (f *fleet) joinGo(id string, with ...func(*worker.Config)) *goWorker {
	return f.joinGoWith(id, []dynamo.Option{dynamo.Layout(dynamo.Auto)}, with...)
}

func (f *fleet) joinGoWith(id string, options []dynamo.Option, with ...func(*worker.Config)) *goWorker {
	f.t.Helper()
	g := &goWorker{id: id, pace: &pace{delay: 50 * time.Millisecond}, ended: make(chan struct{})}
	db, stream := &line{to: f.tables, latency: latency}, &line{to: f.streams, latency: latency}
	g.lines = []*line{db, stream}
	ctx, cancel := context.WithCancel(f.ctx)
	g.cancel = cancel
	to := aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("AKIDTEST", "secret", ""), HTTPClient: db}
	c := worker.Config{
		ID:      core.WorkerID(id),
		Streams: worker.One(source.New(to, "orders", source.Endpoint("http://streams.test"), source.HTTPClient(stream)), core.FromHorizon),
		Store:   dynamo.New(to, app, append([]dynamo.Option{dynamo.Endpoint("http://tables.test")}, options...)...),
		Process: func(ctx context.Context, b *core.Batch) error {
			d := Delivery{Worker: id, Shard: string(b.Shard), Session: fmt.Sprint("fence ", b.Fence)}
			for i := range b.Records {
				d.Sequences = append(d.Sequences, strings.Clone(b.Records[i].Sequence))
			}
			end := f.rec.Begin(d)
			ok := g.pace.work(ctx)
			end(ok)
			if !ok {
				return context.Cause(ctx)
			}
			return nil
		},
	}
	for _, w := range with {
		w(&c)
	}
	w, err := worker.New(c, worker.WithHooks(worker.EventFunc(g.note)))
	if err != nil {
		f.t.Fatal(err)
	}
	g.Worker = w
	go func() {
		defer close(g.ended)
		err := w.Run(ctx)
		if err != nil && !g.killed {
			f.fault("Go worker %s ended: %v", id, err)
		}
	}()
	f.golang[id] = g
	return g
}

func (g *goWorker) note(e worker.Event) {
	if e.Kind == worker.Checkpoint {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	text := fmt.Sprintf("%s %s %s", e.Time.Format("15:04:05.000"), e.Kind, e.Key.Shard)
	if e.Other != "" {
		text += fmt.Sprintf(" other=%s", e.Other)
	}
	if e.Text != "" {
		text += " (" + e.Text + ")"
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	g.events = append(g.events, text)
}

func (g *goWorker) told() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.events
}

// said reports whether the worker told of an event of a kind.
func (g *goWorker) said(k worker.Kind) bool {
	for _, e := range g.told() {
		if strings.Contains(e, string(k)) {
			return true
		}
	}
	return false
}

// leads reports whether the worker leads, as far as it told.
func (g *goWorker) leads() bool {
	leads := false
	for _, e := range g.told() {
		switch {
		case strings.Contains(e, string(worker.LeadTaken)):
			leads = true
		case strings.Contains(e, string(worker.LeadLost)):
			leads = false
		}
	}
	return leads
}

// killGo ends a Go worker as kill -9 does, as far as others see it: nothing it sends gets through any more, and its handlers stop.
func (f *fleet) killGo(id string) {
	g := f.golang[id]
	g.gone, g.killed = true, true
	for _, l := range g.lines {
		l.cut.Store(true)
	}
	g.cancel()
}

// stopGo ends it gracefully.
func (f *fleet) stopGo(id string) {
	g := f.golang[id]
	g.gone = true
	g.cancel()
	select {
	case <-g.ended:
	case <-time.After(2 * time.Minute):
		f.fault("Go worker %s does not stop", id)
	}
}

// die ends what is left of it.
func (g *goWorker) die() {
	g.cancel()
	<-g.ended
}
