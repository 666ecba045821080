package kinesis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
)

var one = shardID(0)

func TestStartPositions(t *testing.T) {
	type scene struct {
		between time.Time // of the first three and the last two records
		seqs    []string
	}
	for _, c := range []struct {
		name string
		at   func(s scene) core.Position
		want string
		kind string
	}{
		{"horizon", func(scene) core.Position { return core.FromHorizon }, "0 1 2 3 4 new", "TRIM_HORIZON"},
		{"at a time", func(s scene) core.Position { return core.From(s.between) }, "3 4 new", "AT_TIMESTAMP"},
		{"before all", func(s scene) core.Position { return core.From(s.between.Add(-time.Hour)) }, "0 1 2 3 4 new", "AT_TIMESTAMP"},
		{"latest", func(scene) core.Position { return core.FromLatest }, "new", "LATEST"},
		{"latest, resolved", func(s scene) core.Position { return core.Position{Anchor: core.Latest, Time: s.between} }, "3 4 new", "AT_TIMESTAMP"},
		{"after a record", func(s scene) core.Position { return core.Position{Token: s.seqs[1]} }, "2 3 4 new", "AT_SEQUENCE_NUMBER"},
		{"inside an aggregated record", func(s scene) core.Position { return core.Position{Token: s.seqs[1], Sub: 3} }, "1 2 3 4 new", "AT_SEQUENCE_NUMBER"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
				r.create("orders", 1)
				sc := scene{seqs: r.put("orders", "k", "0", "1", "2")}
				time.Sleep(time.Minute)
				sc.between = time.Now()
				time.Sleep(time.Minute)
				r.put("orders", "k", "3", "4")
				rd := r.open(r.source("orders"), one, c.at(sc))
				old := strings.Count(c.want, " ")
				var got []core.Record
				if old > 0 {
					got, _ = r.read(rd, old)
				} else if p, err := rd.Next(r.ctx); err != nil || len(p.Records) > 0 {
					t.Fatalf("%v, %v", data(p.Records), err)
				}
				r.put("orders", "k", "new")
				more, _ := r.read(rd, 1)
				if all := strings.Join(data(append(got, more...)), " "); all != c.want {
					t.Errorf("records %s, want %s", all, c.want)
				}
				if kinds := r.asked("GetShardIterator", "ShardIteratorType"); !slices.Equal(kinds, []string{c.kind}) {
					t.Errorf("iterators %v, want one, %s", kinds, c.kind)
				}
			})
		})
	}
}

func TestRecordsCarryWhatTheServiceSays(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		arrived := time.Now().UnixMilli()
		seqs := r.put("orders", "the key", "a", "bb")
		time.Sleep(3 * time.Second)
		p, err := r.open(r.source("orders", MaxRecords(1)), one, core.FromHorizon).Next(r.ctx)
		r.ok(err)
		if len(p.Records) != 1 {
			t.Fatalf("%d records, want 1", len(p.Records))
		}
		rec := p.Records[0]
		if string(rec.Data) != "a" || rec.Key != "the key" || rec.Sequence != seqs[0] || rec.Sub != 0 || rec.Native != nil || rec.Arrived != arrived {
			t.Errorf("%+v, want data a, key %q, sequence %s, arrived %d", rec, "the key", seqs[0], arrived)
		}
		if p.Lag != 3*time.Second || p.End || p.Bytes < 9 {
			t.Errorf("lag %v, end %v, bytes %d; want 3 s, no end, the size", p.Lag, p.End, p.Bytes)
		}
	})
}

// Resuming behind any record of a page gives exactly the rest.
func TestResumeAnywhere(t *testing.T) {
	bubble(t, emulator.Config{NoLimits: true}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		want := numbered(25)
		r.put("orders", "k", want...)
		s := r.source("orders", MaxRecords(7), PollBehind(time.Millisecond))
		all, _ := r.read(r.open(s, one, core.FromHorizon), 25)
		for i := range all {
			rd := r.open(s, one, core.Position{Token: all[i].Sequence})
			if i == 24 {
				p, err := rd.Next(r.ctx)
				if err != nil || len(p.Records) != 0 {
					t.Errorf("behind the last: %v, %v", data(p.Records), err)
				}
				continue
			}
			rest, _ := r.read(rd, 24-i)
			if !slices.Equal(data(rest), want[i+1:]) {
				t.Fatalf("behind %d: %v", i, data(rest))
			}
		}
	})
}

