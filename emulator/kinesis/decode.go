package kinesis

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/fxamacker/cbor/v2"
)

// Requests are read into one struct per operation, by either protocol. Pointers tell an absent member (or null) from
// an empty one; unknown members are ignored, as the service does.

// cborMode takes what any encoder may write: definite and indefinite lengths, chunked strings. Member names are
// matched exactly. The limits are far above what the largest valid request (500 records) holds.
var cborMode = func() cbor.DecMode {
	m, err := cbor.DecOptions{
		FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
		IndefLength:       cbor.IndefLengthAllowed,
		MaxNestedLevels:   16,
		MaxArrayElements:  10_000,
		MaxMapPairs:       10_000,
	}.DecMode()
	if err != nil {
		panic(err) // the options above are constants
	}
	return m
}()

// moment is a timestamp of a request, in milliseconds since 1970.
type moment int64

var errTime = errors.New("a timestamp must be a number")

func momentOf(f float64) (moment, error) {
	if !(math.Abs(f) < 1e15) { // the year 33658; also refuses NaN
		return 0, fmt.Errorf("timestamp %v is out of range", f)
	}
	return moment(math.Round(f)), nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (m moment) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(m)/1000, 'f', 3, 64), nil
}

// UnmarshalJSON reads seconds since 1970 with an optional fraction.
func (m *moment) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		return nil
	}
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return errTime
	}
	*m, err = momentOf(f * 1000)
	return err
}

// UnmarshalCBOR reads milliseconds since 1970, tagged 1 or not.
func (m *moment) UnmarshalCBOR(b []byte) error {
	var v any
	if len(b) > 0 && b[0]>>5 == 6 {
		var t cbor.RawTag
		if err := cborMode.Unmarshal(b, &t); err != nil {
			return err
		}
		if t.Number != 1 {
			return fmt.Errorf("timestamp has CBOR tag %d, want 1", t.Number)
		}
		b = t.Content
	}
	if err := cborMode.Unmarshal(b, &v); err != nil {
		return err
	}
	var err error
	switch v := v.(type) {
	case uint64:
		*m, err = momentOf(float64(v))
	case int64:
		*m, err = momentOf(float64(v))
	case float64:
		*m, err = momentOf(v)
	default:
		err = errTime
	}
	return err
}

// decode reads a request body into in.
func decode(isCBOR bool, body []byte, in any) error {
	var err error
	switch {
	case len(body) == 0: // calls without parameters
	case isCBOR:
		err = cborMode.Unmarshal(body, in)
	default:
		err = json.Unmarshal(body, in)
	}
	if err != nil {
		return refuse("SerializationException", "the request body can't be read: %v", err)
	}
	return nil
}
