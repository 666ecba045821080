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
		{"smoke", "kinesis-local + ministack: 4 shards, 2,000 records, one split, one kill -9", true, 4 * time.Minute,
			consume(consumption{kinesis: "kinesis-local", dynamo: "ministack", shards: 4, records: 2000, splits: 1})},
		{"java", "the Java KCL on our emulators: 4 shards, a split midway", true, 6 * time.Minute, javaScenario},
		{"java-fanout", "the same by enhanced fan-out", false, 6 * time.Minute, javaFanOutScenario},
		{"boto3", "Python's SDK on our emulators: every call a consumer makes", true, 3 * time.Minute, boto3Scenario},
		{"probe2", "the Go probe on our emulators: no DIFF or FAIL that is not explained", true, 4 * time.Minute, probeScenario},
		{"streamclient-smoke", "Tablestore's Java Stream Client and ours in one fleet, short leases: each joins, is killed, and is given leases by the other", true, 6 * time.Minute,
			share(javaFleet{lease: 6 * time.Second, period: 1500 * time.Millisecond, rounds: 1})},
		{"kinesis-local", "kinesis-local + ministack: 8 shards, 6,000 records (it is slow), a split, a merge, a kill -9", false, 8 * time.Minute,
			consume(consumption{kinesis: "kinesis-local", dynamo: "ministack", shards: 8, records: 6000, splits: 1, merges: 1})},
		{"kinesalite", "kinesalite + ministack: 8 shards, 20,000 records, a split, a merge, a kill -9", false, 8 * time.Minute,
			consume(consumption{kinesis: "kinesalite", dynamo: "ministack", shards: 8, records: 20000, splits: 1, merges: 1})},
		{"ferrokinesis", "ferrokinesis + dynoxide (built by hand: FERRO, DYNOX): 8 shards, 20,000 records, a split, a merge, a kill -9", false, 8 * time.Minute,
			consume(consumption{kinesis: "ferrokinesis", dynamo: "dynoxide", shards: 8, records: 20000, splits: 1, merges: 1})},
		{"ours", "our emulators: 8 shards, 20,000 records, a split, a merge, a kill -9", false, 8 * time.Minute,
			consume(consumption{kinesis: "ours", dynamo: "ours", shards: 8, records: 20000, splits: 1, merges: 1})},
		{"ours-fanout", "the same by enhanced fan-out", false, 8 * time.Minute,
			consume(consumption{kinesis: "ours", dynamo: "ours", shards: 8, records: 20000, splits: 1, merges: 1, flags: []string{"--fan-out"}})},
		{"kinesis-local-fanout", "kinesis-local + ministack by enhanced fan-out, a kill -9; nothing is resharded, as kinesis-local then tells no subscription of the end of a shard", false, 8 * time.Minute,
			consume(consumption{kinesis: "kinesis-local", dynamo: "ministack", shards: 8, records: 6000, flags: []string{"--fan-out"}})},
		{"tablestore", "our Tablestore emulator, workers of ours at their defaults: one joins, a split, a merge, a kill -9, one leaves in order", false, 6 * time.Minute,
			changesScenario},
		{"streamclient", "as streamclient-smoke, with the Java client's defaults (leases of 20 s), and partitions split and merged meanwhile", false, 15 * time.Minute,
			share(javaFleet{lease: 20 * time.Second, period: 6 * time.Second, rounds: 3, reshard: true})},
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
