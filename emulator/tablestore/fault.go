package tablestore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Kind is what a [Fault] does.
type Kind string

const (
	// Delay lets the call wait for Fault.Delay before it is carried out, which it is though the client may have gone.
	Delay Kind = "delay"
	// Fail refuses with Fault.Code; nothing was done. OTSServerBusy is throttling.
	Fail Kind = "fail"
	// FailAfter carries the call out and then answers Fault.Code, as when the outcome is not known: OTSTimeout.
	FailAfter Kind = "fail-after"
	// FailRows refuses rows within BatchWriteRow and BatchGetRow with Fault.Code, each by its own dice and key.
	FailRows Kind = "fail-rows"

	// DropRequest closes the connection; nothing was done.
	DropRequest Kind = "drop-request"
	// DropAnswer carries the call out and closes the connection instead of answering.
	DropAnswer Kind = "drop-answer"
	// CutAnswer carries the call out and closes the connection halfway through the answer.
	CutAnswer Kind = "cut-answer"
	// ApplyLate closes the connection at once and carries the call out Fault.Delay later, unless the server was closed.
	ApplyLate Kind = "apply-late"
	// Hang does nothing and never answers: until the client goes away or the server is closed.
	Hang Kind = "hang"
	// Corrupt carries the call out and answers with one bit of a row wrong, so that its checksum does not fit.
	Corrupt Kind = "corrupt"
	// Truncate carries the call out and answers with half of the message, as if it were the whole.
	Truncate Kind = "truncate"

	// PartialPage lets GetStreamRecord and GetRange give at most Fault.Records records or rows though there are more;
	// 0 (GetStreamRecord only): none.
	PartialPage Kind = "partial-page"
	// EndEarly lets GetStreamRecord omit the next iterator though the shard goes on.
	EndEarly Kind = "end-early"
	// StaleList lets DescribeStream tell which shards there were Fault.Delay ago.
	StaleList Kind = "stale-list"
	// EmptyList lets DescribeStream tell of no shards.
	EmptyList Kind = "empty-list"
)

// only lists the operations a kind makes sense for; a kind not in it goes with all.
var only = map[Kind][]string{
	FailRows:    {"BatchWriteRow", "BatchGetRow"},
	Corrupt:     {"GetRow", "GetRange", "BatchGetRow", "GetStreamRecord"},
	PartialPage: {"GetStreamRecord", "GetRange"},
	EndEarly:    {"GetStreamRecord"},
	StaleList:   {"DescribeStream"},
	EmptyList:   {"DescribeStream"},
}

var kinds = []Kind{Delay, Fail, FailAfter, FailRows, DropRequest, DropAnswer, CutAnswer, ApplyLate, Hang, Corrupt, Truncate,
	PartialPage, EndEarly, StaleList, EmptyList}

// Fault is one way in which calls go wrong. Of a call's matching faults all delays add up, the first refusal wins, and
// the rest combine.
type Fault struct {
	Kind Kind

	// Which calls; what is empty matches all. Shard matches only calls that name a shard, by id or by iterator; Key only
	// those that name a row of which one primary key column is this text; in a batch, one of its rows.
	Operation string // such as "GetStreamRecord"
	Instance  string
	Table     string // stream calls too, by their stream
	Shard     string // its id
	Key       string

	// How often: the first Skip matching calls pass; of the others each is hit with Probability (0 means always); after
	// Times hits the fault is spent (0 means never).
	Skip        int
	Probability float64
	Times       int

	Code    string        // of Fail, FailAfter and FailRows: an error code of the service
	Delay   time.Duration // of Delay, ApplyLate and StaleList
	Records int           // of PartialPage
}

// Validate says what is wrong with the fault, naming the field.
func (f Fault) Validate() error {
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("tablestore emulator: Fault.%s is %v, want %s", field, value, want)
	}
	if !slices.Contains(kinds, f.Kind) {
		return bad("Kind", fmt.Sprintf("%q", f.Kind), fmt.Sprintf("one of %q", kinds))
	}
	if f.Operation != "" {
		if _, ok := operations[f.Operation]; !ok {
			return bad("Operation", fmt.Sprintf("%q", f.Operation), "an operation of this server")
		}
		if ops := only[f.Kind]; ops != nil && !slices.Contains(ops, f.Operation) {
			return bad("Operation", fmt.Sprintf("%q", f.Operation), fmt.Sprintf("one of %q, which kind %s is for", ops, f.Kind))
		}
	}
	if !(f.Probability >= 0 && f.Probability <= 1) {
		return bad("Probability", f.Probability, "0 to 1")
	}
	if f.Skip < 0 {
		return bad("Skip", f.Skip, "0 or more")
	}
	if f.Times < 0 {
		return bad("Times", f.Times, "0 or more")
	}
	if f.Records < 0 {
		return bad("Records", f.Records, "0 or more")
	}
	switch f.Kind {
	case Fail, FailAfter, FailRows:
		if _, ok := statusOf[f.Code]; !ok {
			return bad("Code", fmt.Sprintf("%q", f.Code), "an error code of the service, such as OTSServerBusy")
		}
	case Delay, ApplyLate, StaleList:
		if f.Delay <= 0 {
			return bad("Delay", f.Delay, "more than 0")
		}
	}
	return nil
}

