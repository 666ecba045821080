package kinesis

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// subscribe uses a client of its own each time: the SDK's event-stream codec is one for a client, and two streams race on its fields.
func (r *rig) subscribe(arn, shard string, from types.StartingPosition) (*sdk.SubscribeToShardEventStream, error) {
	own := r.c.Options()
	own.Protocol = nil
	o, err := sdk.New(own).SubscribeToShard(r.t.Context(), &sdk.SubscribeToShardInput{ConsumerARN: &arn, ShardId: &shard, StartingPosition: &from})
	if err != nil {
		return nil, err
	}
	return o.GetStream(), nil
}

func (r *rig) subscribed(arn, shard string, from types.StartingPosition) *sdk.SubscribeToShardEventStream {
	r.t.Helper()
	st, err := r.subscribe(arn, shard, from)
	r.ok(err)
	r.t.Cleanup(func() { _ = st.Close() })
	return st
}

// nextEvent waits for the next one; nil at the end of the stream.
func nextEvent(st *sdk.SubscribeToShardEventStream) *types.SubscribeToShardEvent {
	e, ok := <-st.Events()
	if !ok {
		return nil
	}
	return &e.(*types.SubscribeToShardEventStreamMemberSubscribeToShardEvent).Value
}

func told(e *types.SubscribeToShardEvent) string {
	if e == nil {
		return "end"
	}
	var parts []string
	for _, rec := range e.Records {
		parts = append(parts, string(rec.Data))
	}
	for _, c := range e.ChildShards {
		parts = append(parts, "child:"+strings.TrimLeft(strings.TrimPrefix(*c.ShardId, "shardId-"), "0"))
	}
	return strings.Join(parts, " ")
}

func TestASubscriptionPushesRecordsAsTheyCome(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 2)
		arn := r.registered("orders", "app")
		r.put("orders", "0", "a")
		_, b := r.put("orders", "0", "b")
		r.put("orders", hashLast, "elsewhere")
		st := r.subscribed(arn, shardID(0), types.StartingPosition{Type: types.ShardIteratorTypeTrimHorizon})
		e := nextEvent(st)
		if told(e) != "a b" || *e.ContinuationSequenceNumber != b || *e.MillisBehindLatest != 0 {
			t.Fatalf("first event %q, continues at %s, %d ms behind", told(e), *e.ContinuationSequenceNumber, *e.MillisBehindLatest)
		}
		time.Sleep(2 * time.Second)
		start := time.Now()
		_, c := r.put("orders", "0", "c")
		e = nextEvent(st)
		if told(e) != "c" || *e.Records[0].SequenceNumber != c || time.Since(start) != 0 {
			t.Errorf("event %q after %v", told(e), time.Since(start))
		}
	})
}

func TestHeartbeatsMoveTheContinuation(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 2)
		arn := r.registered("orders", "app")
		st := r.subscribed(arn, shardID(0), types.StartingPosition{Type: types.ShardIteratorTypeTrimHorizon})
		start := time.Now()
		first := nextEvent(st)
		for range 3 {
			r.put("orders", hashLast, "elsewhere")
		}
		second := nextEvent(st)
		if told(first) != "" || told(second) != "" || time.Since(start) != 10*time.Second {
			t.Errorf("events %q %q within %v, want two without records in 10 s", told(first), told(second), time.Since(start))
		}
		if !(*first.ContinuationSequenceNumber < *second.ContinuationSequenceNumber) {
			t.Errorf("continuation %s, then %s: does not move", *first.ContinuationSequenceNumber, *second.ContinuationSequenceNumber)
		}
		_ = st.Close()
		_, a := r.put("orders", "0", "a")
		time.Sleep(takeOverAfter)
		again := r.subscribed(arn, shardID(0), types.StartingPosition{Type: types.ShardIteratorTypeAfterSequenceNumber, SequenceNumber: second.ContinuationSequenceNumber})
		if e := nextEvent(again); told(e) != "a" || *e.Records[0].SequenceNumber != a {
			t.Errorf("from there on %q", told(e))
		}
	})
}

