package kinesis

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/eventstream"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
)

// frame is one as the SDK writes it. headers are names and values in turn; a value that is no string is one of the SDK's own.
func frame(payload string, headers ...any) []byte {
	m := eventstream.Message{Payload: []byte(payload)}
	for i := 0; i < len(headers); i += 2 {
		v, ok := headers[i+1].(eventstream.Value)
		if !ok {
			v = eventstream.StringValue(headers[i+1].(string))
		}
		m.Headers.Set(headers[i].(string), v)
	}
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func pushedFrame(payload string) []byte {
	return frame(payload, ":event-type", "SubscribeToShardEvent", ":content-type", "application/json", ":message-type", "event")
}

const cannedEvent = `{"Records":[{"Data":"AQID","PartitionKey":"k","SequenceNumber":"5","ApproximateArrivalTimestamp":1.787036486712E9}],"ContinuationSequenceNumber":"7","MillisBehindLatest":12}`

func TestFrames(t *testing.T) {
	good := pushedFrame(cannedEvent)
	changed := func(at int, to byte) []byte {
		b := slices.Clone(good)
		if at < 0 {
			at += len(b)
		}
		b[at] ^= to
		return b
	}
	type outcome struct {
		page bool
		api  string // the code of the service's error
		text string // part of the error
		eof  bool
	}
	for name, tc := range map[string]struct {
		in   []byte
		want outcome
	}{
		"an event": {good, outcome{page: true}},
		"with headers of all types": {frame(cannedEvent, "a", eventstream.BoolValue(true), "b", eventstream.BoolValue(false), "c", eventstream.Int8Value(1), "d", eventstream.Int16Value(1), "e", eventstream.Int32Value(1),
			"f", eventstream.Int64Value(1), "g", eventstream.BytesValue("xyz"), "h", eventstream.TimestampValue{}, "i", eventstream.UUIDValue{}, ":event-type", "SubscribeToShardEvent", ":message-type", "event"), outcome{page: true}},
		"the initial response": {frame("{}", ":event-type", "initial-response", ":message-type", "event"), outcome{}},
		"an event of tomorrow": {frame("whatever", ":event-type", "ShardMoved", ":message-type", "event"), outcome{}},
		"an exception":         {frame(`{"message":"over"}`, ":exception-type", "ResourceInUseException", ":message-type", "exception"), outcome{api: "ResourceInUseException", text: "over"}},
		"its other spelling":   {frame(`{"x":[1],"Message":"over"}`, ":exception-type", "KMSThrottlingException", ":message-type", "exception"), outcome{api: "KMSThrottlingException", text: "over"}},
		"one that says little": {frame(``, ":exception-type", "InternalFailureException", ":message-type", "exception"), outcome{api: "InternalFailureException"}},
		"an error":             {frame("", ":error-code", "ServiceUnavailable", ":error-message", "try later", ":message-type", "error"), outcome{api: "ServiceUnavailable", text: "try later"}},
		"no kind of message":   {frame(cannedEvent, ":event-type", "SubscribeToShardEvent"), outcome{text: "message type"}},
		"the end":              {nil, outcome{eof: true}},
		"cut in the prelude":   {good[:7], outcome{text: "unexpected EOF"}},
		"cut in the headers":   {good[:20], outcome{text: "unexpected EOF"}},
		"cut in the payload":   {good[:len(good)-9], outcome{text: "unexpected EOF"}},
		"cut before it":        {good[:12], outcome{text: "unexpected EOF"}},
		"length damaged":       {changed(3, 1), outcome{text: "checksum of a prelude"}},
		"header damaged":       {changed(20, 1), outcome{text: "event stream"}},
		"payload damaged":      {changed(-20, 1), outcome{text: "checksum of a frame"}},
		"checksum damaged":     {changed(-1, 1), outcome{text: "checksum of a frame"}},
		"no JSON":              {pushedFrame("{"), outcome{text: "JSON"}},
		"far too long":         {lengths(1<<30, 40), outcome{text: "cannot be"}},
		"headers too long":     {lengths(1<<20, 1<<19), outcome{text: "cannot be"}},
		"shorter than itself":  {lengths(15, 0), outcome{text: "cannot be"}},
		"headers beyond it":    {lengths(40, 30), outcome{text: "cannot be"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := PageMemory()
			for _, w := range []wire{wireJSON, wireStock} {
				for way, r := range map[string]io.Reader{"at once": bytes.NewReader(tc.in), "byte by byte": iotest.OneByteReader(bytes.NewReader(tc.in))} {
					p, err := newFrames(r).next(t.Context(), w)
					if (p != nil) != tc.want.page || errors.Is(err, io.EOF) != tc.want.eof || codeOf(err) != tc.want.api || !strings.Contains(fmt.Sprint(err), tc.want.text) {
						if !(w == wireStock && tc.want.text == "JSON" && err != nil) {
							t.Errorf("%s, %s: page %v, error %v; want %+v", wireNames[w], way, p != nil, err, tc.want)
						}
					}
					if p == nil {
						continue
					}
					if got := fmt.Sprintf("%v %q %v %v", data(p.Records), p.next, p.Lag, p.Records[0].Key); got != `[`+"\x01\x02\x03"+`] "7" 12ms k` {
						t.Errorf("%s, %s: %s", wireNames[w], way, got)
					}
					if p.Release != nil {
						p.Release()
					}
				}
			}
			if held := PageMemory(); held > before { // less: the collector found pages of other tests
				t.Errorf("%d bytes of pages are held", held-before)
			}
		})
	}
}

// lengths is a prelude with a good checksum.
func lengths(total, headers uint32) []byte {
	b := []byte{byte(total >> 24), byte(total >> 16), byte(total >> 8), byte(total), byte(headers >> 24), byte(headers >> 16), byte(headers >> 8), byte(headers)}
	return append(appendChecksum(b), make([]byte, 64)...)
}

// FuzzFrames compares with the SDK's reader: what it takes for a frame is one, with the same events and errors, and nothing else is.
func FuzzFrames(f *testing.F) {
	f.Add(pushedFrame(cannedEvent))
	f.Add(append(frame("{}", ":event-type", "initial-response", ":message-type", "event"), frame(`{"message":"x"}`, ":exception-type", "ResourceInUseException", ":message-type", "exception")...))
	f.Add(pushedFrame(`{"Records":[],"MillisBehindLatest":0,"ChildShards":[{"ShardId":"s","ParentShards":["p"],"HashKeyRange":{"StartingHashKey":"0","EndingHashKey":"9"}}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 1<<16 {
			return
		}
		for _, repaired := range [][]byte{in, repair(in)} {
			ours := newFrames(bytes.NewReader(repaired))
			rest := bytes.NewReader(repaired)
			for {
				_, stock := eventstream.NewDecoder().Decode(rest, nil)
				p, err := ours.next(context.Background(), wireJSON)
				if p != nil {
					p.Release()
				}
				_, isFrame := errors.AsType[*frameError](err)
				_, unread := errors.AsType[*pageError](err)
				_, api := errors.AsType[smithy.APIError](err)
				accepted := err == nil || unread || api || isFrame && strings.Contains(err.Error(), "message type")
				if accepted != (stock == nil) && !(isFrame && strings.Contains(err.Error(), "cut off")) { // the SDK drops half a header
					t.Fatalf("the SDK: %v; we: %v", stock, err)
				}
				if !accepted || stock != nil {
					break
				}
			}
		}
	})
}

// repair puts right the checksums of what looks like one frame, so that the fuzzer gets behind them.
func repair(in []byte) []byte {
	if len(in) < preludeBytes+checksumBytes {
		return in
	}
	b := slices.Clone(in)
	n := uint32(len(b))
	b[0], b[1], b[2], b[3] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	copy(b[8:], appendChecksum(slices.Clone(b[:8]))[8:])
	return appendChecksum(b[:len(b)-checksumBytes])
}

// TestPushesOverHTTP2 uses the transports that a user's config makes: subscriptions share one HTTP/2 connection, polls and the rest are HTTP/1.1.
func TestPushesOverHTTP2(t *testing.T) {
	server := emulator.New(emulator.Config{})
	var mu sync.Mutex
	protos, remotes := map[string]string{}, map[string]bool{}
	hs := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		mu.Lock()
		protos[op] = r.Proto
		if op == "SubscribeToShard" {
			remotes[r.RemoteAddr] = true
		}
		mu.Unlock()
		server.ServeHTTP(w, r)
	}))
	hs.EnableHTTP2 = true
	hs.Config.ErrorLog = log.New(io.Discard, "", 0) // connections that were dialled in vain
	hs.StartTLS()
	defer hs.Close()
	defer server.Close()
	cfg := testConfig()
	var transports []*http.Transport
	cfg.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(tr *http.Transport) {
		tr.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // a server of this test
		transports = append(transports, tr)
	})
	s := New(cfg, "orders", Endpoint(hs.URL), FanOut("billing"))
	const shards = 20
	_, err := s.client.CreateStream(t.Context(), &sdk.CreateStreamInput{StreamName: aws.String("orders"), ShardCount: aws.Int32(shards)})
	if err != nil {
		t.Fatal(err)
	}
	var readers []core.ShardReader
	for i := range shards {
		rd, err := s.Open(t.Context(), core.Shard{ID: shardID(i)}, core.FromHorizon)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rd.Close() }()
		readers = append(readers, rd)
	}
	listed, err := s.Shards(t.Context(), core.Position{})
	if err != nil {
		t.Fatal(err)
	}
	entries := make([]types.PutRecordsRequestEntry, shards)
	for i, shard := range listed {
		entries[i] = types.PutRecordsRequestEntry{Data: fmt.Append(nil, shard.ID), PartitionKey: aws.String("k"), ExplicitHashKey: aws.String(middle(shard.Range))}
	}
	if _, err := s.client.PutRecords(t.Context(), &sdk.PutRecordsInput{StreamName: aws.String("orders"), Records: entries}); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	for i, rd := range readers {
		reading.Go(func() {
			p, err := rd.Next(t.Context())
			if err != nil || !reflect.DeepEqual(data(p.Records), []string{string(shardID(i))}) {
				t.Errorf("shard %d: %v, %v", i, err, p)
			}
		})
	}
	reading.Wait()
	mu.Lock()
	defer mu.Unlock()
	if protos["SubscribeToShard"] != "HTTP/2.0" || protos["RegisterStreamConsumer"] != "HTTP/1.1" || len(remotes) > shards/4 { // net/http may dial a few before the first is there
		t.Errorf("protocols %v, subscriptions over %d connections", protos, len(remotes))
	}
	for _, rd := range readers {
		_ = rd.Close()
	}
	closeIdle(s)
}

// closeIdle closes what the clients of a source keep open.
func closeIdle(s *Source) {
	for _, c := range []aws.HTTPClient{s.client.Options().HTTPClient, s.pushes} {
		if own, ok := c.(ownBody); ok {
			if b, ok := own.next.(*awshttp.BuildableClient); ok {
				b.GetTransport().CloseIdleConnections()
			}
		}
	}
}

func appendChecksum(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}
