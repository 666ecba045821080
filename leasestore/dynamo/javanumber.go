package dynamo

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// formatThroughput is how the KCL writes throughputKBps: rounded half up to six decimals, then as Double.toString does
// (docs/reference/kcl.md 1.2). f is finite and not negative.
func formatThroughput(f float64) string {
	if r, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64)); ok {
		f, _ = strconv.ParseFloat(r.FloatString(6), 64)
	}
	return javaDouble(f)
}

// javaDouble is Double.toString: plain between 10^-3 and 10^7, else d.dddE±n, and always a digit behind the point.
func javaDouble(f float64) string {
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-3 || a >= 1e7) {
		format = 'E'
	}
	s := strconv.FormatFloat(f, format, -1, 64)
	mantissa, exponent, scientific := strings.Cut(s, "E")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	if !scientific {
		return mantissa
	}
	n, _ := strconv.Atoi(exponent) // "-05": Java writes no zeros and no plus
	return mantissa + "E" + strconv.Itoa(n)
}