// F60 and F55: one iterator call however many reads, also over a long silence.
func TestIteratorsAreNotAskedForAgain(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.put("orders", "k", numbered(1000)...)
		rd := r.open(r.source("orders", MaxRecords(10)), one, core.FromHorizon)
		got, _ := r.read(rd, 1000)
		if !slices.Equal(data(got), numbered(1000)) {
			t.Error("not each record once and in order")
		}
		for start := time.Now(); time.Since(start) < 12*time.Minute; {
			if _, err := rd.Next(r.ctx); err != nil {
				t.Fatal(err)
			}
		}
		r.put("orders", "k", "late")
		if got, _ := r.read(rd, 1); string(got[0].Data) != "late" {
			t.Errorf("after the silence: %v", data(got))
		}
		if n := len(r.times("GetShardIterator")); n != 1 {
			t.Errorf("%d iterators, want 1", n)
		}
	})
}

// F53 and F54: a consumer that was slow goes on behind what it was given, whether the iterator has run out or is about to.
func TestSlowConsumerLosesNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		slow time.Duration
		life time.Duration
		out  bool // the service has to refuse an iterator
	}{
		{"soon enough", 4 * time.Minute, 5 * time.Minute, false},
		{"renewed in time", 5*time.Minute + time.Second, 5 * time.Minute, false},
		{"run out unforeseen", 4 * time.Minute, time.Minute, true},
		{"for an hour", time.Hour, 5 * time.Minute, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, emulator.Config{IteratorLife: c.life}, func(t *testing.T, r *rig) {
				r.create("orders", 1)
				want := numbered(50)
				r.put("orders", "k", want...)
				var log logged
				rd := r.open(r.source("orders", MaxRecords(10), Logger(log.logger())), one, core.FromHorizon)
				var got []string
				for len(got) < 50 {
					p, err := rd.Next(r.ctx)
					r.ok(err)
					got = append(got, data(p.Records)...)
					time.Sleep(c.slow)
				}
				if !slices.Equal(got, want) {
					t.Errorf("got %v", got)
				}
				if out := strings.Contains(log.text.String(), "ran out"); out != c.out {
					t.Errorf("iterators refused: %v, want %v", out, c.out)
				}
			})
		})
	}
}

func TestLatestStaysWhereItWas(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.put("orders", "k", "before")
		time.Sleep(2 * time.Second)
		rd := r.open(r.source("orders"), one, core.FromLatest)
		p, err := rd.Next(r.ctx)
		if err != nil || len(p.Records) != 0 {
			t.Fatalf("%v, %v", data(p.Records), err)
		}
		time.Sleep(time.Minute)
		r.put("orders", "k", "while away")
		time.Sleep(10 * time.Minute)
		if got, _ := r.read(rd, 1); !slices.Equal(data(got), []string{"while away"}) {
			t.Errorf("got %v, want what arrived since it was opened", data(got))
		}
	})
}

func TestExpiredIteratorsOnAndOn(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		want := numbered(100)
		r.put("orders", "k", want...)
		r.fault(emulator.Fault{Kind: emulator.ExpireIterator, Operation: "GetRecords", Probability: 0.5})
		rd := r.open(r.source("orders", MaxRecords(3)), one, core.FromHorizon)
		var got []string
		failed := 0
		for len(got) < 100 {
			p, err := rd.Next(r.ctx)
			if err != nil {
				if failed++; !errors.Is(err, core.ErrExpired) || failed > 20 {
					t.Fatal(err)
				}
				continue
			}
			got = append(got, data(p.Records)...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v", got)
		}
	})
}

// An iterator the service calls invalid is one that ran out, unless it is new.
func TestInvalidIterator(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.put("orders", "k", "0")
		rd := r.open(r.source("orders"), one, core.FromHorizon)
		r.read(rd, 1)
		rd.(*reader).iter = "AAAA"
		r.put("orders", "k", "1")
		if got, _ := r.read(rd, 1); !slices.Equal(data(got), []string{"1"}) {
			t.Errorf("got %v, want the next record", data(got))
		}
		r.request = func(op string, in map[string]any) {
			if op == "GetRecords" {
				in["Limit"] = 20000
			}
		}
		rd = r.open(r.source("orders"), one, core.FromHorizon)
		calls := len(r.times("GetRecords"))
		if _, err := rd.Next(r.ctx); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("refused for ever: %v, want ErrInvalid", err)
		}
		if n := len(r.times("GetRecords")) - calls; n != 1 {
			t.Errorf("%d reads with a new iterator, want 1", n)
		}
	})
}

