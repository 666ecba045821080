package kpl

import (
	"crypto/md5"
	"encoding/binary"
	"math/bits"

	"github.com/shardwarden/shardwarden/core"
)

// hashKey is a place in the hash space of a stream: a number of 128 bits.
type hashKey struct{ hi, lo uint64 }

func fromBytes(b [16]byte) hashKey {
	return hashKey{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// hashOf is where the service puts a record with a partition key.
func hashOf(key string) hashKey { return fromBytes(md5.Sum([]byte(key))) }

func (h hashKey) less(other hashKey) bool {
	return h.hi < other.hi || h.hi == other.hi && h.lo < other.lo
}

func (h hashKey) in(r *core.HashRange) bool {
	return !h.less(fromBytes(r.Start)) && !fromBytes(r.End).less(h)
}

// everything reports whether no hash key is outside r.
func everything(r *core.HashRange) bool {
	return r == nil || (fromBytes(r.Start) == hashKey{} && fromBytes(r.End) == hashKey{^uint64(0), ^uint64(0)})
}

// parseHashKey reads an explicit hash key: a decimal number below 2^128, with a sign in front if somebody wrote one (Java's BigInteger reads it).
func parseHashKey(text string) (h hashKey, ok bool) {
	negative := false
	if text != "" && (text[0] == '+' || text[0] == '-') {
		negative, text = text[0] == '-', text[1:]
	}
	if text == "" {
		return h, false
	}
	for i := range len(text) {
		digit := text[i] - '0'
		if digit > 9 {
			return h, false
		}
		over, hi := bits.Mul64(h.hi, 10)
		carry, lo := bits.Mul64(h.lo, 10)
		lo, c := bits.Add64(lo, uint64(digit), 0)
		hi, c2 := bits.Add64(hi, carry, c)
		if over != 0 || c2 != 0 {
			return h, false
		}
		h = hashKey{hi, lo}
	}
	return h, !negative || h == hashKey{}
}
