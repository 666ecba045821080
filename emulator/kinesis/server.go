package kinesis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server is an [http.Handler] that answers as Kinesis does. Make it with [New]; all methods are safe for concurrent
// use. In a testing/synctest bubble make it inside the bubble.
type Server struct {
	config Config
	broken error // of Config.Validate

	closed chan struct{}
	close  func()
	faults faultSet

	// mu guards what follows. It is never held while something blocks: answers are encoded and written after it.
	mu        sync.Mutex
	streams   map[string]*stream
	lastMade  map[string]int64 // name -> creation of its last incarnation, ms
	calls     map[string]int64
	iterators uint32 // generation; iterators of an earlier one are expired
	requests  uint64
	swept     int64 // when all shards were last trimmed, ms
}

// New makes a server without streams. What is wrong with c is told by each call's answer; see [Config.Validate].
func New(c Config) *Server {
	s := &Server{
		config:   c.withDefaults(),
		broken:   c.Validate(),
		closed:   make(chan struct{}),
		streams:  map[string]*stream{},
		lastMade: map[string]int64{},
		calls:    map[string]int64{},
	}
	s.close = sync.OnceFunc(func() { close(s.closed) })
	s.faults.dice = rand.New(rand.NewPCG(c.Seed, 0))
	if s.broken == nil {
		for _, f := range c.Faults {
			s.faults.add(f)
		}
	}
	return s
}

// Close lets delayed and hanging calls end and refuses later ones with ServiceUnavailable. It may be called again.
func (s *Server) Close() { s.close() }

// Calls gives how often each operation was called, refused calls included. The map is the caller's.
func (s *Server) Calls() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

// call is one request on its way.
type call struct {
	operation string
	now       time.Time
	ms        int64 // now, in milliseconds since 1970
	fx        effects

	subscription *subscription // of a call that is answered by a stream of events
}

// answer writes the members of an operation's output; nil stands for an empty body.
type answer func(*writer)

// operation reads a request's body, meets its faults and carries it out.
type operation func(ctx context.Context, s *Server, c *call, isCBOR bool, body []byte) (answer, error)

// aimed is a request that faults can tell by stream or shard.
type aimed interface{ aim(*Server) target }

// on makes an operation of a function on its decoded input.
func on[In any](run func(*Server, *call, *In) (answer, error)) operation {
	return func(ctx context.Context, s *Server, c *call, isCBOR bool, body []byte) (answer, error) {
		in := new(In)
		if err := decode(isCBOR, body, in); err != nil {
			return nil, err
		}
		var t target
		if a, ok := any(in).(aimed); ok {
			t = a.aim(s)
		}
		c.fx = s.effectsOn(c.operation, t)
		if err := s.suffer(ctx, c.fx); err != nil {
			return nil, err
		}
		c.now = time.Now()
		c.ms = c.now.UnixMilli()
		return run(s, c, in)
	}
}

// errDrop stands for an answer that is never given.
var errDrop = errors.New("drop the connection")

// suffer meets the faults that come before a call is carried out.
func (s *Server) suffer(ctx context.Context, fx effects) error {
	if fx.hang {
		select {
		case <-ctx.Done():
		case <-s.closed:
		}
		return errDrop
	}
	if fx.delay > 0 && !s.wait(ctx, fx.delay) {
		return errDrop
	}
	if fx.dropRequest {
		return errDrop
	}
	return fx.refusal
}

const (
	jsonType = "application/x-amz-json-1.1"
	cborType = "application/x-amz-cbor-1.1"

	targetPrefix = "Kinesis_20131202."

	// maxBody leaves room for 10 MiB of records in base64 and a page of other members.
	maxBody = 20 << 20
)

