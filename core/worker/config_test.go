package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	store "github.com/shardwarden/shardwarden/leasestore/memory"
)

func sound() worker.Config {
	return worker.Config{
		Streams: worker.One(source.New("s", 1), core.FromHorizon), Store: store.New(),
		Process: func(context.Context, *core.Batch) error { return nil },
	}
}

// What contradicts is refused by New, with the name of the setting, its value and the limit.
func TestConfigRefusesContradictions(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*worker.Config)
		says   []string
	}{
		{"no streams", func(c *worker.Config) { c.Streams = nil }, []string{"Streams is nil", "worker.One"}},
		{"no store", func(c *worker.Config) { c.Store = nil }, []string{"Store is nil"}},
		{"no handler", func(c *worker.Config) { c.Process = nil }, []string{"Process, Factory, Shard: 0 of them"}},
		{"two handlers", func(c *worker.Config) { c.Shard = func(context.Context, core.PullSession) error { return nil } }, []string{"2 of them"}},
		{"negative lease duration", func(c *worker.Config) { c.LeaseDuration = -time.Second }, []string{"LeaseDuration is -1s"}},
		{"a duration without a unit", func(c *worker.Config) { c.LeaseDuration = 10 }, []string{"LeaseDuration is 10ns", "10*time.Second"}},
		{"a look without a unit", func(c *worker.Config) { c.LookEvery = 5 }, []string{"LookEvery is 5ns"}},
		{"an id with a line break", func(c *worker.Config) { c.ID = "a\nb" }, []string{`ID is "a\nb"`}},
		{"negative look", func(c *worker.Config) { c.LookEvery = -1 }, []string{"LookEvery is -1ns"}},
		{"negative checkpoint", func(c *worker.Config) { c.CheckpointEvery = -1 }, []string{"CheckpointEvery"}},
		{"negative cap", func(c *worker.Config) { c.MaxLeases = -1 }, []string{"MaxLeases is -1"}},
		{"negative read-ahead", func(c *worker.Config) { c.ReadAhead = -5 }, []string{"ReadAhead is -5"}},
		{"margin eats the lease", func(c *worker.Config) { c.StopMargin = 10 * time.Second }, []string{"StopMargin is 10s", "LeaseDuration, 10s"}},
		{"renewal slower than trust", func(c *worker.Config) { c.RenewEvery = 8 * time.Second }, []string{"RenewEvery is 8s", "7.5s"}},
		{"look slower than lease", func(c *worker.Config) { c.LookEvery = 11 * time.Second }, []string{"LookEvery is 11s", "10s"}},
		{"stall before the lease", func(c *worker.Config) { c.StallAfter = time.Second }, []string{"StallAfter is 1s", "10s"}},
		{"unknown mode", func(c *worker.Config) { c.Checkpoints = 7 }, []string{"Checkpoints is 7"}},
		{"backoff upside down", func(c *worker.Config) { c.OnError.Backoff, c.OnError.MaxBackoff = time.Minute, time.Second }, []string{"MaxBackoff is 1s", "1m0s"}},
		{"give up and then what", func(c *worker.Config) { c.OnError.GiveUpAfter = 3 }, []string{"GiveUpAfter is 3", "never skipped"}},
		{"halt never", func(c *worker.Config) { c.OnError.Halt = true }, []string{"GiveUpAfter is 0"}},
		{"halt and dead letter", func(c *worker.Config) {
			c.OnError = worker.ErrorPolicy{GiveUpAfter: 1, Halt: true, DeadLetter: func(context.Context, *core.Batch, error) error { return nil }}
		}, []string{"DeadLetter and OnError.Halt"}},
		{"keys side by side in manual mode", func(c *worker.Config) { c.KeyConcurrency, c.Checkpoints = 2, worker.Manual }, []string{"KeyConcurrency is 2", "Manual"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := sound()
			c.change(&cfg)
			_, err := worker.New(cfg)
			if !errors.Is(err, core.ErrInvalid) {
				t.Fatalf("New: %v, want ErrInvalid", err)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("the error does not say %q: %v", s, err)
				}
			}
		})
	}
	if _, err := worker.New(sound()); err != nil {
		t.Errorf("the sound settings are refused: %v", err)
	}
	if _, err := worker.New(sound(), worker.WithHooks(42)); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a hook that is none is accepted: %v", err)
	}
}

// The defaults hold what the design says (rule 2): others wait D, a worker trusts its lease for less, and renews well within that.
func TestDefaults(t *testing.T) {
	c := worker.Config{}.WithDefaults()
	if c.LeaseDuration != 10*time.Second || c.StopMargin != 2500*time.Millisecond || c.RenewEvery != 4*time.Second || c.LookEvery != 2500*time.Millisecond {
		t.Errorf("lease %v, margin %v, renew %v, look %v", c.LeaseDuration, c.StopMargin, c.RenewEvery, c.LookEvery)
	}
	d := worker.Config{LeaseDuration: 2 * time.Second}.WithDefaults()
	if d.StopMargin != 500*time.Millisecond || d.RenewEvery != 800*time.Millisecond || d.LookEvery != 500*time.Millisecond {
		t.Errorf("the others follow the lease duration: margin %v, renew %v, look %v", d.StopMargin, d.RenewEvery, d.LookEvery)
	}
	if a, b := (worker.Config{}).WithDefaults().ID, (worker.Config{}).WithDefaults().ID; a == b {
		t.Errorf("two workers of one process have the same default id %s", a)
	}
}
