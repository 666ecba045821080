package kinesis

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/shardwarden/shardwarden/backends/kinesis/kpl"
)

// What the service allows (service-sizes-and-limits in its developer guide): 5 reads and 2 MB a second and shard, 10,000 records a read.
const (
	maxRecordsPerRead  = 10_000
	readBytesPerSecond = 2_000_000
	fastestPoll        = 200 * time.Millisecond
)

// settings are what options change; the defaults stand in newSettings alone.
type settings struct {
	endpoint      string
	pollEvery     time.Duration
	pollBehind    time.Duration
	maxRecords    int
	pageBytes     int
	patience      time.Duration
	timeout       time.Duration
	first         wire
	http          aws.HTTPClient
	clientOptions []func(*sdk.Options)
	aggregated    kpl.Config
	decoders      []Decoder
	fan           *fanOut // nil: shards are polled
	share         *shared // with the other sources of a catalog
	unchecked     bool
	log           *slog.Logger
}

func newSettings(opts []Option) settings {
	s := settings{
		pollEvery:  time.Second,
		pollBehind: fastestPoll,
		maxRecords: maxRecordsPerRead,
		pageBytes:  400_000,
		patience:   20 * time.Second,
		timeout:    30 * time.Second,
		first:      wireJSON,
		share:      &shared{},
		log:        slog.New(slog.DiscardHandler),
	}
	for _, o := range opts {
		o(&s)
	}
	return s
}

// Option changes how a [Source] works. A value that makes no sense is reported by the first call to the source, before anything is sent.
type Option func(*settings)

// Endpoint sends all calls to a URL instead of the service's: an emulator, a proxy, a VPC endpoint. Without it the aws.Config decides, which
// LoadDefaultConfig fills from AWS_ENDPOINT_URL and AWS_ENDPOINT_URL_KINESIS.
func Endpoint(url string) Option { return func(s *settings) { s.endpoint = url } }

// PollEvery is the time between two reads of a shard that is caught up. Default 1 s, which leaves four fifths of the shard's reads to other
// applications. It must not be below [PollBehind].
func PollEvery(d time.Duration) Option { return func(s *settings) { s.pollEvery = d } }

// PollBehind is the time between two reads of a shard that is behind. Default 200 ms: five a second, all that the service gives a shard. Use
// a longer one where several applications poll the stream. A shorter one is throttled by the service.
func PollBehind(d time.Duration) Option { return func(s *settings) { s.pollBehind = d } }

// MaxRecords bounds the records of one read, 1 to 10,000, the default. See [PageBytes].
func MaxRecords(n int) Option { return func(s *settings) { s.maxRecords = n } }

// PageBytes is the size aimed at for one read, in bytes of records, since memory goes with it: the number of records asked for follows their
// average size. Default 400,000, so that five reads a second use up the 2 MB a second that a shard gives. A longer way to the service (more
// than a fifth of a second there and back) wants larger pages.
func PageBytes(n int) Option { return func(s *settings) { s.pageBytes = n } }

// Unchecked leaves out the check of permissions that the first [Source.Describe] makes: for programs that look at a stream and do not read it.
func Unchecked() Option { return func(s *settings) { s.unchecked = true } }

// Patience is how long a call is repeated by itself, with growing pauses, while the service throttles it or does not answer, before the
// error is returned. Default 20 s. A reader that returned such an error goes on at its next call.
func Patience(d time.Duration) Option { return func(s *settings) { s.patience = d } }

// RequestTimeout bounds a single request. Default 30 s.
func RequestTimeout(d time.Duration) Option { return func(s *settings) { s.timeout = d } }

// CBOR asks for pages in the service's binary format, which the Java SDK uses too, though no document says so: a quarter less to send, and half
// the time to decode. A service that does not take it, or that answers something else, is asked in JSON from then on; [Source.Pages] tells.
// All other calls are JSON.
func CBOR() Option { return func(s *settings) { s.first = wireCBOR } }

// StockPages leaves the pages to the SDK's decoder, which allocates each record anew: should ours ever be suspected. Default: our own
// decoder, and the SDK's from the first page on that it cannot read.
func StockPages() Option { return func(s *settings) { s.first = wireStock } }

// Aggregated says how aggregated records of the KPL are treated. Default, the zero [kpl.Config]: they are opened, and user records come one by
// one; see package kpl and docs/kinesis-kpl.md.
func Aggregated(c kpl.Config) Option { return func(s *settings) { s.aggregated = c } }

// Decode has records decoded before they are handed out, by glue.New(cfg) or a [Decoder] of your own. Aggregated records are opened before
// that. Given more than once, the decoders are called one after the other. Default: none.
func Decode(d Decoder) Option {
	return func(s *settings) { s.decoders = append(s.decoders, d) }
}

// HTTPClient sends the requests, instead of the aws.Config's client. Request bodies are copied before it gets them, because the SDK closes
// them too early.
func HTTPClient(c aws.HTTPClient) Option { return func(s *settings) { s.http = c } }

// ClientOptions changes the SDK's client, after this package has made its own changes: no retries below its own loop, and HTTP/1.1.
func ClientOptions(f ...func(*sdk.Options)) Option {
	return func(s *settings) { s.clientOptions = append(s.clientOptions, f...) }
}

// Logger gets what is unusual and not an error: throttling, iterators that ran out, positions that may be trimmed. Default: none.
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
	}{{"PollEvery", s.pollEvery}, {"PollBehind", s.pollBehind}, {"Patience", s.patience}, {"RequestTimeout", s.timeout}} {
		if d.value <= 0 {
			return fmt.Errorf("%s is %v: must be above 0", d.name, d.value)
		}
	}
	if s.pollBehind > s.pollEvery {
		return fmt.Errorf("PollBehind is %v, longer than PollEvery, %v: a shard that is behind must not be read more slowly than one that is caught up", s.pollBehind, s.pollEvery)
	}
	if s.maxRecords < 1 || s.maxRecords > maxRecordsPerRead {
		return fmt.Errorf("MaxRecords is %d: must be 1 to %d, the most the service gives in one read", s.maxRecords, maxRecordsPerRead)
	}
	if s.pageBytes < 1 {
		return fmt.Errorf("PageBytes is %d: must be above 0", s.pageBytes)
	}
	if slices.Contains(s.decoders, nil) {
		return errors.New("Decode was given no decoder")
	}
	if s.endpoint != "" {
		u, err := url.Parse(s.endpoint)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return fmt.Errorf("Endpoint is %q: must be a URL such as http://localhost:4567", s.endpoint)
		}
	}
	return nil
}
