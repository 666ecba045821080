package kinesis

import (
	"context"
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
	// Delay lets the call wait for Fault.Delay before it is carried out.
	Delay Kind = "delay"
	// Throttle refuses with ProvisionedThroughputExceededException.
	Throttle Kind = "throttle"
	// LimitExceeded refuses with LimitExceededException, as the calls that manage streams are throttled.
	LimitExceeded Kind = "limit-exceeded"
	// KMSThrottle refuses with KMSThrottlingException.
	KMSThrottle Kind = "kms-throttle"
	// Internal answers 500 InternalFailure; nothing was done.
	Internal Kind = "internal"
	// Unavailable answers 503 ServiceUnavailable; nothing was done.
	Unavailable Kind = "unavailable"
	// AccessDenied refuses with AccessDeniedException, which names the action and the stream.
	AccessDenied Kind = "access-denied"
	// ExpireIterator answers GetRecords with ExpiredIteratorException.
	ExpireIterator Kind = "expire-iterator"

	// DropRequest closes the connection; nothing was done.
	DropRequest Kind = "drop-request"
	// DropAnswer carries the call out and closes the connection instead of answering.
	DropAnswer Kind = "drop-answer"
	// CutAnswer carries the call out and closes the connection halfway through the answer.
	CutAnswer Kind = "cut-answer"
	// Hang does nothing and never answers: until the client goes away or the server is closed.
	Hang Kind = "hang"

	// FailRecords lets records within PutRecords fail with InternalFailure, each by its own dice and shard.
	FailRecords Kind = "fail-records"
	// ThrottleRecords lets records within PutRecords fail with ProvisionedThroughputExceededException, likewise.
	ThrottleRecords Kind = "throttle-records"

	// PartialPage lets GetRecords give at most Fault.Records records (0: an empty page) though there are more.
	PartialPage Kind = "partial-page"
	// EndEarly lets GetRecords omit NextShardIterator, and SubscribeToShard the ContinuationSequenceNumber of its first event, which is the
	// last then, though the shard goes on; there are no child shards then.
	EndEarly Kind = "end-early"
	// StaleList lets ListShards and DescribeStream tell how the shards were Fault.Delay ago.
	StaleList Kind = "stale-list"

	// FailStream ends a subscription by an error of the name Fault.Exception within its stream.
	FailStream Kind = "fail-stream"
	// CutStream closes a subscription's connection in the middle of an event.
	CutStream Kind = "cut-stream"
	// CorruptEvent damages an event on its way.
	CorruptEvent Kind = "corrupt-event"
	// HalfOpen leaves a subscription open but silent for good: nothing more is sent, heartbeats neither.
	HalfOpen Kind = "half-open"
)

// pushKinds meet the events of subscriptions, not calls: Fault.Skip, Times and Probability count events.
var pushKinds = []Kind{FailStream, CutStream, CorruptEvent, HalfOpen}

// streamExceptions are the errors that the API model has within the stream of SubscribeToShard.
var streamExceptions = []string{"ResourceNotFoundException", "ResourceInUseException", "KMSDisabledException", "KMSInvalidStateException", "KMSAccessDeniedException",
	"KMSNotFoundException", "KMSOptInRequired", "KMSThrottlingException", "InternalFailureException"}

// only lists the operations a kind makes sense for; a kind not in it goes with all.
var only = map[Kind][]string{
	ExpireIterator:  {"GetRecords"},
	PartialPage:     {"GetRecords"},
	EndEarly:        {"GetRecords", "SubscribeToShard"},
	FailRecords:     {"PutRecords"},
	ThrottleRecords: {"PutRecords"},
	StaleList:       {"ListShards", "DescribeStream"},
	FailStream:      {"SubscribeToShard"},
	CutStream:       {"SubscribeToShard"},
	CorruptEvent:    {"SubscribeToShard"},
	HalfOpen:        {"SubscribeToShard"},
}

var kinds = []Kind{Delay, Throttle, LimitExceeded, KMSThrottle, Internal, Unavailable, AccessDenied, ExpireIterator,
	DropRequest, DropAnswer, CutAnswer, Hang, FailRecords, ThrottleRecords, PartialPage, EndEarly, StaleList, FailStream, CutStream, CorruptEvent, HalfOpen}

// Fault is one way in which calls go wrong. Of a call's matching faults all delays add up, the first refusal wins,
// and the rest combine.
type Fault struct {
	Kind Kind

	// Which calls; what is empty matches all. Shard matches only calls that name a shard, by id or by iterator;
	// PutRecord by where its record goes, PutRecords only with FailRecords and ThrottleRecords.
	Operation string // such as "GetRecords"
	Stream    string // its name
	Shard     string // its id

	// How often: the first Skip matching calls pass; of the others each is hit with Probability (0 means always);
	// after Times hits the fault is spent (0 means never).
	Skip        int
	Probability float64
	Times       int

	Delay   time.Duration // of Delay and StaleList
	Records int           // of PartialPage

	Exception string // of FailStream, such as "ResourceInUseException"; default "InternalFailureException"
}

