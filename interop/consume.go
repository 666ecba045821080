package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// consumption is what a consume scenario runs on, and how much of it.
type consumption struct {
	kinesis, dynamo string
	shards, records int
	splits, merges  int
	flags           []string // of the workers
}

const (
	stream = "orders"
	app    = "interop-orders"
	// How long things may take before a scenario fails. Failover is 13 s by the design; the rest is the emulators' pace.
	sharing   = 60 * time.Second // both workers deliver
	finishing = 3 * time.Minute  // everything delivered, after the last put
	storing   = 30 * time.Second // everything checkpointed, after the last delivery
	stopping  = 20 * time.Second // a worker's end after SIGTERM
)

// consumeScenario lets two workers share a stream while it is written, split and merged; kills one; and judges what came out.
func consumeScenario(ctx context.Context, r *runner, c consumption) (string, error) {
	kurl, err := r.peer(ctx, c.kinesis)
	if err != nil {
		return "", err
	}
	durl, err := r.peer(ctx, c.dynamo)
	if err != nil {
		return "", err
	}
	m, err := loadModel(r.root, latestKCL, false)
	if err != nil {
		return "", err
	}
	d := dynamoClient(durl)
	p, err := newProducer(ctx, kinesisClient(kurl), stream, c.shards)
	if err != nil {
		return "", err
	}
	j := newJournal()
	workers := map[string]*consumer{}
	for _, w := range []string{"w1", "w2"} {
		if workers[w], err = r.consume(ctx, j, kurl, durl, stream, app, w, c.flags...); err != nil {
			return "", err
		}
	}
	batches := c.records / keysPerBatch
	if err := p.put(ctx, batches*3/10); err != nil {
		return "", err
	}
	if err := r.shared(ctx, d, j, workers); err != nil {
		return "", err
	}
	for range c.splits {
		id, err := p.split(ctx)
		if err != nil {
			return "", fmt.Errorf("split: %w", err)
		}
		r.say("split %s", id)
	}
	if err := p.put(ctx, batches*2/10); err != nil {
		return "", err
	}
	for range c.merges {
		ids, err := p.merge(ctx)
		if err != nil {
			return "", fmt.Errorf("merge: %w", err)
		}
		r.say("merged %s", ids)
	}
	k, err := r.killOne(ctx, j, p, d, workers)
	if err != nil {
		return "", err
	}
	if err := p.put(ctx, batches-p.batch); err != nil {
		return "", err
	}
	r.say("put %d records; %d distinct came so far", len(p.ledger), j.distinct())
	if err := j.until(ctx, finishing, "every record delivered", func() bool { return j.distinct() >= len(p.ledger) }); err != nil {
		r.say("%v", err) // the judge names what is missing
	}
	return r.settle(ctx, j, p, d, m, workers, k)
}

// shared waits until each worker owns a lease: the second may have to ask the first for its part.
func (r *runner) shared(ctx context.Context, d *dynamodb.Client, j *journal, workers map[string]*consumer) error {
	t := time.Now()
	owned := map[string]int{}
	err := poll(ctx, sharing, func() (string, error) {
		if err := j.health(); err != nil {
			return "", err
		}
		tab, err := readTable(ctx, d, app)
		if _, gone := errors.AsType[*types.ResourceNotFoundException](err); gone {
			return "there is no lease table yet", nil
		}
		if err != nil {
			return "", err
		}
		for w := range workers {
			if owned[w] = len(tab.checkpoints(w)); owned[w] == 0 {
				return "worker " + w + " owns no lease", nil
			}
		}
		return "", nil
	})
	if err == nil {
		r.say("leases are shared after %.1f s: %v", time.Since(t).Seconds(), owned)
	}
	return err
}