func TestStartsOfASubscription(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		arn := r.registered("orders", "app")
		var numbers []string
		var times []time.Time
		for i := range 4 {
			times = append(times, time.Now())
			_, q := r.put("orders", "0", fmt.Sprint(i))
			numbers = append(numbers, q)
			time.Sleep(time.Second)
		}
		for name, tc := range map[string]struct {
			from types.StartingPosition
			want string
		}{
			"trim horizon": {types.StartingPosition{Type: types.ShardIteratorTypeTrimHorizon}, "0 1 2 3 new"},
			"at":           {types.StartingPosition{Type: types.ShardIteratorTypeAtSequenceNumber, SequenceNumber: &numbers[1]}, "1 2 3 new"},
			"after":        {types.StartingPosition{Type: types.ShardIteratorTypeAfterSequenceNumber, SequenceNumber: &numbers[1]}, "2 3 new"},
			"at time":      {types.StartingPosition{Type: types.ShardIteratorTypeAtTimestamp, Timestamp: &times[3]}, "3 new"},
			"latest":       {types.StartingPosition{Type: types.ShardIteratorTypeLatest}, "new"},
		} {
			time.Sleep(takeOverAfter)
			st := r.subscribed(arn, shardID(0), tc.from)
			var got []string
			if tc.want != "new" {
				got = append(got, told(nextEvent(st)))
			}
			r.put("orders", "0", "new")
			got = append(got, told(nextEvent(st)))
			if g := strings.Join(got, " "); g != tc.want {
				t.Errorf("%s: %q, want %q", name, g, tc.want)
			}
			_ = st.Close()
			r.s.mu.Lock()
			log := &r.s.streams["orders"].shards[0].log
			*log = recordLog{} // "new" is none of the next one's
			for i := range 4 {
				log.append(mustSequence(numbers[i]).n, times[i].UnixMilli(), "key", fmt.Append(nil, i))
			}
			r.s.mu.Unlock()
		}
	})
}

func mustSequence(s string) sequence {
	q, ok := parseSequence(s)
	if !ok {
		panic(s)
	}
	return q
}

func TestRefusedSubscriptions(t *testing.T) {
	r := newRig(t, Config{})
	r.create("orders", 2)
	arn := r.registered("orders", "app")
	_, elsewhere := r.put("orders", hashLast, "x")
	horizon := types.StartingPosition{Type: types.ShardIteratorTypeTrimHorizon}
	for name, tc := range map[string]struct {
		arn, shard string
		from       types.StartingPosition
		code, word string
	}{
		"no such consumer":   {arn + "1", shardID(0), horizon, "ResourceNotFoundException", "app"},
		"stream's ARN":       {r.s.arnOf("orders"), shardID(0), horizon, "ValidationException", "consumerARN"},
		"no such shard":      {arn, shardID(7), horizon, "ResourceNotFoundException", shardID(7)},
		"no sequence number": {arn, shardID(0), types.StartingPosition{Type: types.ShardIteratorTypeAtSequenceNumber}, "InvalidArgumentException", "StartingSequenceNumber"},
		"another shard's":    {arn, shardID(0), types.StartingPosition{Type: types.ShardIteratorTypeAtSequenceNumber, SequenceNumber: &elsewhere}, "InvalidArgumentException", shardID(1)},
		"no time":            {arn, shardID(0), types.StartingPosition{Type: types.ShardIteratorTypeAtTimestamp}, "InvalidArgumentException", "AT_TIMESTAMP"},
		"unknown type":       {arn, shardID(0), types.StartingPosition{Type: "NOW"}, "ValidationException", "startingPosition.type"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.subscribe(tc.arn, tc.shard, tc.from)
			wantCode(t, err, tc.code, tc.word)
		})
	}
	t.Run("in CBOR", func(t *testing.T) {
		status, _, body := raw(t, r.http, "http://kinesis.test", cborType, "SubscribeToShard", []byte{0xa0})
		if status != http.StatusBadRequest || !strings.Contains(string(body), "JSON") {
			t.Errorf("answered %d %q", status, body)
		}
	})
}

func TestTheEndOfAShardNamesItsChildren(t *testing.T) {
	inBubble(t, Config{UpdateDelay: 3 * time.Second}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		arn := r.registered("orders", "app")
		r.put("orders", "0", "a")
		st := r.subscribed(arn, shardID(0), types.StartingPosition{Type: types.ShardIteratorTypeTrimHorizon})
		nextEvent(st)
		start := time.Now()
		r.split("orders", shardID(0), hashHalf)
		e := nextEvent(st)
		if told(e) != "child:1 child:2" || e.ContinuationSequenceNumber != nil || time.Since(start) != 3*time.Second {
			t.Errorf("at the split %q, continuation %v, after %v", told(e), e.ContinuationSequenceNumber, time.Since(start))
		}
		if ps := e.ChildShards[0].ParentShards; len(ps) != 1 || ps[0] != shardID(0) || *e.ChildShards[1].HashKeyRange.StartingHashKey != hashHalf {
			t.Errorf("children %+v", e.ChildShards)
		}
		if e := nextEvent(st); e != nil || st.Err() != nil {
			t.Errorf("behind the end %q, %v", told(e), st.Err())
		}
		time.Sleep(takeOverAfter)
		st = r.subscribed(arn, shardID(0), types.StartingPosition{Type: types.ShardIteratorTypeTrimHorizon})
		if got := told(nextEvent(st)); got != "a child:1 child:2" {
			t.Errorf("a closed shard from its beginning: %q", got)
		}
	})
}

