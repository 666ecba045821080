package kclsim

import (
	"context"
	"slices"
)

// lister says which of the owners lists shards for all, by the 2.x rule: the first after a shuffle with a fixed seed. "" for no owners: everybody.
func lister(owners []string) string {
	ids := slices.Clone(owners)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) == 0 {
		return ""
	}
	r := newJavaRandom(1947)
	for i := len(ids); i > 1; i-- {
		j := r.nextInt(i)
		ids[i-1], ids[j] = ids[j], ids[i-1]
	}
	return ids[0]
}

// lookForLister refreshes the owners that the rule is applied to.
func (w *Worker) lookForLister(ctx context.Context) {
	all, err := w.list(ctx)
	if err != nil {
		return
	}
	owners := []string{}
	for _, l := range all {
		if l.owner != "" {
			owners = append(owners, l.owner)
		}
	}
	w.mu.Lock()
	w.shuffled = owners
	w.mu.Unlock()
}

// lists reports whether this worker lists shards for all.
func (w *Worker) lists(ctx context.Context) bool {
	if w.is(led) {
		return w.leads(ctx)
	}
	w.mu.Lock()
	known := w.shuffled != nil
	w.mu.Unlock()
	if !known {
		w.lookForLister(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	l := lister(w.shuffled)
	return l == "" || l == w.s.ID
}

// javaRandom is java.util.Random: the same numbers from the same seed.
type javaRandom struct{ seed uint64 }

const (
	javaMultiplier = 0x5DEECE66D
	javaMask       = 1<<48 - 1
)

func newJavaRandom(seed uint64) *javaRandom { return &javaRandom{(seed ^ javaMultiplier) & javaMask} }

func (r *javaRandom) next(bits uint) int32 {
	r.seed = (r.seed*javaMultiplier + 0xB) & javaMask
	return int32(r.seed >> (48 - bits)) //nolint:gosec // the cast of the original: 31 bits fit
}

// nextInt is a number from 0 to n-1.
func (r *javaRandom) nextInt(n int) int {
	bound := int32(n) //nolint:gosec // a fleet is smaller
	if bound&-bound == bound {
		return int(int64(bound) * int64(r.next(31)) >> 31)
	}
	for {
		bits := r.next(31)
		val := bits % bound
		if bits-val+(bound-1) >= 0 { // overflows where the last, incomplete row of numbers begins
			return int(val)
		}
	}
}
