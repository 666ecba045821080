package kinesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
)

// pushed is a reader of the first shard by fan-out, opened at the horizon.
func (r *rig) pushed(opts ...Option) core.ShardReader {
	r.t.Helper()
	return r.open(r.source("orders", append(opts, FanOut("billing"))...), shardID(0), core.FromHorizon)
}

// begun gives type and number of the positions that subscriptions began at.
func (r *rig) begun() (kinds, numbers []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		if p, ok := c.in["StartingPosition"].(map[string]any); ok {
			kinds = append(kinds, fmt.Sprint(p["Type"]))
			number, _ := p["SequenceNumber"].(string)
			numbers = append(numbers, number)
		}
	}
	return kinds, numbers
}

// put writes one record each period, from 0 on, until ctx ends.
func (r *rig) putEach(ctx context.Context, period time.Duration) {
	for n := 0; pause(ctx, period) == nil; n++ {
		r.put("orders", "k", fmt.Sprint(n))
	}
}

// apart fails unless each call but the first comes so long after the one before.
func (r *rig) apart(calls []time.Time, least time.Duration) {
	r.t.Helper()
	for i := 1; i < len(calls); i++ {
		if gap := calls[i].Sub(calls[i-1]); gap < least {
			r.t.Errorf("subscription %d comes %v after the one before, want %v or more", i, gap, least)
		}
	}
}

// exactly fails unless data are 0, 1, 2 and so on.
func (r *rig) exactly(got []core.Record, least int) {
	r.t.Helper()
	if len(got) < least {
		r.t.Errorf("%d records, want %d or more", len(got), least)
	}
	if all := data(got); !slices.Equal(all, numbered(len(all))) {
		for i := range all {
			if all[i] != fmt.Sprint(i) {
				r.t.Fatalf("record %d is %s", i, all[i])
			}
		}
	}
}

// TestSubscriptionsAreRenewed is F90: an hour of subscriptions, each from the continuation of the one before, with periods in which only events
// without records move it.
func TestSubscriptionsAreRenewed(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 2)
		rd := r.pushed()
		ctx, cancel := context.WithTimeout(r.ctx, time.Hour)
		defer cancel()
		var writing sync.WaitGroup
		writing.Go(func() {
			for n := 0; ctx.Err() == nil; {
				for range 100 {
					r.putFirst("orders", fmt.Sprint(n))
					n++
					_ = pause(ctx, time.Second)
				}
				for range 400 { // the first shard is quiet, and the stream is not
					_, err := r.admin.PutRecord(r.ctx, &sdk.PutRecordInput{StreamName: aws.String("orders"), Data: []byte("x"), PartitionKey: aws.String("k"), ExplicitHashKey: aws.String(beyondHalf)})
					r.ok(err)
					_ = pause(ctx, time.Second)
				}
			}
		})
		var got []core.Record
		for {
			p, err := rd.Next(ctx)
			if err != nil {
				break
			}
			for _, in := range p.Records {
				got = append(got, in.Clone())
			}
		}
		writing.Wait()
		r.exactly(got, 700)
		kinds, numbers := r.begun()
		if len(kinds) < 12 || len(kinds) > 18 {
			t.Errorf("%d subscriptions in an hour", len(kinds))
		}
		for i := range kinds {
			if i > 0 && (kinds[i] != "AFTER_SEQUENCE_NUMBER" || compareNumbers(numbers[i], numbers[i-1]) <= 0) {
				t.Errorf("subscription %d begins %s %s, the one before at %s", i, kinds[i], numbers[i], numbers[i-1])
			}
		}
	})
}

// TestRenewalsAreSpread is the other half of F86: 64 shards that begin in the same second are not renewed in the same second.
func TestRenewalsAreSpread(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		const shards = 64
		r.create("orders", shards)
		s := r.source("orders", FanOut("billing"))
		ctx, cancel := context.WithTimeout(r.ctx, 5*time.Minute)
		defer cancel()
		var reading sync.WaitGroup
		for i := range shards {
			rd := r.open(s, shardID(i), core.FromHorizon)
			reading.Go(func() {
				for ctx.Err() == nil {
					if _, err := rd.Next(ctx); err != nil && ctx.Err() == nil {
						t.Error(err)
						return
					}
				}
			})
		}
		reading.Wait()
		calls := r.times("SubscribeToShard")
		if len(calls) != 2*shards {
			t.Fatalf("%d subscriptions, want each renewed once within 5 minutes", len(calls))
		}
		perSecond := map[int64]int{}
		for _, at := range calls[shards:] {
			perSecond[at.Unix()]++
			if age := at.Sub(calls[0]); age < renewFrom || age > 5*time.Minute {
				t.Errorf("renewed after %v", age)
			}
		}
		for at, n := range perSecond {
			if n > 16 {
				t.Errorf("%d renewals in second %d", n, at)
			}
		}
	})
}

