package tablestore

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// settings are what options change; the defaults stand in newSettings alone.
type settings struct {
	pollEvery  time.Duration
	pollBusy   time.Duration
	maxRecords int
	pageBytes  int
	patience   time.Duration
	timeout    time.Duration
	stop       bool
	transport  http.RoundTripper
	log        *slog.Logger
	clock      clock
	slots      slots
}

func newSettings(opts []Option) *settings {
	s := &settings{
		pollEvery:  1250 * time.Millisecond,
		pollBusy:   100 * time.Millisecond,
		maxRecords: 1000, // what the vendor's stream client asks for
		pageBytes:  256 << 10,
		patience:   20 * time.Second,
		timeout:    30 * time.Second, // the SDK's own
		log:        slog.New(slog.DiscardHandler),
		slots:      make(slots, readsAtOnce),
	}
	for _, o := range opts {
		o(s)
	}
	return s
}

// Option changes how a [Source] works. A value that makes no sense is reported by the first call to the source, before anything is sent.
type Option func(*settings)

// PollEvery is the time between two reads of an idle shard, reached in steps from [PollBusy]. Default 1.25 s: less than a read a second. The
// first record brings the shard back to PollBusy.
func PollEvery(d time.Duration) Option { return func(s *settings) { s.pollEvery = d } }

// PollBusy is the time between two reads of a shard that has records and is caught up. Default 100 ms. One that is behind is read at once.
func PollBusy(d time.Duration) Option { return func(s *settings) { s.pollBusy = d } }

// MaxRecords bounds the records of one read. Default 1,000. See [PageBytes].
func MaxRecords(n int) Option { return func(s *settings) { s.maxRecords = n } }

// PageBytes is the size aimed at for one read, in bytes as they are sent: the number of records asked for follows their average size. In
// memory a page takes several times as much. Default 256 KiB.
func PageBytes(n int) Option { return func(s *settings) { s.pageBytes = n } }

// Patience is how long a call is repeated by itself, with growing pauses, while the service throttles it or does not answer, before the
// error is returned. Default 20 s. A reader that returned such an error goes on at its next call.
func Patience(d time.Duration) Option { return func(s *settings) { s.patience = d } }

// RequestTimeout bounds a single request. Default 30 s.
func RequestTimeout(d time.Duration) Option { return func(s *settings) { s.timeout = d } }

// Transport sends the requests, instead of a transport that all sources of one [Tables] or [New] share.
func Transport(t http.RoundTripper) Option { return func(s *settings) { s.transport = t } }

// StopWhenTrimmed stops a shard whose unread records were deleted by the service: each read fails with [ErrGap] until somebody has moved the
// checkpoint in the lease table. Without it the engine reports the gap and goes on at the oldest record.
func StopWhenTrimmed() Option { return func(s *settings) { s.stop = true } }

// Logger gets what is unusual and not an error. Default: none.
func Logger(l *slog.Logger) Option {
	return func(s *settings) {
		if l != nil {
			s.log = l
		}
	}
}

// check names the first setting that makes no sense.
func (s *settings) check() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"PollEvery", s.pollEvery}, {"PollBusy", s.pollBusy}, {"Patience", s.patience}, {"RequestTimeout", s.timeout}} {
		if d.value <= 0 {
			return fmt.Errorf("%s is %v: must be above 0", d.name, d.value)
		}
	}
	if s.pollBusy > s.pollEvery {
		return fmt.Errorf("PollBusy is %v, longer than PollEvery, %v: a shard that has records must not be read more slowly than one that is idle", s.pollBusy, s.pollEvery)
	}
	if s.maxRecords < 1 {
		return fmt.Errorf("MaxRecords is %d: must be above 0", s.maxRecords)
	}
	if s.pageBytes < 1 {
		return fmt.Errorf("PageBytes is %d: must be above 0", s.pageBytes)
	}
	return nil
}
