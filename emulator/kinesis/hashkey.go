package kinesis

import (
	"crypto/md5"
	"encoding/binary"
	"math/bits"
)

// hashKey is a point in the space 0 .. 2^128-1 that a stream's shards divide among themselves.
type hashKey struct{ hi, lo uint64 }

var lastHashKey = hashKey{hi: ^uint64(0), lo: ^uint64(0)}

// hashOf places a partition key: its MD5 read as a big-endian number.
func hashOf(partitionKey string) hashKey {
	sum := md5.Sum([]byte(partitionKey))
	return hashKey{hi: binary.BigEndian.Uint64(sum[:8]), lo: binary.BigEndian.Uint64(sum[8:])}
}

func parseHashKey(s string) (hashKey, bool) {
	n, ok := parseDecimal(s)
	return hashKey{hi: n[1], lo: n[2]}, ok && n[0] == 0
}

func (k hashKey) String() string { return string(appendDecimal(nil, [3]uint64{0, k.hi, k.lo})) }

func (k hashKey) less(o hashKey) bool { return k.hi < o.hi || k.hi == o.hi && k.lo < o.lo }

// next is k+1; the last key wraps to 0.
func (k hashKey) next() hashKey {
	lo, carry := bits.Add64(k.lo, 1, 0)
	return hashKey{hi: k.hi + carry, lo: lo}
}

// prev is k-1; 0 wraps to the last key.
func (k hashKey) prev() hashKey {
	lo, borrow := bits.Sub64(k.lo, 1, 0)
	return hashKey{hi: k.hi - borrow, lo: lo}
}

// evenStart is where shard i of n begins when n shards divide the space evenly: floor(2^128 / n) * i, as the
// service does it, so that the last shard takes the remainder.
func evenStart(i, n uint64) hashKey {
	if n == 1 {
		return hashKey{}
	}
	// 2^128 / n by long division, digit base 2^64; the leading digit is 1.
	hi, r := bits.Div64(1%n, 0, n)
	lo, _ := bits.Div64(r, 0, n)
	carry, low := bits.Mul64(lo, i)
	return hashKey{hi: hi*i + carry, lo: low}
}
