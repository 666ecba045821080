package tablestore

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/tablestore"
)

// Many shards are read with few connections, and those whose reads hang do not hold up the others.
func TestReadsAtOnce(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		var now, most atomic.Int64
		hang := make(chan struct{})
		var hanging sync.Map
		s := New(there(), table, Patience(time.Hour), Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			if _, ok := hanging.Load("all"); ok && req.URL.Path == "/GetStreamRecord" {
				select {
				case <-hang:
				case <-req.Context().Done():
					return nil, req.Context().Err()
				}
			}
			time.Sleep(10 * time.Millisecond)
			return r.RoundTrip(req)
		})))
		_, err := s.Describe(r.ctx)
		r.ok(err)
		var wg sync.WaitGroup
		read := func(rd core.ShardReader) {
			if _, err := rd.Next(r.ctx); err != nil {
				t.Error(err)
			}
		}
		var all []core.ShardReader
		for range 1000 {
			all = append(all, r.open(s, r.only(), core.From(time.Now())))
		}
		// Iterators first, one after the other, so that reads alone are counted.
		for _, rd := range all {
			rd.(*reader).at, err = s.Resolve(r.ctx, core.Shard{ID: r.only()}, core.FromHorizon)
			r.ok(err)
		}
		most.Store(0)
		for _, rd := range all {
			wg.Go(func() { read(rd) })
		}
		wg.Wait()
		if n := most.Load(); n > readsAtOnce || n < readsAtOnce/2 {
			t.Errorf("%d reads at once, want %d", n, readsAtOnce)
		}
		hanging.Store("all", true)
		for _, rd := range all[:readsAtOnce] {
			wg.Go(func() { read(rd) })
		}
		time.Sleep(time.Second)
		hanging.Delete("all")
		began := time.Now()
		read(all[readsAtOnce])
		if d := time.Since(began); d > 2*slotPatience {
			t.Errorf("a read waited %v for others that hang", d)
		}
		close(hang)
		wg.Wait()
	})
}