// killOne puts a batch and kills worker w1 as soon as it has delivered of it, so that it dies with records delivered and not yet saved.
func (r *runner) killOne(ctx context.Context, j *journal, p *producer, d *dynamodb.Client, workers map[string]*consumer) (*kill, error) {
	had := j.of("w1")
	if err := p.put(ctx, 1); err != nil {
		return nil, err
	}
	if err := j.until(ctx, sharing, "worker w1 delivering of the batch before its kill", func() bool { return j.of("w1") > had }); err != nil {
		return nil, err
	}
	k := &kill{worker: "w1", at: time.Now()}
	if err := workers["w1"].kill(); err != nil {
		return nil, fmt.Errorf("kill: %w", err)
	}
	delete(workers, "w1")
	// Nobody can have taken its leases yet: they run for seconds.
	t, err := readTable(ctx, d, app)
	if err != nil {
		return nil, fmt.Errorf("lease table after the kill: %w", err)
	}
	k.checkpoints = t.checkpoints("w1")
	if len(k.checkpoints) == 0 {
		return nil, errors.New("w1 delivered records and owned no lease when it was killed")
	}
	r.say("killed w1, which owned %v", slices.Sorted(maps.Keys(k.checkpoints)))
	return k, nil
}

// settle waits for the last checkpoints, stops the workers that are left, and judges deliveries, rows and events.
func (r *runner) settle(ctx context.Context, j *journal, p *producer, d *dynamodb.Client, m *model, workers map[string]*consumer, k *kill) (string, error) {
	shards, err := p.shards(ctx)
	if err != nil {
		return "", err
	}
	var complaints []string
	if j.distinct() >= len(p.ledger) {
		if err := waitStored(ctx, d, shards, p.ledger); err != nil {
			complaints = append(complaints, err.Error())
		}
	}
	var stopped time.Duration
	for _, c := range workers {
		took, err := c.terminate(ctx, stopping)
		if err != nil {
			complaints = append(complaints, err.Error())
		}
		stopped = max(stopped, took)
		if _, err := c.checkEvents(); err != nil {
			complaints = append(complaints, err.Error())
		}
	}
	t, err := readTable(ctx, d, app)
	if err != nil {
		return "", err
	}
	if b, err := json.MarshalIndent(t, "", " "); err == nil {
		_ = os.WriteFile(filepath.Join(r.out, "table.json"), b, 0o644) // for people; the scenario judges t
	}
	v := judge(p.ledger, p.ids, shards, j.deliveries(), *k)
	complaints = append(complaints, v.complaints...)
	complaints = append(complaints, m.check(t, shards, true, func(string) bool { return true })...)
	text := fmt.Sprintf("%d records over %d shards, %d delivered, %d of the killed worker's tail again, failover %.1f s, stop %.1f s",
		v.put, len(shards), v.delivered, v.duplicates, v.failover.Seconds(), stopped.Seconds())
	if len(complaints) > 0 {
		return text, fmt.Errorf("%s; %d complaints:\n  %s", text, len(complaints), strings.Join(complaints, "\n  "))
	}
	return text, nil
}

// waitStored waits until the table holds what was delivered: each shard's last record, or its end.
func waitStored(ctx context.Context, d *dynamodb.Client, shards []shard, ledger map[string]put) error {
	last := map[string]string{}
	for _, p := range ledger {
		if l, ok := last[p.shard]; !ok || integer(p.seq).Cmp(integer(l)) > 0 {
			last[p.shard] = p.seq
		}
	}
	return poll(ctx, storing, func() (string, error) {
		t, err := readTable(ctx, d, app)
		if err != nil {
			return "", err
		}
		cps := t.checkpoints("")
		var open []string
		for _, s := range shards {
			cp, ok := cps[s.id]
			if want := last[s.id]; s.closed && ok && cp != "SHARD_END" {
				open = append(open, fmt.Sprintf("%s is at %s, its end was delivered", s.id, cp))
			} else if !s.closed && want != "" && cp != want {
				open = append(open, fmt.Sprintf("%s is at %q, delivered up to %s", s.id, cp, want))
			}
		}
		return strings.Join(open, "; "), nil
	})
}

// poll asks every quarter of a second until nothing is left open: the services offer nothing to wait on.
func poll(ctx context.Context, limit time.Duration, ask func() (open string, err error)) error {
	end := time.NewTimer(limit)
	defer end.Stop()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		open, err := ask()
		if err != nil || open == "" {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", open, context.Cause(ctx))
		case <-end.C:
			return fmt.Errorf("after %v still: %s", limit, open)
		case <-tick.C:
		}
	}
}
