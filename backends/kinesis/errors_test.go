package kinesis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/internal/resend"
)

// answers is a service that answers everything alike.
type answers struct {
	status int
	code   string
	body   string
	err    error
}

func (a answers) Do(req *http.Request) (*http.Response, error) {
	if a.err != nil {
		return nil, a.err
	}
	body := a.body
	if body == "" {
		body = fmt.Sprintf(`{"__type":%q,"message":"said by the service"}`, a.code)
	}
	return &http.Response{
		StatusCode: a.status, Request: req, ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/x-amz-json-1.1"}},
		Body:   io.NopCloser(strings.NewReader(body)),
	}, nil
}

func TestErrorsHaveAKind(t *testing.T) {
	for _, c := range []struct {
		name string
		answers
		want error
		says []string
	}{
		{"no such stream", answers{status: 400, code: "ResourceNotFoundException"}, core.ErrNotFound, []string{`"orders"`, "us-east-1", "wrong region", "http://kinesis.test"}},
		{"throughput", answers{status: 400, code: "ProvisionedThroughputExceededException"}, core.ErrThrottled, nil},
		{"limit", answers{status: 400, code: "LimitExceededException"}, core.ErrThrottled, nil},
		{"KMS throttles", answers{status: 400, code: "KMSThrottlingException"}, core.ErrThrottled, nil},
		{"throttled by a proxy", answers{status: 429, body: "slow down"}, core.ErrThrottled, nil},
		{"denied", answers{status: 400, code: "AccessDeniedException"}, core.ErrDenied, []string{"kinesis:GetRecords", "arn:aws:kinesis:us-east-1:*:stream/orders"}},
		{"denied by KMS", answers{status: 400, code: "KMSAccessDeniedException"}, core.ErrDenied, []string{"kms:Decrypt"}},
		{"bad key", answers{status: 400, code: "UnrecognizedClientException"}, core.ErrDenied, []string{"credentials", "us-east-1"}},
		{"bad signature", answers{status: 403, code: "InvalidSignatureException"}, core.ErrDenied, nil},
		{"forbidden by a proxy", answers{status: 403, body: "no"}, core.ErrDenied, nil},
		{"token ran out", answers{status: 400, code: "ExpiredTokenException"}, core.ErrUnavailable, []string{"credentials have run out"}},
		{"iterator ran out", answers{status: 400, code: "ExpiredIteratorException"}, core.ErrExpired, nil},
		{"list token ran out", answers{status: 400, code: "ExpiredNextTokenException"}, core.ErrExpired, nil},
		{"argument", answers{status: 400, code: "InvalidArgumentException"}, core.ErrInvalid, nil},
		{"validation", answers{status: 400, code: "ValidationException"}, core.ErrInvalid, nil},
		{"unknown call", answers{status: 400, code: "UnknownOperationException"}, core.ErrInvalid, nil},
		{"code nobody knows", answers{status: 400, code: "NewException"}, core.ErrInvalid, nil},
		{"stream not active", answers{status: 400, code: "ResourceInUseException"}, core.ErrUnavailable, nil},
		{"key disabled", answers{status: 400, code: "KMSDisabledException"}, core.ErrUnavailable, nil},
		{"internal", answers{status: 500, code: "InternalFailure"}, core.ErrUnavailable, nil},
		{"unavailable", answers{status: 503, code: "ServiceUnavailable"}, core.ErrUnavailable, nil},
		{"page of a proxy", answers{status: 502, body: "<html>"}, core.ErrUnavailable, nil},
		{"half an answer", answers{status: 200, body: `{"Records":[{"Da`}, core.ErrUnavailable, nil},
		{"no answer", answers{err: io.ErrUnexpectedEOF}, core.ErrUnavailable, nil},
	} {
		for _, way := range []string{"the SDK's decoder", "through the SDK", "directly", "in CBOR"} {
			t.Run(c.name+", "+way, func(t *testing.T) {
				opts := []Option{Endpoint("http://kinesis.test"), HTTPClient(c.answers), Patience(time.Nanosecond)}
				switch way {
				case "the SDK's decoder":
					opts = append(opts, StockPages())
				case "in CBOR":
					opts = append(opts, CBOR())
				}
				s := New(testConfig(), "orders", opts...)
				if way == "directly" {
					repeats(t, s)
				}
				_, err := s.getRecords(t.Context(), request{iterator: "AAAA", limit: 1})
				err = s.wrap("read", "shardId-000000000003", err)
				for _, k := range []error{core.ErrNotFound, core.ErrThrottled, core.ErrDenied, core.ErrUnavailable, core.ErrExpired, core.ErrInvalid} {
					if got := errors.Is(err, k); got != errors.Is(c.want, k) {
						t.Errorf("is %v: %v (%v)", k, got, err)
					}
				}
				e, ok := errors.AsType[*core.Error](err)
				if !ok || e.Shard != "shardId-000000000003" || e.Stream != "orders" {
					t.Errorf("%v does not say which shard of which stream", err)
				}
				for _, w := range append(c.says, "GetRecords") {
					if !strings.Contains(err.Error(), w) {
						t.Errorf("%q does not say %q", err, w)
					}
				}
				if _, ok := s.sender.Ready(); ok {
					t.Error("after a failure the SDK must make the next request")
				}
			})
		}
	}
}

