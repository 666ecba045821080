package dynamo

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
)

// operation is a call of the service by its name there. One that is sent once is never repeated below the engine: a repeated conditional
// write makes "refused" ambiguous (docs/design.md section 3, rule 3).
type operation struct {
	name  string
	once  bool
	table string // another than the store's
}

func once(name string) operation    { return operation{name: name, once: true} }
func retried(name string) operation { return operation{name: name} }

// call makes one call, bounded in time, and maps its error.
func call[In, Out any](ctx context.Context, s *Store, op operation, f func(context.Context, In, ...func(*dynamodb.Options)) (Out, error), in In) (Out, error) {
	if s.region == "" {
		var none Out
		return none, s.failed(ctx, op, &aws.MissingRegionError{})
	}
	patience := 4 * s.timeout
	var opts []func(*dynamodb.Options)
	if op.once {
		patience = s.timeout
		opts = append(opts, func(o *dynamodb.Options) { o.Retryer, o.RetryMaxAttempts = aws.NopRetryer{}, 0 })
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := f(bounded, in, opts...)
	// Refused before it was looked at, so a write may be sent again; with credentials made anew, if they can be.
	if expiredToken(err) && s.credentials.invalidate() {
		out, err = f(bounded, in, opts...)
	}
	if err != nil {
		err = s.failed(ctx, op, err)
	}
	return out, err
}

func expiredToken(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && (api.ErrorCode() == "ExpiredTokenException" || api.ErrorCode() == "ExpiredToken")
}

// credentials marks the errors of the provider, which the SDK wraps in plain text.
type credentials struct{ provider aws.CredentialsProvider }

type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return e.err.Error() }
func (e *credentialsError) Unwrap() error { return e.err }

func (c *credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	if c.provider == nil {
		return aws.Credentials{}, &credentialsError{errors.New("the configuration has no credentials provider")}
	}
	v, err := c.provider.Retrieve(ctx)
	if err != nil {
		return v, &credentialsError{err}
	}
	return v, nil
}

// IsCredentialsProvider lets the SDK see anonymous credentials through the wrapping.
func (c *credentials) IsCredentialsProvider(target aws.CredentialsProvider) bool {
	return aws.IsCredentialsProvider(c.provider, target)
}

func (c *credentials) invalidate() bool {
	cache, ok := c.provider.(interface{ Invalidate() })
	if ok {
		cache.Invalidate()
	}
	return ok
}

// warnThrottled tells the operator at most once a minute.
func (s *Store) warnThrottled(callName string, err error) {
	now := time.Now()
	s.mu.Lock()
	quiet := !s.warned.IsZero() && now.Sub(s.warned) < time.Minute
	if !quiet {
		s.warned = now
	}
	billing := s.billing
	s.mu.Unlock()
	if quiet {
		return
	}
	advice := "raise the table's capacity, or switch it to on-demand billing"
	if billing == onDemand {
		advice = "raise the table's or the account's maximum of on-demand throughput; a table that grew at once needs a few minutes"
	}
	s.log.Warn("lease table is throttled", "table", s.table, "call", callName, "billing", billing, "advice", advice, "err", err)
}
