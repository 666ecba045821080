package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// javaScenario lets the official Java KCL consume from our emulators, through a split.
// A new application of the KCL takes 20 to 100 s to its first record, most of it asleep; that is its own start-up.
func javaScenario(ctx context.Context, r *runner) (string, error) {
	return r.javaConsumes(ctx, "--http1", "--mode", "polling")
}

// javaFanOutScenario does so by enhanced fan-out, which the Java SDK speaks HTTP/2 for, without TLS by prior knowledge.
func javaFanOutScenario(ctx context.Context, r *runner) (string, error) {
	return r.javaConsumes(ctx, "--mode", "fanout")
}

func (r *runner) javaConsumes(ctx context.Context, how ...string) (string, error) {
	url, err := r.ours(ctx)
	if err != nil {
		return "", err
	}
	p, err := newProducer(ctx, kinesisClient(url), stream, 4)
	if err != nil {
		return "", err
	}
	if err := p.put(ctx, 2); err != nil {
		return "", err
	}
	const records = 4 * keysPerBatch
	trace := filepath.Join(r.out, "trace.txt")
	events, ended, err := r.kcl(ctx, append(how, "--streams", stream, "--app", app, "--worker", "java1", "--kinesis", url, "--dynamo", url,
		"--shard-sync-ms", "1000", "--parent-poll-ms", "1000", "--worker-metrics-ms", "1000", "--failover-ms", "5000",
		"--expect", strconv.Itoa(records), "--trace", trace)...)
	if err != nil {
		return "", err
	}
	began := time.Now()
	var first time.Duration
	for e := range events {
		switch e.Event {
		case "first-record":
			first = time.Since(began)
			r.say("first record after %.1f s", first.Seconds())
			id, err := p.split(ctx)
			if err != nil {
				return "", fmt.Errorf("split: %w", err)
			}
			if err := p.put(ctx, 2); err != nil {
				return "", err
			}
			r.say("split %s, put %d records in all", id, len(p.ledger))
		case "checkpoint-failed", "shutdown-error", "shard-ended":
			r.say("%s %s %s", e.Event, e.Shard, e.Error)
		}
	}
	if err := <-ended; err != nil {
		return "", fmt.Errorf("the KCL: %w", err)
	}
	ds, err := readTrace(trace, "java1", p)
	if err != nil {
		return "", err
	}
	shards, err := p.shards(ctx)
	if err != nil {
		return "", err
	}
	v := judge(p.ledger, p.ids, shards, ds)
	text := fmt.Sprintf("KCL "+latestKCL+": %d records over %d shards, %d delivered, first after %.0f s", v.put, len(shards), v.delivered, first.Seconds())
	if len(v.complaints) > 0 {
		return text, fmt.Errorf("%s\n  %s", text, strings.Join(v.complaints, "\n  "))
	}
	return text, nil
}

// kclEvent is a line that kclpeer prints.
type kclEvent struct {
	Event, Shard, Error string
}

// kcl starts kclpeer. events is closed when it has ended; then ended gives how.
func (r *runner) kcl(ctx context.Context, args ...string) (events <-chan kclEvent, ended <-chan error, err error) {
	log, err := os.Create(filepath.Join(r.out, "kcl.log"))
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	cmd, err := r.kclCommand(ctx, latestKCL, args...)
	if err != nil {
		return nil, nil, err
	}
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	lines, done := make(chan kclEvent), make(chan error, 1)
	stop := make(chan struct{})
	r.onStop(func() {
		close(stop)
		_ = cmd.Process.Kill()
		for range lines { // until the reader has seen the end
		}
	})
	go func() {
		defer close(lines)
		s := bufio.NewScanner(out)
		for s.Scan() {
			var e kclEvent
			if json.Unmarshal(s.Bytes(), &e) != nil {
				continue // libraries print too
			}
			select {
			case lines <- e:
			case <-stop:
			}
		}
		done <- errors.Join(s.Err(), cmd.Wait())
	}()
	return lines, done, nil
}

// readTrace reads the lines that kclpeer writes for each record: ms stream shard sequence subsequence key. There is one worker, so their
// order is known; a record is told by its sequence number.
func readTrace(path, worker string, p *producer) ([]delivery, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	ids := map[[2]string]string{}
	for id, x := range p.ledger {
		ids[[2]string{x.shard, x.seq}] = id
	}
	var ds []delivery
	for n, l := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		f := strings.Fields(l)
		if len(f) != 6 {
			return nil, fmt.Errorf("%s:%d: six fields were expected: %q", path, n+1, l)
		}
		ms, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n+1, err)
		}
		at := time.UnixMilli(ms)
		ds = append(ds, delivery{worker: worker, shard: f[2], seq: f[3], key: f[5], id: ids[[2]string{f[2], f[3]}], after: at, before: at, index: n})
	}
	return ds, nil
}
