package ots

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/common"
)

// Instance is the Tablestore instance that the status table is in.
type Instance struct {
	Endpoint string // "https://INSTANCE.REGION.ots.aliyuncs.com"; nothing follows the host but a port
	Name     string
	// Credentials are asked for at every request, by many goroutines at once. nil: TABLESTORE_ACCESS_KEY_ID, TABLESTORE_ACCESS_KEY_SECRET and
	// TABLESTORE_SESSION_TOKEN of the environment.
	Credentials common.CredentialsProvider
}

// Option changes how a [Store] reaches its table, or how it shares it.
type Option func(*settings)

type settings struct {
	log         *slog.Logger
	transport   http.RoundTripper
	timeout     time.Duration
	java        time.Duration // 0: no Java worker may come
	mustExist   bool
	read, write int // reserved capacity units
}

// WithJava says that workers of the Java Stream Client may share the table, and what their lease duration is: ClientConfig's leaseDurationMillis,
// 20 s by default, the same for all of them. An owner that is not ours then counts as dead after that and a second, shares are counted as
// Java counts them while a Java worker is present, and no lease is missing for a shard that is listed, since Java would begin it at its beginning.
func WithJava(leaseDuration time.Duration) Option {
	return func(s *settings) { s.java = leaseDuration }
}

// Logger is told what an operator should know. Default: silent.
func Logger(l *slog.Logger) Option { return func(s *settings) { s.log = l } }

// Transport carries the requests, instead of connections of the store's own. It must not send a request twice.
func Transport(t http.RoundTripper) Option { return func(s *settings) { s.transport = t } }

// RequestTimeout bounds a write, which is sent once. A read gets twice as much for each attempt, and four attempts. Default 2.5 s. A renewal
// that is not answered in time uses up what a worker may trust its lease (three quarters of the lease duration), so keep it well below that.
func RequestTimeout(d time.Duration) Option { return func(s *settings) { s.timeout = d } }

// MustExist keeps [Store.Prepare] from creating the table.
func MustExist() Option { return func(s *settings) { s.mustExist = true } }

// Reserved is the reserved throughput, in capacity units, of the table that Prepare creates. Default: none, each call is paid for.
func Reserved(read, write int) Option {
	return func(s *settings) { s.read, s.write = read, write }
}
