package kinesis

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardwarden/shardwarden/core"
)

// service answers GetRecords with what it is told, by the content type it was asked in.
type service struct {
	cbor  func(n int) (int, string, []byte) // status, content type, body; of the n-th call in CBOR
	json  []byte                            // status 200
	asked []string
}

func (s *service) Do(req *http.Request) (*http.Response, error) {
	kind := req.Header.Get("Content-Type")
	status, answer, body := 200, "application/x-amz-json-1.1", s.json
	switch {
	case req.Header.Get("X-Amz-Target") == "Kinesis_20131202.GetShardIterator":
		body = []byte(`{"ShardIterator":"AAAA"}`)
	case strings.Contains(kind, "cbor"):
		n := 0
		for _, k := range s.asked {
			if strings.Contains(k, "cbor") {
				n++
			}
		}
		status, answer, body = s.cbor(n)
		s.asked = append(s.asked, kind)
	default:
		s.asked = append(s.asked, kind)
	}
	return &http.Response{StatusCode: status, Request: req, Header: http.Header{"Content-Type": {answer}}, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))}, nil
}

const (
	inCBOR = "application/x-amz-cbor-1.1"
	inJSON = "application/x-amz-json-1.1"
)

// An answer that shows that CBOR is not understood, or not spoken well, leads to JSON: once, for good, and without a record lost.
func TestCBORFallsBackToJSON(t *testing.T) {
	cborPage := javaCBOR()
	refusal := func(code string) []byte { return chain(0xa2, "__type", code, "message", "no") }
	for name, c := range map[string]struct {
		cbor     func(n int) (int, string, []byte)
		want     string // the content types of the calls until five pages were read
		fallback int64
	}{
		"all is well":          {func(int) (int, string, []byte) { return 200, inCBOR, cborPage }, "C C C C C", 0},
		"another content type": {func(int) (int, string, []byte) { return 200, "binary/octet-stream", cborPage }, "C C C C C", 0},
		"answers in JSON":      {func(int) (int, string, []byte) { return 200, inJSON, []byte(twoRecords) }, "C J J J J", 1},
		"answers are cut off":  {func(int) (int, string, []byte) { return 200, inCBOR, cborPage[:40] }, "C J J J J J", 1},
		"a page in HTML":       {func(int) (int, string, []byte) { return 200, "text/html", []byte("<html>") }, "C J J J J J", 1},
		"cannot be parsed":     {func(int) (int, string, []byte) { return 400, inCBOR, refusal("SerializationException") }, "C J J J J J", 1},
		"cannot be, in JSON":   {func(int) (int, string, []byte) { return 400, inJSON, []byte(`{"__type":"SerializationException"}`) }, "C J J J J J", 1},
		"unknown operation": {func(int) (int, string, []byte) {
			return 400, inCBOR, refusal("com.amazonaws#UnknownOperationException")
		}, "C J J J J J", 1},
		"bare failures from the first": {func(int) (int, string, []byte) { return 500, "text/html", []byte("<html>") }, "C C C J J J J J", 1},
		"bare failures at first": {func(n int) (int, string, []byte) {
			if n < 2 {
				return 500, "text/html", []byte("<html>")
			}
			return 200, inCBOR, cborPage
		}, "C C C C C C C", 0},
		"bare failures later": {func(n int) (int, string, []byte) {
			if n > 0 && n < 5 {
				return 500, "text/html", []byte("<html>")
			}
			return 200, inCBOR, cborPage
		}, "C C C C C C C C C", 0},
		"throttled": {func(n int) (int, string, []byte) {
			if n < 4 {
				return 400, inCBOR, refusal("ProvisionedThroughputExceededException")
			}
			return 200, inCBOR, cborPage
		}, "C C C C C C C C C", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logged
				svc := &service{cbor: c.cbor, json: []byte(twoRecords)}
				s := New(testConfig(), "orders", Endpoint("http://kinesis.test"), HTTPClient(svc), CBOR(), Logger(log.logger()))
				rd, err := s.Open(t.Context(), core.Shard{ID: one}, core.FromHorizon)
				if err != nil {
					t.Fatal(err)
				}
				defer rd.Close()
				for range 5 {
					p, err := rd.Next(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if len(p.Records) == 0 {
						t.Error("an empty page")
					}
					p.Release()
				}
				got := strings.NewReplacer(inCBOR, "C", inJSON, "J").Replace(strings.Join(svc.asked, " "))
				if got != c.want {
					t.Errorf("asked in %s, want %s", got, c.want)
				}
				n := s.Pages()
				if n.Fallbacks != c.fallback || n.CBOR+n.JSON != 5 || n.Stock != 0 || (n.Wire == "CBOR") != (c.fallback == 0) {
					t.Errorf("counts %+v", n)
				}
				if warned := strings.Count(log.text.String(), "another way"); int64(warned) != c.fallback {
					t.Errorf("%d warnings, want %d: %s", warned, c.fallback, log.text.String())
				}
			})
		})
	}
}

