package kinesis

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
)

// Whoever starts a worker with too few permissions is told all that are missing at once, and of none that is there.
func TestEachMissingPermissionIsNamed(t *testing.T) {
	fanOut := []Option{FanOut("billing")}
	for name, tc := range map[string]struct {
		opts    []Option
		stream  string // default: by name
		denied  []string
		missing []string // default: what is denied
		untried []string
	}{
		"reading":                  {denied: []string{"GetShardIterator", "GetRecords"}},
		"the second only":          {denied: []string{"GetRecords"}},
		"the first only":           {denied: []string{"GetShardIterator"}, untried: []string{"GetRecords"}},
		"listing and reading":      {denied: []string{"ListShards", "DescribeStream", "GetRecords"}},
		"everything":               {denied: []string{"DescribeStreamSummary", "DescribeStream", "ListShards", "GetShardIterator", "GetRecords"}},
		"what has a substitute":    {denied: []string{"DescribeStreamSummary", "ListShards"}, missing: []string{}},
		"fan-out":                  {opts: fanOut, denied: []string{"DescribeStreamConsumer", "SubscribeToShard"}, untried: []string{"RegisterStreamConsumer"}},
		"to register":              {opts: fanOut, denied: []string{"RegisterStreamConsumer", "SubscribeToShard"}},
		"fan-out, to poll":         {opts: fanOut, denied: []string{"GetShardIterator", "GetRecords"}, missing: []string{}},
		"fan-out, or else polling": {opts: append(fanOut, OrPoll()), denied: []string{"SubscribeToShard", "DescribeStreamConsumer"}, missing: []string{}},
		"neither way":              {opts: append(fanOut, OrPoll()), denied: []string{"SubscribeToShard", "GetRecords"}},
		"fan-out and all about it": {opts: fanOut, denied: []string{"DescribeStreamSummary", "DescribeStream", "SubscribeToShard"}, missing: []string{"DescribeStreamSummary", "DescribeStream"}, untried: []string{"DescribeStreamConsumer", "RegisterStreamConsumer", "SubscribeToShard"}},
		"of a stream by ARN":       {opts: fanOut, stream: "arn:aws:kinesis:us-east-1:000000000000:stream/orders", denied: []string{"DescribeStreamSummary", "DescribeStream", "SubscribeToShard"}},
		"of a program that looks":  {opts: []Option{Unchecked()}, denied: []string{"GetShardIterator", "GetRecords"}, missing: []string{}},
		"none":                     {},
		"none of fan-out":          {opts: fanOut},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
				r.create("orders", 2)
				for _, op := range tc.denied {
					r.fault(emulator.Fault{Kind: emulator.AccessDenied, Operation: op})
				}
				want := tc.missing
				if want == nil {
					want = tc.denied
				}
				stream := "orders"
				if tc.stream != "" {
					stream = tc.stream
				}
				s := r.source(stream, tc.opts...)
				_, err := s.Describe(r.ctx)
				if len(want) == 0 {
					r.ok(err)
				} else if !errors.Is(err, core.ErrDenied) {
					t.Fatalf("%v, want core.ErrDenied", err)
				}
				text := ""
				if err != nil {
					text = err.Error()
				}
				named, rest, _ := strings.Cut(text, "could not be tried")
				for _, op := range []string{"DescribeStreamSummary", "DescribeStream", "ListShards", "GetShardIterator", "GetRecords", "DescribeStreamConsumer", "RegisterStreamConsumer", "SubscribeToShard"} {
					if got := strings.Contains(named, "kinesis:"+op+" on arn:aws:kinesis:us-east-1:"); got != slices.Contains(want, op) {
						t.Errorf("%s named as missing: %v, in\n%s", op, got, text)
					}
					if got := slices.Contains(strings.FieldsFunc(rest, func(c rune) bool { return c == ',' || c == ' ' }), "kinesis:"+op); got != slices.Contains(tc.untried, op) {
						t.Errorf("%s named as not tried: %v, in\n%s", op, got, text)
					}
				}
			})
		})
	}
}

func TestPermissionsAreCheckedOnceAndCheaply(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 3)
		r.put("orders", "k", numbered(100)...)
		s := r.source("orders")
		r.fault(emulator.Fault{Kind: emulator.AccessDenied, Operation: "GetRecords", Times: 2})
		for range 2 {
			if _, err := s.Describe(r.ctx); !errors.Is(err, core.ErrDenied) { // until it is given
				t.Fatal(err)
			}
		}
		before := len(r.calls)
		for range 3 {
			_, err := s.Describe(r.ctx)
			r.ok(err)
		}
		if n := len(r.calls) - before; n != 3+3 {
			t.Errorf("%d calls, want 3 to describe the stream and 3 to check", n)
		}
		if got := r.asked("GetRecords", "Limit"); !slices.Equal(got, []string{"1", "1", "1"}) {
			t.Errorf("asked for %v records", got)
		}
	})
}

// Only what a policy lacks ends a start: the rest is the business of reading, which repeats it.
func TestCheckOfPermissionsLeavesOtherTroubleAlone(t *testing.T) {
	for _, kind := range []emulator.Kind{emulator.Throttle, emulator.Internal, emulator.DropAnswer, emulator.Hang} {
		for _, op := range []string{"ListShards", "GetShardIterator", "GetRecords"} {
			t.Run(string(kind)+" "+op, func(t *testing.T) {
				bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
					r.create("orders", 1)
					r.fault(emulator.Fault{Kind: kind, Operation: op})
					start := time.Now()
					_, err := r.source("orders").Describe(r.ctx)
					r.ok(err)
					if d := time.Since(start); d > checkTime {
						t.Errorf("it took %v", d)
					}
				})
			})
		}
	}
}

// The subscription that is tried must not take a shard from who reads it.
func TestCheckOfPermissionsDisturbsNobody(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.put("orders", "k", "x")
		rd := r.open(r.source("orders", FanOut("billing")), shardID(0), core.FromHorizon)
		r.read(rd, 1)
		time.Sleep(20 * time.Second) // a subscription is safe for its first 5 s
		_, err := r.source("orders", FanOut("billing")).Describe(r.ctx)
		r.ok(err)
		r.put("orders", "k", "y")
		r.read(rd, 1)
		if got := r.asked("SubscribeToShard", "ShardId"); !slices.Equal(got, []string{string(shardID(0)), noShard}) {
			t.Errorf("subscriptions to %v", got)
		}
	})
}
