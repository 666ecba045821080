package worker

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/balance"
)

// CheckpointMode says who decides how far a shard has come.
type CheckpointMode uint8

const (
	// Automatic: a batch whose handler returned nil is done. Stored with the next renewal of the lease, at the end of a shard, and when the
	// lease is given up.
	Automatic CheckpointMode = iota
	// Manual: only what the handler checkpoints is stored; it resumes there after a move or a crash.
	Manual
)

// Config says what a worker does. The zero value of a field is its default; [Config.WithDefaults] shows them. [New] refuses what
// contradicts, by name and with the values.
type Config struct {
	// ID names this worker in the lease table. Default: host, process id and a random part, new at each start. A fixed id is allowed; after
	// a crash its former leases are waited for like anyone's. Two live workers of one id notice each other ([core.ErrTwin]).
	ID core.WorkerID
	// Streams are the streams to consume: [One], or a catalog of many, as far as the store holds the leases of more than one. Required.
	Streams core.Catalog
	// Store is the lease table. Required.
	Store core.LeaseStore

	// Exactly one of the three.
	Process core.ProcessorFunc // called with each batch
	Factory core.Factory       // makes a processor per shard and lease
	Shard   core.ShardFunc     // pulls the batches of a shard

	// LeaseDuration is how long a worker must be silent before others take its leases. All workers of a fleet use the same. Default 10 s, at
	// least 100 ms.
	LeaseDuration time.Duration
	// StopMargin is how much sooner than others a worker itself stops to trust its lease: time for handlers to return, and for clocks to
	// differ. Default a quarter of LeaseDuration.
	StopMargin time.Duration
	// RenewEvery is the time between renewals of a lease. Default 0.4 of LeaseDuration.
	RenewEvery time.Duration
	// LookEvery is the longest time between two looks at the lease table; shorter by up to a fifth, at random. Default a quarter of
	// LeaseDuration, at most 2.5 s. It grows with the table so that looks cost at most LookUnits read units a second.
	LookEvery time.Duration
	// LookUnits caps the cost of looks at big tables, in rows of up to 8 KiB read units worth a second. Default 50. Negative: no cap.
	LookUnits int

	// Checkpoints: Automatic (default) or Manual.
	Checkpoints CheckpointMode
	// CheckpointEvery bounds how long an acknowledged batch may wait to be stored. Checkpoints ride on renewals, so a value at or above
	// RenewEvery costs nothing; a smaller one adds writes. Default 5 s.
	CheckpointEvery time.Duration

	// NeverLead: in a table that one worker leads (that of a fleet of the Java KCL 3, see [core.Foreigners]) this worker only follows. For a first try
	// beside workers that are trusted already; if all of a fleet say so, nobody gets a lease.
	NeverLead bool
	// Utilization evens out how busy workers are instead of how many leases they have, where this worker leads: the default rule of the KCL 3, whose
	// settings these are. Usage and Balance are filled in by the worker. It needs figures of all workers, and stops short of even. Default nil:
	// leases are counted.
	Utilization *balance.Utilization
	// MaxLeases bounds the leases this worker holds; what stays unserved because of it is reported. Default 0, no bound.
	MaxLeases int
	// MaxShardsAtOnce bounds the handlers that run side by side, over all shards. Default 0, no bound.
	MaxShardsAtOnce int
	// KeyConcurrency is how many keys of one shard are handled side by side; each key's records stay in order, and the checkpoint is the
	// low-water mark. After a crash up to a window of records comes again. Default 1.
	KeyConcurrency int
	// ReadAhead bounds the memory of pages that are read and not yet handled, over all shards of the worker, in bytes. A shard whose window
	// is empty may always hold one page. Default 32 MiB.
	ReadAhead int64
	// ReadAheadShard bounds the same for one shard. Default 4 MiB.
	ReadAheadShard int64
	// DeliverEmpty also calls the handler for good reads that found no records.
	DeliverEmpty bool

	// OnError says what to do when a handler keeps failing. The zero value tries again for ever.
	OnError ErrorPolicy

	// StallAfter is how long a shard may go without a good read (of records or of none) before reading is restarted; twice as long, and the
	// shard is given to another worker. Default 1 min.
	StallAfter time.Duration
	// HandlerStopTimeout is how long a hand-over waits for a handler to return before the asking worker is declined. Default 30 s.
	HandlerStopTimeout time.Duration
	// ShutdownTimeout bounds the graceful stop that Run makes when its context ends. Default 30 s.
	ShutdownTimeout time.Duration

	// ListEvery is how often the worker that lists shards for all does so. Default 1 min.
	ListEvery time.Duration
	// AuditEvery is how often leases are compared with the hash range; a hole seen AuditConfirm times in a row is repaired. Default 2 min.
	AuditEvery time.Duration
	// AuditConfirm: default 3.
	AuditConfirm int
	// AuditAtShardEnd also compares whenever a shard ends.
	AuditAtShardEnd bool
	// CleanupEvery is how often finished leases are looked at. Default 1 min.
	CleanupEvery time.Duration
	// CleanupFinished is how long a finished lease stays at least. Default 5 min.
	CleanupFinished time.Duration
	// CleanupGone is how often leases whose shard the service no longer has are looked for. Default 30 min.
	CleanupGone time.Duration
	// KeepFinished keeps finished leases for ever.
	KeepFinished bool
	// Former says what becomes of the leases of streams that the catalog no longer lists. Default: they are released, and stay.
	Former FormerStreams
}

