package conformance

import (
	"fmt"
	"sync"

	"github.com/shardwarden/shardwarden/core"
)

func prepareRules() []rule[MakeStore] {
	return []rule[MakeStore]{
		storeRule("prepare-again", "Prepare may be called again, by many at once, and leaves the rows as they are.", func(t *table) {
			l := t.create(t.full())
			var wg sync.WaitGroup
			for range 4 {
				s := t.h.Store()
				wg.Go(func() {
					defer t.rescue("Prepare")
					for range 2 {
						if err := s.Prepare(t.ctx); err != nil {
							t.errorf("Prepare of a table that is there: %v", err)
						}
					}
				})
			}
			wg.Wait()
			t.want("row after it", t.get(l.Key), l)
		}),
		{"prepare-at-once", "Of many workers that Prepare a table which is not there yet, none fails, and all can use it.", func(c *checker, make MakeStore) {
			h, err := make(c.ctx)
			if err != nil {
				c.fatalf("make a table: %v", err)
			}
			c.cleanup(func() { _ = h.Close() })
			var wg sync.WaitGroup
			for i := range 6 {
				s := h.Store()
				wg.Go(func() {
					defer c.rescue("Prepare")
					if err := s.Prepare(c.ctx); err != nil {
						c.errorf("Prepare by one of six at once: %v", err)
						return
					}
					l := core.Lease{Key: core.LeaseKey{Stream: "123456789012:conformance:1700000000", Shard: core.ShardID(fmt.Sprint("shard-", i))}, Checkpoint: core.FromHorizon}
					if _, err := s.Create(c.ctx, l); err != nil {
						c.errorf("Create after Prepare: %v", err)
					}
				})
			}
			wg.Wait()
		}},
	}
}

func createRules() []rule[MakeStore] {
	return []rule[MakeStore]{
		storeRule("create-once", "Of n that create a lease at once exactly one succeeds, the others hear ErrExists, and the row is the winner's.", func(t *table) {
			for range 4 {
				const n = 12
				key := t.fresh()
				var mu sync.Mutex
				var won []core.Lease
				var wg sync.WaitGroup
				for i := range n {
					s := []core.LeaseStore{t.a, t.b}[i%2]
					wg.Go(func() {
						defer t.rescue("Create")
						l := core.Lease{Key: key, Owner: core.WorkerID(fmt.Sprint("worker-", i)), Counter: int64(i), Checkpoint: core.FromHorizon}
						got, err := s.Create(t.ctx, l)
						switch {
						case err == nil:
							mu.Lock()
							won = append(won, got)
							mu.Unlock()
						case !is(err, core.ErrExists):
							t.errorf("Create of a lease that exists: %v, want ErrExists", err)
						}
					})
				}
				wg.Wait()
				if len(won) != 1 {
					t.fatalf("%d of %d creates at once succeeded, want one", len(won), n)
				}
				t.want("the row", t.get(key), won[0])
			}
		}),
		storeRule("create-changes-nothing", "A Create that fails with ErrExists leaves the row as it is, whatever has become of it since.", func(t *table) {
			for _, ended := range []bool{false, true} {
				l := t.full()
				if ended {
					l.Checkpoint, l.StartAt, l.Pending = core.AtShardEnd, instantZero, nil
				}
				was := t.create(l)
				again := core.Lease{Key: l.Key, Owner: "worker-Z", Counter: 99, Checkpoint: core.FromHorizon}
				if _, err := t.b.Create(t.ctx, again); !is(err, core.ErrExists) {
					t.errorf("Create of a lease that exists: %v, want ErrExists", err)
				}
				t.want("the row after it", t.get(l.Key), was)
			}
		}),
		storeRule("create-after-delete", "A lease that was deleted can be created anew, and keeps nothing of the former row.", func(t *table) {
			l := t.create(t.full())
			if err := t.a.Delete(t.ctx, l, 0); err != nil {
				t.fatalf("Delete: %v", err)
			}
			anew := core.Lease{Key: l.Key, Checkpoint: core.FromHorizon}
			got, err := t.b.Create(t.ctx, anew)
			if err != nil {
				t.fatalf("Create: %v", err)
			}
			t.want("row returned", got, anew)
			t.want("row", t.get(l.Key), anew)
		}),
	}
}
