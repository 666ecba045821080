package kinesis

import (
	"errors"
	"fmt"
	"regexp"
	"time"
)

// Config says how the server behaves. The zero value works.
type Config struct {
	Region  string // default "us-east-1"; part of every ARN
	Account string // 12 digits, default "000000000000"; part of every ARN

	// ShardLimit is how many open shards all streams may have together; default 1000.
	ShardLimit int

	// CreateDelay is how long a stream is CREATING, and DELETING once deleted; 0 means not at all.
	CreateDelay time.Duration
	// UpdateDelay is how long a stream is UPDATING after SplitShard, MergeShards, UpdateShardCount and the calls that
	// change its settings; 0 means not at all: the shards change within the call. With a delay they change at its
	// end, in one step: until then records go to the parents.
	UpdateDelay time.Duration

	// ConsumerLimit is how many consumers a stream may have; default 20.
	ConsumerLimit int
	// ConsumerDelay is how long a consumer is CREATING, and DELETING once deregistered; 0 means not at all.
	ConsumerDelay time.Duration
	// SubscriptionLife is how long a subscription lasts; default 5 minutes.
	SubscriptionLife time.Duration
	// HeartbeatEvery is after how long without records a subscription sends an event without any; default 5 seconds.
	HeartbeatEvery time.Duration
	// EventRecords is how many records an event of a subscription holds at most; default 10,000. There is a MiB of them at most, too.
	EventRecords int

	// IteratorLife is how long a shard iterator can be used; default 5 minutes.
	IteratorLife time.Duration
	// Retention of new streams; default 24 hours. DescribeStream rounds it up to whole hours.
	Retention time.Duration

	// NoLimits turns off the limits of each shard: 5 reads, 2 MiB read, 5 iterators, 1000 records and 1 MiB written a
	// second, and the 2 MiB a second of each subscription. Limits on the size of a request stay.
	NoLimits bool

	// Seed makes the dice of faults repeatable.
	Seed uint64
	// Faults are in force from the start; see [Server.SetFault]. For latency and throttling all over:
	//
	//	[]Fault{{Kind: Delay, Delay: 20 * time.Millisecond}, {Kind: Throttle, Probability: 0.01}}
	Faults []Fault
}

func (c Config) withDefaults() Config {
	if c.Region == "" {
		c.Region = "us-east-1"
	}
	if c.Account == "" {
		c.Account = "000000000000"
	}
	if c.ShardLimit == 0 {
		c.ShardLimit = 1000
	}
	if c.ConsumerLimit == 0 {
		c.ConsumerLimit = defaultConsumers
	}
	if c.SubscriptionLife == 0 {
		c.SubscriptionLife = 5 * time.Minute
	}
	if c.HeartbeatEvery == 0 {
		c.HeartbeatEvery = 5 * time.Second
	}
	if c.EventRecords == 0 {
		c.EventRecords = mostRecords
	}
	if c.IteratorLife == 0 {
		c.IteratorLife = 5 * time.Minute
	}
	if c.Retention == 0 {
		c.Retention = 24 * time.Hour
	}
	return c
}

var (
	regionPattern  = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-\d$`)
	accountPattern = regexp.MustCompile(`^\d{12}$`)
)

// Validate names every setting that can't work. A server made from such a Config answers each request with an
// internal failure that says the same.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	bad := func(field string, value any, want string) {
		errs = append(errs, fmt.Errorf("kinesis emulator: Config.%s is %v, want %s", field, value, want))
	}
	if !regionPattern.MatchString(c.Region) {
		bad("Region", fmt.Sprintf("%q", c.Region), "a region such as us-east-1")
	}
	if !accountPattern.MatchString(c.Account) {
		bad("Account", fmt.Sprintf("%q", c.Account), "12 digits")
	}
	if c.ShardLimit < 0 {
		bad("ShardLimit", c.ShardLimit, "1 or more")
	}
	if c.EventRecords < 0 {
		bad("EventRecords", c.EventRecords, "1 or more")
	}
	if c.ConsumerLimit < 0 {
		bad("ConsumerLimit", c.ConsumerLimit, "1 or more")
	}
	for field, d := range map[string]time.Duration{"CreateDelay": c.CreateDelay, "UpdateDelay": c.UpdateDelay, "ConsumerDelay": c.ConsumerDelay} {
		if d < 0 {
			bad(field, d, "0 or more")
		}
	}
	for field, d := range map[string]time.Duration{"IteratorLife": c.IteratorLife, "Retention": c.Retention, "SubscriptionLife": c.SubscriptionLife, "HeartbeatEvery": c.HeartbeatEvery} {
		if d < time.Millisecond {
			bad(field, d, "a millisecond or more")
		}
	}
	for i, f := range c.Faults {
		if err := f.Validate(); err != nil {
			bad(fmt.Sprintf("Faults[%d]", i), err, "a fault that can happen")
		}
	}
	return errors.Join(errs...)
}
