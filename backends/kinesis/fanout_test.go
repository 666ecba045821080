package kinesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
)

// register makes a consumer and returns its ARN.
func (r *rig) register(stream, name string) string {
	r.t.Helper()
	d, err := r.admin.DescribeStreamSummary(r.ctx, &sdk.DescribeStreamSummaryInput{StreamName: &stream})
	r.ok(err)
	out, err := r.admin.RegisterStreamConsumer(r.ctx, &sdk.RegisterStreamConsumerInput{StreamARN: d.StreamDescriptionSummary.StreamARN, ConsumerName: &name})
	r.ok(err)
	return *out.Consumer.ConsumerARN
}

func (r *rig) deregister(arn string) {
	r.t.Helper()
	_, err := r.admin.DeregisterStreamConsumer(r.ctx, &sdk.DeregisterStreamConsumerInput{ConsumerARN: &arn})
	r.ok(err)
}

func TestFanOutPushes(t *testing.T) {
	bubble(t, emulator.Config{ConsumerDelay: 25 * time.Second}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.put("orders", "k", numbered(5)...)
		rd := r.open(r.source("orders", FanOut("billing")), shardID(0), core.FromHorizon)
		start := time.Now()
		got, _ := r.read(rd, 5) // the consumer is CREATING for 25 s: F91 in docs/field-cases.md
		if fmt.Sprint(data(got)) != "[0 1 2 3 4]" || time.Since(start) < 25*time.Second || time.Since(start) > 27*time.Second {
			t.Errorf("read %v after %v", data(got), time.Since(start))
		}
		start = time.Now()
		r.put("orders", "k", "5")
		got, _ = r.read(rd, 1)
		if fmt.Sprint(data(got)) != "[5]" || time.Since(start) != 0 {
			t.Errorf("read %v after %v", data(got), time.Since(start))
		}
		r.split("orders", shardID(0))
		_, last := r.read(rd, 0)
		if !last.End || ids(last.Children) != "1 2" {
			t.Errorf("at the end %+v", last)
		}
		if n := len(r.times("GetRecords")); n != 0 {
			t.Errorf("%d polls", n)
		}
	})
}

func TestAConsumerIsRegisteredOnceAndStays(t *testing.T) {
	bubble(t, emulator.Config{ConsumerDelay: 5 * time.Second}, func(t *testing.T, r *rig) {
		r.create("orders", 8)
		r.put("orders", "k", "x")
		for range 2 { // a worker, and the next after it
			s := r.source("orders", FanOut("billing"))
			var readers []core.ShardReader
			for i := range 8 {
				readers = append(readers, r.open(s, shardID(i), core.FromHorizon))
			}
			done := make(chan error)
			for _, rd := range readers {
				go func() { _, err := rd.Next(r.ctx); done <- err }()
			}
			for range readers {
				r.ok(<-done)
			}
			for _, rd := range readers {
				r.ok(rd.Close())
			}
			time.Sleep(10 * time.Second)
		}
		if got := r.asked("RegisterStreamConsumer", "ConsumerName"); !slices.Equal(got, []string{"billing"}) {
			t.Errorf("registered %v, want once", got)
		}
		if n := len(r.times("DescribeStreamConsumer")); n > 9 { // the first finds out for all of them: 7 times until it is active, and once
			t.Errorf("%d looks at the consumer", n)
		}
		if n := len(r.times("DeregisterStreamConsumer")); n != 0 {
			t.Errorf("%d consumers removed", n)
		}
		if n := len(r.times("SubscribeToShard")); n != 16 {
			t.Errorf("%d subscriptions, want 16", n)
		}
	})
}

func TestAConsumerByARN(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.put("orders", "k", "x")
		arn := r.register("orders", "billing")
		// Permission to subscribe is all it takes.
		r.fault(emulator.Fault{Kind: emulator.AccessDenied, Operation: "DescribeStreamConsumer"})
		got, _ := r.read(r.open(r.source("orders", FanOut(arn)), shardID(0), core.FromHorizon), 1)
		if fmt.Sprint(data(got)) != "[x]" || len(r.times("RegisterStreamConsumer")) != 0 {
			t.Errorf("read %v", data(got))
		}
	})
}

