package dynamo

import (
	"fmt"
	"math/big"

	"github.com/shardwarden/shardwarden/core"
)

// Hash keys stand in a row as decimal numbers of 128 bits.

func formatHashKey(b [16]byte) string { return new(big.Int).SetBytes(b[:]).String() }

func parseHashKey(s string) (b [16]byte, err error) {
	// 39 digits hold 2^128 - 1; the length keeps a hostile row from costing time. SetString would take signs and underscores.
	n := new(big.Int)
	if len(s) == 0 || len(s) > 39 || !digits(s) {
		return b, fmt.Errorf("%q is not a decimal number below 2^128", clip(s))
	}
	if n.SetString(s, 10); n.BitLen() > 128 {
		return b, fmt.Errorf("%q is not a decimal number below 2^128", s)
	}
	n.FillBytes(b[:])
	return b, nil
}

func parseRange(start, end string) (*core.HashRange, error) {
	var r core.HashRange
	var err error
	if r.Start, err = parseHashKey(start); err != nil {
		return nil, fmt.Errorf("%s %w", attrRangeStart, err)
	}
	if r.End, err = parseHashKey(end); err != nil {
		return nil, fmt.Errorf("%s %w", attrRangeEnd, err)
	}
	if string(r.Start[:]) > string(r.End[:]) {
		return nil, fmt.Errorf("%s %s is above %s %s", attrRangeStart, start, attrRangeEnd, end)
	}
	return &r, nil
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
