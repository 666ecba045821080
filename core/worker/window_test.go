package worker

import (
	"math/rand/v2"
	"testing"

	"github.com/shardwarden/shardwarden/core"
)

// Whatever is read, skipped, handled and thrown away, in any order: the budget knows what is held and expected, and is empty in the end.
func TestBudgetIsGivenBack(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := &budget{most: 1000}
		windows := make([]*window, 5)
		held := make([][]pageOf, len(windows))
		for i := range windows {
			windows[i] = newWindow(b, 400, func() {})
		}
		for range 300 {
			i := r.IntN(len(windows))
			w := windows[i]
			ok, _ := w.mayRead()
			if w.held() == 0 && !ok {
				t.Fatalf("seed %d: an empty window may not read", seed)
			}
			switch n := r.IntN(8); {
			case n < 4 && ok:
				w.put(&core.Page{Bytes: 1 + r.IntN(300)})
			case n == 4 && ok:
				w.skip()
			case n == 5 && r.IntN(10) == 0:
				w.close()
				windows[i] = newWindow(b, 400, func() {})
				for _, p := range held[i] {
					w.release(p)
				}
				held[i] = nil
			case len(held[i]) > 0 && n == 6:
				w.release(held[i][0])
				held[i] = held[i][1:]
			default:
				if p, ok := w.take(); ok {
					held[i] = append(held[i], p)
				}
			}
			var bytes int64
			for _, w := range windows {
				bytes += w.bytes + w.asked
			}
			if b.used != bytes {
				t.Fatalf("seed %d: the budget counts %d bytes, the windows %d", seed, b.used, bytes)
			}
		}
		for i, w := range windows {
			w.close()
			for _, p := range held[i] {
				w.release(p)
			}
		}
		if b.used != 0 || b.blind != 0 {
			t.Errorf("seed %d: %d bytes and %d first pages are left", seed, b.used, b.blind)
		}
	}
}
