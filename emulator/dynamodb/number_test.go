package dynamodb

import (
	"cmp"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNumberText(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"0", "0"}, {"-0", "0"}, {"000", "0"}, {"0e99", "0"}, {"1", "1"}, {"+1", "1"}, {"01.10", "1.1"}, {".5", "0.5"}, {"5.", "5"},
		{"1e3", "1000"}, {"1E-3", "0.001"}, {"-1.5e2", "-150"}, {"123e-2", "1.23"},
		{"12345678901234567890123456789012345678", "12345678901234567890123456789012345678"},
		{"0.000012", "0.000012"}, {"1.2E-5", "0.000012"}, // a Java double's text
		{"1e125", "1" + strings.Repeat("0", 125)}, {"1e-130", "0." + strings.Repeat("0", 129) + "1"},
	} {
		got, err := parseNumber(c.in)
		if err != nil || got != c.want {
			t.Errorf("parseNumber(%q) = %q, %v; want %q", c.in, got, err, c.want)
		}
	}
}

func TestNumberRefused(t *testing.T) {
	for _, in := range []string{"", "x", "1x", "--1", "1e", "e1", ".", "1.2.3", "1e1.5", "0x10", "NaN", "Infinity", "١", " 1", "1_000",
		"123456789012345678901234567890123456789", "1e126", "1e-131", "1e99999999999999999999", "1e-99999999999999999999", "1e2147483648"} {
		if got, err := parseNumber(in); err == nil {
			t.Errorf("parseNumber(%q) = %q, want an error", in, got)
		}
	}
}

// numberGen draws numbers in several notations, near each other often enough
// to meet.
func numberGen() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		s := rapid.SampledFrom([]string{"", "-"}).Draw(t, "sign") + rapid.StringMatching(`[0-9]{1,6}(\.[0-9]{0,4})?`).Draw(t, "digits")
		if rapid.Bool().Draw(t, "exponent") {
			s += rapid.StringMatching(`[eE][+-]?[0-9]`).Draw(t, "exp")
		}
		return s
	})
}

func rat(s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		panic("not a number: " + s)
	}
	return r
}

func TestNumbersBehaveAsRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, y := numberGen().Draw(t, "x"), numberGen().Draw(t, "y")
		a, err := parseNumber(x)
		if err != nil {
			t.Fatal(err)
		}
		b, err := parseNumber(y)
		if err != nil {
			t.Fatal(err)
		}
		if rat(a).Cmp(rat(x)) != 0 {
			t.Fatalf("%q became %q", x, a)
		}
		want := rat(x).Cmp(rat(y))
		if got := compareNumbers(a, b); got != want {
			t.Fatalf("compareNumbers(%q, %q) = %d, want %d", a, b, got, want)
		}
		if (a == b) != (want == 0) {
			t.Fatalf("%q and %q: equal texts must mean equal numbers", a, b)
		}
		if got := cmp.Compare(sortableNumber(a), sortableNumber(b)); got != want {
			t.Fatalf("sortableNumber orders %q and %q as %d, want %d", a, b, got, want)
		}
		sum, err := addNumbers(a, b)
		if err != nil {
			t.Fatal(err)
		}
		if rat(sum).Cmp(new(big.Rat).Add(rat(x), rat(y))) != 0 {
			t.Fatalf("%q + %q = %q", a, b, sum)
		}
		if again, err := parseNumber(sum); err != nil || again != sum {
			t.Fatalf("the sum %q is not canonical: %q, %v", sum, again, err)
		}
	})
}

func TestSumTooPreciseIsRefused(t *testing.T) {
	big, _ := parseNumber("1e37")
	small, _ := parseNumber("0.1")
	if got, err := addNumbers(big, small); err == nil {
		t.Errorf("1e37 + 0.1 = %q, want an error: 39 digits", got)
	}
}
