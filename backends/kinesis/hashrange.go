package kinesis

import (
	"bytes"
	"fmt"
	"math/big"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/shardwarden/shardwarden/core"
)

func newRange(in *types.HashKeyRange) (*core.HashRange, error) {
	if in == nil {
		return nil, fmt.Errorf("it has no hash key range")
	}
	var out core.HashRange
	for _, end := range []struct {
		text *string
		to   *[16]byte
	}{{in.StartingHashKey, &out.Start}, {in.EndingHashKey, &out.End}} {
		n, ok := new(big.Int).SetString(aws.ToString(end.text), 10)
		if !ok || n.Sign() < 0 || n.BitLen() > 128 {
			return nil, fmt.Errorf("hash key %q is not a number from 0 to 2^128-1", aws.ToString(end.text))
		}
		n.FillBytes(end.to[:])
	}
	if bytes.Compare(out.Start[:], out.End[:]) > 0 {
		return nil, fmt.Errorf("hash key range from %s to %s is backwards", aws.ToString(in.StartingHashKey), aws.ToString(in.EndingHashKey))
	}
	return &out, nil
}

// firstGap says what of the hash space is in no shard; empty where nothing is missing. Shards may overlap.
func firstGap(shards []core.Shard) string {
	ranges := make([]*core.HashRange, 0, len(shards))
	for i := range shards {
		ranges = append(ranges, shards[i].Range)
	}
	slices.SortFunc(ranges, func(a, b *core.HashRange) int { return bytes.Compare(a.Start[:], b.Start[:]) })
	next, whole := new(big.Int), new(big.Int).Lsh(big.NewInt(1), 128)
	number := func(b *[16]byte) *big.Int { return new(big.Int).SetBytes(b[:]) }
	one := big.NewInt(1)
	for _, r := range ranges {
		start := number(&r.Start)
		if start.Cmp(next) > 0 {
			return fmt.Sprintf("%s to %s", next, start.Sub(start, one))
		}
		if end := number(&r.End); end.Add(end, one).Cmp(next) > 0 {
			next = end
		}
	}
	if next.Cmp(whole) < 0 {
		return fmt.Sprintf("%s to %s", next, whole.Sub(whole, one))
	}
	return ""
}