// TestHalfOpenSubscription is F85: a subscription falls silent, and its connection stays.
func TestHalfOpenSubscription(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.fault(emulator.Fault{Kind: emulator.HalfOpen, Skip: 10, Times: 1})
		rd := r.pushed()
		ctx, cancel := context.WithTimeout(r.ctx, 2*time.Minute)
		defer cancel()
		var writing sync.WaitGroup
		writing.Go(func() { r.putEach(ctx, 200*time.Millisecond) })
		var got []core.Record
		var longest time.Duration
		for last := time.Now(); ; {
			p, err := rd.Next(ctx)
			if err != nil {
				break
			}
			longest, last = max(longest, time.Since(last)), time.Now()
			for _, in := range p.Records {
				got = append(got, in.Clone())
			}
		}
		writing.Wait()
		r.exactly(got, 590)
		if longest < silence || longest > silence+2*time.Second {
			t.Errorf("%v without a page, want about %v", longest, silence)
		}
		if kinds, _ := r.begun(); fmt.Sprint(kinds) != "[TRIM_HORIZON AFTER_SEQUENCE_NUMBER]" {
			t.Errorf("subscriptions begin %v", kinds)
		}
	})
}

// TestASlowHandlerIsNoFailure is F89: a minute for each page, for half an hour, with a service that does not wait as long.
func TestASlowHandlerIsNoFailure(t *testing.T) {
	bubble(t, emulator.Config{SubscriptionLife: 30 * time.Second}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		var log logged
		rd := r.pushed(Logger(log.logger()))
		ctx, cancel := context.WithTimeout(r.ctx, 30*time.Minute)
		defer cancel()
		var writing sync.WaitGroup
		writing.Go(func() { r.putEach(ctx, time.Second) })
		var got []core.Record
		pages := 0
		for {
			p, err := rd.Next(ctx)
			if ctx.Err() != nil {
				break
			}
			r.ok(err)
			pages++
			for _, in := range p.Records {
				got = append(got, in.Clone())
			}
			_ = pause(ctx, time.Minute)
		}
		writing.Wait()
		r.exactly(got, 25)
		if n := len(r.times("SubscribeToShard")); n > pages+1 {
			t.Errorf("%d subscriptions for %d pages", n, pages)
		}
		if strings.Contains(log.text.String(), "level=WARN") || strings.Contains(log.text.String(), "level=ERROR") {
			t.Errorf("it complains: %s", &log.text)
		}
	})
}

// TestASubscriptionLostWhileNobodyReads is F92: the connection drops while the handler is busy, and then the lease goes.
func TestASubscriptionLostWhileNobodyReads(t *testing.T) {
	bubble(t, emulator.Config{EventRecords: 3}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.put("orders", "k", numbered(100)...)
		s := r.source("orders", FanOut("billing"))
		for round := range 100 {
			rd := r.open(s, shardID(0), core.FromHorizon)
			if _, err := rd.Next(r.ctx); err != nil {
				t.Fatal(err)
			}
			if round%2 == 0 {
				r.http.CloseIdleConnections()
			} else {
				r.fault(emulator.Fault{Kind: emulator.CutStream, Times: 1})
			}
			time.Sleep(10 * time.Second) // the handler
			start := time.Now()
			r.ok(rd.Close())
			if took := time.Since(start); took > time.Second {
				t.Fatalf("Close took %v", took)
			}
			r.server.ClearFaults()
		}
		// A bubble does not end while a goroutine is left.
	})
}

