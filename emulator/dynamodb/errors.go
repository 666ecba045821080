package dynamodb

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// apiError is an answer of the service that is not a success. The shape is
// the bare name; the wire form adds the namespace the service uses for it.
type apiError struct {
	status int
	shape  string
	msg    string
	extra  obj // further members of the body, e.g. Item, CancellationReasons
}

func (e *apiError) Error() string { return e.shape + ": " + e.msg }

// Names in these namespaces are raised by the service's front end, not by
// DynamoDB's own model.
var namespaces = map[string]string{
	"ValidationException":                 "com.amazon.coral.validate#",
	"UnknownOperationException":           "com.amazon.coral.service#",
	"SerializationException":              "com.amazon.coral.service#",
	"AccessDeniedException":               "com.amazon.coral.service#",
	"MissingAuthenticationTokenException": "com.amazon.coral.service#",
	"ThrottlingException":                 "com.amazon.coral.availability#",
}

func (e *apiError) body() obj {
	ns, ok := namespaces[e.shape]
	if !ok {
		ns = "com.amazonaws.dynamodb.v20120810#"
	}
	member := "message"
	if e.shape == "TransactionCanceledException" || e.shape == "AccessDeniedException" || e.shape == "SerializationException" {
		member = "Message" // as the service spells it for these; SDKs accept both
	}
	b := obj{{"__type", ns + e.shape}}
	if e.msg != "" {
		b = append(b, pair{member, e.msg})
	}
	return append(b, e.extra...)
}

func fail(shape, format string, a ...any) *apiError {
	return &apiError{http.StatusBadRequest, shape, fmt.Sprintf(format, a...), nil}
}

func invalid(format string, a ...any) *apiError { return fail("ValidationException", format, a...) }

func badValue(format string, a ...any) *apiError {
	return invalid("One or more parameter values were invalid: "+format, a...)
}

// unsupported refuses what the service has and this emulator has not.
func unsupported(format string, a ...any) *apiError {
	return invalid("Not supported by this emulator: "+format, a...)
}

func noTable() *apiError {
	return fail("ResourceNotFoundException", "Requested resource not found")
}

func noTableNamed(name string) *apiError {
	return fail("ResourceNotFoundException", "Requested resource not found: Table: %s not found", name)
}

// conditionFailed carries the old item when the request asked for it.
func conditionFailed(old item) *apiError {
	e := fail("ConditionalCheckFailedException", "The conditional request failed")
	if old != nil {
		e.extra = obj{{"Item", old}}
	}
	return e
}

// constraint is the message of the service's model validation.
func constraint(value, member, rule string) *apiError {
	return invalid("1 validation error detected: Value %s at '%s' failed to satisfy constraint: %s", value, member, rule)
}

// oneOf checks an enumeration; empty stands for the default and passes.
func oneOf(member, got string, allowed ...string) error {
	if got == "" {
		return nil
	}
	if slices.Contains(allowed, got) {
		return nil
	}
	return constraint("'"+got+"'", member, "Member must satisfy enum value set: ["+strings.Join(allowed, ", ")+"]")
}