func TestASubscriptionLastsFiveMinutes(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		arn := r.registered("orders", "app")
		start := time.Now()
		st := r.subscribed(arn, shardID(0), types.StartingPosition{Type: types.ShardIteratorTypeTrimHorizon})
		n := 0
		for nextEvent(st) != nil {
			n++
		}
		if time.Since(start) != 5*time.Minute || st.Err() != nil || n != 59 {
			t.Errorf("ended after %v and %d heartbeats with %v", time.Since(start), n, st.Err())
		}
	})
}

func TestASecondSubscriptionTakesOver(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 2)
		arn := r.registered("orders", "app")
		horizon := types.StartingPosition{Type: types.ShardIteratorTypeTrimHorizon}
		first := r.subscribed(arn, shardID(0), horizon)
		r.subscribed(arn, shardID(1), horizon)
		r.subscribed(r.registered("orders", "other"), shardID(0), horizon)
		time.Sleep(takeOverAfter - time.Millisecond)
		_, err := r.subscribe(arn, shardID(0), horizon)
		wantCode(t, err, "ResourceInUseException", shardID(0), "app")
		time.Sleep(time.Millisecond)
		second := r.subscribed(arn, shardID(0), horizon)
		for nextEvent(first) != nil { // a heartbeat fell due just now, too
		}
		wantCode(t, first.Err(), "ResourceInUseException", "taken over")
		r.put("orders", "0", "a")
		if got := told(nextEvent(second)); got != "a" {
			t.Errorf("the second one gets %q", got)
		}
		_ = second.Close()
		_, err = r.subscribe(arn, shardID(0), horizon)
		wantCode(t, err, "ResourceInUseException") // also where the one before is over
	})
}

func TestWhatEndsASubscription(t *testing.T) {
	for name, end := range map[string]func(r *rig, arn string){
		"the consumer goes": func(r *rig, arn string) {
			_, err := r.c.DeregisterStreamConsumer(r.t.Context(), &sdk.DeregisterStreamConsumerInput{ConsumerARN: &arn})
			r.ok(err)
		},
		"the stream goes": func(r *rig, arn string) {
			_, err := r.c.DeleteStream(r.t.Context(), &sdk.DeleteStreamInput{StreamName: aws.String("orders"), EnforceConsumerDeletion: aws.Bool(true)})
			r.ok(err)
		},
	} {
		for _, delay := range []time.Duration{0, time.Minute} {
			t.Run(fmt.Sprint(name, " within ", delay), func(t *testing.T) {
				inBubble(t, Config{ConsumerDelay: delay, CreateDelay: delay}, func(t *testing.T, r *rig) {
					r.create("orders", 1)
					time.Sleep(delay)
					arn := r.registered("orders", "app")
					time.Sleep(delay)
					st := r.subscribed(arn, shardID(0), types.StartingPosition{Type: types.ShardIteratorTypeTrimHorizon})
					start := time.Now()
					end(r, arn)
					if e := nextEvent(st); e != nil || time.Since(start) != 0 {
						t.Errorf("event %q after %v", told(e), time.Since(start))
					}
					wantCode(t, st.Err(), "ResourceNotFoundException", "orders")
				})
			})
		}
	}
}

func TestEventsHoldSoManyRecords(t *testing.T) {
	inBubble(t, Config{EventRecords: 2}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		arn := r.registered("orders", "app")
		for i := range 5 {
			r.put("orders", "0", fmt.Sprint(i))
		}
		st := r.subscribed(arn, shardID(0), types.StartingPosition{Type: types.ShardIteratorTypeTrimHorizon})
		var got []string
		for range 3 {
			got = append(got, told(nextEvent(st)))
		}
		if g := strings.Join(got, ", "); g != "0 1, 2 3, 4" {
			t.Errorf("events %q", g)
		}
	})
}

