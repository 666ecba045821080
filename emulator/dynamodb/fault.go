package dynamodb

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// FaultKind names what goes wrong.
type FaultKind string

const (
	// FaultThrottle answers ProvisionedThroughputExceededException. In a batch
	// the members it hits are left unprocessed; a transaction is cancelled.
	FaultThrottle FaultKind = "throttle"
	// FaultThrottleRequests answers ThrottlingException, as when the account's
	// request rate is over its limit.
	FaultThrottleRequests FaultKind = "throttle-requests"
	// FaultServerError answers InternalServerError with status 500. Nothing
	// was applied.
	FaultServerError FaultKind = "server-error"
	// FaultDenied answers AccessDeniedException, naming action and resource as
	// the service does.
	FaultDenied FaultKind = "denied"
	// FaultDelay waits Delay before the request is looked at. It is carried
	// out then, though the client may have gone.
	FaultDelay FaultKind = "delay"
	// FaultDropBefore closes the connection; nothing was applied.
	FaultDropBefore FaultKind = "drop-before"
	// FaultDropAfter carries the request out and then closes the connection
	// without an answer.
	FaultDropAfter FaultKind = "drop-after"
	// FaultApplyLate closes the connection at once and carries the request out
	// Delay later, unless the server was closed by then.
	FaultApplyLate FaultKind = "apply-late"
	// FaultPageSize ends the pages of Scan and Query after Items rows, as if
	// they were large.
	FaultPageSize FaultKind = "page-size"
)

// Fault is something that goes wrong on demand. The zero values of its
// selectors match everything.
type Fault struct {
	Kind FaultKind

	Op        string // operation, e.g. "UpdateItem"
	Table     string // table the request names
	KeyPrefix string // start of the partition key of an item the request names

	Probability float64 // of a matching request to be hit; 0 is always
	Times       int     // how many requests are hit; 0 is no end

	Delay time.Duration // of FaultDelay and FaultApplyLate
	Items int           // of FaultPageSize
}

// Check tells what is wrong with a fault.
func (f Fault) Check() error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("dynamodb emulator: fault %q: %s", f.Kind, fmt.Sprintf(format, a...))
	}
	switch f.Kind {
	case FaultThrottle, FaultThrottleRequests, FaultServerError, FaultDenied, FaultDropBefore, FaultDropAfter:
	case FaultDelay, FaultApplyLate:
		if f.Delay <= 0 {
			return bad("Delay is %v, must be above 0", f.Delay)
		}
	case FaultPageSize:
		if f.Items < 1 {
			return bad("Items is %d, must be at least 1", f.Items)
		}
	default:
		return bad("unknown kind")
	}
	if f.Op != "" && operations[f.Op] == nil {
		return bad("unknown operation %q", f.Op)
	}
	if !(f.Probability >= 0 && f.Probability <= 1) {
		return bad("Probability is %v, must be between 0 and 1", f.Probability)
	}
	if f.Times < 0 {
		return bad("Times is %d, must not be negative", f.Times)
	}
	return nil
}

type activeFault struct {
	Fault
	left int // of Times
}

// SetFault adds a fault to those in force. A request gets every delay and
// page size that hits it, and of the other kinds the first. SetFault panics
// on a fault that [Fault.Check] refuses.
func (s *Server) SetFault(f Fault) {
	if err := f.Check(); err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &activeFault{f, f.Times})
}

// ClearFaults removes all faults. What is already waiting still happens.
func (s *Server) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// verdict is what the faults decided for one request.
type verdict struct {
	delay time.Duration
	kind  FaultKind // none is ""
	late  time.Duration
	hit   []bool // which touches a throttle is about
	cap   int
}

func (s *Server) judge(op string, touched []touch) (v verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		combines := f.Kind == FaultDelay || f.Kind == FaultPageSize
		if f.Times > 0 && f.left == 0 || !combines && v.kind != "" {
			continue
		}
		hit := s.matches(f.Fault, op, touched)
		if hit == nil || f.Probability > 0 && s.random.Float64() >= f.Probability {
			continue
		}
		f.left--
		switch f.Kind {
		case FaultDelay:
			v.delay += f.Delay
		case FaultPageSize:
			if v.cap == 0 || f.Items < v.cap {
				v.cap = f.Items
			}
		default:
			v.kind, v.late, v.hit = f.Kind, f.Delay, hit
		}
	}
	return v
}

// matches tells which touches a fault is about; nil is that it does not match.
func (s *Server) matches(f Fault, op string, touched []touch) []bool {
	if f.Op != "" && f.Op != op {
		return nil
	}
	hit := make([]bool, len(touched))
	matched := len(touched) == 0 && f.Table == "" && f.KeyPrefix == ""
	for i, t := range touched {
		hit[i] = (f.Table == "" || f.Table == t.table) && (f.KeyPrefix == "" || s.hasPrefix(t, f.KeyPrefix))
		matched = matched || hit[i]
	}
	if !matched {
		return nil
	}
	return hit
}

func (s *Server) hasPrefix(t touch, prefix string) bool {
	tab := s.tables[t.table]
	if tab == nil {
		return false
	}
	v, ok := t.key[tab.keys.hash]
	return ok && strings.HasPrefix(v.text, prefix)
}

// withFaults carries a request out, or does what a fault says instead.
func (s *Server) withFaults(op string, req request, touched []touch) (obj, error) {
	v := s.judge(op, touched)
	if !s.wait(v.delay) {
		panic(http.ErrAbortHandler)
	}
	if c, ok := req.(interface{ capPage(int) }); ok && v.cap > 0 {
		c.capPage(v.cap)
	}
	switch v.kind {
	case FaultThrottle:
		p, ok := req.(interface{ throttled(hit []bool) error })
		if !ok {
			return nil, errThroughput()
		}
		if err := p.throttled(v.hit); err != nil {
			return nil, err
		}
	case FaultThrottleRequests:
		return nil, fail("ThrottlingException", "Rate of requests exceeds the allowed throughput.")
	case FaultServerError:
		return nil, &apiError{http.StatusInternalServerError, "InternalServerError", "Internal server error", nil}
	case FaultDenied:
		return nil, s.denied(op, touched, v.hit)
	case FaultDropBefore:
		panic(http.ErrAbortHandler)
	case FaultDropAfter:
		_, _ = req.run(s) // the answer, good or bad, is what gets lost
		panic(http.ErrAbortHandler)
	case FaultApplyLate:
		s.later(v.late, req)
		panic(http.ErrAbortHandler)
	}
	return req.run(s)
}

// wait reports false when the server was closed first.
func (s *Server) wait(d time.Duration) bool {
	if d <= 0 {
		select {
		case <-s.done:
			return false
		default:
			return true
		}
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.done:
		return false
	}
}

func (s *Server) later(d time.Duration, req request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.late.Go(func() {
		if s.wait(d) {
			_, _ = req.run(s)
		}
	})
}

func errThroughput() *apiError {
	return fail("ProvisionedThroughputExceededException", "The level of configured provisioned throughput for the table was exceeded. Consider increasing your provisioning level with the UpdateTable API.")
}

func (s *Server) denied(op string, touched []touch, hit []bool) error {
	resource := s.arn("*")
	for i, t := range touched {
		if hit[i] {
			resource = s.arn(t.table)
			if t.index != "" {
				resource += "/index/" + t.index
			}
			break
		}
	}
	return fail("AccessDeniedException", "User: arn:aws:iam::%s:user/emulator is not authorized to perform: dynamodb:%s on resource: %s because no identity-based policy allows the dynamodb:%s action",
		s.config.Account, op, resource, op)
}