// SetFault adds a fault to those in force. An invalid fault is an error and changes nothing.
func (s *Server) SetFault(f Fault) error {
	if err := f.Validate(); err != nil {
		return err
	}
	s.faults.add(f)
	return nil
}

// ClearFaults ends all faults, those of [Config] too. What is already waiting still happens.
func (s *Server) ClearFaults() { s.faults.clear() }

// faultSet is the faults in force, with what is left of each.
type faultSet struct {
	mu    sync.Mutex
	dice  *rand.Rand
	armed []*armedFault
}

type armedFault struct {
	Fault
	seen, hits int
}

func (fs *faultSet) add(f Fault) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.armed = append(fs.armed, &armedFault{Fault: f})
}

func (fs *faultSet) clear() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.armed = nil
}

func (fs *faultSet) none() bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return len(fs.armed) == 0
}

// strike says whether a fault that matches hits this time.
func (fs *faultSet) strike(f *armedFault) bool {
	f.seen++
	if f.seen <= f.Skip || f.Times > 0 && f.hits >= f.Times {
		return false
	}
	if f.Probability > 0 && fs.dice.Float64() >= f.Probability {
		return false
	}
	f.hits++
	return true
}

// target is what a call is about, as far as it says.
type target struct {
	operation, instance, shard string
	tables                     []string
	keys                       []string // texts of primary keys
}

func (f *armedFault) matches(t target) bool {
	if ops := only[f.Kind]; ops != nil && !slices.Contains(ops, t.operation) {
		return false
	}
	return (f.Operation == "" || f.Operation == t.operation) && (f.Instance == "" || f.Instance == t.instance) &&
		(f.Table == "" || slices.Contains(t.tables, f.Table)) && (f.Shard == "" || f.Shard == t.shard) &&
		(f.Key == "" || slices.Contains(t.keys, f.Key))
}

// effects is what the faults do to one call.
type effects struct {
	delay       time.Duration
	refusal     error
	failAfter   error
	dropRequest bool
	hang        bool
	applyLate   time.Duration
	dropAnswer  bool
	cutAnswer   bool
	corrupt     bool
	truncate    bool
	endEarly    bool
	emptyList   bool
	listAge     time.Duration
	page        int    // -1: not limited
	row         target // of rows in a batch
}

// effectsOn gives what the faults in force do to a call.
func (s *Server) effectsOn(c *call, in message) effects {
	fx := effects{page: -1}
	if s.faults.none() {
		return fx
	}
	t := s.aim(c, in)
	fx.row = t
	fs := &s.faults
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.armed {
		if f.Kind == FailRows || !f.matches(t) || !fs.strike(f) {
			continue
		}
		switch f.Kind {
		case Delay:
			fx.delay += f.Delay
		case Fail:
			if fx.refusal == nil {
				fx.refusal = injected(f.Code)
			}
		case FailAfter:
			if fx.failAfter == nil {
				fx.failAfter = injected(f.Code)
			}
		case DropRequest:
			fx.dropRequest = true
		case DropAnswer:
			fx.dropAnswer = true
		case CutAnswer:
			fx.cutAnswer = true
		case ApplyLate:
			fx.applyLate = max(fx.applyLate, f.Delay)
		case Hang:
			fx.hang = true
		case Corrupt:
			fx.corrupt = true
		case Truncate:
			fx.truncate = true
		case PartialPage:
			fx.page = f.Records
		case EndEarly:
			fx.endEarly = true
		case StaleList:
			fx.listAge = max(fx.listAge, f.Delay)
		case EmptyList:
			fx.emptyList = true
		}
	}
	return fx
}

// rowFault gives the error of one row within a batch, or nil.
func (w *work) rowFault(table string, keys []string) *apiError {
	t := w.fx.row
	t.tables, t.keys = []string{table}, keys
	fs := &w.faults
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.armed {
		if f.Kind == FailRows && f.matches(t) && fs.strike(f) {
			return injected(f.Code)
		}
	}
	return nil
}

func injected(code string) *apiError {
	if code == codeTrimmed { // clients may know it by its text
		return trimmed()
	}
	return fail(code, "%s (injected fault).", strings.TrimPrefix(code, "OTS"))
}

// errDrop stands for an answer that is never given.
var errDrop = errors.New("drop the connection")

// suffer meets the faults that come before a call is carried out.
func (s *Server) suffer(ctx context.Context, fx effects) error {
	if fx.hang {
		select {
		case <-ctx.Done():
		case <-s.done:
		}
		return errDrop
	}
	if fx.delay > 0 && !s.wait(fx.delay) {
		return errDrop
	}
	if fx.dropRequest {
		return errDrop
	}
	return fx.refusal
}

// wait reports false when the server was closed first.
func (s *Server) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.done:
		return false
	}
}

func (s *Server) later(d time.Duration, run func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.late.Go(func() {
		if s.wait(d) {
			run()
		}
	})
}