func TestASubscriptionIsPaced(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		arn := r.registered("orders", "app")
		r.fill("orders", shardID(0), 10, 1<<20)
		st := r.subscribed(arn, shardID(0), types.StartingPosition{Type: types.ShardIteratorTypeTrimHorizon})
		start := time.Now()
		for n := 0; n < 10; {
			e := nextEvent(st)
			n += len(e.Records)
			if more := n < 10; more != (*e.MillisBehindLatest > 0) {
				t.Errorf("after %d of 10 records %d ms behind", n, *e.MillisBehindLatest)
			}
		}
		// 2 MiB at once, the others at 2 MiB a second.
		if took := time.Since(start).Round(100 * time.Millisecond); took != 4*time.Second {
			t.Errorf("10 MiB took %v, want 4s", took)
		}
	})
}

func TestFaultsOfASubscription(t *testing.T) {
	horizon := types.StartingPosition{Type: types.ShardIteratorTypeTrimHorizon}
	for name, tc := range map[string]struct {
		fault Fault
		check func(t *testing.T, r *rig, st *sdk.SubscribeToShardEventStream)
	}{
		"half-open": {Fault{Kind: HalfOpen, Skip: 1}, func(t *testing.T, r *rig, st *sdk.SubscribeToShardEventStream) {
			r.put("orders", "0", "b")
			select {
			case <-st.Events():
				t.Error("not silent")
			case <-time.After(20 * time.Minute):
			}
		}},
		"an error within": {Fault{Kind: FailStream, Skip: 1, Exception: "KMSThrottlingException"}, func(t *testing.T, r *rig, st *sdk.SubscribeToShardEventStream) {
			if e := nextEvent(st); e != nil {
				t.Errorf("event %q", told(e))
			}
			wantCode(t, st.Err(), "KMSThrottlingException")
		}},
		"the usual error within": {Fault{Kind: FailStream, Skip: 1}, func(t *testing.T, r *rig, st *sdk.SubscribeToShardEventStream) {
			if e := nextEvent(st); e != nil {
				t.Errorf("event %q", told(e))
			}
			wantCode(t, st.Err(), "InternalFailureException")
		}},
		"damaged": {Fault{Kind: CorruptEvent, Skip: 1}, func(t *testing.T, r *rig, st *sdk.SubscribeToShardEventStream) {
			if e := nextEvent(st); e != nil || st.Err() == nil || !strings.Contains(st.Err().Error(), "checksum") {
				t.Errorf("event %q, error %v", told(e), st.Err())
			}
		}},
		"ended early": {Fault{Kind: EndEarly}, func(t *testing.T, r *rig, st *sdk.SubscribeToShardEventStream) {
			if e := nextEvent(st); e != nil || st.Err() != nil {
				t.Errorf("event %q, error %v", told(e), st.Err())
			}
		}},
		"cut off": {Fault{Kind: CutStream, Skip: 1}, func(t *testing.T, r *rig, st *sdk.SubscribeToShardEventStream) {
			if e := nextEvent(st); e != nil { // the SDK takes it for the end
				t.Errorf("event %q", told(e))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(t *testing.T, r *rig) {
				r.create("orders", 1)
				arn := r.registered("orders", "app")
				r.put("orders", "0", "a")
				tc.fault.Shard = shardID(0)
				r.ok(r.s.SetFault(tc.fault))
				st := r.subscribed(arn, shardID(0), horizon)
				if got := told(nextEvent(st)); got != "a" {
					t.Fatalf("the event that was to pass is %q", got)
				}
				tc.check(t, r, st)
				r.s.ClearFaults()
				time.Sleep(takeOverAfter)
				if e := nextEvent(r.subscribed(arn, shardID(0), horizon)); !strings.HasPrefix(told(e), "a") {
					t.Errorf("a new subscription begins with %q", told(e))
				}
			})
		})
	}
	for _, kind := range []Kind{DropAnswer, CutAnswer} {
		t.Run(string(kind), func(t *testing.T) {
			r := newRig(t, Config{})
			r.create("orders", 1)
			arn := r.registered("orders", "app")
			r.ok(r.s.SetFault(Fault{Kind: kind, Operation: "SubscribeToShard"}))
			if _, err := r.subscribe(arn, shardID(0), horizon); err == nil {
				t.Error("subscribed")
			}
			r.s.ClearFaults()
			_, err := r.subscribe(arn, shardID(0), horizon)
			wantCode(t, err, "ResourceInUseException") // it was carried out
		})
	}
}