// A page that our JSON decoder cannot read fails its call, and the SDK's decoder reads the next.
func TestJSONFallsBackToTheSDK(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Legal, and deeper than we go.
		deep := strings.Replace(twoRecords, `"Records"`, `"New":`+strings.Repeat("[", 200)+strings.Repeat("]", 200)+`,"Records"`, 1)
		svc := &service{json: []byte(deep)}
		var log logged
		s := New(testConfig(), "orders", Endpoint("http://kinesis.test"), HTTPClient(svc), Logger(log.logger()))
		if _, err := s.getRecords(t.Context(), request{iterator: "AAAA", limit: 10}); !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "nested") {
			t.Fatalf("error %v, want one that can pass and says why", err)
		}
		for range 2 {
			p, err := s.getRecords(t.Context(), request{iterator: "AAAA", limit: 10})
			if err != nil || len(p.Records) != 2 || string(p.Records[1].Data) != "second" {
				t.Fatalf("%+v, %v", p, err)
			}
		}
		if n := s.Pages(); n.Stock != 2 || n.JSON != 0 || n.Fallbacks != 1 || !strings.Contains(n.Wire, "SDK") {
			t.Errorf("counts %+v", n)
		}
		if !strings.Contains(log.text.String(), "nested") {
			t.Errorf("the log does not say why: %s", log.text.String())
		}
	})
}

// The errors of the service stay what the SDK makes of them, on every way and in both formats.
func TestErrorsStayTyped(t *testing.T) {
	svc := &service{cbor: func(int) (int, string, []byte) {
		return 400, inCBOR, chain(0xbf, "__type", "ExpiredIteratorException", "more", 0x9f, 0x01, 0xff, "message", "Iterator expired.", 0xff)
	}}
	s := New(testConfig(), "orders", Endpoint("http://kinesis.test"), HTTPClient(svc), CBOR())
	for _, way := range []string{"through the SDK", "directly"} {
		_, err := s.getRecords(t.Context(), request{iterator: "AAAA", limit: 10})
		e, ok := errors.AsType[*types.ExpiredIteratorException](err)
		if !ok || e.ErrorMessage() != "Iterator expired." || !errors.Is(err, core.ErrExpired) {
			t.Errorf("%s: %v", way, err)
		}
		repeats(t, s)
	}
	if n := s.Pages(); n.Fallbacks != 0 {
		t.Errorf("an error was taken for bad CBOR: %+v", n)
	}
}

// A client with something of its own in the stack always goes through it; our decoder reads its pages all the same.
func TestMiddlewareSeesEveryCall(t *testing.T) {
	var seen atomic.Int64
	svc := &service{json: []byte(twoRecords)}
	s := New(testConfig(), "orders", Endpoint("http://kinesis.test"), HTTPClient(svc), ClientOptions(func(o *sdk.Options) {
		o.APIOptions = append(o.APIOptions, awsmiddleware.AddUserAgentKey("mine"))
		next := o.HTTPClient
		o.HTTPClient = doer(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.Header.Get("User-Agent"), "mine") {
				seen.Add(1)
			}
			return next.Do(r)
		})
	}))
	for range 3 {
		p, err := s.getRecords(t.Context(), request{iterator: "AAAA", limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		p.Release()
	}
	if n := s.Pages(); seen.Load() != 3 || n.JSON != 3 {
		t.Errorf("%d calls with the user's middleware, counts %+v; want 3, 3 in JSON", seen.Load(), n)
	}
}

// Whoever sets a protocol gets it.
func TestProtocolOfTheUser(t *testing.T) {
	svc := &service{json: []byte(twoRecords)}
	s := New(testConfig(), "orders", Endpoint("http://kinesis.test"), HTTPClient(svc), CBOR(), ClientOptions(func(o *sdk.Options) {
		o.Protocol = struct{ protocol }{protocol{ClientProtocol: o.Protocol, e: &exchange{wire: wireJSON}}}
	}))
	if n := s.Pages(); n.Wire != wireNames[wireStock] {
		t.Errorf("pages are asked for in %s", n.Wire)
	}
}

// What a request says is what the SDK's request says.
func TestRequestsInBothFormats(t *testing.T) {
	for _, w := range []wire{wireCBOR, wireJSON} {
		for _, q := range []request{
			{iterator: strings.Repeat("AAAA/+==", 40), limit: 10_000},
			{iterator: "a \"quoted\\\x01 ü", limit: 1},
			{iterator: strings.Repeat("x", 70_000), limit: 23},
		} {
			for _, arn := range []*string{nil, new("arn:aws:kinesis:us-east-1:123456789012:stream/orders")} {
				q.arn = arn
				in := map[string]any{}
				if w == wireJSON {
					if err := json.Unmarshal(q.body(w), &in); err != nil {
						t.Fatal(err)
					}
				} else {
					c := cborCursor{b: q.body(w)}
					err := c.pairs(func(key []byte) error {
						if string(key) == "Limit" {
							_, n, _, err := c.number()
							in["Limit"] = float64(n)
							return err
						}
						s, err := c.text()
						in[string(key)] = string(s)
						return err
					})
					if err != nil || c.i != len(c.b) {
						t.Fatalf("%x: %v", q.body(w), err)
					}
				}
				want := 2
				if arn != nil {
					want = 3
				}
				if in["ShardIterator"] != q.iterator || in["Limit"] != float64(q.limit) || (arn != nil && in["StreamARN"] != *arn) || len(in) != want {
					t.Errorf("%s: %v, want %+v", wireNames[w], in, q)
				}
			}
		}
	}
}
