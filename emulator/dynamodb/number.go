package dynamodb

import (
	"errors"
	"math/big"
	"strconv"
	"strings"
)

// A number is held as canonical text: plain decimal notation without leading
// or trailing zeros, "-" only before a non-zero value. Equal numbers have
// equal texts.

// The service's limits (Developer Guide, "Data types"): 38 significant digits,
// magnitude from 1E-130 to 9.99...E+125.
const (
	maxDigits   = 38
	maxExponent = 125
	minExponent = -130
)

// parseNumber turns any notation the service takes into canonical text.
func parseNumber(s string) (string, error) {
	t := s
	if t == "" {
		return "", invalid("The parameter cannot be converted to a numeric value")
	}
	bad := func() (string, error) {
		return "", invalid("The parameter cannot be converted to a numeric value: %s", s)
	}
	neg := false
	switch t[0] {
	case '-':
		neg, t = true, t[1:]
	case '+':
		t = t[1:]
	}
	exp := 0
	if i := strings.IndexAny(t, "eE"); i >= 0 {
		e, err := strconv.Atoi(t[i+1:])
		if err != nil {
			// Out of int range, or not a number at all.
			if !errors.Is(err, strconv.ErrRange) {
				return bad()
			}
			if strings.HasPrefix(t[i+1:], "-") {
				e = -1 << 20
			} else {
				e = 1 << 20
			}
		}
		exp, t = max(-1<<20, min(1<<20, e)), t[:i]
	}
	whole, frac, _ := strings.Cut(t, ".")
	if whole == "" && frac == "" {
		return bad()
	}
	for _, c := range []byte(whole + frac) {
		if c < '0' || c > '9' {
			return bad()
		}
	}
	return canonical(neg, whole+frac, exp-len(frac))
}

// canonical is the text of digits * 10^exp.
func canonical(neg bool, digits string, exp int) (string, error) {
	digits = strings.TrimLeft(digits, "0")
	trimmed := strings.TrimRight(digits, "0")
	exp += len(digits) - len(trimmed)
	digits = trimmed
	if digits == "" {
		return "0", nil
	}
	if len(digits) > maxDigits {
		return "", invalid("Attempting to store more than 38 significant digits in a Number")
	}
	magnitude := len(digits) + exp - 1 // the exponent in scientific notation
	if magnitude > maxExponent {
		return "", invalid("Number overflow. Attempting to store a number with magnitude larger than supported range")
	}
	if magnitude < minExponent {
		return "", invalid("Number underflow. Attempting to store a number with magnitude smaller than supported range")
	}
	var b strings.Builder
	if neg {
		b.WriteByte('-')
	}
	switch point := len(digits) + exp; {
	case exp >= 0:
		b.WriteString(digits)
		b.WriteString(strings.Repeat("0", exp))
	case point > 0:
		b.WriteString(digits[:point])
		b.WriteByte('.')
		b.WriteString(digits[point:])
	default:
		b.WriteString("0.")
		b.WriteString(strings.Repeat("0", -point))
		b.WriteString(digits)
	}
	return b.String(), nil
}

// compareNumbers orders two canonical texts.
func compareNumbers(a, b string) int {
	if a == b {
		return 0
	}
	an, bn := strings.HasPrefix(a, "-"), strings.HasPrefix(b, "-")
	switch {
	case an && !bn:
		return -1
	case bn && !an:
		return 1
	case an:
		return compareMagnitudes(b[1:], a[1:])
	}
	return compareMagnitudes(a, b)
}

func compareMagnitudes(a, b string) int {
	aw, af, _ := strings.Cut(a, ".")
	bw, bf, _ := strings.Cut(b, ".")
	if len(aw) != len(bw) {
		if len(aw) < len(bw) {
			return -1
		}
		return 1
	}
	if c := strings.Compare(aw, bw); c != 0 {
		return c
	}
	return strings.Compare(af, bf)
}

// addNumbers is exact; a result the service cannot hold is refused.
func addNumbers(a, b string) (string, error) {
	x, ex := scaled(a)
	y, ey := scaled(b)
	e := min(ex, ey)
	shift := func(v *big.Int, by int) {
		if by > 0 {
			v.Mul(v, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(by)), nil))
		}
	}
	shift(x, ex-e)
	shift(y, ey-e)
	x.Add(x, y)
	neg := x.Sign() < 0
	return canonical(neg, x.Abs(x).String(), e)
}

func scaled(s string) (*big.Int, int) {
	whole, frac, _ := strings.Cut(s, ".")
	v, _ := new(big.Int).SetString(whole+frac, 10) // canonical text: always digits
	return v, -len(frac)
}

func negate(s string) string {
	switch {
	case s == "0":
		return s
	case s[0] == '-':
		return s[1:]
	}
	return "-" + s
}

// sortableNumber is a byte string that orders as the number does: a sign,
// the decimal exponent, the digits; for negatives each byte inverted.
func sortableNumber(s string) string {
	if s == "0" {
		return "\x01"
	}
	neg := s[0] == '-'
	if neg {
		s = s[1:]
	}
	whole, frac, _ := strings.Cut(s, ".")
	digits := strings.TrimLeft(whole+frac, "0")
	point := len(whole)
	if whole == "0" {
		point = len(digits) - len(frac) // minus the zeros after the point
	}
	b := append([]byte{2, byte((point + 256) >> 8), byte(point + 256)}, strings.TrimRight(digits, "0")...)
	if !neg {
		return string(b)
	}
	for i := range b {
		b[i] = ^b[i]
	}
	b[0] = 0
	return string(append(b, 0xff))
}
