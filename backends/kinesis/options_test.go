package kinesis

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

func TestSettingsThatMakeNoSenseAreNamed(t *testing.T) {
	for _, c := range []struct {
		name string
		opts []Option
		says []string
	}{
		{"no poll", []Option{PollEvery(0)}, []string{"PollEvery", "0s"}},
		{"negative poll", []Option{PollBehind(-time.Second)}, []string{"PollBehind", "-1s"}},
		{"slower behind", []Option{PollEvery(time.Second), PollBehind(2 * time.Second)}, []string{"PollBehind", "2s", "PollEvery", "1s"}},
		{"no records", []Option{MaxRecords(0)}, []string{"MaxRecords", "0"}},
		{"too many records", []Option{MaxRecords(10_001)}, []string{"MaxRecords", "10001"}},
		{"no page", []Option{PageBytes(-5)}, []string{"PageBytes", "-5"}},
		{"no patience", []Option{Patience(-1)}, []string{"Patience"}},
		{"no time-out", []Option{RequestTimeout(0)}, []string{"RequestTimeout"}},
		{"endpoint without scheme", []Option{Endpoint("localhost:4567")}, []string{"Endpoint", "localhost:4567", "http://"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(testConfig(), "orders", c.opts...).Describe(t.Context())
			if !errors.Is(err, core.ErrInvalid) {
				t.Fatalf("error %v, want ErrInvalid", err)
			}
			for _, w := range c.says {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
		})
	}
}
