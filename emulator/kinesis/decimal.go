package kinesis

import (
	"math/bits"
	"strconv"
)

// Hash keys (128 bits) and sequence numbers (188 bits) travel as decimal text. Both go through the same two
// functions, on numbers of three 64-bit limbs, most significant first: a page of 10,000 records needs 10,000 of them.

const tenTo19 = 10_000_000_000_000_000_000

// appendDecimal appends n in decimal, without leading zeros.
func appendDecimal(dst []byte, n [3]uint64) []byte {
	var parts [4]uint64
	i := 0
	for {
		var r uint64
		n[0], r = n[0]/tenTo19, n[0]%tenTo19
		n[1], r = bits.Div64(r, n[1], tenTo19)
		n[2], r = bits.Div64(r, n[2], tenTo19)
		parts[i] = r
		i++
		if n[0]|n[1]|n[2] == 0 {
			break
		}
	}
	dst = strconv.AppendUint(dst, parts[i-1], 10)
	for i -= 2; i >= 0; i-- {
		var digits [19]byte
		p := parts[i]
		for d := len(digits) - 1; d >= 0; d-- {
			digits[d] = byte('0' + p%10)
			p /= 10
		}
		dst = append(dst, digits[:]...)
	}
	return dst
}

// parseDecimal reads a plain decimal number as the service accepts it: "0" or digits without a leading zero.
func parseDecimal(s string) (n [3]uint64, ok bool) {
	if s == "" || len(s) > 58 || len(s) > 1 && s[0] == '0' {
		return n, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return n, false
		}
		carry := uint64(s[i] - '0')
		for l := 2; l >= 0; l-- {
			hi, lo := bits.Mul64(n[l], 10)
			lo, c := bits.Add64(lo, carry, 0)
			n[l], carry = lo, hi+c
		}
		if carry != 0 {
			return n, false
		}
	}
	return n, true
}
