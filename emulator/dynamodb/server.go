package dynamodb

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Config says how a [Server] behaves. The zero value works: everything is
// immediate and fresh.
type Config struct {
	// Region and Account stand in the ARNs; defaults us-east-1 and 000000000000.
	Region, Account string
	// CreateDelay is how long a new table stays CREATING. Until then only
	// DescribeTable and ListTables know it.
	CreateDelay time.Duration
	// IndexDelay is how long an index added by UpdateTable stays CREATING (the
	// second half of it back-filling), and a deleted one DELETING. An index
	// made with its table is ready when the table is.
	IndexDelay time.Duration
	// EventualLag is how stale an eventually consistent read, or any read of
	// an index, may be: each request sees the table as it was at one instant,
	// picked between now and EventualLag ago. Zero means always fresh.
	EventualLag time.Duration
	// Seed fixes what is left to chance: staleness and the probability of
	// faults.
	Seed uint64
}

// Server is an in-memory DynamoDB. Make one with [New]; all methods are safe
// for concurrent use.
type Server struct {
	config Config
	done   chan struct{}
	late   sync.WaitGroup // requests applied after their connection was dropped

	mu       sync.Mutex // never held while waiting for anything
	closed   bool
	tables   map[string]*table
	tokens   map[string]tokenUse
	calls    map[string]int64
	byTable  map[string]map[string]int64
	faults   []*activeFault
	random   *rand.Rand
	requests uint64
	ids      uint64
}

// New makes a server with no tables. It starts nothing; serve it as an
// [http.Handler].
func New(c Config) *Server {
	c.Region = cmp.Or(c.Region, "us-east-1")
	c.Account = cmp.Or(c.Account, "000000000000")
	return &Server{
		config:  c,
		done:    make(chan struct{}),
		tables:  map[string]*table{},
		tokens:  map[string]tokenUse{},
		calls:   map[string]int64{},
		byTable: map[string]map[string]int64{},
		random:  rand.New(rand.NewPCG(c.Seed, 0x6c65617365)),
	}
}

// Close ends waiting requests with a dropped connection, discards writes that
// were still to be applied late, and waits for their goroutines. The server
// answers nothing afterwards. It may be called more than once.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	s.mu.Unlock()
	s.late.Wait()
}

// Calls counts the requests received so far by operation, failed and dropped
// ones included.
func (s *Server) Calls() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

// CallsOn is [Server.Calls] for the requests that named one table.
func (s *Server) CallsOn(table string) map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := maps.Clone(s.byTable[table])
	if c == nil {
		c = map[string]int64{}
	}
	return c
}

// Items dumps a table as it stands, in the form of the AWS JSON protocol
// ({"S": "x"}; binary values as []byte, sets as []string), in the order of a
// scan. It is nil for a table that is not there. The caller owns the result.
func (s *Server) Items(table string) []map[string]any {
	s.mu.Lock()
	t := s.tables[table]
	if t == nil {
		s.mu.Unlock()
		return nil
	}
	items := make([]item, 0, t.count)
	for _, e := range t.rows.entries {
		if it := e.row.latest().item; it != nil {
			items = append(items, it)
		}
	}
	s.mu.Unlock()
	out := make([]map[string]any, len(items))
	for i, it := range items {
		out[i] = it.plain()
	}
	return out
}

// maxRequest is the service's limit on a request body.
const maxRequest = 16 << 20

// ServeHTTP answers one request of the DynamoDB protocol. A fault that drops
// the connection panics with [http.ErrAbortHandler], which a net/http server
// turns into just that.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		// The service's health check, which load balancers and probes use.
		_, _ = fmt.Fprintf(w, "healthy: dynamodb.%s.amazonaws.com\n", s.config.Region)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
	if err != nil {
		panic(http.ErrAbortHandler) // the client went away in the middle of its request
	}
	answer, err := s.serve(r, body)
	status := http.StatusOK
	if err != nil {
		e, ok := errors.AsType[*apiError](err)
		if !ok {
			// A mistake in this package; say so as the service would.
			e = &apiError{http.StatusInternalServerError, "InternalServerError", err.Error(), nil}
		}
		status, answer = e.status, e.body()
	}
	b := appendJSON(make([]byte, 0, 512), answer)
	h := w.Header()
	h.Set("Content-Type", "application/x-amz-json-1.0")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	h.Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(b)), 10))
	h.Set("X-Amzn-Requestid", s.requestID())
	w.WriteHeader(status)
	_, _ = w.Write(b) // a client that has gone is none of ours
}

func (s *Server) requestID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	return fmt.Sprintf("%016X%016X", s.config.Seed, s.requests)
}

const targetPrefix = "DynamoDB_20120810."

// request is the decoded body of one operation.
type request interface {
	// check finds what is wrong without looking at any table, and parses
	// expressions.
	check() error
	// run carries the request out, taking Server.mu as it needs.
	run(s *Server) (obj, error)
	// touches lists the tables and, where the request names them, the items it
	// is about.
	touches() []touch
}

// touch is something a request is about. key holds at least the key
// attributes; it is nil where a request means the whole table.
type touch struct {
	table, index string
	key          item
}

func (s *Server) serve(r *http.Request, body []byte) (obj, error) {
	op, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), targetPrefix)
	newRequest, known := operations[op]
	if !ok || !known {
		e := fail("UnknownOperationException", "")
		if op != "" {
			e.msg = fmt.Sprintf("Operation %s is not known to this emulator", op)
		}
		return nil, e
	}
	if r.Header.Get("Authorization") == "" && !strings.Contains(r.URL.RawQuery, "X-Amz-Signature=") {
		return nil, fail("MissingAuthenticationTokenException", "Request is missing Authentication Token")
	}
	if len(body) > maxRequest {
		return nil, &apiError{http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", "the request is over 16 MB", nil}
	}
	req := newRequest()
	if err := decodeRequest(op, body, req); err != nil {
		s.count(op, nil)
		return nil, err
	}
	touched := req.touches()
	s.count(op, touched)
	if err := req.check(); err != nil {
		return nil, err
	}
	return s.withFaults(op, req, touched)
}

func (s *Server) count(op string, touched []touch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[op]++
	last := ""
	for _, t := range touched {
		if t.table == last {
			continue // a batch counts once for a table, its items being together
		}
		last = t.table
		m := s.byTable[last]
		if m == nil {
			m = map[string]int64{}
			s.byTable[last] = m
		}
		m[op]++
	}
}

// find answers a table in any state. The caller holds mu.
func (s *Server) find(name string, now time.Time) (*table, error) {
	t := s.tables[name]
	if t == nil {
		return nil, noTableNamed(name)
	}
	t.settle(now)
	return t, nil
}

// open answers a table whose items can be used. The caller holds mu.
func (s *Server) open(name string, now time.Time) (*table, error) {
	t := s.tables[name]
	if t == nil || now.Before(t.activeAt) {
		return nil, noTable()
	}
	t.settle(now)
	return t, nil
}

// instant picks the moment an eventually consistent read sees. The caller
// holds mu.
func (s *Server) instant(now time.Time, consistent bool) time.Time {
	if consistent || s.config.EventualLag <= 0 {
		return now
	}
	return now.Add(-time.Duration(s.random.Int64N(int64(s.config.EventualLag) + 1)))
}

func (s *Server) arn(table string) string {
	return "arn:aws:dynamodb:" + s.config.Region + ":" + s.config.Account + ":table/" + table
}
