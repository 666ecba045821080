package tablestore

import (
	"errors"
	"fmt"
	"net/http"

	pb "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
)

// apiError is an error as the service reports it: an HTTP status, a code and a message.
type apiError struct {
	status  int
	code    string
	message string
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

const (
	codeParameter = "OTSParameterInvalid"
	codeNotExist  = "OTSObjectNotExist"
	codeTrimmed   = "OTSTrimmedDataAccess"
	codeInternal  = "OTSInternalServerError"
	codeCondition = "OTSConditionCheckFail"
	codeInvalidPK = "OTSInvalidPK"
	codeAuth      = "OTSAuthFailed"
)

// statusOf gives the HTTP status of every code that the server or a fault may answer with: the error catalogue of the
// service. That of OTSTrimmedDataAccess is not in it; the vendor's own mock servers use 404.
var statusOf = map[string]int{
	codeParameter: http.StatusBadRequest,
	codeNotExist:  http.StatusNotFound,
	codeTrimmed:   http.StatusNotFound,
	codeInternal:  http.StatusInternalServerError,
	codeCondition: http.StatusForbidden,
	codeInvalidPK: http.StatusBadRequest,
	codeAuth:      http.StatusForbidden,

	"OTSNoPermissionAccess":                      http.StatusForbidden,
	"OTSObjectAlreadyExist":                      http.StatusConflict,
	"OTSTableNotReady":                           http.StatusNotFound,
	"OTSPartitionUnavailable":                    http.StatusServiceUnavailable,
	"OTSServerBusy":                              http.StatusServiceUnavailable,
	"OTSStorageServerBusy":                       http.StatusServiceUnavailable,
	"OTSServerUnavailable":                       http.StatusServiceUnavailable,
	"OTSTimeout":                                 http.StatusServiceUnavailable,
	"OTSQuotaExhausted":                          http.StatusForbidden,
	"OTSCapacityUnitExhausted":                   http.StatusForbidden,
	"OTSNotEnoughCapacityUnit":                   http.StatusForbidden,
	"OTSFlowControl":                             http.StatusTooManyRequests,
	"OTSRowOperationConflict":                    http.StatusConflict,
	"OTSOutOfRowSizeLimit":                       http.StatusBadRequest,
	"OTSOutOfColumnCountLimit":                   http.StatusBadRequest,
	"OTSMethodNotAllowed":                        http.StatusMethodNotAllowed,
	"OTSRequestBodyTooLarge":                     http.StatusRequestEntityTooLarge,
	"OTSRequestTimeout":                          http.StatusRequestTimeout,
	"OTSUnsupportOperation":                      http.StatusBadRequest,
	"OTSTooFrequentReservedThroughputAdjustment": http.StatusForbidden,
}

func fail(code, format string, args ...any) *apiError {
	return &apiError{status: statusOf[code], code: code, message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) *apiError { return fail(codeParameter, format, args...) }

// notHere refuses what the service has and this server has not.
func notHere(what string) *apiError { return invalid("The emulator does not support %s.", what) }

func noTable() *apiError { return fail(codeNotExist, "Requested table does not exist.") }

func trimmed() *apiError {
	return fail(codeTrimmed, "Requested stream data is already trimmed or does not exist.")
}

// asAPIError makes an error of the service of what an operation returned. Anything else is a mistake in this package.
func asAPIError(err error) *apiError {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e
	}
	return fail(codeInternal, "%v", err)
}

// errorBody gives status and body of an error.
func errorBody(err error) (int, []byte) {
	e := asAPIError(err)
	body, encodeErr := encode(&pb.Error{Code: new(e.code), Message: new(e.message)})
	if encodeErr != nil { // not for two strings
		return http.StatusInternalServerError, nil
	}
	return e.status, body
}
