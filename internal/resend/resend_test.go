package resend

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// server remembers the requests it gets, with the bodies.
type server struct {
	got    []*http.Request
	bodies []string
	status int
	err    error
}

func (s *server) Do(req *http.Request) (*http.Response, error) {
	b, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	s.got, s.bodies = append(s.got, req), append(s.bodies, string(b))
	if s.err != nil {
		return nil, s.err
	}
	return &http.Response{StatusCode: s.status, Header: http.Header{"X-Amzn-Requestid": {"r-1"}}, Body: io.NopCloser(strings.NewReader(`{"ShardIterator":"i"}`))}, nil
}

type rig struct {
	server  server
	sender  *Sender
	client  *kinesis.Client
	options kinesis.Options
}

func newRig(creds aws.CredentialsProvider, more ...func(*kinesis.Options)) *rig {
	r := &rig{server: server{status: 200}}
	r.client = kinesis.NewFromConfig(aws.Config{Region: "eu-west-1", Credentials: creds, HTTPClient: &r.server, AppID: "orders"}, append(more, func(o *kinesis.Options) {
		o.Retryer = aws.NopRetryer{}
	})...)
	r.options = r.client.Options()
	r.sender = &Sender{HTTP: &r.server, Credentials: r.options.Credentials, Signer: r.options.HTTPSignerV4, Service: kinesis.ServiceID, Operation: "GetShardIterator"}
	return r
}

var input = &kinesis.GetShardIteratorInput{StreamARN: aws.String("arn:aws:kinesis:eu-west-1:123456789012:stream/orders"), ShardId: aws.String("s"), ShardIteratorType: "LATEST"}

// show lets the sender see a call of the SDK.
func (r *rig) show(t *testing.T) {
	t.Helper()
	var w Watcher
	_, err := r.client.GetShardIterator(t.Context(), input, func(o *kinesis.Options) { w.HTTPClient, o.HTTPClient = o.HTTPClient, &w })
	r.sender.Learn(&w, err)
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rig) send(ctx context.Context, body string) error {
	again, ok := r.sender.Ready()
	if !ok {
		return errors.New("not ready")
	}
	return again.Send(ctx, "", []byte(body), func(resp *http.Response) error {
		if resp.StatusCode != 200 {
			return errors.New("refused")
		}
		return nil
	})
}

// What is sent again is what the SDK would send, to the byte, but for the number of the call.
func TestRequestsAreTheSDKs(t *testing.T) {
	for name, c := range map[string]struct {
		creds aws.CredentialsProvider
		more  []func(*kinesis.Options)
	}{
		"signed":           {credentials.NewStaticCredentialsProvider("AKID", "secret", ""), nil},
		"with a token":     {credentials.NewStaticCredentialsProvider("AK/ID", "secret", "a token=="), nil},
		"anonymous":        {aws.AnonymousCredentials{}, nil},
		"another endpoint": {credentials.NewStaticCredentialsProvider("AKID", "secret", ""), []func(*kinesis.Options){func(o *kinesis.Options) { o.BaseEndpoint = aws.String("http://localhost:4567") }}},
		"a path":           {credentials.NewStaticCredentialsProvider("AKID", "secret", ""), []func(*kinesis.Options){func(o *kinesis.Options) { o.BaseEndpoint = aws.String("http://localhost:4567/a%20b/c") }}},
		"a port of its own": {credentials.NewStaticCredentialsProvider("AKID", "secret", ""), []func(*kinesis.Options){func(o *kinesis.Options) {
			o.BaseEndpoint = aws.String("https://proxy.test:443")
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // one time for all signatures
				r := newRig(c.creds, c.more...)
				if !Plain(r.options) {
					t.Fatal("not plain")
				}
				r.show(t)
				if prepared := r.sender.sent.Load().signature != nil; prepared != (name != "anonymous" && name != "a path") {
					t.Errorf("signatures prepared: %v", prepared)
				}
				if err := r.send(t.Context(), r.server.bodies[0]); err != nil {
					t.Fatal(err)
				}
				want, got := r.server.got[0], r.server.got[1]
				want.Header.Del("Amz-Sdk-Invocation-Id")
				want.Header.Del("Content-Length") // net/http writes the field of the request
				for _, h := range slices.Sorted(maps.Keys(want.Header)) {
					if w, g := want.Header[h], got.Header[h]; !slices.Equal(w, g) {
						// The SDK signs the number of the call too; so it is left out of the comparison, and signatures are compared below.
						if h != "Authorization" {
							t.Errorf("header %s: %q, want %q", h, g, w)
						}
					}
				}
				for h := range got.Header {
					if want.Header[h] == nil {
						t.Errorf("header %s is not the SDK's", h)
					}
				}
				if *got.URL != *want.URL || got.Host != want.Host || got.Method != want.Method || r.server.bodies[1] != r.server.bodies[0] || got.ContentLength != want.ContentLength {
					t.Errorf("%s %v %q, length %d; want %s %v %q, length %d", got.Method, got.URL, got.Host, got.ContentLength, want.Method, want.URL, want.Host, want.ContentLength)
				}
				checkSignature(t, r, got, r.server.bodies[1])
			})
		})
	}
}