func TestPositionOfAnotherStream(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		rd := r.open(r.source("orders"), one, core.Position{Token: "49590338271490256608559692538361571095921575989136588898"})
		if _, err := rd.Next(r.ctx); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "deleted and made again") {
			t.Errorf("error %v, want ErrInvalid that says what may have happened", err)
		}
	})
}

func TestShardOrStreamThatIsGone(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		if _, err := r.open(r.source("orders"), shardID(7), core.FromHorizon).Next(r.ctx); !errors.Is(err, core.ErrNotFound) || !strings.Contains(err.Error(), string(shardID(7))) {
			t.Errorf("unknown shard: %v", err)
		}
		rd := r.open(r.source("orders"), one, core.FromHorizon)
		_, err := rd.Next(r.ctx)
		r.ok(err)
		r.remove("orders")
		if _, err := rd.Next(r.ctx); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("deleted stream: %v", err)
		}
	})
}

// F109: a denied read names the permission, and costs one call.
func TestReadingWithoutPermission(t *testing.T) {
	for _, call := range []string{"GetShardIterator", "GetRecords"} {
		t.Run(call, func(t *testing.T) {
			bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
				r.create("orders", 2)
				r.put("orders", "k", "0")
				r.fault(emulator.Fault{Kind: emulator.AccessDenied, Operation: call})
				rd := r.open(r.source("orders"), one, core.FromHorizon)
				_, err := rd.Next(r.ctx)
				if !errors.Is(err, core.ErrDenied) || !strings.Contains(err.Error(), "kinesis:"+call+" on arn:aws:kinesis:us-east-1:*:stream/orders") {
					t.Errorf("error %v, want ErrDenied that names the permission", err)
				}
				if n := len(r.times(call)); n != 1 {
					t.Errorf("%d calls, want 1", n)
				}
				r.server.ClearFaults()
				if _, err := rd.Next(r.ctx); err != nil {
					t.Errorf("once allowed: %v", err)
				}
			})
		})
	}
}

// F64: however often reads are throttled, records come whole and in order, and none of it is an error while patience lasts.
func TestThrottledReads(t *testing.T) {
	for _, kind := range []emulator.Kind{emulator.Throttle, emulator.KMSThrottle, emulator.LimitExceeded, emulator.Internal, emulator.DropRequest, emulator.DropAnswer, emulator.CutAnswer} {
		t.Run(string(kind), func(t *testing.T) {
			bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
				r.create("orders", 1)
				want := numbered(300)
				r.put("orders", "k", want...)
				r.fault(emulator.Fault{Kind: kind, Operation: "GetRecords", Probability: 0.3})
				r.fault(emulator.Fault{Kind: kind, Operation: "GetShardIterator", Probability: 0.3})
				got, _ := r.read(r.open(r.source("orders", MaxRecords(3), Patience(time.Minute)), one, core.FromHorizon), 300)
				if !slices.Equal(data(got), want) {
					t.Errorf("not each record once and in order: %v", data(got))
				}
			})
		})
	}
}

func TestThrottledForEverIsAnErrorAndNotTheEnd(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.put("orders", "k", "0", "1")
		rd := r.open(r.source("orders", MaxRecords(1)), one, core.FromHorizon)
		r.read(rd, 1)
		r.fault(emulator.Fault{Kind: emulator.Throttle, Operation: "GetRecords"})
		start := time.Now()
		if _, err := rd.Next(r.ctx); !errors.Is(err, core.ErrThrottled) {
			t.Fatalf("error %v, want ErrThrottled", err)
		}
		if d := time.Since(start); d < 14*time.Second || d > 21*time.Second {
			t.Errorf("after %v, want nearly the 20 s of patience", d)
		}
		if n := len(r.times("GetRecords")); n > 20 {
			t.Errorf("%d calls in 20 s while throttled", n)
		}
		r.server.ClearFaults()
		if got, _ := r.read(rd, 1); string(got[0].Data) != "1" {
			t.Errorf("afterwards: %v", data(got))
		}
	})
}

// Readers that are throttled together do not come back together.
func TestBackoffHasJitter(t *testing.T) {
	seen := map[time.Duration]bool{}
	for try := range 100 {
		d := backoff(try)
		if d < fastestPoll || d > fastestPoll+5*time.Second {
			t.Errorf("backoff(%d) = %v", try, d)
		}
		seen[d] = true
	}
	if len(seen) < 90 {
		t.Errorf("only %d different pauses of 100", len(seen))
	}
}