// repeats shows a source a request of the SDK, so that it makes the next one itself.
func repeats(t *testing.T, s *Source) {
	t.Helper()
	req := httptest.NewRequest(http.MethodPost, "http://kinesis.test/", http.NoBody)
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKID/20260101/us-east-1/kinesis/aws4_request, Signature=0")
	req.Header.Set("X-Amz-Date", time.Now().UTC().Format("20060102T150405Z"))
	w := resend.Watcher{HTTPClient: doer(func(*http.Request) (*http.Response, error) { return nil, nil })}
	_, _ = w.Do(req)
	s.sender.Learn(&w, nil)
	if _, ok := s.sender.Ready(); !ok {
		t.Fatal("not ready")
	}
}

func TestConfigWithoutCredentials(t *testing.T) {
	cfg := testConfig()
	cfg.Credentials = nil
	for name, c := range map[string]struct {
		provider aws.CredentialsProvider
		says     string
	}{
		"none": {nil, "LoadDefaultConfig"},
		"provider of none": {aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{}, errors.New("nothing in the environment")
		}), "nothing in the environment"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Credentials = c.provider
			s := New(cfg, "orders", Endpoint("http://kinesis.test"), HTTPClient(answers{err: errors.New("must not be called")}))
			for call, f := range map[string]func() error{
				"Describe": func() error { _, err := s.Describe(t.Context()); return err },
				"Shards":   func() error { _, err := s.Shards(t.Context(), core.FromHorizon); return err },
			} {
				if err := f(); !errors.Is(err, core.ErrDenied) || !strings.Contains(err.Error(), "credentials") || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v, want ErrDenied that says what to do", call, err)
				}
			}
		})
	}
}

func TestAnonymousCredentialsAreAllowed(t *testing.T) {
	cfg := testConfig()
	cfg.Credentials = aws.AnonymousCredentials{}
	s := New(cfg, "orders", Endpoint("http://kinesis.test"), HTTPClient(answers{status: 200, body: `{"Shards":[]}`}))
	if shards, err := s.Shards(t.Context(), core.Position{}); err != nil || len(shards) != 0 {
		t.Errorf("%v, %v", shards, err)
	}
}

// dated adds a Date to answers.
type dated struct {
	answers
	date string
}

func (d dated) Do(req *http.Request) (*http.Response, error) {
	r, err := d.answers.Do(req)
	if err == nil {
		r.Header.Set("Date", d.date)
	}
	return r, err
}
