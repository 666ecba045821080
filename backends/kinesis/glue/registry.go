package glue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	sdk "github.com/aws/aws-sdk-go-v2/service/glue"
	"github.com/aws/smithy-go"

	"github.com/shardwarden/shardwarden/core"
)

// How long things are remembered, and how many. A schema version never changes, so what is known stays.
const (
	mostSchemas   = 200              // as many as the Java deserializer keeps
	badFor        = time.Minute      // a version that is not there, or that makes no sense
	leastPause    = time.Second / 2  // after a failure of the registry, doubled each time
	mostPause     = 15 * time.Second // …
	lookupTimeout = 10 * time.Second
)

// registry looks schemas up and remembers them, and failures for a while.
type registry struct {
	client  *sdk.Client
	lookups func() // counts them

	mu    sync.Mutex
	known map[[16]byte]*entry
	clock int64 // grows with each use
}

// entry is what is known of one schema version.
type entry struct {
	turn chan struct{} // who holds it asks the registry; others wait for the answer

	// Under registry.mu.
	used     int64
	schema   *schema
	err      error
	until    time.Time // err counts up to here
	failures int
}

// get is the schema of a version. An error that is a badSchema will not go away soon; any other is the registry's or ctx's.
func (r *registry) get(ctx context.Context, id [16]byte) (*schema, error) {
	e, s, err := r.find(id)
	if s != nil || err != nil {
		return s, err
	}
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s, err := r.state(e); s != nil || err != nil { // somebody else asked
		return s, err
	}
	s, err = r.look(ctx, uuid(id))
	if ctx.Err() != nil {
		return nil, ctx.Err() // says nothing about the registry: the next one asks again
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		e.schema, e.err, e.failures = s, nil, 0
		return s, nil
	}
	pause := min(leastPause<<min(e.failures, 10), mostPause)
	if _, bad := errors.AsType[*badSchema](err); bad {
		pause, e.failures = badFor, 0
	} else {
		e.failures++
	}
	e.err, e.until = err, time.Now().Add(pause)
	return nil, err
}

// find is the entry of a version, new where there is none, and what is known.
func (r *registry) find(id [16]byte) (*entry, *schema, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.known[id]
	if e == nil {
		if len(r.known) >= mostSchemas {
			r.evict()
		}
		e = &entry{turn: make(chan struct{}, 1)}
		r.known[id] = e
	}
	r.clock++
	e.used = r.clock
	s, err := e.state()
	return e, s, err
}

func (r *registry) state(e *entry) (*schema, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return e.state()
}

func (e *entry) state() (*schema, error) {
	if e.err != nil && time.Now().Before(e.until) {
		return nil, e.err
	}
	return e.schema, nil
}

// evict forgets a version: the one that was not used for longest.
func (r *registry) evict() {
	var oldest [16]byte
	least := r.clock + 1
	for id, e := range r.known {
		if e.used < least {
			oldest, least = id, e.used
		}
	}
	delete(r.known, oldest)
}

// look asks the registry.
func (r *registry) look(ctx context.Context, version string) (*schema, error) {
	r.lookups()
	bounded, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	out, err := r.client.GetSchemaVersion(bounded, &sdk.GetSchemaVersionInput{SchemaVersionId: aws.String(version)})
	if err != nil {
		return nil, failure(version, err)
	}
	s, err := newSchema(ctx, version, out)
	if err != nil {
		return nil, &badSchema{err}
	}
	return s, nil
}

// badSchema is an error that asking again soon does not change.
type badSchema struct{ err error }

func (b *badSchema) Error() string { return b.err.Error() }
func (b *badSchema) Unwrap() error { return b.err }

// kinds maps the service's error codes. Codes that are not here go by the HTTP status.
var kinds = map[string]error{
	"EntityNotFoundException": core.ErrNotFound,
	"InvalidInputException":   core.ErrInvalid,

	"ThrottlingException":      core.ErrThrottled,
	"Throttling":               core.ErrThrottled,
	"TooManyRequestsException": core.ErrThrottled,
	"RequestLimitExceeded":     core.ErrThrottled,

	"AccessDeniedException":       core.ErrDenied,
	"AccessDenied":                core.ErrDenied,
	"UnrecognizedClientException": core.ErrDenied,
	"InvalidClientTokenId":        core.ErrDenied,
	"InvalidSignatureException":   core.ErrDenied,
	"SignatureDoesNotMatch":       core.ErrDenied,
	"IncompleteSignature":         core.ErrDenied,
	"MissingAuthenticationToken":  core.ErrDenied,
	"OptInRequired":               core.ErrDenied,

	"InternalServiceException":  core.ErrUnavailable,
	"OperationTimeoutException": core.ErrUnavailable,
	"ExpiredToken":              core.ErrUnavailable, // new credentials are fetched
	"ExpiredTokenException":     core.ErrUnavailable,
	"RequestExpired":            core.ErrUnavailable,
}

// failure is the error of a call: its kind, what it was about and what to do.
func failure(version string, err error) error {
	kind, code := error(nil), ""
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		code = api.ErrorCode()
		kind = kinds[code]
	}
	if r, ok := errors.AsType[*awshttp.ResponseError](err); ok && kind == nil {
		switch status := r.HTTPStatusCode(); {
		case status == 429:
			kind = core.ErrThrottled
		case status == 401 || status == 403:
			kind = core.ErrDenied
		case status >= 400 && status < 500 && code != "":
			kind = core.ErrInvalid
		}
	}
	hint := ""
	switch {
	case kind == nil:
		kind = core.ErrUnavailable
	case errors.Is(kind, core.ErrNotFound):
		hint = ": no such schema version (wrong region or account, or deleted?)"
	case code == "AccessDeniedException" || code == "AccessDenied":
		hint = ": needs glue:GetSchemaVersion"
	}
	err = fmt.Errorf("GetSchemaVersion %s: %w%s: %w", version, kind, hint, err)
	if errors.Is(kind, core.ErrNotFound) || errors.Is(kind, core.ErrInvalid) {
		return &badSchema{err}
	}
	return err
}