func TestRequestWithoutAnAnswer(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.put("orders", "k", "0")
		r.fault(emulator.Fault{Kind: emulator.Hang, Operation: "GetRecords"})
		rd := r.open(r.source("orders", RequestTimeout(5*time.Second), Patience(8*time.Second)), one, core.FromHorizon)
		start := time.Now()
		if _, err := rd.Next(r.ctx); !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "no answer within 5s") {
			t.Errorf("error %v, want ErrUnavailable that says how long it waited", err)
		}
		if d := time.Since(start); d < 10*time.Second || d > 20*time.Second {
			t.Errorf("gave up after %v, want two or three requests of 5 s", d)
		}
		r.server.ClearFaults()
		if got, _ := r.read(rd, 1); string(got[0].Data) != "0" {
			t.Errorf("afterwards: %v", data(got))
		}
	})
}

func TestNextEndsWithItsContextAndWithClose(t *testing.T) {
	for _, c := range []struct {
		name string
		kind emulator.Kind
	}{{"waiting for its turn", ""}, {"waiting for an answer", emulator.Hang}, {"waiting after a failure", emulator.Throttle}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
				r.create("orders", 1)
				rd := r.open(r.source("orders", PollEvery(time.Hour), PollBehind(time.Minute)), one, core.FromHorizon)
				_, err := rd.Next(r.ctx)
				r.ok(err)
				if c.kind != "" {
					rd.(*reader).pace.next = time.Time{}
					r.fault(emulator.Fault{Kind: c.kind, Operation: "GetRecords"})
				}
				next := func(ctx context.Context) chan error {
					ch := make(chan error, 1)
					go func() { _, err := rd.Next(ctx); ch <- err }()
					synctest.Wait()
					return ch
				}
				ctx, cancel := context.WithCancel(r.ctx)
				ended, start := next(ctx), time.Now()
				cancel()
				if err := <-ended; !errors.Is(err, context.Canceled) || errors.Is(err, core.ErrUnavailable) {
					t.Errorf("cancelled: %v", err)
				}
				ended = next(r.ctx)
				r.ok(rd.Close())
				if err := <-ended; !errors.Is(err, os.ErrClosed) {
					t.Errorf("closed: %v", err)
				}
				if _, err := rd.Next(r.ctx); !errors.Is(err, os.ErrClosed) {
					t.Errorf("after Close: %v", err)
				}
				if d := time.Since(start); d != 0 {
					t.Errorf("took %v", d)
				}
			})
		})
	}
}

func TestStartInTheFutureOfTheServicesClock(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.put("orders", "k", "before")
		rd := r.open(r.source("orders"), one, core.From(time.Now().Add(2*time.Second)))
		done := make(chan []string)
		go func() { got, _ := r.read(rd, 1); done <- data(got) }()
		time.Sleep(3 * time.Second)
		r.put("orders", "k", "after")
		if got := <-done; !slices.Equal(got, []string{"after"}) {
			t.Errorf("got %v", got)
		}
	})
}

func TestTrimmedPositionGoesOnAtTheHorizonAndWarns(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		seqs := r.put("orders", "k", numbered(10)...)
		var log logged
		s := r.source("orders", Logger(log.logger()))
		for _, c := range []struct {
			trim  int
			warns bool
		}{{3, false}, {4, true}, {6, true}} {
			log.text.Reset()
			r.ok(r.server.Trim("orders", string(one), seqs[c.trim]))
			got, _ := r.read(r.open(s, one, core.Position{Token: seqs[3]}), 4)
			if want := numbered(10)[max(4, c.trim):]; !slices.Equal(data(got), want) {
				t.Errorf("trimmed to %d: %v, want %v", c.trim, data(got), want)
			}
			if warns := strings.Contains(log.text.String(), "may have been lost"); warns != c.warns {
				t.Errorf("trimmed to %d: warning %v, want %v: %s", c.trim, warns, c.warns, log.text.String())
			}
		}
	})
}

func TestManyReadersOfOneSource(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 16)
		for i := range 400 {
			r.put("orders", fmt.Sprint(i), fmt.Sprint(i))
		}
		s := r.source("orders")
		shards, err := s.Shards(r.ctx, core.FromHorizon)
		r.ok(err)
		counts := make(chan int)
		for _, sh := range shards {
			go func() {
				rd := r.open(s, sh.ID, core.FromHorizon)
				p, err := rd.Next(r.ctx)
				if err != nil {
					t.Error(err)
					counts <- 0
					return
				}
				counts <- len(p.Records)
			}()
		}
		total := 0
		for range shards {
			total += <-counts
		}
		if total != 400 {
			t.Errorf("%d records from all shards, want 400", total)
		}
	})
}
