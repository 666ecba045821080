package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/shardwarden/shardwarden/core"
)

// CallError is a call of the service that failed. It matches Kind (one of core's sentinels, or the context's error) and what the SDK
// returned, with errors.Is and errors.As.
type CallError struct {
	Call  string // as the service names it: "UpdateItem"
	Table string
	Kind  error
	Hint  string // what to do, where there is something
	Err   error
}

func (e *CallError) Error() string {
	text := fmt.Sprintf("DynamoDB %s, table %s: %v", e.Call, e.Table, e.Kind)
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text + ": " + brief(e.Err)
}

// Unwrap gives the kind and the SDK's error.
func (e *CallError) Unwrap() []error { return []error{e.Kind, e.Err} }

// brief is the SDK's error without its frames.
func brief(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode() + ": " + api.ErrorMessage()
	}
	if c, ok := errors.AsType[*credentialsError](err); ok {
		return c.Error()
	}
	if send, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		return send.Err.Error()
	}
	return err.Error()
}

// failed maps what the SDK returned to the kinds of package core.
func (s *Store) failed(ctx context.Context, op operation, err error) error {
	e := &CallError{Call: op.name, Table: cmp.Or(op.table, s.table), Err: err}
	e.Kind, e.Hint = s.classify(ctx, op, err)
	if errors.Is(e.Kind, core.ErrThrottled) {
		s.warnThrottled(op.name, err)
	}
	return e
}

func (s *Store) classify(ctx context.Context, op operation, err error) (kind error, hint string) {
	if api, ok := errors.AsType[smithy.APIError](err); ok { // the service has answered: that stands, even if the caller has left
		return s.classifyCode(op, api.ErrorCode(), statusOf(err))
	}
	if _, ok := errors.AsType[*credentialsError](err); ok && ctx.Err() == nil {
		return core.ErrDenied, "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role; " + s.permission(op)
	}
	if _, ok := errors.AsType[*aws.MissingRegionError](err); ok {
		return core.ErrInvalid, "no region: set AWS_REGION, or Region of the configuration"
	}
	if ctx.Err() != nil {
		return ctx.Err(), ""
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return core.ErrUnavailable, fmt.Sprintf("no such host %s: is the region %q right?", dns.Name, s.region)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return core.ErrUnavailable, "no answer in time"
	}
	return core.ErrUnavailable, ""
}

func (s *Store) classifyCode(op operation, code string, status int) (kind error, hint string) {
	switch code {
	case "ConditionalCheckFailedException", "TransactionCanceledException":
		return core.ErrConflict, ""
	case "ProvisionedThroughputExceededException", "ThrottlingException", "Throttling", "RequestLimitExceeded", "TooManyRequestsException", "LimitExceededException":
		return core.ErrThrottled, ""
	case "AccessDeniedException", "AccessDenied", "UnrecognizedClientException", "InvalidClientTokenId", "IncompleteSignature", "MissingAuthenticationTokenException",
		"MissingAuthenticationToken", "InvalidSignatureException", "SignatureDoesNotMatch", "ExpiredTokenException", "ExpiredToken", "OptInRequired":
		return core.ErrDenied, s.permission(op)
	case "ResourceNotFoundException":
		who := "Prepare creates it"
		if op.table != "" && op.table != s.table {
			who = "workers of KCL 3.0 to 3.4 make it, and ours with layout kcl3-tables; where it has another name say so with dynamo.SideTables"
		}
		return core.ErrNotFound, fmt.Sprintf("the table does not exist in region %s%s; %s", s.region, s.at(), who)
	case "ResourceInUseException":
		return core.ErrExists, ""
	case "InternalServerError", "InternalFailure", "ServiceUnavailable":
		return core.ErrUnavailable, ""
	case "ReplicatedWriteConflictException", "TransactionConflictException":
		return core.ErrUnavailable, ""
	}
	if status >= http.StatusInternalServerError {
		return core.ErrUnavailable, ""
	}
	return core.ErrInvalid, ""
}

// isPolicy reports whether it was a policy that forbade the call, and not the credentials that were refused.
func isPolicy(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && (api.ErrorCode() == "AccessDeniedException" || api.ErrorCode() == "AccessDenied")
}

func statusOf(err error) int {
	if r, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return r.HTTPStatusCode()
	}
	return 0
}

func (s *Store) at() string {
	if s.endpoint == "" {
		return ""
	}
	return " at " + s.endpoint
}

// permission names what a policy must allow for a call.
func (s *Store) permission(op operation) string {
	partition := "aws"
	switch {
	case strings.HasPrefix(s.region, "cn-"):
		partition = "aws-cn"
	case strings.HasPrefix(s.region, "us-gov-"):
		partition = "aws-us-gov"
	}
	action := op.name
	if action == "TransactWriteItems" { // which is no action of its own
		action = "ConditionCheckItem, PutItem and DeleteItem"
	}
	return fmt.Sprintf("it needs permission dynamodb:%s on arn:%s:dynamodb:%s:*:table/%s", action, partition, s.region, cmp.Or(op.table, s.table))
}

// missingTable reports whether it is the table that was not found.
func missingTable(err error) bool {
	_, ok := errors.AsType[*types.ResourceNotFoundException](err)
	return ok
}
