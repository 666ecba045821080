package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	producers  = 2
	putRecords = 500 // the most one call may hold
)

// pace is how long producing takes, where the shards take that much: so long that records flow while things happen.
func pace(scenes int) time.Duration {
	return min(2*time.Second+time.Duration(scenes)*2*time.Second, 40*time.Second)
}

// share is how many records a producer puts. There may be fewer keys than producers.
func (b *boundary) share(producer int) int {
	active := min(producers, b.keys)
	if producer >= active {
		return 0
	}
	return (b.records + active - 1 - producer) / active
}

// produce puts this producer's share of the records. Each call holds a key once at most, and what was refused goes again before the
// key's next record, so that the order of a key is the order of its numbers.
func (b *boundary) produce(ctx context.Context, to stage, producer int, pace time.Duration) error {
	var keys []int32
	for k := producer; k < b.keys; k += producers {
		keys = append(keys, int32(k))
	}
	left := b.share(producer)
	if left == 0 {
		return nil
	}
	dice := rand.New(rand.NewPCG(b.seed, uint64(producer)))
	next := map[int32]int32{}
	perSecond := max(1, float64(left)/pace.Seconds())
	perCall := min(max(1, int(perSecond/10)), len(keys), putRecords)
	tick := time.NewTicker(time.Duration(float64(perCall) / perSecond * float64(time.Second)))
	defer tick.Stop()
	for left > 0 {
		var ids []recordID
		for _, i := range dice.Perm(len(keys))[:min(perCall, left)] {
			k := keys[i]
			ids = append(ids, recordID{k, next[k]})
			next[k]++
		}
		left -= len(ids)
		for len(ids) > 0 {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			var err error
			if ids, err = b.send(ctx, to, ids); err != nil {
				return err
			}
		}
	}
	return nil
}

// send makes one call and returns what was refused.
func (b *boundary) send(ctx context.Context, to stage, ids []recordID) (again []recordID, err error) {
	records := make([]outgoing, len(ids))
	for i, id := range ids {
		records[i] = outgoing{id, keyName(id.key), data(b.seed, id)}
	}
	got, err := to.put(ctx, records)
	if err != nil {
		return nil, fmt.Errorf("put %d records: %w", len(records), err)
	}
	for i, id := range ids {
		if got[i].shard == "" {
			again = append(again, id)
			continue
		}
		b.ledger.put(id.key, got[i].shard, got[i].sequence)
	}
	return again, nil
}
