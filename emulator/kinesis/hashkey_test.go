package kinesis

import (
	"crypto/md5"
	"fmt"
	"math/big"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
)

func TestRecordsGoWhereTheMD5OfTheirKeySays(t *testing.T) {
	r := newRig(t, Config{})
	r.create("orders", 7)
	shards := r.shards("orders", nil)
	for i := range 50 {
		key := fmt.Sprintf("schlüssel-%d", i)
		sum := md5.Sum([]byte(key))
		at := new(big.Int).SetBytes(sum[:])
		o, err := r.c.PutRecord(t.Context(), &sdk.PutRecordInput{StreamName: aws.String("orders"), PartitionKey: &key, Data: []byte("x")})
		r.ok(err)
		for _, s := range shards {
			from, _ := new(big.Int).SetString(*s.HashKeyRange.StartingHashKey, 10)
			to, _ := new(big.Int).SetString(*s.HashKeyRange.EndingHashKey, 10)
			if inside := from.Cmp(at) <= 0 && at.Cmp(to) <= 0; inside != (*s.ShardId == *o.ShardId) {
				t.Errorf("key %s with hash %s went to %s; in the range of %s: %v", key, at, *o.ShardId, *s.ShardId, inside)
			}
		}
	}
}
