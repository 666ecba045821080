package kinesis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
	leases "github.com/shardwarden/shardwarden/leasestore/memory"
)

// What a tracker must not list, and what options do not go with many streams. Nothing is sent.
func TestBadTracker(t *testing.T) {
	const (
		mine   = "arn:aws:kinesis:us-east-1:123456789012:stream/orders"
		theirs = "arn:aws:kinesis:us-east-1:999999999999:stream/orders"
	)
	broken := errors.New("the registry of streams is down")
	for name, c := range map[string]struct {
		list []Tracked
		err  error
		opts []Option
		says []string // none: accepted
	}{
		"error":                     {nil, broken, nil, []string{"registry of streams is down"}},
		"empty":                     {nil, nil, nil, []string{"lists no streams"}},
		"no name":                   {[]Tracked{{Stream: "orders"}, {}}, nil, nil, []string{"1 to 128"}},
		"twice":                     {[]Tracked{{Stream: "orders"}, {Stream: "orders"}}, nil, nil, []string{"orders", "listed twice"}},
		"by name and by ARN":        {[]Tracked{{Stream: "orders"}, {Stream: mine}}, nil, nil, []string{"listed twice", mine}},
		"by id and by ARN":          {[]Tracked{{Stream: "123456789012:orders:1700000000"}, {Stream: mine}}, nil, nil, []string{"listed twice"}},
		"one name, two accounts":    {[]Tracked{{Stream: mine}, {Stream: theirs}}, nil, nil, nil},
		"another region":            {[]Tracked{{Stream: "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"}}, nil, nil, []string{"eu-west-1", "us-east-1"}},
		"other partitions":          {[]Tracked{{Stream: "arn:aws-cn:kinesis:us-east-1:123456789012:stream/orders"}}, nil, nil, nil},
		"id of no account":          {[]Tracked{{Stream: "12:orders:1700000000"}}, nil, nil, []string{"12 digits"}},
		"id of no name":             {[]Tracked{{Stream: "123456789012:or ders:1700000000"}}, nil, nil, []string{"no stream name"}},
		"id of no time":             {[]Tracked{{Stream: "123456789012:orders:soon"}}, nil, nil, []string{"soon", "Unix seconds"}},
		"id cut off":                {[]Tracked{{Stream: "123456789012:orders"}}, nil, nil, []string{"account:name:creationEpoch"}},
		"negative epoch":            {[]Tracked{{Stream: "orders", Epoch: -1}}, nil, nil, []string{"Epoch is -1"}},
		"two epochs":                {[]Tracked{{Stream: "123456789012:orders:1700000000", Epoch: 5}}, nil, nil, []string{"Epoch is 5"}},
		"bad option":                {[]Tracked{{Stream: "orders"}}, nil, []Option{MaxRecords(-1)}, []string{"MaxRecords is -1"}},
		"bad consumer":              {[]Tracked{{Stream: "orders", Consumer: "my consumer"}}, nil, nil, []string{"my consumer"}},
		"consumer of another":       {[]Tracked{{Stream: mine, Consumer: theirs + "/consumer/me:1700000000"}}, nil, nil, []string{"another stream"}},
		"one consumer for two":      {[]Tracked{{Stream: "orders"}, {Stream: "payments"}}, nil, []Option{FanOut(mine + "/consumer/me:1700000000")}, []string{"consumer of one stream", "Tracked.Consumer"}},
		"accounts without consumer": {[]Tracked{{Stream: mine, Consumer: mine + "/consumer/me:1700000000"}, {Stream: theirs}}, nil, []Option{FanOut("me")}, []string{"several accounts", theirs, "Tracked.Consumer"}},
		"accounts with consumers":   {[]Tracked{{Stream: mine, Consumer: mine + "/consumer/me:1700000000"}, {Stream: theirs, Consumer: theirs + "/consumer/me:1700000001"}}, nil, []Option{FanOut("me")}, nil},
		"fan-out of one account":    {[]Tracked{{Stream: "orders"}, {Stream: "payments"}}, nil, []Option{FanOut("me")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			opts := append([]Option{Endpoint("http://127.0.0.1:1")}, c.opts...)
			list, err := Streams(testConfig(), TrackerFunc(func(context.Context) ([]Tracked, error) { return c.list, c.err }), opts...).Streams(t.Context())
			if len(c.says) == 0 {
				if err != nil || len(list) != len(c.list) {
					t.Errorf("%d streams, error %v; want %d", len(list), err, len(c.list))
				}
				return
			}
			if want := cmp.Or(c.err, core.ErrInvalid); !errors.Is(err, want) {
				t.Fatalf("error %v, want %v", err, want)
			}
			for _, w := range c.says {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
		})
	}
	if _, err := Streams(testConfig(), nil).Streams(t.Context()); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("no tracker: %v, want ErrInvalid", err)
	}
}

