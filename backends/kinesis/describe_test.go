package kinesis

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
)

func TestDescribeNamesTheIncarnation(t *testing.T) {
	bubble(t, emulator.Config{Account: "123456789012", Retention: 48 * time.Hour}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		created := time.Now().Unix()
		for _, name := range []string{"orders", "arn:aws:kinesis:us-east-1:123456789012:stream/orders"} {
			info, err := r.source(name).Describe(r.ctx)
			r.ok(err)
			want := core.StreamInfo{ID: core.StreamID(fmt.Sprintf("123456789012:orders:%d", created)), Name: "orders", Retention: 48 * time.Hour}
			if info != want {
				t.Errorf("%s: %+v, want %+v", name, info, want)
			}
			if !regexp.MustCompile(`^[0-9]+:[^:]+:[0-9]+$`).MatchString(string(info.ID)) { // StreamIdentifier of the KCL
				t.Errorf("%s: id %s is not as the KCL writes it", name, info.ID)
			}
		}

		s := r.source("orders")
		before, err := s.Describe(r.ctx)
		r.ok(err)
		_, err = r.admin.DeleteStream(r.ctx, &sdk.DeleteStreamInput{StreamName: aws.String("orders")})
		r.ok(err)
		if _, err := s.Describe(r.ctx); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("deleted stream: %v, want ErrNotFound", err)
		}
		time.Sleep(2 * time.Second)
		r.create("orders", 1)
		after, err := s.Describe(r.ctx)
		r.ok(err)
		if after.ID == before.ID {
			t.Errorf("the stream made again has the id of the former, %s", after.ID)
		}
	})
}

func TestDescribeWaitsForAStreamThatIsBeingCreated(t *testing.T) {
	bubble(t, emulator.Config{CreateDelay: 17 * time.Second}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		s, start := r.source("orders"), time.Now()
		ctx, cancel := context.WithTimeout(r.ctx, 3*time.Second)
		defer cancel()
		if _, err := s.Describe(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cancelled wait: %v", err)
		}
		_, err := s.Describe(r.ctx)
		r.ok(err)
		if d := time.Since(start); d < 17*time.Second || d > 19*time.Second {
			t.Errorf("returned after %v, want soon after 17 s", d)
		}
		_, err = r.admin.DeleteStream(r.ctx, &sdk.DeleteStreamInput{StreamName: aws.String("orders")})
		r.ok(err)
		if _, err := s.Describe(r.ctx); !errors.Is(err, core.ErrNotFound) || !strings.Contains(err.Error(), "being deleted") {
			t.Errorf("stream that is being deleted: %v", err)
		}
	})
}

func TestUnknownStreamSaysWhereItLooked(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		for name, says := range map[string]string{
			"orders": "account of the credentials",
			"arn:aws:kinesis:us-east-1:000000000000:stream/orders": "account 000000000000",
		} {
			_, err := r.source(name).Describe(r.ctx)
			if !errors.Is(err, core.ErrNotFound) {
				t.Fatalf("%s: %v, want ErrNotFound", name, err)
			}
			for _, w := range []string{`"orders"`, "us-east-1", "wrong region", "http://kinesis.test", says} {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%s: %q does not say %q", name, err, w)
				}
			}
		}
	})
}

func TestDescribeWithoutPermission(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		s := r.source("orders")
		want, err := s.Describe(r.ctx)
		r.ok(err)
		r.fault(emulator.Fault{Kind: emulator.AccessDenied, Operation: "DescribeStreamSummary"})
		if got, err := s.Describe(r.ctx); err != nil || got != want {
			t.Errorf("by DescribeStream: %+v, %v; want %+v", got, err, want)
		}
		r.fault(emulator.Fault{Kind: emulator.AccessDenied, Operation: "DescribeStream"})
		_, err = s.Describe(r.ctx)
		if !errors.Is(err, core.ErrDenied) {
			t.Fatalf("both denied: %v", err)
		}
		for _, w := range []string{"kinesis:DescribeStreamSummary on arn:aws:kinesis:us-east-1:*:stream/orders", "kinesis:DescribeStream on"} {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q does not say %q", err, w)
			}
		}
	})
}

func TestThrottledDescribeIsRepeatedWhilePatienceLasts(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		r.fault(emulator.Fault{Kind: emulator.LimitExceeded, Operation: "DescribeStreamSummary", Times: 4})
		s := r.source("orders", Patience(time.Minute))
		_, err := s.Describe(r.ctx)
		r.ok(err)
		if n := len(r.times("DescribeStreamSummary")); n != 5 {
			t.Errorf("%d calls, want 4 that failed and one", n)
		}
		r.fault(emulator.Fault{Kind: emulator.LimitExceeded, Operation: "DescribeStreamSummary"})
		start := time.Now()
		if _, err := s.Describe(r.ctx); !errors.Is(err, core.ErrThrottled) {
			t.Errorf("throttled for ever: %v", err)
		}
		if d := time.Since(start); d < 50*time.Second || d > time.Minute {
			t.Errorf("gave up after %v, want about a minute", d)
		}
	})
}

func TestNowIsTheServicesTime(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		time.Sleep(12345 * time.Millisecond)
		got, err := r.source("orders").Now(r.ctx)
		r.ok(err)
		if want := time.Now().Truncate(time.Second); !got.Equal(want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
	// An answer's Date counts, not our clock.
	body := `{"StreamDescriptionSummary":{"StreamName":"orders","StreamARN":"arn:aws:kinesis:us-east-1:123456789012:stream/orders","StreamCreationTimestamp":1700000000.25,"StreamStatus":"ACTIVE","RetentionPeriodHours":24}}`
	s := New(testConfig(), "orders", Endpoint("http://kinesis.test"), HTTPClient(dated{answers{status: 200, body: body}, "Tue, 14 Nov 2023 22:13:20 GMT"}))
	got, err := s.Now(t.Context())
	if err != nil || got.Unix() != 1700000000 {
		t.Errorf("%v, %v; want the time of the Date header", got, err)
	}
}