// ErrorPolicy says what happens when a handler fails on a batch. Records are never skipped but by DeadLetter.
type ErrorPolicy struct {
	// Backoff is the pause after the first failure; it doubles up to MaxBackoff, with jitter. Default 100 ms and 30 s.
	Backoff    time.Duration
	MaxBackoff time.Duration
	// GiveUpAfter is the number of failures of one batch after which DeadLetter or Halt applies. 0: never.
	GiveUpAfter int
	// Bisect splits a batch that failed in halves until the record that fails is alone, so that only it counts as failing.
	Bisect bool
	// DeadLetter gets what is given up; it may keep it (the records are clones). nil means it took it: the shard goes on behind it. An
	// error is retried like one of the handler.
	DeadLetter func(ctx context.Context, b *core.Batch, cause error) error
	// Halt stops the shard, visibly and with the lease kept, until the worker restarts or the lease moves.
	Halt bool
}

// WithDefaults returns c with every zero field that has a default filled in. All defaults stand here.
func (c Config) WithDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	c.ID = cmp.Or(c.ID, newID())
	def(&c.LeaseDuration, 10*time.Second)
	def(&c.StopMargin, c.LeaseDuration/4)
	def(&c.RenewEvery, c.LeaseDuration*4/10)
	def(&c.LookEvery, min(c.LeaseDuration/4, 2500*time.Millisecond))
	c.LookUnits = cmp.Or(c.LookUnits, 50)
	def(&c.CheckpointEvery, 5*time.Second)
	c.KeyConcurrency = cmp.Or(c.KeyConcurrency, 1)
	c.ReadAhead = cmp.Or(c.ReadAhead, 32<<20)
	c.ReadAheadShard = cmp.Or(c.ReadAheadShard, 4<<20)
	def(&c.StallAfter, time.Minute)
	def(&c.HandlerStopTimeout, 30*time.Second)
	def(&c.ShutdownTimeout, 30*time.Second)
	def(&c.ListEvery, time.Minute)
	def(&c.AuditEvery, 2*time.Minute)
	c.AuditConfirm = cmp.Or(c.AuditConfirm, 3)
	def(&c.CleanupEvery, time.Minute)
	def(&c.CleanupFinished, 5*time.Minute)
	def(&c.CleanupGone, 30*time.Minute)
	def(&c.OnError.Backoff, 100*time.Millisecond)
	def(&c.OnError.MaxBackoff, max(30*time.Second, c.OnError.Backoff))
	return c
}