// A stream named with its time of creation is that one or none; one named in any other way has the same id.
func TestIdentity(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		info, err := r.source("orders").Describe(r.ctx)
		r.ok(err)
		d, err := r.source("orders").describe(r.ctx)
		r.ok(err)
		epoch := d.created.Unix()
		for name, tr := range map[string]Tracked{
			"id":             {Stream: string(info.ID)},
			"ARN and epoch":  {Stream: d.arn, Epoch: epoch},
			"name and epoch": {Stream: "orders", Epoch: epoch},
			"id and epoch":   {Stream: string(info.ID), Epoch: epoch},
		} {
			if got, err := r.tracked(tr).Describe(r.ctx); err != nil || got.ID != info.ID || got.Name != "orders" {
				t.Errorf("%s: %+v, %v; want %s", name, got, err, info.ID)
			}
		}
		wrong := strings.TrimSuffix(string(info.ID), fmt.Sprint(epoch)) + "1600000000"
		for name, tr := range map[string]Tracked{"id": {Stream: wrong}, "ARN and epoch": {Stream: d.arn, Epoch: 1600000000}, "name and epoch": {Stream: "orders", Epoch: 1600000000}} {
			_, err := r.tracked(tr).Describe(r.ctx)
			if !errors.Is(err, core.ErrNotFound) || !errors.Is(err, core.ErrOtherStream) || !strings.Contains(err.Error(), "1600000000") || !strings.Contains(err.Error(), string(info.ID)) {
				t.Errorf("%s: %v, want not found that names both", name, err)
			}
		}
	})
}

func (r *rig) tracked(tr Tracked) core.StreamSource {
	r.t.Helper()
	list, err := Streams(testConfig(), Track(tr), Endpoint("http://kinesis.test"), HTTPClient(r.http)).Streams(r.ctx)
	r.ok(err)
	return list[0].Source
}

// reader is a worker's handler that counts what came, by stream and value.
type seen struct {
	mu  sync.Mutex
	got map[string]int
}

func (s *seen) process(_ context.Context, b *core.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range b.Records {
		s.got[string(b.Stream)+" "+string(b.Records[i].Data)]++
	}
	return nil
}

// of counts the records of a stream, and how often they came.
func (s *seen) of(stream core.StreamID) (records, times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, n := range s.got {
		if strings.HasPrefix(k, string(stream)+" ") {
			records, times = records+1, times+n
		}
	}
	return records, times
}

