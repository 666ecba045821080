package tablestore

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Config says how the server behaves. The zero value works.
type Config struct {
	// Credentials are the access key ids and their secrets. If it is nil, any id will do, and its secret is the id
	// itself: "x" and "x".
	Credentials map[string]string
	// Instances are those there are. If it is nil, any name is one.
	Instances []string

	// CreateDelay is how long calls on the rows of a new table answer OTSTableNotReady; 0 means not at all.
	CreateDelay time.Duration
	// StreamDelay is how long a new stream is ENABLING; 0 means not at all. Its shards are there from the start.
	StreamDelay time.Duration
	// RecordDelay is how long after a write its record, or the end of a shard, can be read.
	RecordDelay time.Duration

	// PageRows and PageBytes limit a page of GetRange; defaults 5000 and 4 MiB.
	PageRows, PageBytes int
	// PageRecords and PageRecordBytes limit a page of GetStreamRecord; defaults 1000 and 1 MiB. One record always fits.
	PageRecords, PageRecordBytes int
	// PageShards limits a page of DescribeStream; default 100.
	PageShards int

	// TimestampPages is how many times GetShardIterator with a timestamp answers with a token, to be called again with
	// it, before it gives the iterator. The iterators of the answers before the last can't be used.
	TimestampPages int
	// LateEnd gives the end of a closed shard with one more, empty answer. Otherwise it comes with the last records.
	LateEnd bool
	// ShardsByID lists shards in the order of their ids, which are random: a child may come before its parent.
	// Otherwise they are in the order in which they were made.
	ShardsByID bool
	// IteratorsStay lets an iterator be used as long as no record after it was trimmed. Otherwise it dies when the
	// place it stands for has left retention, even if nothing was written since.
	IteratorsStay bool
	// UnknownStream is the code for a stream or shard that is not there: OTSObjectNotExist (default),
	// OTSParameterInvalid or OTSTrimmedDataAccess.
	UnknownStream string
	// UnknownIterator is the code for an iterator that this server did not make: OTSTrimmedDataAccess (default),
	// OTSObjectNotExist or OTSParameterInvalid.
	UnknownIterator string

	// Seed makes ids and the dice of faults repeatable.
	Seed uint64
	// Faults are in force from the start; see [Server.SetFault]. For latency and throttling all over:
	//
	//	[]Fault{{Kind: Delay, Delay: 20 * time.Millisecond}, {Kind: Fail, Code: "OTSServerBusy", Probability: 0.01}}
	Faults []Fault
}

func (c Config) withDefaults() Config {
	or := func(n *int, d int) {
		if *n == 0 {
			*n = d
		}
	}
	or(&c.PageRows, 5000)
	or(&c.PageBytes, 4<<20)
	or(&c.PageRecords, 1000)
	or(&c.PageRecordBytes, 1<<20)
	or(&c.PageShards, 100)
	if c.UnknownStream == "" {
		c.UnknownStream = codeNotExist
	}
	if c.UnknownIterator == "" {
		c.UnknownIterator = codeTrimmed
	}
	return c
}

// Validate names every setting that can't work. A server made from such a Config answers each request with an internal
// error that says the same.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	bad := func(field string, value any, want string) {
		errs = append(errs, fmt.Errorf("tablestore emulator: Config.%s is %v, want %s", field, value, want))
	}
	for id, secret := range c.Credentials {
		if id == "" || secret == "" {
			bad("Credentials", fmt.Sprintf("%q", c.Credentials), "an id and a secret each")
		}
	}
	if slices.Contains(c.Instances, "") {
		bad("Instances", fmt.Sprintf("%q", c.Instances), "names that are not empty")
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"CreateDelay", c.CreateDelay}, {"StreamDelay", c.StreamDelay}, {"RecordDelay", c.RecordDelay}} {
		if d.value < 0 {
			bad(d.field, d.value, "0 or more")
		}
	}
	for _, n := range []struct {
		field string
		value int
	}{{"PageRows", c.PageRows}, {"PageBytes", c.PageBytes}, {"PageRecords", c.PageRecords}, {"PageRecordBytes", c.PageRecordBytes}, {"PageShards", c.PageShards}} {
		if n.value < 1 {
			bad(n.field, n.value, "1 or more")
		}
	}
	if c.TimestampPages < 0 {
		bad("TimestampPages", c.TimestampPages, "0 or more")
	}
	unknown := []string{codeNotExist, codeParameter, codeTrimmed}
	for field, code := range map[string]string{"UnknownStream": c.UnknownStream, "UnknownIterator": c.UnknownIterator} {
		if !slices.Contains(unknown, code) {
			bad(field, fmt.Sprintf("%q", code), fmt.Sprintf("one of %q", unknown))
		}
	}
	for i, f := range c.Faults {
		if err := f.Validate(); err != nil {
			bad(fmt.Sprintf("Faults[%d]", i), err, "a fault that can happen")
		}
	}
	return errors.Join(errs...)
}