// ServeHTTP answers one call of the API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	isCBOR := strings.HasPrefix(r.Header.Get("Content-Type"), cborType)
	c := &call{}
	a, err := s.serve(w, r, c, isCBOR)
	if err == nil && c.subscription != nil {
		c.subscription.serve(w, r, c.fx)
		return
	}
	if errors.Is(err, errDrop) || err == nil && c.fx.dropAnswer {
		panic(http.ErrAbortHandler) // net/http's way to close a connection without an answer
	}
	buf := buffers.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= maxPooled {
			buffers.Put(buf)
		}
	}()
	out := writer{b: (*buf)[:0], cbor: isCBOR}
	status := http.StatusOK
	switch e, ok := errors.AsType[*apiError](err); {
	case ok:
		status = e.status
		w.Header().Set("X-Amzn-Errortype", e.code)
		out.openMap()
		out.textField("__type", e.code)
		out.textField("message", e.message)
		out.closeMap()
	case err != nil: // no operation returns such an error
		status = http.StatusInternalServerError
		out.openMap()
		out.textField("__type", codeInternal)
		out.textField("message", err.Error())
		out.closeMap()
	case a != nil:
		out.openMap()
		a(&out)
		out.closeMap()
	}
	*buf = out.b
	id := s.requestID()
	h := w.Header()
	h.Set("Content-Type", pick(isCBOR, cborType, jsonType))
	h.Set("Content-Length", strconv.Itoa(len(out.b)))
	h.Set("X-Amzn-Requestid", id)
	h.Set("X-Amz-Id-2", id)
	w.WriteHeader(status)
	if err == nil && c.fx.cutAnswer {
		_, _ = w.Write(out.b[:len(out.b)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(out.b) // the client has gone; nothing else to tell it
}

// maxPooled is how large a buffer may be to be used again; a page of 10 MiB is rare, and 14 MB for each of many
// readers is not.
const maxPooled = 6 << 20

var buffers = sync.Pool{New: func() any { return new([]byte) }}

func (s *Server) requestID() string {
	s.mu.Lock()
	s.requests++
	n := s.requests
	s.mu.Unlock()
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", n>>48, n&(1<<48-1))
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, c *call, isCBOR bool) (answer, error) {
	if s.broken != nil {
		return nil, internalFailure("%v", s.broken)
	}
	select {
	case <-s.closed:
		return nil, unavailable("The emulator was closed.")
	default:
	}
	if r.Method != http.MethodPost {
		return nil, &apiError{http.StatusMethodNotAllowed, "UnknownOperationException", "Use POST with an X-Amz-Target header; this is a Kinesis emulator."}
	}
	name, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), targetPrefix)
	if !ok {
		return nil, refuse("UnknownOperationException", "X-Amz-Target is %q, want %s and an operation", r.Header.Get("X-Amz-Target"), targetPrefix)
	}
	if t := r.Header.Get("Content-Type"); !isCBOR && !strings.HasPrefix(t, jsonType) && !strings.HasPrefix(t, "application/json") {
		return nil, &apiError{http.StatusNotFound, "UnknownOperationException", fmt.Sprintf("Content-Type is %q, want %s or %s", t, jsonType, cborType)}
	}
	if isCBOR && name == "SubscribeToShard" {
		return nil, refuse("UnknownOperationException", "SubscribeToShard is called in JSON, as its events are in JSON") // so does the Java SDK, which speaks CBOR otherwise
	}
	c.operation = name
	run, ok := operations[name]
	if !ok {
		return nil, refuse("UnknownOperationException", "%s is not an operation this emulator has", name)
	}
	s.mu.Lock()
	s.calls[name]++
	s.mu.Unlock()
	// Any signature will do, but there must be one, as a client set up without credentials has to find out.
	if r.Header.Get("Authorization") == "" && r.URL.Query().Get("X-Amz-Signature") == "" {
		return nil, refuse("MissingAuthenticationTokenException", "Missing Authentication Token")
	}
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	return run(r.Context(), s, c, isCBOR, body)
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	tooLarge := &apiError{http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", fmt.Sprintf("the request body is larger than %d bytes", maxBody)}
	if r.ContentLength > maxBody {
		return nil, tooLarge
	}
	in := http.MaxBytesReader(w, r.Body, maxBody)
	var body []byte
	var err error
	if r.ContentLength > 0 {
		body = make([]byte, r.ContentLength)
		_, err = io.ReadFull(in, body)
	} else {
		body, err = io.ReadAll(in)
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, tooLarge
	}
	if err != nil {
		return nil, errDrop // the client broke off
	}
	return body, nil
}
