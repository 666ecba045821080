package kinesis

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/kinesis"
)

// F110: temporary credentials that run out, a provider that fails for a while, and a service that refuses old ones, are no end of reading.
func TestTemporaryCredentials(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		start := time.Now()
		fetched := 0
		down := func() bool { at := time.Since(start); return at > 5*time.Minute && at < 5*time.Minute+30*time.Second }
		cfg := testConfig()
		cfg.Credentials = aws.NewCredentialsCache(aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			fetched++
			if down() {
				return aws.Credentials{}, errors.New("metadata service does not answer")
			}
			return aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "secret", CanExpire: true, Expires: time.Now().Add(time.Minute)}, nil
		}))
		s := New(cfg, "orders", Endpoint("http://kinesis.test"), HTTPClient(r.http))
		rd := r.open(s, one, core.FromHorizon)
		var failed []time.Duration
		for time.Since(start) < 10*time.Minute {
			if _, err := rd.Next(r.ctx); err != nil {
				failed = append(failed, time.Since(start))
				if !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "metadata service") {
					t.Fatalf("%v: want ErrUnavailable with the provider's words", err)
				}
			}
		}
		for _, at := range failed {
			if at < 5*time.Minute || at > 5*time.Minute+40*time.Second {
				t.Errorf("a read failed after %v; the provider was down from 5m to 5m30s", at)
			}
		}
		if fetched < 9 {
			t.Errorf("credentials of a minute were fetched %d times in 10 minutes", fetched)
		}
	})
}

func TestCredentialsTheServiceCallsExpiredAreFetchedAnew(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.create("orders", 1)
		fetched := 0
		cfg := testConfig()
		cfg.Credentials = aws.NewCredentialsCache(aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			fetched++
			return aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "secret"}, nil // and says nothing of an end
		}))
		expired := 1
		client := doer(func(req *http.Request) (*http.Response, error) {
			if expired == fetched {
				return answers{status: 400, code: "ExpiredTokenException"}.Do(req)
			}
			return r.http.Do(req)
		})
		s := New(cfg, "orders", Endpoint("http://kinesis.test"), HTTPClient(client))
		if _, err := s.Describe(r.ctx); err != nil {
			t.Fatal(err)
		}
		if fetched != 2 {
			t.Errorf("credentials fetched %d times, want again after they had run out", fetched)
		}
	})
}
