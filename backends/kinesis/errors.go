package kinesis

import (
	"context"
	"errors"
	"fmt"
	"os"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/shardwarden/shardwarden/core"
)

// kinds maps the service's error codes. Codes that are not here go by the HTTP status: see kindOf.
var kinds = map[string]error{
	"ResourceNotFoundException": core.ErrNotFound,

	"ProvisionedThroughputExceededException": core.ErrThrottled,
	"LimitExceededException":                 core.ErrThrottled,
	"KMSThrottlingException":                 core.ErrThrottled,
	"ThrottlingException":                    core.ErrThrottled,
	"Throttling":                             core.ErrThrottled,
	"ThrottledException":                     core.ErrThrottled,
	"TooManyRequestsException":               core.ErrThrottled,
	"RequestLimitExceeded":                   core.ErrThrottled,
	"SlowDown":                               core.ErrThrottled,

	"ExpiredIteratorException":  core.ErrExpired,
	"ExpiredNextTokenException": core.ErrExpired,

	"InvalidArgumentException":  core.ErrInvalid,
	"ValidationException":       core.ErrInvalid,
	"SerializationException":    core.ErrInvalid,
	"UnknownOperationException": core.ErrInvalid,

	"AccessDeniedException":               core.ErrDenied,
	"AccessDenied":                        core.ErrDenied,
	"NotAuthorized":                       core.ErrDenied,
	"UnrecognizedClientException":         core.ErrDenied,
	"InvalidClientTokenId":                core.ErrDenied,
	"InvalidSignatureException":           core.ErrDenied,
	"SignatureDoesNotMatch":               core.ErrDenied,
	"IncompleteSignature":                 core.ErrDenied,
	"MissingAuthenticationToken":          core.ErrDenied,
	"MissingAuthenticationTokenException": core.ErrDenied,
	"OptInRequired":                       core.ErrDenied,
	"KMSAccessDeniedException":            core.ErrDenied,
	"KMSOptInRequired":                    core.ErrDenied,

	// What passes by itself, or once somebody has seen to it: the key is enabled, the stream is active, new credentials are fetched.
	"KMSDisabledException":     core.ErrUnavailable,
	"KMSInvalidStateException": core.ErrUnavailable,
	"KMSNotFoundException":     core.ErrUnavailable,
	"ResourceInUseException":   core.ErrUnavailable,
	"InternalFailureException": core.ErrUnavailable,
	"InternalFailure":          core.ErrUnavailable,
	"ServiceUnavailable":       core.ErrUnavailable,
	"RequestTimeout":           core.ErrUnavailable,
	"RequestTimeoutException":  core.ErrUnavailable,
	"RequestExpired":           core.ErrUnavailable, // clocks differ; the SDK corrects that for the next call
	"RequestTimeTooSkewed":     core.ErrUnavailable,
	"ExpiredToken":             core.ErrUnavailable,
	"ExpiredTokenException":    core.ErrUnavailable,
}

// kindOf says which kind of error the SDK returned, and the service's code where there is one.
func kindOf(err error) (kind error, code string) {
	if c, ok := errors.AsType[*credentialsError](err); ok {
		if c.had {
			return core.ErrUnavailable, ""
		}
		return core.ErrDenied, ""
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		code = api.ErrorCode()
		if k := kinds[code]; k != nil {
			return k, code
		}
	}
	if r, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		switch status := r.HTTPStatusCode(); {
		case status == 429:
			return core.ErrThrottled, code
		case status == 403:
			return core.ErrDenied, code
		case status >= 400 && status < 500 && code != "":
			return core.ErrInvalid, code
		}
	}
	return core.ErrUnavailable, code // no answer, half an answer, a failure of the service or of something in between
}

// failed is the error of one call: kind, what it was about, what to do, and the service's own words. ctx is the caller's: its end is
// reported as such, not as a failure of the service.
func (s *Source) failed(ctx context.Context, call string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	kind, code := kindOf(err)
	hint := ""
	switch {
	case errors.Is(kind, core.ErrDenied) && code == "":
		hint = "no credentials: set them in the environment, the AWS profile or the aws.Config"
	case code == "KMSAccessDeniedException":
		hint = "needs kms:Decrypt on the key that encrypts " + s.name.resource()
	case code == "AccessDeniedException" || code == "AccessDenied" || code == "NotAuthorized":
		hint = "needs kinesis:" + call + " on " + s.resourceOf(call)
	case errors.Is(kind, core.ErrDenied):
		hint = "the credentials are not accepted in region " + s.name.region
	case errors.Is(kind, core.ErrNotFound):
		hint = s.whereabouts()
	case code == "ExpiredToken" || code == "ExpiredTokenException":
		hint = "the credentials have run out; new ones are fetched"
		if s.creds != nil {
			s.creds.invalidate()
		}
	case errors.Is(err, context.DeadlineExceeded):
		hint = fmt.Sprintf("no answer within %v", s.timeout)
	}
	if hint != "" {
		return fmt.Errorf("%s: %w: %s: %w", call, kind, hint, err)
	}
	return fmt.Errorf("%s: %w: %w", call, kind, err)
}

// whereabouts is where a stream or shard was looked for, since "not found" is mostly a wrong region or account.
func (s *Source) whereabouts() string {
	account := "the account of the credentials"
	if s.name.account != "" {
		account = "account " + s.name.account
	}
	at := ""
	if e := s.client.Options().BaseEndpoint; e != nil {
		at = " at " + *e
	}
	return fmt.Sprintf("looked for stream %q in region %s of %s%s (wrong region or account?)", s.name.stream, s.name.region, account, at)
}

// wrap adds what was being done to which shard.
func (s *Source) wrap(op string, shard core.ShardID, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*core.Error](err); ok {
		return err
	}
	return &core.Error{Op: op, Stream: s.stream(), Shard: shard, Err: err}
}

// passes reports whether trying again later may help.
func passes(err error) bool {
	return errors.Is(err, core.ErrThrottled) || errors.Is(err, core.ErrUnavailable)
}

var errClosed = fmt.Errorf("reader: %w", os.ErrClosed)