// Validate says what is wrong with the fault, naming the field.
func (f Fault) Validate() error {
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("kinesis emulator: Fault.%s is %v, want %s", field, value, want)
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
	if f.Exception != "" && (f.Kind != FailStream || !slices.Contains(streamExceptions, f.Exception)) {
		return bad("Exception", fmt.Sprintf("%q", f.Exception), fmt.Sprintf("empty, or with kind %s one of %q", FailStream, streamExceptions))
	}
	if (f.Kind == Delay || f.Kind == StaleList) && f.Delay <= 0 {
		return bad("Delay", f.Delay, "more than 0")
	}
	return nil
}

// SetFault adds a fault to those in force. An invalid fault is an error and changes nothing. Safe for concurrent use.
func (s *Server) SetFault(f Fault) error {
	if err := f.Validate(); err != nil {
		return err
	}
	s.faults.add(f)
	return nil
}

// ClearFaults ends all faults, those of [Config] too.
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
	if f.Kind == FailStream && f.Exception == "" {
		f.Exception = "InternalFailureException"
	}
	fs.armed = append(fs.armed, &armedFault{Fault: f})
}

func (fs *faultSet) clear() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.armed = nil
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

func (f *armedFault) matches(operation, stream, shard string) bool {
	if ops := only[f.Kind]; ops != nil && !slices.Contains(ops, operation) {
		return false
	}
	return (f.Operation == "" || f.Operation == operation) &&
		(f.Stream == "" || f.Stream == stream) && (f.Shard == "" || f.Shard == shard)
}

// effects is what the faults do to one call.
type effects struct {
	delay       time.Duration
	refusal     error
	dropRequest bool
	hang        bool
	dropAnswer  bool
	cutAnswer   bool
	endEarly    bool
	pageRecords int // -1: not limited
	listAge     time.Duration
}

// target is what a call is about, as far as it says.
type target struct{ stream, shard string }

func (s *Server) effectsOn(operation string, t target) effects {
	fx := effects{pageRecords: -1}
	fs := &s.faults
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.armed {
		if f.Kind == FailRecords || f.Kind == ThrottleRecords || slices.Contains(pushKinds, f.Kind) || !f.matches(operation, t.stream, t.shard) || !fs.strike(f) {
			continue
		}
		switch f.Kind {
		case Delay:
			fx.delay += f.Delay
		case DropRequest:
			fx.dropRequest = true
		case Hang:
			fx.hang = true
		case DropAnswer:
			fx.dropAnswer = true
		case CutAnswer:
			fx.cutAnswer = true
		case EndEarly:
			fx.endEarly = true
		case PartialPage:
			fx.pageRecords = f.Records
		case StaleList:
			fx.listAge = max(fx.listAge, f.Delay)
		default:
			if fx.refusal == nil {
				fx.refusal = s.refusal(f.Kind, operation, t)
			}
		}
	}
	return fx
}

func (s *Server) refusal(k Kind, operation string, t target) error {
	switch k {
	case Throttle:
		return throttled("Rate exceeded for %s (injected fault).", s.describeTarget(t))
	case LimitExceeded:
		return limitExceeded("Rate exceeded for %s (injected fault).", operation)
	case KMSThrottle:
		return refuse("KMSThrottlingException", "The request was throttled by the key service (injected fault).")
	case Unavailable:
		return unavailable("The service is unavailable (injected fault).")
	case AccessDenied:
		resource := "*"
		if t.stream != "" {
			resource = s.arnOf(t.stream)
		}
		return refuse("AccessDeniedException", "User: arn:%s:iam::%s:user/emulator is not authorized to perform: kinesis:%s on resource: %s "+
			"because no identity-based policy allows the kinesis:%s action", partition(s.config.Region), s.config.Account, operation, resource, operation)
	case ExpireIterator:
		return refuse("ExpiredIteratorException", "Iterator expired (injected fault).")
	default:
		return internalFailure("The request failed (injected fault).")
	}
}

func (s *Server) describeTarget(t target) string {
	var parts []string
	if t.shard != "" {
		parts = append(parts, "shard "+t.shard)
	}
	if t.stream != "" {
		parts = append(parts, "stream "+t.stream)
	}
	return strings.Join(append(parts, "account "+s.config.Account), " in ")
}

// recordFault gives the error of one record within PutRecords, or nil.
func (s *Server) recordFault(stream, shard string) *apiError {
	fs := &s.faults
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.armed {
		if f.Kind != FailRecords && f.Kind != ThrottleRecords || !f.matches("PutRecords", stream, shard) || !fs.strike(f) {
			continue
		}
		if f.Kind == FailRecords {
			return internalFailure("Internal service failure (injected fault).")
		}
		return s.rateExceeded(stream, shard)
	}
	return nil
}

// pushFault gives the fault that the next event of a subscription meets.
func (s *Server) pushFault(stream, shard string) (Fault, bool) {
	fs := &s.faults
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.armed {
		if slices.Contains(pushKinds, f.Kind) && f.matches("SubscribeToShard", stream, shard) && fs.strike(f) {
			return f.Fault, true
		}
	}
	return Fault{}, false
}

// wait blocks for d, or until the client or the server has gone; false then.
func (s *Server) wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-s.closed:
	}
	return false
}