// Two workers over three streams, of which one comes later, one is deleted and made again under the same name, and one does not notice.
func TestWorkersOverSeveralStreams(t *testing.T) {
	bubble(t, emulator.Config{NoLimits: true}, func(t *testing.T, r *rig) {
		var mu sync.Mutex
		list := []Tracked{{Stream: "orders"}, {Stream: "payments"}, {Stream: "missing"}}
		tracker := TrackerFunc(func(context.Context) ([]Tracked, error) {
			mu.Lock()
			defer mu.Unlock()
			return append([]Tracked(nil), list...), nil
		})
		r.create("orders", 4)
		r.create("payments", 2)
		id := func(stream string) core.StreamID {
			info, err := r.source(stream).Describe(r.ctx)
			r.ok(err)
			return info.ID
		}
		orders, payments := id("orders"), id("payments")
		table, s := leases.New(), &seen{got: map[string]int{}}
		ctx, cancel := context.WithCancel(r.ctx)
		var workers sync.WaitGroup
		var events sync.Map
		for i := range 2 {
			w, err := worker.New(worker.Config{
				ID: core.WorkerID(fmt.Sprint("w", i)), Streams: Streams(testConfig(), tracker, Endpoint("http://kinesis.test"), HTTPClient(r.http)), Store: table.Handle(fmt.Sprint(i)), Process: s.process,
			}, worker.WithHooks(worker.EventFunc(func(e worker.Event) {
				if e.Kind == worker.StreamRetired {
					events.Store(string(e.Worker)+" "+string(e.Key.Stream), true)
				}
			})))
			r.ok(err)
			workers.Go(func() {
				if err := w.Run(ctx); err != nil {
					t.Errorf("Run: %v", err)
				}
			})
		}
		defer workers.Wait()
		defer cancel()
		await := func(what string, stream core.StreamID, n int, most time.Duration) {
			t.Helper()
			for deadline := time.Now().Add(most); ; time.Sleep(100 * time.Millisecond) {
				if got, times := s.of(stream); got == n {
					if times != n {
						t.Errorf("%s: %d records came %d times", what, n, times)
					}
					return
				} else if time.Now().After(deadline) {
					t.Fatalf("%s: %d records of %d within %v", what, got, n, most)
				}
			}
		}
		r.put("orders", "a", "1", "2", "3")
		r.put("payments", "b", "1", "2")
		await("orders", orders, 3, time.Minute)
		await("payments", payments, 2, time.Minute)

		r.create("missing", 1)
		r.put("missing", "c", "1")
		await("the one that came later", id("missing"), 1, 3*time.Minute)

		r.remove("orders")
		time.Sleep(2 * time.Second) // or both would be created within a second, and their ids be the same
		r.create("orders", 8)
		again := id("orders")
		if again == orders {
			t.Fatalf("the id did not change: %s", again)
		}
		r.put("orders", "a", "1", "2", "3", "4")
		r.put("payments", "b", "3")
		await("payments go on", payments, 3, 5*time.Second)
		await("orders begin anew", again, 4, 5*time.Minute)
		time.Sleep(5 * time.Minute)
		for i := range 2 {
			if _, ok := events.Load(fmt.Sprintf("w%d %s", i, orders)); !ok {
				t.Errorf("w%d did not retire %s", i, orders)
			}
		}
		if got, times := s.of(orders); got != 3 || times != 3 {
			t.Errorf("the former orders: %d records, %d times, want 3 and 3", got, times)
		}
		rows := map[core.StreamID]int{}
		for _, l := range table.Rows() {
			rows[l.Key.Stream]++
		}
		if rows[orders] != 4 || rows[again] != 8 || rows[payments] != 2 {
			t.Errorf("leases: %v, want 4 of the former orders, 8 of the new, 2 of payments", rows)
		}
		mu.Lock()
		list = list[:1]
		mu.Unlock()
		time.Sleep(3 * time.Minute)
		for _, l := range table.Rows() {
			if l.Key.Stream == payments && l.Owner != core.Nobody {
				t.Errorf("lease %s is still held by %s", l.Key, l.Owner)
			}
		}
	})
}

// The sources of a catalog have one pool of connections for polling, made of the user's client.
func TestStreamsShareConnections(t *testing.T) {
	list, err := Streams(testConfig(), Track(Tracked{Stream: "a"}, Tracked{Stream: "b"}), Endpoint("http://127.0.0.1:1")).Streams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	inner := func(i int) any {
		return list[i].Source.(*Source).client.Options().HTTPClient.(ownBody).next
	}
	if inner(0) != inner(1) {
		t.Errorf("two pools: %p and %p", inner(0), inner(1))
	}
	own := &http.Client{}
	list, err = Streams(testConfig(), Track(Tracked{Stream: "a"}, Tracked{Stream: "b"}), HTTPClient(own)).Streams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if inner(0) != any(own) || inner(1) != any(own) {
		t.Error("the user's client is not the one that is used")
	}
}

