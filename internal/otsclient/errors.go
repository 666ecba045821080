package otsclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/core"
)

// Error is a call of the service that failed. It matches Kind, which is one of core's sentinels or the context's error, and what the SDK
// returned.
type Error struct {
	Call     string // "UpdateRow"
	Table    string
	Instance string
	Kind     error
	Hint     string // what to do, where there is something
	Err      error
}

func (e *Error) Error() string {
	text := "Tablestore " + e.Call
	if e.Table != "" {
		text += ", table " + e.Table
	}
	if e.Instance != "" {
		text += ", instance " + e.Instance
	}
	text += fmt.Sprintf(": %v", e.Kind)
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text + ": " + brief(e.Err)
}

// Unwrap gives the kind and the SDK's error.
func (e *Error) Unwrap() []error { return []error{e.Kind, e.Err} }

// brief is the SDK's error without its frames.
func brief(err error) string {
	if ots, ok := errors.AsType[*tablestore.OtsError](err); ok {
		text := ots.Code + ": " + ots.Message
		if ots.RequestId != "" {
			text += " (request " + ots.RequestId + ")"
		}
		return text
	}
	if late, ok := errors.AsType[*lateError](err); ok {
		return late.Error()
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err.Error()
	}
	return err.Error()
}

// Code is the service's error code behind err, empty where the service has not answered.
func Code(err error) string {
	if ots, ok := errors.AsType[*tablestore.OtsError](err); ok {
		return ots.Code
	}
	return ""
}

func answered(err error) bool { return Code(err) != "" }

func (c *Client) failed(ctx context.Context, op Op, sent bool, err error) error {
	e := &Error{Call: op.Name, Table: op.Table, Instance: c.config.Instance, Err: err}
	e.Kind, e.Hint = c.classify(ctx, op, sent, err)
	return e
}

func (c *Client) classify(ctx context.Context, op Op, sent bool, err error) (kind error, hint string) {
	if ots, ok := errors.AsType[*tablestore.OtsError](err); ok { // the service has answered: that stands, even if the caller has left
		kind = Kind(ots.Code, ots.Message, ots.HttpStatusCode)
		return kind, c.hint(op, ots.Code, kind)
	}
	switch {
	case errors.Is(err, errNoCredentials):
		return core.ErrDenied, "set TABLESTORE_ACCESS_KEY_ID and TABLESTORE_ACCESS_KEY_SECRET (and TABLESTORE_SESSION_TOKEN, for temporary ones), or pass a provider; " + c.permission(op)
	case ctx.Err() != nil:
		return ctx.Err(), ""
	case !sent:
		return core.ErrInvalid, "the SDK refuses the request"
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return core.ErrUnavailable, fmt.Sprintf("no such host %s: are instance and region in the endpoint right?", dns.Name)
	}
	// A connection that broke, an answer that came late, in part or damaged: nobody knows what became of the request.
	return core.ErrUnavailable, ""
}

// Kind maps an error code of the service to a kind of package core. docs/reference/tablestore.md 1.8 is the catalogue.
func Kind(code, message string, status int) error {
	switch code {
	case "OTSConditionCheckFail":
		return core.ErrConflict
	case "OTSTrimmedDataAccess":
		return core.ErrTrimmed
	case "OTSNotEnoughCapacityUnit", "OTSCapacityUnitExhausted", "OTSFlowControl", "OTSServerBusy", "OTSStorageServerBusy":
		return core.ErrThrottled
	case "OTSQuotaExhausted":
		if message == "Too frequent table operations." {
			return core.ErrThrottled
		}
		return core.ErrDenied
	case "OTSRowOperationConflict", "OTSPartitionUnavailable", "OTSTableNotReady", "OTSTimeout", "OTSServerUnavailable", "OTSInternalServerError", "OTSRequestTimeout":
		return core.ErrUnavailable
	case "OTSObjectNotExist":
		return core.ErrNotFound
	case "OTSObjectAlreadyExist":
		return core.ErrExists
	case "OTSAuthFailed", "OTSNoPermissionAccess":
		return core.ErrDenied
	case "OTSParameterInvalid", "OTSInvalidPK", "OTSRequestBodyTooLarge", "OTSMethodNotAllowed", "OTSOutOfRowSizeLimit", "OTSOutOfColumnCountLimit":
		return core.ErrInvalid
	}
	switch {
	case status == http.StatusTooManyRequests:
		return core.ErrThrottled
	case status == http.StatusRequestTimeout || status >= http.StatusInternalServerError:
		return core.ErrUnavailable
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return core.ErrDenied
	case status == http.StatusNotFound:
		return core.ErrNotFound
	}
	return core.ErrInvalid
}

func (c *Client) hint(op Op, code string, kind error) string {
	switch code {
	case "OTSAuthFailed":
		return "the access key, its secret or the instance is wrong, or the clock is off by more than 15 minutes"
	case "OTSQuotaExhausted":
		if errors.Is(kind, core.ErrDenied) {
			return "the quota of the instance is used up: delete a table that nobody needs, or have the quota raised"
		}
	case "OTSObjectNotExist":
		return fmt.Sprintf("there is no such table or stream at %s", c.config.Endpoint)
	case "OTSTableNotReady", "OTSPartitionUnavailable":
		return "a table takes a while to get ready after it was created"
	}
	if errors.Is(kind, core.ErrDenied) {
		return c.permission(op)
	}
	return ""
}

// permission names what a RAM policy must allow.
func (c *Client) permission(op Op) string {
	on := "instance/" + c.config.Instance
	if op.Table != "" {
		on += "/table/" + op.Table
	}
	return fmt.Sprintf("the call needs permission ots:%s on acs:ots:*:*:%s", op.Name, on)
}
