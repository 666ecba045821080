package kinesis

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestSequenceNumbers(t *testing.T) {
	draw := func(t *rapid.T, name string) sequence {
		return sequence{
			stream: rapid.Int64Range(0, 1<<44-1).Draw(t, name+" stream"),
			n:      rapid.Uint64().Draw(t, name+" counter"),
			shard:  rapid.Uint32().Draw(t, name+" shard"),
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t, "a"), draw(t, "b")
		text := a.String()
		if len(text) != 56 {
			t.Fatalf("%+v has %d digits: %s", a, len(text), text)
		}
		if back, ok := parseSequence(text); !ok || back != a {
			t.Fatalf("%s of %+v reads as %+v, %v", text, a, back, ok)
		}
		// Of one length, so text order is numeric order.
		wantLess := a.stream < b.stream || a.stream == b.stream && a.n < b.n
		wantMore := a.stream > b.stream || a.stream == b.stream && a.n > b.n
		if wantLess && text >= b.String() || wantMore && text <= b.String() {
			t.Fatalf("%+v and %+v are in the wrong order: %s, %s", a, b, text, b)
		}
	})
}

func TestForeignSequenceNumbersAreNotRead(t *testing.T) {
	for name, s := range map[string]string{
		"of the service": "49590338271490256608559692538361571095921575989136588898",
		"small":          "1",
		"other version":  string(appendDecimal(nil, [3]uint64{sequenceTag << 56, 0, 3})),
		"too large":      string(appendDecimal(nil, [3]uint64{math.MaxUint64 >> 3, 0, sequenceTag})),
	} {
		if q, ok := parseSequence(s); ok {
			t.Errorf("%s: %s reads as %+v, want it refused", name, s, q)
		}
	}
}