// TestATakeOver is F86: the shard goes from one owner to another, which has the same consumer, while the former one is asleep and wakes later.
func TestATakeOver(t *testing.T) {
	for name, gap := range map[string]time.Duration{"long after the former one subscribed": time.Minute, "at once": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
				r.create("orders", 1)
				r.put("orders", "k", "0", "1", "2")
				former := r.pushed()
				r.read(former, 3)
				time.Sleep(gap)
				r.put("orders", "k", "3")
				start := time.Now()
				next := r.pushed()
				got, _ := r.read(next, 4)
				r.apart(r.times("SubscribeToShard")[1:], inUseLeast)
				if took := time.Since(start); took > 7*time.Second {
					t.Errorf("the new owner reads after %v", took)
				}
				r.exactly(got, 4)
				before := len(r.times("SubscribeToShard"))
				time.Sleep(20 * time.Second)
				ctx, cancel := context.WithTimeout(r.ctx, 4*time.Second) // the former one wakes up, and is closed soon
				defer cancel()
				for ctx.Err() == nil {
					if _, err := former.Next(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, core.ErrUnavailable) {
						t.Errorf("the former owner: %v", err)
					}
				}
				r.ok(former.Close())
				if n := len(r.times("SubscribeToShard")) - before; n != 0 {
					t.Errorf("the former owner took the shard back, %d times", n)
				}
				r.put("orders", "k", "4")
				more, _ := r.read(next, 1)
				if fmt.Sprint(data(more)) != "[4]" {
					t.Errorf("the new owner reads %v", data(more))
				}
			})
		})
	}
}

// TestTroubleWithin lets subscriptions end in every way, again and again: nothing is lost, nothing comes twice.
func TestTroubleWithin(t *testing.T) {
	for name, f := range map[string]emulator.Fault{
		"cut":                  {Kind: emulator.CutStream},
		"damaged":              {Kind: emulator.CorruptEvent},
		"ended early":          {Kind: emulator.EndEarly},
		"internal failure":     {Kind: emulator.FailStream},
		"key throttled":        {Kind: emulator.FailStream, Exception: "KMSThrottlingException"},
		"key disabled":         {Kind: emulator.FailStream, Exception: "KMSDisabledException"},
		"in use":               {Kind: emulator.FailStream, Exception: "ResourceInUseException"},
		"not found, they say":  {Kind: emulator.FailStream, Exception: "ResourceNotFoundException"},
		"answers lost":         {Kind: emulator.DropAnswer, Operation: "SubscribeToShard"},
		"answers cut":          {Kind: emulator.CutAnswer, Operation: "SubscribeToShard"},
		"throttled":            {Kind: emulator.LimitExceeded, Operation: "SubscribeToShard"},
		"unavailable":          {Kind: emulator.Unavailable, Operation: "SubscribeToShard"},
		"it hangs":             {Kind: emulator.Hang, Operation: "SubscribeToShard"},
		"half-open, each time": {Kind: emulator.HalfOpen},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, emulator.Config{EventRecords: 7}, func(t *testing.T, r *rig) {
				r.create("orders", 1)
				f.Probability, f.Times = 0.3, 20
				if f.Operation != "" || f.Kind == emulator.EndEarly { // there are fewer calls than events
					f.Probability = 0.8
				}
				r.fault(f)
				rd := r.pushed()
				ctx, cancel := context.WithCancel(r.ctx)
				defer cancel()
				var writing sync.WaitGroup
				writing.Go(func() { r.putEach(ctx, 700*time.Millisecond) })
				var got []core.Record
				for failures := 0; len(got) < 1000; {
					p, err := rd.Next(r.ctx)
					if err != nil {
						if failures++; failures > 30 || !errors.Is(err, core.ErrUnavailable) && !errors.Is(err, core.ErrThrottled) && !errors.Is(err, core.ErrDenied) {
							t.Fatalf("after %d records and %d failures: %v", len(got), failures, err)
						}
						continue
					}
					if p.End {
						t.Fatalf("an end after %d records: %+v", len(got), p)
					}
					for _, in := range p.Records {
						got = append(got, in.Clone())
					}
				}
				cancel()
				writing.Wait()
				r.exactly(got, 1000)
				if f.Operation == "" { // each was a good call, and the next would be refused
					r.apart(r.times("SubscribeToShard"), subscribeEvery)
				}
				kinds, _ := r.begun()
				for i, k := range kinds {
					if k == "LATEST" || i > 0 && len(got) > 0 && k == "TRIM_HORIZON" && i > 25 {
						t.Errorf("subscription %d of %d begins %s", i, len(kinds), k)
					}
				}
			})
		})
	}
}

