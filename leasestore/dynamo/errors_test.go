package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// answer is a service that always answers the same.
func answer(status int, code string) aws.HTTPClient {
	return client(func(r *http.Request) (*http.Response, error) {
		body := `{"__type":"com.amazonaws.dynamodb.v20120810#` + code + `","message":"as it was told"}`
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	})
}

func failing(err error) aws.HTTPClient {
	return client(func(*http.Request) (*http.Response, error) { return nil, err })
}

func configured(c aws.HTTPClient) aws.Config {
	return aws.Config{Region: "us-east-1", HTTPClient: c, Credentials: credentials.NewStaticCredentialsProvider("AKIDTEST", "secret", "")}
}

// What the service or the way to it can answer, and what it means here.
func TestErrorsAreMapped(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  aws.Config
		kind error
		says []string
	}{
		{"throughput", configured(answer(400, "ProvisionedThroughputExceededException")), core.ErrThrottled, []string{"as it was told"}},
		{"throttling", configured(answer(400, "ThrottlingException")), core.ErrThrottled, nil},
		{"request limit", configured(answer(400, "RequestLimitExceeded")), core.ErrThrottled, nil},
		{"too many tables", configured(answer(400, "LimitExceededException")), core.ErrThrottled, nil},
		{"denied", configured(answer(400, "AccessDeniedException")), core.ErrDenied, []string{"dynamodb:UpdateItem on arn:aws:dynamodb:us-east-1:*:table/orders-app"}},
		{"unknown key", configured(answer(400, "UnrecognizedClientException")), core.ErrDenied, []string{"dynamodb:UpdateItem"}},
		{"wrong signature", configured(answer(400, "InvalidSignatureException")), core.ErrDenied, []string{"InvalidSignatureException"}},
		{"expired token", configured(answer(400, "ExpiredTokenException")), core.ErrDenied, []string{"ExpiredTokenException"}},
		{"no table", configured(answer(400, "ResourceNotFoundException")), core.ErrNotFound, []string{"table orders-app", "does not exist", "us-east-1"}},
		{"validation", configured(answer(400, "ValidationException")), core.ErrInvalid, []string{"ValidationException: as it was told"}},
		{"unknown operation", configured(answer(400, "UnknownOperationException")), core.ErrInvalid, nil},
		{"500", configured(answer(500, "InternalServerError")), core.ErrUnavailable, nil},
		{"503", configured(answer(503, "ServiceUnavailable")), core.ErrUnavailable, nil},
		{"502 of something in between", configured(answer(502, "")), core.ErrUnavailable, nil},
		{"connection refused", configured(failing(&net.OpError{Op: "dial", Err: errors.New("connection refused")})), core.ErrUnavailable, []string{"connection refused"}},
		{"connection reset", configured(failing(io.ErrUnexpectedEOF)), core.ErrUnavailable, nil},
		{"no such host", configured(failing(&net.DNSError{Name: "dynamodb.eu-midle-1.amazonaws.com", IsNotFound: true})), core.ErrUnavailable, []string{"no such host dynamodb.eu-midle-1.amazonaws.com", `region "us-east-1"`}},
		{"an answer that is none", configured(client(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("<html>")), Request: r}, nil
		})), core.ErrUnavailable, nil},
		{"no region", func() aws.Config { c := configured(answer(200, "")); c.Region = ""; return c }(), core.ErrInvalid, []string{"no region", "AWS_REGION"}},
		{"no credentials at all", func() aws.Config { c := configured(answer(200, "")); c.Credentials = nil; return c }(), core.ErrDenied, []string{"no credentials", "AWS_ACCESS_KEY_ID"}},
		{"credentials that are empty", func() aws.Config {
			c := configured(answer(200, ""))
			c.Credentials = credentials.NewStaticCredentialsProvider("", "", "")
			return c
		}(), core.ErrDenied, []string{"no credentials", "static credentials are empty"}},
		{"China", func() aws.Config {
			c := configured(answer(400, "AccessDeniedException"))
			c.Region = "cn-north-1"
			return c
		}(), core.ErrDenied, []string{"arn:aws-cn:dynamodb:cn-north-1:"}},
		{"US government", func() aws.Config {
			c := configured(answer(400, "AccessDeniedException"))
			c.Region = "us-gov-west-1"
			return c
		}(), core.ErrDenied, []string{"arn:aws-us-gov:dynamodb:us-gov-west-1:"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := dynamo.New(c.cfg, app)
			l := lease("1")
			w := core.Renew(nil)
			_, err := s.Update(t.Context(), l, w.Same, w.Set)
			expect(t, "update", err, c.kind, append(c.says, "UpdateItem", "table orders-app")...)
			call, ok := errors.AsType[*dynamo.CallError](err)
			if !ok || call.Call != "UpdateItem" || call.Table != app {
				t.Errorf("%#v is no CallError of UpdateItem", err)
			}
			kinds := 0
			for _, k := range []error{core.ErrThrottled, core.ErrDenied, core.ErrNotFound, core.ErrInvalid, core.ErrUnavailable, core.ErrConflict, core.ErrExists, context.Canceled} {
				if errors.Is(err, k) {
					kinds++
				}
			}
			if kinds != 1 {
				t.Errorf("it is of %d kinds", kinds)
			}
			if strings.Contains(err.Error(), "\n") || len(err.Error()) > 500 {
				t.Errorf("text: %q", err)
			}
		})
	}
}

