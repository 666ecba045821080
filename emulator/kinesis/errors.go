package kinesis

import (
	"fmt"
	"net/http"
)

// apiError is an error as the service reports it: a type name, a message and an HTTP status.
type apiError struct {
	status  int
	code    string
	message string
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

func refuse(code, format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, code: code, message: fmt.Sprintf(format, args...)}
}

func invalidArgument(format string, args ...any) *apiError {
	return refuse("InvalidArgumentException", format, args...)
}

func notFound(format string, args ...any) *apiError {
	return refuse("ResourceNotFoundException", format, args...)
}

func inUse(format string, args ...any) *apiError {
	return refuse("ResourceInUseException", format, args...)
}

func limitExceeded(format string, args ...any) *apiError {
	return refuse("LimitExceededException", format, args...)
}

func throttled(format string, args ...any) *apiError {
	return refuse(codeThroughput, format, args...)
}

const (
	codeThroughput = "ProvisionedThroughputExceededException"
	codeInternal   = "InternalFailure"
)

func internalFailure(format string, args ...any) *apiError {
	return &apiError{status: http.StatusInternalServerError, code: codeInternal, message: fmt.Sprintf(format, args...)}
}

func unavailable(format string, args ...any) *apiError {
	return &apiError{status: http.StatusServiceUnavailable, code: "ServiceUnavailable", message: fmt.Sprintf(format, args...)}
}
