package kclsim

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
)

// Version is the release a worker models.
type Version uint8

// The versions.
const (
	V27 Version = 27 // 2.7.2
	V34 Version = 34 // 3.4.2: side tables
	V35 Version = 35 // 3.5.1: one table, unless the old coordinator table exists
)

func (v Version) String() string {
	switch v {
	case V27:
		return "2.7.2"
	case V34:
		return "3.4.2"
	case V35:
		return "3.5.1"
	}
	return "unknown"
}

// Delivery is a batch given to a processor.
type Delivery struct {
	Worker, Shard string
	// Session tells one ownership from the next, also of the same worker.
	Session   string
	Sequences []string
}

// Settings say what a worker is and does. Zero durations are Java's defaults.
type Settings struct {
	ID          string
	Version     Version
	App, Stream string
	DynamoDB    *dynamodb.Client
	Kinesis     *kinesis.Client
	// Process is the record processor: when it returns true the batch is checkpointed. ctx ends when the process is killed, and for no other
	// reason: a Java processor is not interrupted.
	Process func(ctx context.Context, d Delivery) bool
	// Fault is called when the worker meets what the real one would fail on: a row it can't read, two rows it can't both believe.
	Fault func(format string, args ...any)
	Seed  uint64

	Failover        time.Duration // failoverTimeMillis, 10 s
	HandOffTimeout  time.Duration // gracefulLeaseHandoffTimeoutMillis, 30 s
	NoHandOff       bool          // isGracefulLeaseHandoffEnabled false
	LeaderLease     time.Duration // dynamoDbLockBasedLeaderLeaseDurationInMillis, 120 s
	LeaderHeartbeat time.Duration // its heartbeat, 30 s
	MetricsEvery    time.Duration // workerMetricsReporterFreqInMillis, 30 s
	IdleBetween     time.Duration // idleTimeBetweenReadsInMillis, 1.5 s
	ParentPoll      time.Duration // parentShardPollIntervalMillis, 10 s
	Stabilise       time.Duration // of the flip from 2.x to 3.x, 600 s
	ClockOff        time.Duration // by how much its wall clock is ahead
	MaxLeases       int           // maxLeasesForWorker; 0: no bound
	NoCleanup       bool          // cleanupLeasesUponShardCompletion false
	Compatible      bool          // 3.x: CLIENT_VERSION_CONFIG_COMPATIBLE_WITH_2X
	MigrateAll      bool          // 3.5: migrateAllEntitiesToLeaseTable
}

func (s Settings) withDefaults() Settings {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&s.Failover, 10*time.Second)
	def(&s.HandOffTimeout, 30*time.Second)
	def(&s.LeaderLease, 120*time.Second)
	def(&s.LeaderHeartbeat, 30*time.Second)
	def(&s.MetricsEvery, 30*time.Second)
	def(&s.IdleBetween, 1500*time.Millisecond)
	def(&s.ParentPoll, 10*time.Second)
	def(&s.Stabilise, 600*time.Second)
	return s
}

// Hard-coded in Java, or settings whose default nobody changes (docs/reference/kcl.md 3.1, 4.2, 4.4).
const (
	epsilon        = 25 * time.Millisecond
	dispatchEvery  = time.Second
	handOffWatch   = 2 * time.Second
	monitorEvery   = time.Minute
	auditFirst     = time.Minute
	auditEvery     = 2 * time.Minute
	auditConfirm   = 3
	cleanEvery     = time.Minute
	cleanCompleted = 5 * time.Minute
	taskBackoff    = 500 * time.Millisecond
	shuffleFirst   = time.Minute
	shuffleEvery   = 5 * time.Minute
	startAttempts  = 20 // maxInitializationAttempts
	startBackoff   = time.Second
	balanceEach    = 3 // varianceBalancingFrequency
	tableEvery     = 10 * time.Second
)

func (s Settings) renewEvery() time.Duration    { return s.Failover/3 - epsilon }
func (s Settings) takeEvery() time.Duration     { return 2 * (s.Failover + epsilon) }
func (s Settings) assignEvery() time.Duration   { return 2 * s.Failover }
func (s Settings) discoverEvery() time.Duration { return s.assignEvery()/2 - epsilon }