func TestFanOutNeedsAConsumer(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		const good = "arn:aws:kinesis:us-east-1:000000000000:stream/orders/consumer/billing:1500000000"
		for name, tc := range map[string]struct {
			stream string
			opts   []Option
			words  []string
		}{
			"no name":             {"orders", []Option{FanOut("")}, []string{"FanOut needs the name"}},
			"no FanOut":           {"orders", []Option{OrPoll()}, []string{"OrPoll goes with FanOut"}},
			"bad name":            {"orders", []Option{FanOut("my app")}, []string{`"my app"`}},
			"long name":           {"orders", []Option{FanOut(strings.Repeat("x", 129))}, []string{"128"}},
			"a stream's ARN":      {"orders", []Option{FanOut("arn:aws:kinesis:us-east-1:000000000000:stream/orders")}, []string{"not the ARN of a consumer"}},
			"no time in the ARN":  {"orders", []Option{FanOut(strings.TrimSuffix(good, ":1500000000"))}, []string{"not the ARN of a consumer"}},
			"of another stream":   {"payments", []Option{FanOut(good)}, []string{"another stream", "orders", "payments"}},
			"of another account":  {"arn:aws:kinesis:us-east-1:111111111111:stream/orders", []Option{FanOut(good)}, []string{"another stream", "111111111111"}},
			"of another region":   {"orders", []Option{FanOut(strings.Replace(good, "us-east-1", "eu-west-1", 1))}, []string{"eu-west-1", "us-east-1"}},
			"the order is as one": {"orders", []Option{OrPoll(), FanOut("")}, []string{"OrPoll goes with FanOut"}},
		} {
			_, err := r.source(tc.stream, tc.opts...).Describe(r.ctx)
			if !errors.Is(err, core.ErrInvalid) {
				t.Errorf("%s: %v, want core.ErrInvalid", name, err)
				continue
			}
			for _, w := range tc.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%s: %v does not name %s", name, err, w)
				}
			}
		}
		if len(r.calls) != 0 {
			t.Errorf("%d calls were made", len(r.calls))
		}
	})
}

// Reasons why there is no fan-out, and the errors for them; with OrPoll the records come all the same.
func TestFanOutThatCannotBeHad(t *testing.T) {
	for name, tc := range map[string]struct {
		config   emulator.Config
		arrange  func(r *rig) (consumer string)
		kind     error
		not      error
		words    []string
		noPoll   bool // it passes, so it is no reason to poll
		register bool // the stream has the consumer
	}{
		"not permitted to look": {arrange: func(r *rig) string {
			r.fault(emulator.Fault{Kind: emulator.AccessDenied, Operation: "DescribeStreamConsumer"})
			return "billing"
		}, kind: core.ErrDenied, words: []string{"kinesis:DescribeStreamConsumer", "stream/orders/consumer/billing:*"}},
		"not permitted to register": {arrange: func(r *rig) string {
			r.fault(emulator.Fault{Kind: emulator.AccessDenied, Operation: "RegisterStreamConsumer"})
			return "billing"
		}, kind: core.ErrDenied, words: []string{"kinesis:RegisterStreamConsumer", "stream/orders"}},
		"not permitted to subscribe": {arrange: func(r *rig) string {
			r.fault(emulator.Fault{Kind: emulator.AccessDenied, Operation: "SubscribeToShard"})
			return "billing"
		}, kind: core.ErrDenied, words: []string{"kinesis:SubscribeToShard", "stream/orders/consumer/billing:*"}},
		"no room": {config: emulator.Config{ConsumerLimit: 2}, arrange: func(r *rig) string {
			r.register("orders", "one")
			r.register("orders", "two")
			return "billing"
		}, kind: core.ErrThrottled, words: []string{"no room", "it has 2: one, two"}},
		"no such consumer": {arrange: func(r *rig) string {
			arn := r.register("orders", "billing")
			r.deregister(arn)
			return arn
		}, kind: core.ErrInvalid, not: core.ErrNotFound, words: []string{"no such consumer", "consumer/billing:"}},
		"never active": {config: emulator.Config{ConsumerDelay: time.Hour}, arrange: func(*rig) string { return "billing" },
			kind: core.ErrUnavailable, words: []string{"billing", "still CREATING"}, noPoll: true},
		"throttled": {arrange: func(r *rig) string {
			r.fault(emulator.Fault{Kind: emulator.LimitExceeded, Operation: "SubscribeToShard"})
			return "billing"
		}, kind: core.ErrThrottled, words: []string{"LimitExceededException"}, noPoll: true},
		"in use": {arrange: func(r *rig) string {
			arn := r.register("orders", "billing")
			holder := r.open(r.source("orders", FanOut(arn)), shardID(0), core.FromHorizon)
			_, err := holder.Next(r.ctx)
			r.ok(err)
			r.fault(emulator.Fault{Kind: emulator.FailStream, Exception: "ResourceInUseException"})
			return arn
		}, kind: core.ErrUnavailable, words: []string{"ResourceInUseException"}, noPoll: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, tc.config, func(t *testing.T, r *rig) {
				r.create("orders", 1)
				r.put("orders", "k", "x")
				consumer := tc.arrange(r)
				_, err := r.open(r.source("orders", FanOut(consumer)), shardID(0), core.FromHorizon).Next(r.ctx)
				if !errors.Is(err, tc.kind) || tc.not != nil && errors.Is(err, tc.not) {
					t.Fatalf("without OrPoll: %v, want %v", err, tc.kind)
				}
				for _, w := range tc.words {
					if !strings.Contains(err.Error(), w) {
						t.Errorf("%v does not name %s", err, w)
					}
				}
				if n := len(r.times("GetRecords")); n != 0 {
					t.Errorf("%d polls without OrPoll", n)
				}
				var log logged
				s := r.source("orders", OrPoll(), FanOut(consumer), Logger(log.logger()))
				rd := r.open(s, shardID(0), core.FromHorizon)
				p, err := rd.Next(r.ctx)
				if tc.noPoll {
					if err == nil || len(r.times("GetRecords")) != 0 {
						t.Errorf("with OrPoll: error %v, %d polls; what passes is no reason to poll", err, len(r.times("GetRecords")))
					}
					return
				}
				r.ok(err)
				if fmt.Sprint(data(p.Records)) != "[x]" || strings.Count(log.text.String(), "polling instead") != 1 {
					t.Errorf("with OrPoll %v; log %s", data(p.Records), &log.text)
				}
				// From now on all shards are polled.
				subscribed := len(r.times("SubscribeToShard"))
				r.read(r.open(s, shardID(0), core.FromHorizon), 1)
				if n := len(r.times("SubscribeToShard")); n != subscribed {
					t.Error("it subscribes all the same")
				}
			})
		})
	}
}

