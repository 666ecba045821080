package dynamo

import (
	"math"
	"testing"
)

// What Java 17's Double.toString prints, of the rounded value.
func TestFormatThroughput(t *testing.T) {
	for _, c := range []struct {
		in   float64
		want string
	}{
		{0, "0.0"}, {1, "1.0"}, {0.671608, "0.671608"}, {1.5351044, "1.535104"}, {0.0000124, "1.2E-5"}, {0.0000125, "1.3E-5"}, {0.0000005, "1.0E-6"},
		{0.0000004, "0.0"}, {0.001, "0.001"}, {0.00099, "9.9E-4"}, {100, "100.0"}, {9999999, "9999999.0"}, {1e7, "1.0E7"}, {12345678.25, "1.234567825E7"},
		{1.0000005, "1.000001"}, {math.MaxFloat64, "1.7976931348623157E308"},
	} {
		if got := formatThroughput(c.in); got != c.want {
			t.Errorf("formatThroughput(%v) = %s, want %s", c.in, got, c.want)
		}
	}
}

func TestHashKeys(t *testing.T) {
	for _, c := range []struct {
		text string
		ok   bool
	}{
		{"0", true}, {"340282366920938463463374607431768211455", true}, {"170141183460469231731687303715884105727", true},
		{"340282366920938463463374607431768211456", false}, {"", false}, {"-1", false}, {"+1", false}, {"1_0", false}, {"0x1", false}, {"1e3", false},
		{"9999999999999999999999999999999999999999", false},
	} {
		b, err := parseHashKey(c.text)
		if (err == nil) != c.ok {
			t.Errorf("parseHashKey(%q): error %v, want none %v", c.text, err, c.ok)
		}
		if err == nil && formatHashKey(b) != c.text {
			t.Errorf("%q comes back as %q", c.text, formatHashKey(b))
		}
	}
	if _, err := parseRange("5", "4"); err == nil {
		t.Error("a range that ends before it starts was accepted")
	}
}