func TestSubscriptionsLeaveNothingBehind(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		arn := r.registered("orders", "app")
		for range 20 {
			st := r.subscribed(arn, shardID(0), types.StartingPosition{Type: types.ShardIteratorTypeTrimHorizon})
			r.put("orders", "0", strings.Repeat("x", 1000)) // is never read
			_ = st.Close()
			time.Sleep(takeOverAfter)
		}
		r.s.mu.Lock()
		defer r.s.mu.Unlock()
		if n := len(r.s.streams["orders"].shards[0].subscriptions); n != 0 {
			t.Errorf("%d subscriptions are left at the shard", n)
		}
	})
}

// TestHTTP2 serves subscriptions as the Java SDK wants them: without TLS by prior knowledge, and by ALPN.
func TestHTTP2(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprint("tls ", secure), func(t *testing.T) {
			s := New(Config{})
			server := httptest.NewUnstartedServer(s)
			tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: new(http.Protocols)} //nolint:gosec // a server of this test
			if secure {
				server.EnableHTTP2 = true
				tr.Protocols.SetHTTP2(true)
				server.StartTLS()
			} else {
				server.Config.Protocols = new(http.Protocols)
				server.Config.Protocols.SetHTTP1(true)
				server.Config.Protocols.SetUnencryptedHTTP2(true)
				tr.Protocols.SetUnencryptedHTTP2(true)
				server.Start()
			}
			defer server.Close()
			defer tr.CloseIdleConnections()
			defer s.Close()
			versions := map[string]bool{}
			c := sdk.New(sdk.Options{Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("AKID", "secret", ""),
				Retryer: aws.NopRetryer{}, HTTPClient: &http.Client{Transport: watch{tr, func(resp *http.Response) { versions[resp.Proto] = true }}}})
			r := &rig{t: t, s: s, c: c}
			r.create("orders", 3)
			arn := r.registered("orders", "app")
			var streams []*sdk.SubscribeToShardEventStream
			for i := range uint32(3) {
				streams = append(streams, r.subscribed(arn, shardID(i), types.StartingPosition{Type: types.ShardIteratorTypeTrimHorizon}))
			}
			for i, st := range streams {
				r.put("orders", r.s.streams["orders"].shards[i].start.String(), fmt.Sprint("a", i))
				if got := told(nextEvent(st)); got != fmt.Sprint("a", i) {
					t.Errorf("shard %d: %q", i, got)
				}
			}
			r.split("orders", shardID(0), "9")
			if got := told(nextEvent(streams[0])); got != "child:3 child:4" {
				t.Errorf("at the split %q", got)
			}
			for _, st := range streams {
				_ = st.Close()
			}
			if len(versions) != 1 || !versions["HTTP/2.0"] {
				t.Errorf("answers by %v", versions)
			}
		})
	}
}

// watch tells of each answer.
type watch struct {
	http.RoundTripper
	saw func(*http.Response)
}

func (w watch) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := w.RoundTripper.RoundTrip(req)
	if err == nil {
		w.saw(resp)
	}
	return resp, err
}

// TestAClientThatReadsNothing holds neither the server's lock nor its subscription for ever.
func TestAClientThatReadsNothing(t *testing.T) {
	inBubble(t, Config{NoLimits: true}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		arn := r.registered("orders", "app")
		r.fill("orders", shardID(0), 8, 1<<20)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		conn, err := r.http.Transport.(ownBody).RoundTripper.(*http.Transport).DialContext(ctx, "", "")
		r.ok(err)
		defer func() { _ = conn.Close() }()
		in, err := json.Marshal(map[string]any{"ConsumerARN": arn, "ShardId": shardID(0), "StartingPosition": map[string]string{"Type": "TRIM_HORIZON"}})
		r.ok(err)
		_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: kinesis.test\r\nAuthorization: x\r\nContent-Type: %s\r\nX-Amz-Target: %sSubscribeToShard\r\nContent-Length: %d\r\n\r\n%s", jsonType, targetPrefix, len(in), in)
		r.ok(err)
		time.Sleep(time.Minute)
		r.put("orders", "0", "still served")
		time.Sleep(5 * time.Minute)
		if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the connection ends with %v", err)
		}
		r.s.mu.Lock()
		defer r.s.mu.Unlock()
		if n := len(r.s.streams["orders"].shards[0].subscriptions); n != 0 {
			t.Errorf("after its life and a minute %d subscriptions are left", n)
		}
	})
}
