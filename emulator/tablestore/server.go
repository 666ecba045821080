package tablestore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server is an [http.Handler] that answers as Tablestore does. Make it with [New]; all methods are safe for concurrent
// use. In a testing/synctest bubble make it inside the bubble.
type Server struct {
	config Config
	broken error // of Config.Validate
	seal   [sha256.Size]byte

	done   chan struct{}
	faults faultSet
	late   sync.WaitGroup // calls carried out after their connection was dropped

	// mu guards what follows. It is never held while something blocks: answers are encoded and written after it.
	mu        sync.Mutex
	closed    bool
	instances map[string]*instance
	calls     map[string]int64
	dice      *rand.Rand // ids
	requests  uint64
}

// instance is a name space of tables.
type instance struct {
	tables     map[string]*table
	streams    map[string]*stream
	shards     map[string]*shard
	lastStream map[string]int64 // table -> us of the last stream that it, or one before it, had
}

// New makes a server without tables. What is wrong with c is told by each call's answer; see [Config.Validate].
func New(c Config) *Server {
	s := &Server{
		config:    c.withDefaults(),
		broken:    c.Validate(),
		done:      make(chan struct{}),
		instances: map[string]*instance{},
		calls:     map[string]int64{},
		dice:      rand.New(rand.NewPCG(c.Seed, 0x746162)),
	}
	s.config.Credentials = maps.Clone(c.Credentials)
	s.seal = sha256.Sum256(binary.LittleEndian.AppendUint64([]byte("iterators"), c.Seed))
	s.faults.dice = rand.New(rand.NewPCG(c.Seed, 0))
	if s.broken == nil {
		for _, f := range c.Faults {
			s.faults.add(f)
		}
	}
	return s
}

// Close ends waiting calls with a dropped connection, discards writes that were still to be carried out late, and
// waits for their goroutines. Later calls are refused with OTSServerUnavailable. It may be called again.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	s.mu.Unlock()
	s.late.Wait()
}

// Calls gives how often each operation was called, refused calls included. The map is the caller's.
func (s *Server) Calls() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

// call is one request on its way.
type call struct {
	operation string
	instance  string
	keyID     string
	key       string // signs the answer
	fx        effects
}

// operation carries a request out that was authenticated.
type operation func(ctx context.Context, s *Server, c *call, body []byte) (message, error)

// on makes an operation of a function on its decoded request. The function runs with Server.mu held and must not keep
// it waiting; now is the one time of the call.
func on[In any, P interface {
	*In
	message
}](run func(w *work, in P) (message, error)) operation {
	return func(ctx context.Context, s *Server, c *call, body []byte) (message, error) {
		in := P(new(In))
		if err := decode(body, in); err != nil {
			return nil, err
		}
		c.fx = s.effectsOn(c, in)
		if err := s.suffer(ctx, c.fx); err != nil {
			return nil, err
		}
		carryOut := func() (message, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return run(&work{Server: s, fx: c.fx, name: c.instance, instance: s.instance(c.instance), now: time.Now()}, in)
		}
		if c.fx.applyLate > 0 {
			s.later(c.fx.applyLate, func() { _, _ = carryOut() })
			return nil, errDrop
		}
		out, err := carryOut()
		if err == nil && c.fx.failAfter != nil {
			return nil, c.fx.failAfter
		}
		return out, err
	}
}

// work is what an operation works with. Server.mu is held.
type work struct {
	*Server
	*instance
	name string // of the instance
	now  time.Time
	fx   effects
}

// instance gives the tables of an instance. The caller holds mu.
func (s *Server) instance(name string) *instance {
	i := s.instances[name]
	if i == nil {
		i = &instance{tables: map[string]*table{}, streams: map[string]*stream{}, shards: map[string]*shard{}, lastStream: map[string]int64{}}
		s.instances[name] = i
	}
	return i
}

// maxBody leaves room for a batch of 4 MB of rows and what is around them.
const maxBody = 16 << 20

// ServeHTTP answers one call of the API, or one of the emulator's own below /emulator/.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, AdminPath) {
		s.serveAdmin(w, r)
		return
	}
	c := &call{operation: strings.TrimPrefix(r.URL.Path, "/")}
	out, err := s.serve(w, r, c)
	if errors.Is(err, errDrop) || err == nil && c.fx.dropAnswer {
		panic(http.ErrAbortHandler) // net/http's way to close a connection without an answer
	}
	var body []byte
	status := http.StatusOK
	if err == nil {
		if c.fx.corrupt {
			out = corrupted(out)
		}
		if body, err = encode(out); err == nil && c.fx.truncate {
			body = body[:len(body)/2]
		}
	}
	if err != nil {
		status, body = errorBody(err)
	}
	sign(w.Header(), c.operation, c.keyID, c.key, s.requestID(), body, time.Now())
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if err == nil && c.fx.cutAnswer {
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body) // the client has gone; nothing else to tell it
}

func (s *Server) requestID() string {
	s.mu.Lock()
	s.requests++
	n := s.requests
	s.mu.Unlock()
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", n>>48, n&(1<<48-1))
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, c *call) (message, error) {
	if s.broken != nil {
		return nil, fail(codeInternal, "%v", s.broken)
	}
	select {
	case <-s.done:
		return nil, fail("OTSServerUnavailable", "The emulator was closed.")
	default:
	}
	if r.Method != http.MethodPost {
		return nil, fail("OTSMethodNotAllowed", "Only POST method for requests is supported. This is a Tablestore emulator.")
	}
	run, ok := operations[c.operation]
	if !ok {
		return nil, invalid("Unsupported operation: '%s'.", c.operation)
	}
	s.mu.Lock()
	s.calls[c.operation]++
	s.mu.Unlock()
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	headers := otsHeaders(r.Header)
	c.keyID, c.instance = headers[headerKeyID], headers[headerInstance]
	if c.key, err = s.authenticate(c.operation, headers, body, time.Now()); err != nil {
		return nil, err
	}
	if s.config.Instances != nil && !slices.Contains(s.config.Instances, c.instance) {
		return nil, fail(codeAuth, "The instance is not found.")
	}
	if headers[headerCompressed] != "" {
		return nil, notHere("compressed requests; switch compression off in the client")
	}
	return run(r.Context(), s, c, body)
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, fail("OTSRequestBodyTooLarge", "The size of POST data is too large.")
	}
	if err != nil {
		return nil, errDrop // the client broke off
	}
	return body, nil
}
