package dynamo

import (
	"log/slog"
	"maps"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// Option changes how a [Store] reaches its table, or the table it creates.
type Option func(*settings)

type settings struct {
	table            string
	endpoint         string
	log              *slog.Logger
	client           []func(*dynamodb.Options)
	timeout          time.Duration
	mustExist        bool
	provisioned      bool
	readUnits        int64
	writeUnits       int64
	tags             map[string]string
	recovery         bool
	deleteProtection bool
	several          bool
	kind             LayoutKind
	coordinatorTable string
	metricsTable     string
	leaderLease      time.Duration
	metricsEvery     time.Duration
	noMetrics        bool
}

// Table names the table, where it is not called like the application.
func Table(name string) Option { return func(s *settings) { s.table = name } }

// SeveralStreams makes the table one of several streams, as the KCL's multi-stream mode keeps it: lease keys are account:stream:epoch:shard. All
// workers of the application say the same, also while their catalog lists one stream only. A table of the other kind is refused.
func SeveralStreams() Option { return func(s *settings) { s.several = true } }

// Endpoint is the URL of the service, for emulators and private endpoints. Without a region in the configuration it sets us-east-1, which
// emulators do not look at.
func Endpoint(url string) Option { return func(s *settings) { s.endpoint = url } }

// Logger is told what an operator should know: a throttled table, options that do not apply to a table that exists, why workers are not
// announced. Default: silent.
func Logger(l *slog.Logger) Option { return func(s *settings) { s.log = l } }

// ClientOptions change the client of the service, after everything else. Conditional writes stay without retries. Updates go without the SDK's
// stack of middleware, in the form of one that went through it less than a minute ago, unless the client has anything of its own in the
// stack: APIOptions, interceptors, tracing, metrics, request logs, a resolver of signatures, endpoint discovery.
func ClientOptions(f ...func(*dynamodb.Options)) Option {
	return func(s *settings) { s.client = append(s.client, f...) }
}

// RequestTimeout bounds a write, which is sent once. A read gets twice as much for each attempt, and four times altogether. Default 2.5 s. A
// renewal that is not answered in time uses up what a worker may trust its lease (three quarters of the lease duration), so keep it well
// below that.
func RequestTimeout(d time.Duration) Option { return func(s *settings) { s.timeout = d } }

// MustExist keeps [Store.Prepare] from creating the table.
func MustExist() Option { return func(s *settings) { s.mustExist = true } }

// The options below are of the table that Prepare creates. A table that exists stays as it is; the log says so.

// Provisioned sets the billing mode PROVISIONED with so many capacity units. Default: on demand.
func Provisioned(read, write int64) Option {
	return func(s *settings) { s.provisioned, s.readUnits, s.writeUnits = true, read, write }
}

// Tags are put on the table.
func Tags(tags map[string]string) Option { return func(s *settings) { s.tags = maps.Clone(tags) } }

// PointInTimeRecovery switches continuous backups on.
func PointInTimeRecovery() Option { return func(s *settings) { s.recovery = true } }

// DeletionProtection keeps the table from being deleted.
func DeletionProtection() Option { return func(s *settings) { s.deleteProtection = true } }