// validate checks a config that has its defaults. Each message names the field, its value and what it must be.
func (c *Config) validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("worker.Config.%s: %w", fmt.Sprintf(format, args...), core.ErrInvalid))
	}
	if c.Streams == nil {
		bad("Streams is nil: say what to consume, worker.One(source, start) for a single stream")
	}
	if c.Store == nil {
		bad("Store is nil: say where leases are kept")
	}
	n := 0
	for _, set := range []bool{c.Process != nil, c.Factory != nil, c.Shard != nil} {
		if set {
			n++
		}
	}
	if n != 1 {
		bad("Process, Factory, Shard: %d of them are set, exactly one must be", n)
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{
		{"LeaseDuration", c.LeaseDuration}, {"StopMargin", c.StopMargin}, {"RenewEvery", c.RenewEvery}, {"LookEvery", c.LookEvery},
		{"CheckpointEvery", c.CheckpointEvery}, {"StallAfter", c.StallAfter}, {"HandlerStopTimeout", c.HandlerStopTimeout},
		{"ShutdownTimeout", c.ShutdownTimeout}, {"ListEvery", c.ListEvery}, {"AuditEvery", c.AuditEvery}, {"CleanupEvery", c.CleanupEvery},
		{"CleanupFinished", c.CleanupFinished}, {"CleanupGone", c.CleanupGone},
		{"OnError.Backoff", c.OnError.Backoff}, {"OnError.MaxBackoff", c.OnError.MaxBackoff},
	} {
		if f.d < 0 {
			bad("%s is %v: must be positive", f.name, f.d)
		}
	}
	for _, f := range []struct {
		name string
		n    int64
	}{
		{"MaxLeases", int64(c.MaxLeases)}, {"MaxShardsAtOnce", int64(c.MaxShardsAtOnce)}, {"KeyConcurrency", int64(c.KeyConcurrency)},
		{"ReadAhead", c.ReadAhead}, {"ReadAheadShard", c.ReadAheadShard}, {"AuditConfirm", int64(c.AuditConfirm)},
		{"OnError.GiveUpAfter", int64(c.OnError.GiveUpAfter)},
	} {
		if f.n < 0 {
			bad("%s is %d: must not be negative", f.name, f.n)
		}
	}
	if strings.ContainsFunc(string(c.ID), unicode.IsControl) {
		bad("ID is %q: control characters do not belong into a table and logs", c.ID)
	}
	if c.LeaseDuration < leastLease {
		if c.LeaseDuration >= 0 {
			bad("LeaseDuration is %v: must be at least %v; a number without a unit is nanoseconds, 10 s is 10*time.Second", c.LeaseDuration, leastLease)
		}
		return errors.Join(errs...) // what follows is measured by it
	}
	trusted := c.LeaseDuration - c.StopMargin
	if c.StopMargin > 0 && trusted <= 0 {
		bad("StopMargin is %v: must be below LeaseDuration, %v", c.StopMargin, c.LeaseDuration)
	} else if c.RenewEvery > 0 && c.RenewEvery >= trusted {
		bad("RenewEvery is %v: must be below LeaseDuration - StopMargin, %v - %v = %v, or every lease is given up between two renewals", c.RenewEvery, c.LeaseDuration, c.StopMargin, trusted)
	}
	if c.LookEvery > 0 && c.LookEvery < leastLook {
		bad("LookEvery is %v: must be at least %v", c.LookEvery, leastLook)
	}
	if c.RenewEvery > 0 && c.RenewEvery < leastLook {
		bad("RenewEvery is %v: must be at least %v", c.RenewEvery, leastLook)
	}
	if c.LookEvery > c.LeaseDuration {
		bad("LookEvery is %v: must not be above LeaseDuration, %v", c.LookEvery, c.LeaseDuration)
	}
	if c.StallAfter > 0 && c.StallAfter < c.LeaseDuration {
		bad("StallAfter is %v: must not be below LeaseDuration, %v", c.StallAfter, c.LeaseDuration)
	}
	if c.Checkpoints > Manual {
		bad("Checkpoints is %d: must be Automatic or Manual", c.Checkpoints)
	}
	if c.OnError.MaxBackoff < c.OnError.Backoff {
		bad("OnError.MaxBackoff is %v: must not be below OnError.Backoff, %v", c.OnError.MaxBackoff, c.OnError.Backoff)
	}
	if c.OnError.DeadLetter != nil && c.OnError.Halt {
		bad("OnError.DeadLetter and OnError.Halt are both set: choose what happens to a record that is given up")
	}
	if (c.OnError.DeadLetter != nil || c.OnError.Halt) && c.OnError.GiveUpAfter == 0 {
		bad("OnError.GiveUpAfter is 0 (never) while DeadLetter or Halt is set: say after how many failures")
	}
	if c.OnError.GiveUpAfter > 0 && c.OnError.DeadLetter == nil && !c.OnError.Halt {
		bad("OnError.GiveUpAfter is %d while neither DeadLetter nor Halt is set: say what happens then; records are never skipped", c.OnError.GiveUpAfter)
	}
	if c.Shard != nil && c.KeyConcurrency > 1 {
		bad("KeyConcurrency is %d together with Shard: a pulled shard has one loop", c.KeyConcurrency)
	}
	if c.Checkpoints == Manual && c.KeyConcurrency > 1 {
		bad("KeyConcurrency is %d together with Checkpoints Manual: the low-water mark is kept in Automatic mode only", c.KeyConcurrency)
	}
	c.Former.validate(c.LeaseDuration, bad)
	return errors.Join(errs...)
}

// What is shorter than these measures the network rather than workers.
const (
	leastLease = 100 * time.Millisecond
	leastLook  = 10 * time.Millisecond
)

// newID is unique by default: two workers on one host, and a restart in a container that reuses process ids, must differ.
func newID() core.WorkerID {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "worker"
	}
	return core.WorkerID(fmt.Sprintf("%s-%d-%s", host, os.Getpid(), randomText(4)))
}

func randomText(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails, by its documentation
	return hex.EncodeToString(b)
}

// One is the catalog of a single stream.
func One(source core.StreamSource, start core.Position) core.Catalog {
	return fixed{{Source: source, Start: start}}
}

// Fixed is a catalog that never changes.
func Fixed(streams ...core.Stream) core.Catalog { return fixed(streams) }

type fixed []core.Stream

func (f fixed) Streams(context.Context) ([]core.Stream, error) { return f, nil }
