package kinesis

import (
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardwarden/shardwarden/core"
)

func TestPositionsAreOrdered(t *testing.T) {
	at := time.Unix(1700000000, 0)
	ordered := []core.Position{
		core.FromHorizon,
		core.From(at),
		core.From(at.Add(time.Second)),
		core.FromLatest,
		{Anchor: core.Latest, Time: at},
		{Token: "9"},
		{Token: "9", Sub: 1},
		{Token: "10"},
		{Token: "49590338271490256608559692538361571095921575989136588898"},
		{Token: "49590338271490256608559692538361571095921575989136588898", Sub: 10},
		{Token: "149590338271490256608559692538361571095921575989136588898"},
		core.AtShardEnd,
	}
	s := &Source{}
	for i, a := range ordered {
		for j, b := range ordered {
			got := s.Compare(a, b)
			if (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("Compare(%v, %v) = %d", a, b, got)
			}
		}
	}
}

func TestSequenceNumbersCompareAsNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.StringOfN(rapid.RuneFrom([]rune("0123456789")), 1, 40, -1)
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		x, _ := new(big.Int).SetString(a, 10)
		y, _ := new(big.Int).SetString(b, 10)
		if got, want := compareNumbers(a, b), x.Cmp(y); got != want {
			t.Fatalf("compareNumbers(%s, %s) = %d, want %d", a, b, got, want)
		}
	})
}

func TestPositionsThatCannotBeOpened(t *testing.T) {
	s := New(testConfig(), "orders", Endpoint("http://127.0.0.1:1"))
	for name, p := range map[string]core.Position{
		"zero":              {},
		"no number":         {Token: "AQEDAI"},
		"time without time": {Anchor: core.AtTime},
		"end":               core.AtShardEnd,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Open(t.Context(), core.Shard{ID: "shardId-000000000000"}, p)
			if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "shardId-000000000000") {
				t.Errorf("error %v, want ErrInvalid that names the shard", err)
			}
		})
	}
}
