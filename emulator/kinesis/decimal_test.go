package kinesis

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func bigOf(n [3]uint64) *big.Int {
	b := new(big.Int)
	for _, l := range n {
		b.Or(b.Lsh(b, 64), new(big.Int).SetUint64(l))
	}
	return b
}

func TestDecimalsAgreeWithBigInt(t *testing.T) {
	limb := rapid.OneOf(rapid.Just(uint64(0)), rapid.Just(^uint64(0)), rapid.Just(uint64(tenTo19)), rapid.Uint64())
	rapid.Check(t, func(t *rapid.T) {
		n := [3]uint64{limb.Draw(t, "hi") >> 1, limb.Draw(t, "mid"), limb.Draw(t, "lo")}
		want := bigOf(n).String()
		if got := string(appendDecimal(nil, n)); got != want {
			t.Fatalf("%v prints as %s, want %s", n, got, want)
		}
		if len(want) > 58 {
			return
		}
		if back, ok := parseDecimal(want); !ok || back != n {
			t.Fatalf("%s reads as %v, %v; want %v", want, back, ok, n)
		}
	})
}

func TestOnlyPlainDecimalsAreRead(t *testing.T) {
	twoTo192 := new(big.Int).Lsh(big.NewInt(1), 192).String()
	for _, s := range []string{"", "-1", "+1", "01", "1 ", "0x1", "1.0", "١", twoTo192, "99999999999999999999999999999999999999999999999999999999999"} {
		if n, ok := parseDecimal(s); ok {
			t.Errorf("%q is read as %v, want it refused", s, n)
		}
	}
	for _, s := range []string{"340282366920938463463374607431768211456", "99999999999999999999999999999999999999999999999999"} {
		if k, ok := parseHashKey(s); ok {
			t.Errorf("%s is read as hash key %v, want it refused: it is over 2^128-1", s, k)
		}
	}
}

func TestEvenStartsDivideTheHashSpace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(1, shardsPerStream).Draw(t, "n")
		i := rapid.Uint64Range(0, n-1).Draw(t, "i")
		size := new(big.Int).Div(new(big.Int).Lsh(big.NewInt(1), 128), new(big.Int).SetUint64(n))
		want := size.Mul(size, new(big.Int).SetUint64(i)).String()
		if got := evenStart(i, n).String(); got != want {
			t.Fatalf("shard %d of %d starts at %s, want %s", i, n, got, want)
		}
	})
}

func TestHashKeyNeighbours(t *testing.T) {
	edge := hashKey{hi: 1}
	if p := edge.prev(); p != (hashKey{lo: ^uint64(0)}) || p.next() != edge {
		t.Errorf("before %s comes %s, after that %s", edge, p, p.next())
	}
	if lastHashKey.next() != (hashKey{}) || (hashKey{}).prev() != lastHashKey {
		t.Error("the ends of the hash space do not meet")
	}
}