// TestPollingGoesOnWherePushingEnded takes the permission away in the middle.
func TestPollingGoesOnWherePushingEnded(t *testing.T) {
	bubble(t, emulator.Config{EventRecords: 10}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.put("orders", "k", numbered(100)...)
		rd := r.open(r.source("orders", FanOut("billing"), OrPoll()), shardID(0), core.FromHorizon)
		got, _ := r.read(rd, 50)
		r.fault(emulator.Fault{Kind: emulator.AccessDenied, Operation: "SubscribeToShard"})
		r.fault(emulator.Fault{Kind: emulator.CutStream, Times: 1})
		more, _ := r.read(rd, 100-len(got))
		if all := data(append(got, more...)); !slices.Equal(all, numbered(100)) {
			t.Errorf("read %v", all)
		}
		if len(r.times("GetRecords")) == 0 {
			t.Error("nothing was polled")
		}
	})
}

// TestAConsumerThatIsRemoved while it is used: one with a name is registered anew, and nothing is lost.
func TestAConsumerThatIsRemoved(t *testing.T) {
	bubble(t, emulator.Config{ConsumerDelay: 3 * time.Second}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		byName := r.source("orders", FanOut("billing"))
		rd := r.open(byName, shardID(0), core.FromHorizon)
		r.put("orders", "k", "0")
		got, _ := r.read(rd, 1)
		arn, err := byName.consumerARN(r.ctx)
		r.ok(err)
		byARN := r.open(r.source("orders", FanOut(arn)), shardID(0), core.FromLatest)
		r.deregister(arn)
		r.put("orders", "k", "1", "2")
		more, _ := r.read(rd, 2)
		if all := data(append(got, more...)); fmt.Sprint(all) != "[0 1 2]" {
			t.Errorf("read %v", all)
		}
		if n := len(r.times("RegisterStreamConsumer")); n != 2 {
			t.Errorf("registered %d times, want twice", n)
		}
		if _, err := byARN.Next(r.ctx); !errors.Is(err, core.ErrInvalid) || errors.Is(err, core.ErrNotFound) {
			t.Errorf("by its former ARN: %v, want core.ErrInvalid: the shard is not gone", err)
		}
	})
}

// TestTwoApplicationsWithOneConsumer is F87: it is said who is in the way, once a minute.
func TestTwoApplicationsWithOneConsumer(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 4)
		var log logged
		logger := log.logger()
		ctx, cancel := context.WithTimeout(r.ctx, 10*time.Minute)
		defer cancel()
		done := make(chan int)
		for range 2 {
			s := r.source("orders", FanOut("shared"), Logger(logger))
			for i := range 4 {
				rd := r.open(s, shardID(i), core.FromHorizon)
				go func() {
					for ctx.Err() == nil {
						_, _ = rd.Next(ctx)
					}
					done <- 1
				}()
			}
		}
		for range 8 {
			<-done
		}
		n := strings.Count(log.text.String(), "two applications share the consumer")
		if n < 5 || n > 2*10+2 {
			t.Errorf("told %d times in ten minutes by two, want once a minute each at most", n)
		}
		if calls := len(r.times("SubscribeToShard")); calls > 8*10*6 {
			t.Errorf("%d subscriptions in ten minutes: they fight", calls)
		}
		if !strings.Contains(log.text.String(), "consumer=shared") {
			t.Error("the consumer is not named")
		}
	})
}

// Two names, two consumers: both receive everything.
func TestTwoApplicationsWithTheirOwnConsumers(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.put("orders", "k", numbered(20)...)
		for _, app := range []string{"billing", "search"} {
			got, _ := r.read(r.open(r.source("orders", FanOut(app)), shardID(0), core.FromHorizon), 20)
			if !slices.Equal(data(got), numbered(20)) {
				t.Errorf("%s reads %v", app, data(got))
			}
		}
		list, err := r.admin.ListStreamConsumers(r.ctx, &sdk.ListStreamConsumersInput{StreamARN: aws.String("arn:aws:kinesis:us-east-1:000000000000:stream/orders")})
		r.ok(err)
		if len(list.Consumers) != 2 {
			t.Errorf("%d consumers", len(list.Consumers))
		}
	})
}
