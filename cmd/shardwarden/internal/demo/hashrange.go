package demo

import (
	"fmt"
	"math/big"

	"github.com/shardwarden/shardwarden/core"
)

// hashRange is the part of the key space a shard holds, both ends inclusive.
type hashRange struct{ first, last *big.Int }

func decimalRange(first, last string) (hashRange, error) {
	a, ok1 := new(big.Int).SetString(first, 10)
	b, ok2 := new(big.Int).SetString(last, 10)
	if !ok1 || !ok2 {
		return hashRange{}, fmt.Errorf("hash range %q to %q is not two decimal numbers", first, last)
	}
	return hashRange{a, b}, nil
}

func bytesRange(r *core.HashRange) hashRange {
	return hashRange{new(big.Int).SetBytes(r.Start[:]), new(big.Int).SetBytes(r.End[:])}
}

// middle is where the upper half begins.
func (r hashRange) middle() *big.Int {
	m := new(big.Int).Add(r.first, r.last)
	return m.Rsh(m, 1).Add(m, big.NewInt(1))
}

// splits reports whether there are two halves.
func (r hashRange) splits() bool { return r.first.Cmp(r.last) < 0 }

// before reports whether o begins right behind r.
func (r hashRange) before(o hashRange) bool {
	return new(big.Int).Add(r.last, big.NewInt(1)).Cmp(o.first) == 0
}