// TestAPushedLatestStaysWhereItWas: a subscription from LATEST that is lost before its first event does not skip what came meanwhile.
func TestAPushedLatestStaysWhereItWas(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.put("orders", "k", "before")
		time.Sleep(2 * time.Second)
		r.fault(emulator.Fault{Kind: emulator.CutStream, Times: 1})
		rd := r.open(r.source("orders", FanOut("billing")), shardID(0), core.FromLatest)
		var writing sync.WaitGroup
		writing.Go(func() {
			time.Sleep(time.Second)
			r.put("orders", "k", "lost on the way")
		})
		got, _ := r.read(rd, 1)
		writing.Wait()
		if fmt.Sprint(data(got)) != "[lost on the way]" {
			t.Errorf("read %q", data(got))
		}
		if kinds, _ := r.begun(); fmt.Sprint(kinds) != "[LATEST AT_TIMESTAMP]" {
			t.Errorf("subscriptions begin %v", kinds)
		}
	})
}

// TestResumingWithFanOut goes through every record as a checkpoint, and says where the service no longer has it.
func TestResumingWithFanOut(t *testing.T) {
	bubble(t, emulator.Config{EventRecords: 2}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		numbers := r.put("orders", "k", numbered(5)...)
		var log logged
		for i, n := range numbers[:4] {
			rd := r.open(r.source("orders", FanOut(fmt.Sprint("app", i)), Logger(log.logger())), shardID(0), core.Position{Token: n})
			got, _ := r.read(rd, 4-i)
			if want := numbered(5)[i+1:]; !slices.Equal(data(got), want) {
				t.Errorf("behind %d: %v, want %v", i, data(got), want)
			}
		}
		if strings.Contains(log.text.String(), "no longer kept") {
			t.Errorf("it misses a record that is there: %s", &log.text)
		}
		r.ok(r.server.Trim("orders", string(shardID(0)), numbers[3]))
		got, _ := r.read(r.open(r.source("orders", FanOut("last"), Logger(log.logger())), shardID(0), core.Position{Token: numbers[1]}), 2)
		if fmt.Sprint(data(got)) != "[3 4]" || !strings.Contains(log.text.String(), "no longer kept") {
			t.Errorf("behind a trimmed record: %v; log %s", data(got), &log.text)
		}
	})
}

// TestContainersArePushed: aggregated records are opened, and a checkpoint inside one is gone on from; so is a decoder that fails for a while.
func TestContainersArePushed(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.putFirst("orders", aggregate("a", 4), "plain")
		var all []core.Record
		rd := r.openFirst(r.source("orders", FanOut("one")), core.FromHorizon)
		all, _ = r.drain(rd, 1)
		if fmt.Sprint(data(all)) != "[a-0 a-1 a-2 a-3 plain]" {
			t.Fatalf("read %v", data(all))
		}
		got, _ := r.drain(r.openFirst(r.source("orders", FanOut("two")), core.Position{Token: all[1].Sequence, Sub: all[1].Sub}), 1)
		if fmt.Sprint(data(got)) != "[a-2 a-3 plain]" {
			t.Errorf("behind a-1: %v", data(got))
		}
		fails := 3
		decode := decoderFunc(func(_ context.Context, in *core.Record) (int, error) {
			if string(in.Data) == "a-2" && fails > 0 {
				fails--
				return 0, fmt.Errorf("registry: %w", core.ErrUnavailable)
			}
			return 0, nil
		})
		rd = r.openFirst(r.source("orders", FanOut("three"), Decode(decode)), core.FromHorizon)
		got, _ = r.drain(rd, 1)
		ctx, cancel := context.WithTimeout(r.ctx, 10*time.Minute)
		defer cancel()
		for len(got) < 5 {
			p, err := rd.Next(ctx)
			if errors.Is(err, core.ErrUnavailable) {
				continue
			}
			r.ok(err)
			for _, in := range p.Records {
				got = append(got, in.Clone())
			}
		}
		if fmt.Sprint(data(got)) != "[a-0 a-1 a-2 a-3 plain]" {
			t.Errorf("with a decoder that fails: %v", data(got))
		}
	})
}

type decoderFunc func(context.Context, *core.Record) (int, error)

func (f decoderFunc) Decode(ctx context.Context, r *core.Record) (int, error) { return f(ctx, r) }
