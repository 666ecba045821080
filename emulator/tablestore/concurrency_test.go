package tablestore_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	ots "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/emulator/tablestore"
)

// Of writers that expect the same counter one wins each time, and the stream has the wins in their order, while
// partitions split and merge and readers read.
func TestCompareAndSetByMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 24)
		c.mustPut(tab, pk("lease"), cols{"n": int64(0)})
		const writers, tries = 8, 50
		var wins, failures atomic.Int64
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for range tries {
					n, ok := c.get(tab, pk("lease"))["n"].(int64)
					if !ok {
						t.Error("the row lost its counter")
						return
					}
					err := c.update(tab, pk("lease"), condition(exists, single("n", ots.CT_EQUAL, n)), func(ch *ots.UpdateRowChange) { ch.PutColumn("n", n+1) })
					switch code(err) {
					case "":
						wins.Add(1)
					case "OTSConditionCheckFail":
						failures.Add(1)
					default:
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Go(func() {
			for i := range 20 {
				left, right, err := s.Split(inst, tab, fmt.Sprintf("m%d", i))
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := s.Merge(inst, tab, left, right); err != nil {
					t.Error(err)
					return
				}
				c.shards(tab)
			}
		})
		wg.Wait()
		if n := c.get(tab, pk("lease"))["n"]; n != wins.Load() || wins.Load()+failures.Load() != writers*tries {
			t.Errorf("counter %v after %d wins and %d failures", n, wins.Load(), failures.Load())
		}
		if got := c.replica()["lease"]["n"]; got != fmt.Sprintf("%d@%d", wins.Load(), epochMS) {
			t.Errorf("the stream tells of counter %s after %d wins", got, wins.Load())
		}
	})
}
