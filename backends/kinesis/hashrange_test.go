package kinesis

import (
	"math/big"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardwarden/shardwarden/core"
)

// middle is where a range is split in halves.
func middle(r *core.HashRange) string {
	a, b := new(big.Int).SetBytes(r.Start[:]), new(big.Int).SetBytes(r.End[:])
	return a.Add(a, b).Add(a, big.NewInt(1)).Rsh(a, 1).String()
}

const last = "340282366920938463463374607431768211455"

func TestHashRangeIsReadOrRefused(t *testing.T) {
	for _, c := range []struct {
		name       string
		start, end *string
		ok         bool
	}{
		{"whole space", aws.String("0"), aws.String(last), true},
		{"one key", aws.String("7"), aws.String("7"), true},
		{"too large", aws.String("0"), aws.String(last + "0"), false},
		{"negative", aws.String("-1"), aws.String("5"), false},
		{"no number", aws.String("0x10"), aws.String("5"), false},
		{"backwards", aws.String("6"), aws.String("5"), false},
		{"missing", nil, aws.String("5"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := newRange(&types.HashKeyRange{StartingHashKey: c.start, EndingHashKey: c.end})
			if (err == nil) != c.ok {
				t.Errorf("error %v, want one: %v", err, !c.ok)
			}
		})
	}
	if _, err := newRange(nil); err == nil {
		t.Error("no range at all is no error")
	}
}

func TestFirstGap(t *testing.T) {
	shard := func(start, end string) core.Shard {
		r, err := newRange(&types.HashKeyRange{StartingHashKey: &start, EndingHashKey: &end})
		if err != nil {
			t.Fatal(err)
		}
		return core.Shard{Range: r}
	}
	for _, c := range []struct {
		name   string
		shards []core.Shard
		want   string
	}{
		{"whole", []core.Shard{shard("0", last)}, ""},
		{"three in disorder", []core.Shard{shard("200", last), shard("0", "99"), shard("100", "199")}, ""},
		{"overlapping", []core.Shard{shard("0", "150"), shard("100", "120"), shard("151", last)}, ""},
		{"none", nil, "0 to " + last},
		{"start missing", []core.Shard{shard("1", last)}, "0 to 0"},
		{"middle missing", []core.Shard{shard("0", "99"), shard("102", last)}, "100 to 101"},
		{"end missing", []core.Shard{shard("0", "99")}, "100 to " + last},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := firstGap(c.shards); got != c.want {
				t.Errorf("gap %q, want %q", got, c.want)
			}
		})
	}
}
