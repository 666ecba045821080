package dynamo

import "github.com/shardwarden/shardwarden/core"

// shuffleSeed is that of DeterministicShuffleShardSyncLeaderDecider (docs/reference/kcl.md 2.4).
const shuffleSeed = 1947

// lister is the worker that KCL 2.x workers, who each work it out, take for the one that lists shards: the first of the owners in the table after
// a shuffle that is the same for all. owners is sorted and has each once. Java sorts by UTF-16 units and Go by bytes, which differ only for ids with
// characters beyond the Basic Multilingual Plane.
func lister(owners []core.WorkerID) core.WorkerID {
	if len(owners) == 0 {
		return core.Nobody
	}
	return shuffled(owners)[0]
}

// shuffled is Collections.shuffle with a java.util.Random of shuffleSeed.
func shuffled(owners []core.WorkerID) []core.WorkerID {
	out := append([]core.WorkerID(nil), owners...)
	r := newJavaRandom(shuffleSeed)
	for i := len(out); i > 1; i-- {
		j := r.below(int32(i))
		out[i-1], out[j] = out[j], out[i-1]
	}
	return out
}

// javaRandom is java.util.Random, a linear congruential generator of 48 bits, as its documentation defines it.
type javaRandom struct{ state uint64 }

const (
	javaMultiplier = 0x5DEECE66D
	javaMask       = 1<<48 - 1
)

func newJavaRandom(seed uint64) *javaRandom { return &javaRandom{(seed ^ javaMultiplier) & javaMask} }

func (r *javaRandom) bits(n uint) int32 {
	r.state = (r.state*javaMultiplier + 0xB) & javaMask
	return int32(r.state >> (48 - n))
}

// below is nextInt(n).
func (r *javaRandom) below(n int32) int32 {
	b := r.bits(31)
	if n&(n-1) == 0 {
		return int32(int64(n) * int64(b) >> 31)
	}
	for {
		v := b % n
		if b-v+(n-1) >= 0 { // else the last, shorter stretch of numbers: it would favour the small ones
			return v
		}
		b = r.bits(31)
	}
}
