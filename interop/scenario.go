package main

import (
	"context"
	"fmt"
	"time"
)

// scenario is one row of the matrix.
type scenario struct {
	name, what string
	smoke      bool
	limit      time.Duration
	jvms       int // how many it has at once
	run        func(context.Context, *runner) (string, error)
}

func scenarios() []scenario {
	consume := func(c consumption) func(context.Context, *runner) (string, error) {
		return func(ctx context.Context, r *runner) (string, error) { return consumeScenario(ctx, r, c) }
	}
	share := func(f javaFleet) func(context.Context, *runner) (string, error) {
		return func(ctx context.Context, r *runner) (string, error) { return streamClientScenario(ctx, r, f) }
	}
	return append([]scenario{
		{name: "smoke", what: "kinesis-local + ministack: 4 shards, 2,000 records, one split, one kill -9", smoke: true, limit: 4 * time.Minute,
			run: consume(consumption{kinesis: "kinesis-local", dynamo: "ministack", shards: 4, records: 2000, splits: 1})},
		{name: "java", what: "the Java KCL on our emulators: 4 shards, a split midway", smoke: true, limit: 6 * time.Minute, jvms: 1, run: javaScenario},
		{name: "java-fanout", what: "the same by enhanced fan-out", limit: 6 * time.Minute, jvms: 1, run: javaFanOutScenario},
		{name: "boto3", what: "Python's SDK on our emulators: every call a consumer makes", smoke: true, limit: 3 * time.Minute, run: boto3Scenario},
		{name: "probe2", what: "the Go probe on our emulators: no DIFF or FAIL that is not explained", smoke: true, limit: 4 * time.Minute, run: probeScenario},
		{name: "streamclient-smoke", what: "Tablestore's Java Stream Client and ours in one fleet, short leases: each joins, is killed, and is given leases by the other", smoke: true, limit: 6 * time.Minute, jvms: 1,
			run: share(javaFleet{lease: 6 * time.Second, period: 1500 * time.Millisecond, rounds: 1})},
		{name: "kinesis-local", what: "kinesis-local + ministack: 8 shards, 6,000 records (it is slow), a split, a merge, a kill -9", limit: 8 * time.Minute,
			run: consume(consumption{kinesis: "kinesis-local", dynamo: "ministack", shards: 8, records: 6000, splits: 1, merges: 1})},
		{name: "kinesalite", what: "kinesalite + ministack: 8 shards, 20,000 records, a split, a merge, a kill -9", limit: 8 * time.Minute,
			run: consume(consumption{kinesis: "kinesalite", dynamo: "ministack", shards: 8, records: 20000, splits: 1, merges: 1})},
		{name: "ferrokinesis", what: "ferrokinesis + dynoxide (built by hand: FERRO, DYNOX): 8 shards, 20,000 records, a split, a merge, a kill -9", limit: 8 * time.Minute,
			run: consume(consumption{kinesis: "ferrokinesis", dynamo: "dynoxide", shards: 8, records: 20000, splits: 1, merges: 1})},
		{name: "ours", what: "our emulators: 8 shards, 20,000 records, a split, a merge, a kill -9", limit: 8 * time.Minute,
			run: consume(consumption{kinesis: "ours", dynamo: "ours", shards: 8, records: 20000, splits: 1, merges: 1})},
		{name: "ours-fanout", what: "the same by enhanced fan-out", limit: 8 * time.Minute,
			run: consume(consumption{kinesis: "ours", dynamo: "ours", shards: 8, records: 20000, splits: 1, merges: 1, flags: []string{"--fan-out"}})},
		{name: "kinesis-local-fanout", what: "kinesis-local + ministack by enhanced fan-out, a kill -9; nothing is resharded, as kinesis-local then tells no subscription of the end of a shard", limit: 8 * time.Minute,
			run: consume(consumption{kinesis: "kinesis-local", dynamo: "ministack", shards: 8, records: 6000, flags: []string{"--fan-out"}})},
		{name: "kpl", what: "records aggregated by the libraries of others, read by the Java KCL and by our program: record for record the same", limit: 6 * time.Minute, jvms: 1,
			run: kplScenario},
		{name: "kcl-defaults", what: "two workers of the KCL 3.5.1 and two of ours, 64 shards, defaults: spread once at rest, calls", limit: 20 * time.Minute, jvms: 2,
			run: func(ctx context.Context, r *runner) (string, error) { return spreadScenario(ctx, r) }},
		{name: "kcl-defaults-count", what: "the same by the KCL's count rule", limit: 20 * time.Minute, jvms: 2,
			run: func(ctx context.Context, r *runner) (string, error) { return spreadScenario(ctx, r, "--count-rule") }},
		{name: "kcl-defaults-leaders", what: "in such a fleet a worker of ours stops, and leaders are killed", limit: 20 * time.Minute, jvms: 2,
			run: leadersScenario},
		{name: "tablestore", what: "our Tablestore emulator, workers of ours at their defaults: one joins, a split, a merge, a kill -9, one leaves in order", limit: 6 * time.Minute,
			run: changesScenario},
		{name: "streamclient", what: "as streamclient-smoke, with the Java client's defaults (leases of 20 s), and partitions split and merged meanwhile", limit: 15 * time.Minute, jvms: 1,
			run: share(javaFleet{lease: 20 * time.Second, period: 6 * time.Second, rounds: 3, reshard: true})},
	}, kclMatrix()...)
}

// within runs s under its own limit, so that a hang is named and not left to CI's limit.
func (r *runner) within(ctx context.Context, s scenario) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, fmt.Errorf("scenario %s did not end within %v", s.name, s.limit))
	defer cancel()
	text, err := s.run(ctx, r)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w (%w)", err, context.Cause(ctx))
	}
	return text, err
}