// checkSignature compares a request's signature with that of the SDK's signer.
func checkSignature(t *testing.T, r *rig, got *http.Request, body string) {
	t.Helper()
	if r.options.Credentials == nil {
		if got.Header.Get("Authorization") != "" {
			t.Error("anonymous, and signed")
		}
		return
	}
	creds, err := r.options.Credentials.Retrieve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again := got.Clone(t.Context())
	again.Header.Del("Authorization")
	at, err := time.Parse(timeForm, got.Header.Get("X-Amz-Date"))
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256([]byte(body))
	if err := v4.NewSigner().SignHTTP(t.Context(), creds, again, hex.EncodeToString(hash[:]), "kinesis", "eu-west-1", at); err != nil {
		t.Fatal(err)
	}
	if w, g := again.Header.Get("Authorization"), got.Header.Get("Authorization"); g != w {
		t.Errorf("signature\n %s, want\n %s", g, w)
	}
}

// Signatures stay right from one day to the next, and when credentials change.
func TestSignatures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "secret"}
		r := newRig(aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return now, nil }))
		for i, change := range []func(){
			func() {},
			func() { time.Sleep(30 * time.Second) },
			func() { now.SecretAccessKey = "another" },
			func() { now.SessionToken = "token" },
			func() { now.SessionToken = "" },
			func() {
				time.Sleep(24*time.Hour - 70*time.Second)
				r.show(t)
				if err := r.send(t.Context(), "the last of the day"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(45 * time.Second) // into the next day
			},
		} {
			if i == 0 {
				r.show(t)
			}
			change()
			if err := r.send(t.Context(), strings.Repeat("x", i*100)); err != nil {
				t.Fatal(i, err)
			}
			last := len(r.server.got) - 1
			checkSignature(t, r, r.server.got[last], r.server.bodies[last])
		}
	})
}

// A clock that the SDK found to be wrong is wrong here too.
func TestClockSkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(credentials.NewStaticCredentialsProvider("AKID", "secret", ""))
		req := httptest.NewRequest(http.MethodPost, "http://kinesis.test/", http.NoBody)
		req.Header.Set("Content-Type", "x")
		req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKID/20260101/eu-west-1/kinesis/aws4_request, SignedHeaders=host, Signature=0")
		req.Header.Set("X-Amz-Date", time.Now().Add(-time.Hour).UTC().Format(timeForm))
		w := Watcher{HTTPClient: &r.server}
		_, _ = w.Do(req)
		r.sender.Learn(&w, nil)
		if err := r.send(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		if at := r.server.got[1].Header.Get("X-Amz-Date"); at != time.Now().Add(-time.Hour).UTC().Format(timeForm) {
			t.Errorf("signed at %s, want an hour ago", at)
		}
	})
}

