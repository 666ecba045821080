package kinesis

import (
	"errors"
	"strings"
	"testing"

	"github.com/shardwarden/shardwarden/core"
)

func TestNameOrARN(t *testing.T) {
	for _, c := range []struct {
		name, in, region string
		want             string // resource; empty: refused
		says             []string
	}{
		{"name", "orders", "us-east-1", "arn:aws:kinesis:us-east-1:*:stream/orders", nil},
		{"name in China", "orders", "cn-north-1", "arn:aws-cn:kinesis:cn-north-1:*:stream/orders", nil},
		{"name in GovCloud", "or.de-r_s", "us-gov-west-1", "arn:aws-us-gov:kinesis:us-gov-west-1:*:stream/or.de-r_s", nil},
		{"ARN", "arn:aws:kinesis:eu-west-1:123456789012:stream/orders", "eu-west-1", "arn:aws:kinesis:eu-west-1:123456789012:stream/orders", nil},
		{"ARN in China", "arn:aws-cn:kinesis:cn-north-1:123456789012:stream/orders", "cn-north-1", "arn:aws-cn:kinesis:cn-north-1:123456789012:stream/orders", nil},
		{"ARN in GovCloud", "arn:aws-us-gov:kinesis:us-gov-east-1:123456789012:stream/orders", "us-gov-east-1", "arn:aws-us-gov:kinesis:us-gov-east-1:123456789012:stream/orders", nil},
		{"ARN of another region", "arn:aws:kinesis:eu-west-1:123456789012:stream/orders", "us-east-1", "", []string{"eu-west-1", "us-east-1"}},
		{"no region", "orders", "", "", []string{"region", "AWS_REGION"}},
		{"no name", "", "us-east-1", "", []string{"1 to 128"}},
		{"name with a space", "my orders", "us-east-1", "", []string{`"my orders"`}},
		{"ARN of a table", "arn:aws:dynamodb:us-east-1:123456789012:table/orders", "us-east-1", "", []string{"dynamodb"}},
		{"ARN of a consumer", "arn:aws:kinesis:us-east-1:123456789012:stream/orders/consumer/me:1", "us-east-1", "", []string{"consumer"}},
		{"ARN without account", "arn:aws:kinesis:us-east-1::stream/orders", "us-east-1", "", []string{"account"}},
		{"ARN cut off", "arn:aws:kinesis:us-east-1", "us-east-1", "", []string{"too few"}},
		{"ARN of no partition", "arn:azure:kinesis:us-east-1:123456789012:stream/orders", "us-east-1", "", []string{"azure"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := testConfig()
			cfg.Region = c.region
			s := New(cfg, c.in, Endpoint("http://127.0.0.1:1"))
			if c.want != "" {
				if s.err != nil || s.name.resource() != c.want {
					t.Errorf("resource %s, error %v; want %s", s.name.resource(), s.err, c.want)
				}
				return
			}
			_, err := s.Describe(t.Context())
			if !errors.Is(err, core.ErrInvalid) {
				t.Fatalf("error %v, want ErrInvalid", err)
			}
			for _, w := range c.says {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			if _, err := s.Shards(t.Context(), core.Position{}); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("Shards: %v", err)
			}
			if _, err := s.Open(t.Context(), core.Shard{ID: "s"}, core.FromHorizon); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("Open: %v", err)
			}
			if _, err := s.Now(t.Context()); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("Now: %v", err)
			}
		})
	}
}