// What stays listed keeps its source: streams that are consumed cost no call when the tracker is asked.
func TestStreamsKeepTheirSources(t *testing.T) {
	list := []Tracked{{Stream: "a"}, {Stream: "b"}}
	c := Streams(testConfig(), TrackerFunc(func(context.Context) ([]Tracked, error) { return list, nil }))
	first, err := c.Streams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list = []Tracked{{Stream: "b", Start: core.FromLatest}, {Stream: "a"}}
	second, err := c.Streams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if first[0].Source != second[1].Source || first[1].Source != second[0].Source {
		t.Error("a stream that stayed listed has another source")
	}
	list = list[1:]
	if _, err = c.Streams(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(c.(*catalog).sources); n != 1 {
		t.Errorf("%d sources are kept, want 1", n)
	}
}

// What many streams cost while nothing happens: per stream and minute one listing and one look whether it is still the same, and the reads of its
// shards.
func TestCallsOfManyStreams(t *testing.T) {
	const streams, shards, minutes = 20, 5, 5
	bubble(t, emulator.Config{NoLimits: true}, func(t *testing.T, r *rig) {
		var list []Tracked
		for i := range streams {
			list = append(list, Tracked{Stream: fmt.Sprint("stream-", i)})
			r.create(list[i].Stream, shards)
		}
		opts := []Option{Endpoint("http://kinesis.test"), HTTPClient(r.http), PollEvery(30 * time.Second)}
		table := leases.New()
		ctx, cancel := context.WithCancel(r.ctx)
		defer cancel()
		var workers sync.WaitGroup
		defer workers.Wait()
		defer cancel()
		for i := range 2 {
			w, err := worker.New(worker.Config{
				ID: core.WorkerID(fmt.Sprint("w", i)), Streams: Streams(testConfig(), Track(list...), opts...), Store: table.Handle(fmt.Sprint(i)), Process: (&seen{}).process,
			})
			r.ok(err)
			workers.Go(func() {
				if err := w.Run(ctx); err != nil {
					t.Errorf("Run: %v", err)
				}
			})
		}
		time.Sleep(3*time.Minute + time.Second)
		before := r.counts()
		time.Sleep(minutes * time.Minute)
		after := r.counts()
		for op, most := range map[string]int{
			"ListShards": streams * minutes, "DescribeStreamSummary": 2 * streams * minutes, "GetRecords": streams * shards * 2 * (minutes + 1), "GetShardIterator": streams * shards * 2,
		} {
			if n := after[op] - before[op]; n > most {
				t.Errorf("%d calls of %s in %d minutes, want at most %d", n, op, minutes, most)
			}
		}
		if n := after["ListShards"] - before["ListShards"]; n < streams*(minutes-1) {
			t.Errorf("%d listings: some streams are not looked at", n)
		}
	})
}

func (r *rig) counts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]int{}
	for _, c := range r.calls {
		out[c.op]++
	}
	return out
}

// With fan-out each stream has a consumer: its own where the tracker names one, else one of the name that the options give.
func TestStreamsPushed(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.create("payments", 1)
		own := r.register("payments", "theirs")
		catalog := Streams(testConfig(), Track(Tracked{Stream: "orders"}, Tracked{Stream: "payments", Consumer: own}),
			Endpoint("http://kinesis.test"), HTTPClient(r.http), FanOut("billing"))
		list, err := catalog.Streams(r.ctx)
		r.ok(err)
		for i, stream := range []string{"orders", "payments"} {
			r.put(stream, "k", stream)
			got, _ := r.read(r.open(list[i].Source.(*Source), shardID(0), core.FromHorizon), 1)
			if string(got[0].Data) != stream {
				t.Errorf("of %s came %q", stream, got[0].Data)
			}
		}
		if n := len(r.times("GetRecords")); n != 0 {
			t.Errorf("%d polls", n)
		}
		consumers := r.asked("SubscribeToShard", "ConsumerARN")
		if len(consumers) != 2 || !strings.Contains(consumers[0], "stream/orders/consumer/billing:") || consumers[1] != own {
			t.Errorf("subscriptions of %v", consumers)
		}
		if names := r.asked("RegisterStreamConsumer", "ConsumerName"); fmt.Sprint(names) != "[billing]" {
			t.Errorf("consumers registered: %v", names)
		}
	})
}