// After a minute, and after anything went wrong, the SDK must make the request.
func TestTheSDKIsAskedAgain(t *testing.T) {
	failing := errors.New("connection lost")
	for name, c := range map[string]struct {
		happens func(r *rig)
		is      func(error) bool
	}{
		"a minute": {func(*rig) { time.Sleep(time.Minute) }, nil},
		"refused": {func(r *rig) { r.server.status = 400 }, func(err error) bool {
			e, ok := errors.AsType[*awshttp.ResponseError](err)
			return ok && e.HTTPStatusCode() == 400 && e.RequestID == "r-1"
		}},
		"not sent": {func(r *rig) { r.server.err = failing }, func(err error) bool {
			_, ok := errors.AsType[*smithyhttp.RequestSendError](err)
			return ok && errors.Is(err, failing)
		}},
		"no credentials": {func(r *rig) {
			r.sender.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, failing })
		}, func(err error) bool { return errors.Is(err, failing) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(credentials.NewStaticCredentialsProvider("AKID", "secret", ""))
				if _, ok := r.sender.Ready(); ok {
					t.Fatal("ready before the SDK made a request")
				}
				r.show(t)
				if err := r.send(t.Context(), "x"); err != nil {
					t.Fatal(err)
				}
				c.happens(r)
				if c.is != nil {
					if err := r.send(t.Context(), "x"); !c.is(err) {
						t.Errorf("error %v", err)
					}
				}
				if _, ok := r.sender.Ready(); ok {
					t.Error("still ready")
				}
			})
		})
	}
}

func TestFailedCallsAreNoPattern(t *testing.T) {
	r := newRig(credentials.NewStaticCredentialsProvider("AKID", "secret", ""))
	r.show(t)
	r.sender.Learn(&Watcher{sent: &template{url: url.URL{}, made: time.Now()}}, errors.New("refused"))
	if _, ok := r.sender.Ready(); ok {
		t.Error("a request that failed is repeated")
	}
	if _, ok := (*Sender)(nil).Ready(); ok {
		t.Error("nil is ready")
	}
}

// A signature of a kind that is not known here is left to the SDK.
func TestOtherSignaturesAreNotRepeated(t *testing.T) {
	r := newRig(credentials.NewStaticCredentialsProvider("AKID", "secret", ""))
	for _, auth := range []string{"AWS4-ECDSA-P256-SHA256 Credential=AKID/20260101/kinesis/aws4_request", "Bearer x", "AWS4-HMAC-SHA256 Credential=AKID"} {
		req := httptest.NewRequest(http.MethodPost, "http://kinesis.test/", http.NoBody)
		req.Header.Set("Authorization", auth)
		req.Header.Set("X-Amz-Date", "20260101T000000Z")
		w := Watcher{HTTPClient: &r.server}
		_, _ = w.Do(req)
		r.sender.Learn(&w, nil)
		if _, ok := r.sender.Ready(); ok {
			t.Errorf("%s: is repeated", auth)
		}
	}
}

func TestPlain(t *testing.T) {
	for name, change := range map[string]func(*kinesis.Options){
		"middleware": func(o *kinesis.Options) {
			o.APIOptions = append(o.APIOptions, func(*middleware.Stack) error { return nil })
		},
		"interceptor": func(o *kinesis.Options) { o.Interceptors.AddBeforeTransmit(nil) },
		"request log": func(o *kinesis.Options) { o.ClientLogMode = aws.LogRequest },
		"resolver":    func(o *kinesis.Options) { o.AuthSchemeResolver = resolver{} },
	} {
		if Plain(newRig(credentials.NewStaticCredentialsProvider("AKID", "secret", ""), change).options) {
			t.Errorf("%s: is plain", name)
		}
	}
}

type resolver struct{ kinesis.AuthSchemeResolver }

// What it costs to make a request, beside the SDK's signer on the same.
func BenchmarkRequest(b *testing.B) {
	r := newRig(credentials.NewStaticCredentialsProvider("AKID", "secret", ""))
	var w Watcher
	_, err := r.client.GetShardIterator(b.Context(), input, func(o *kinesis.Options) { w.HTTPClient, o.HTTPClient = o.HTTPClient, &w })
	r.sender.Learn(&w, err)
	if err != nil {
		b.Fatal(err)
	}
	t, creds := r.sender.sent.Load(), aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "secret"}
	body := []byte(strings.Repeat("x", 300))
	b.Run("prepared", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			t.signature.sign(t.request(b.Context(), "", body), body, creds, time.Now())
		}
	})
	b.Run("SDK's signer", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			hash := sha256.Sum256(body)
			if err := r.sender.Signer.SignHTTP(b.Context(), creds, t.request(b.Context(), "", body), hex.EncodeToString(hash[:]), t.service, t.region, time.Now()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