// The SDK's own error stays within reach.
func TestTheSDKsErrorIsThere(t *testing.T) {
	_, err := dynamo.New(configured(answer(400, "ValidationException")), app).Get(t.Context(), lease("1").Key)
	if api, ok := errors.AsType[smithy.APIError](err); !ok || api.ErrorCode() != "ValidationException" {
		t.Errorf("%v has no API error in it", err)
	}
}

// With the SDK's default configuration and nothing set, the error names what to set. Metadata services are off, as on any laptop.
func TestNoCredentialsFromTheDefaultChain(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/none")
	cfg, err := config.LoadDefaultConfig(t.Context(), config.WithRegion("eu-west-1"))
	must(t, err)
	err = dynamo.New(cfg, app).Prepare(t.Context())
	expect(t, "prepare", err, core.ErrDenied, "no credentials", "AWS_ACCESS_KEY_ID", "dynamodb:DescribeTable on arn:aws:dynamodb:eu-west-1:*:table/orders-app")
}

// Case F110: credentials that the service calls expired are made anew, once, also for a write: it was refused before it was looked at.
func TestExpiredCredentialsAreMadeAnew(t *testing.T) {
	var made, sent atomic.Int32
	var armed atomic.Bool // once the table is ready
	expired := func(next aws.HTTPClient) aws.HTTPClient {
		return client(func(r *http.Request) (*http.Response, error) {
			if armed.Load() && strings.HasSuffix(r.Header.Get("X-Amz-Target"), "UpdateItem") {
				sent.Add(1)
				if !strings.Contains(r.Header.Get("Authorization"), "AKID2") {
					return answer(400, "ExpiredTokenException").Do(r)
				}
			}
			return next.Do(r)
		})
	}
	srv := serve(t, emulator.Config{}, expired)
	srv.cfg.Credentials = aws.NewCredentialsCache(aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: fmt.Sprint("AKID", made.Add(1)), SecretAccessKey: "s"}, nil
	}))
	s := srv.ready(t)
	armed.Store(true)
	l, err := s.Create(t.Context(), lease("1"))
	must(t, err)
	w := core.Renew(nil)
	l, err = s.Update(t.Context(), l, w.Same, w.Set)
	must(t, err)
	if made.Load() != 2 || sent.Load() != 2 || l.Counter != 1 {
		t.Errorf("credentials made %d times, write sent %d times, counter %d; want 2, 2, 1", made.Load(), sent.Load(), l.Counter)
	}
}

// A provider that fails for a while is an error of each call while it does, and forgotten afterwards.
func TestProviderThatFailsForAWhile(t *testing.T) {
	srv := serve(t, emulator.Config{})
	var down atomic.Bool
	srv.cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		if down.Load() {
			return aws.Credentials{}, errors.New("metadata service is away")
		}
		return aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "s"}, nil
	})
	s := srv.ready(t)
	l, err := s.Create(t.Context(), lease("1"))
	must(t, err)
	down.Store(true)
	w := core.Renew(nil)
	_, err = s.Update(t.Context(), l, w.Same, w.Set)
	expect(t, "update", err, core.ErrDenied, "metadata service is away")
	down.Store(false)
	_, err = s.Update(t.Context(), l, w.Same, w.Set)
	must(t, err)
}

// A throttled table is warned of once a minute, however many calls it hits, with what to raise.
func TestThrottlingIsWarnedOf(t *testing.T) {
	for _, c := range []struct {
		name   string
		opts   []dynamo.Option
		advice string
	}{
		{"on demand", nil, "maximum of on-demand throughput"},
		{"provisioned", []dynamo.Option{dynamo.Provisioned(1, 1)}, "raise the table's capacity, or switch it to on-demand"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := serve(t, emulator.Config{})
				s := srv.ready(t, c.opts...)
				l, err := s.Create(t.Context(), lease("1"))
				must(t, err)
				srv.SetFault(emulator.Fault{Kind: emulator.FaultThrottle, Op: "UpdateItem"})
				w := core.Renew(nil)
				for range 125 { // seconds
					_, err := s.Update(t.Context(), l, w.Same, w.Set)
					expect(t, "update", err, core.ErrThrottled)
					time.Sleep(time.Second)
				}
				said := srv.log.lines("WARN")
				if len(said) != 3 || !strings.Contains(said[0], app) || !strings.Contains(said[0], c.advice) || !strings.Contains(said[0], "UpdateItem") {
					t.Errorf("log in 125 s: %q, want three lines with the advice %q", said, c.advice)
				}
			})
		})
	}
}

// Options of the client that the user gives come last, except that writes are sent once.
func TestClientOptions(t *testing.T) {
	srv := serve(t, emulator.Config{})
	seen := ""
	s := srv.ready(t, dynamo.ClientOptions(func(o *dynamodb.Options) { seen = o.Region; o.RetryMaxAttempts = 7 }))
	if seen != "us-east-1" {
		t.Errorf("the option saw region %q", seen)
	}
	l, err := s.Create(t.Context(), lease("1"))
	must(t, err)
	srv.SetFault(emulator.Fault{Kind: emulator.FaultServerError, Op: "UpdateItem"})
	before := srv.Calls()["UpdateItem"]
	w := core.Renew(nil)
	_, err = s.Update(t.Context(), l, w.Same, w.Set)
	expect(t, "update", err, core.ErrUnavailable)
	if n := srv.Calls()["UpdateItem"] - before; n != 1 {
		t.Errorf("sent %d times", n)
	}
}
