package plainbuffer

import (
	"math/rand/v2"
	"testing"
)

func TestCRC(t *testing.T) {
	if got := crcBytes(0, []byte("123456789")); got != 0xF4 { // the check value of CRC-8
		t.Errorf("%#x, want 0xf4", got)
	}
	dice := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		p := make([]byte, dice.IntN(40))
		for i := range p {
			p[i] = byte(dice.Uint32())
		}
		first := byte(dice.Uint32())
		want := first
		for _, b := range p {
			want = crcByte(want, b)
		}
		if got := crcBytes(first, p); got != want {
			t.Fatalf("of %x from %#x: %#x, byte by byte %#x", p, first, got, want)
		}
	}
}
