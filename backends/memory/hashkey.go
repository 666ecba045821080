package memory

import (
	"crypto/md5"
	"encoding/binary"
	"math/big"
	"math/bits"

	"github.com/shardwarden/shardwarden/core"
)

// hashKey is a number of 128 bits: a point of the key space.
type hashKey struct{ hi, lo uint64 }

var maxHashKey = hashKey{^uint64(0), ^uint64(0)}

// hashOf is where a key lies, as on Kinesis: its MD5.
func hashOf(key string) hashKey { return fromBytes(md5.Sum([]byte(key))) }

func fromBytes(b [16]byte) hashKey {
	return hashKey{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func (k hashKey) bytes() (b [16]byte) {
	binary.BigEndian.PutUint64(b[:8], k.hi)
	binary.BigEndian.PutUint64(b[8:], k.lo)
	return b
}

func (k hashKey) less(o hashKey) bool { return k.hi < o.hi || k.hi == o.hi && k.lo < o.lo }

// add wraps around at the end of the space.
func (k hashKey) add(o hashKey) hashKey {
	lo, carry := bits.Add64(k.lo, o.lo, 0)
	return hashKey{k.hi + o.hi + carry, lo}
}

func (k hashKey) sub(o hashKey) hashKey {
	lo, borrow := bits.Sub64(k.lo, o.lo, 0)
	return hashKey{k.hi - o.hi - borrow, lo}
}

func (k hashKey) next() hashKey { return k.add(hashKey{0, 1}) }
func (k hashKey) prev() hashKey { return k.sub(hashKey{0, 1}) }

// half is k/2.
func (k hashKey) half() hashKey { return hashKey{k.hi >> 1, k.hi<<63 | k.lo>>1} }

// part is where part i of n equal parts of the space begins.
func part(i, n int) hashKey {
	x := new(big.Int).Lsh(big.NewInt(1), 128)
	x.Mul(x, big.NewInt(int64(i))).Quo(x, big.NewInt(int64(n)))
	var b [16]byte
	return fromBytes([16]byte(x.FillBytes(b[:])))
}

// span is a range of the space, both ends inclusive.
type span struct{ first, last hashKey }

func (s span) public() *core.HashRange {
	return &core.HashRange{Start: s.first.bytes(), End: s.last.bytes()}
}
