package worker_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
)

// limited is a source whose control calls a service counts and limits, over all who use it.
type limited struct {
	core.StreamSource
	*limit
}

type limit struct {
	a, burst float64 // calls a second, and at once

	mu                     sync.Mutex
	left                   float64
	at                     time.Time
	calls, lists, refusals int
}

func (l *limit) take(list bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.left, l.at = min(l.burst, l.left+now.Sub(l.at).Seconds()*l.a), now
	l.calls++
	if l.left < 1 {
		l.refusals++
		return core.ErrThrottled
	}
	l.left--
	if list {
		l.lists++
	}
	return nil
}

func (l *limit) counts() (calls, lists, refusals int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls, l.lists, l.refusals
}

func (s limited) Describe(ctx context.Context) (core.StreamInfo, error) {
	if err := s.take(false); err != nil {
		return core.StreamInfo{}, err
	}
	return s.StreamSource.Describe(ctx)
}

func (s limited) Shards(ctx context.Context, open core.Position) ([]core.Shard, error) {
	if err := s.take(true); err != nil {
		return nil, err
	}
	return s.StreamSource.Shards(ctx, open)
}

func behind(l *limit) func(*worker.Config) {
	return func(c *worker.Config) {
		all, _ := c.Streams.Streams(context.Background())
		c.Streams = worker.One(limited{all[0].Source, l}, all[0].Start)
	}
}

// Fifty workers start at the same moment, under a limit of which a hundred would have twice as much from an account: all of them work within seconds,
// and after that one call a minute lists for all (field case F61).
func TestManyWorkersStartAtOnce(t *testing.T) {
	l := &limit{a: 5, burst: 5}
	bubble(t, 50, behind(l), func(t *testing.T, f *fleet) {
		for i := range 50 {
			f.start(fmt.Sprintf("w%02d", i))
		}
		took := f.await("each has one", 2*time.Minute, func() bool {
			o := f.owners()
			return len(o) == 50 && slices.Max(values(o)) == 1
		})
		_, _, refused := l.counts()
		t.Logf("after %v, %d calls refused", took, refused)
		if took > 40*time.Second {
			t.Errorf("even after %v", took)
		}
		time.Sleep(time.Minute)
		calls, lists, refused := l.counts()
		time.Sleep(5 * time.Minute)
		calls2, lists2, refused2 := l.counts()
		if n := lists2 - lists; n < 4 || n > 6 {
			t.Errorf("%d listings in 5 minutes", n)
		}
		if calls2-calls > 12 || refused2 != refused {
			t.Errorf("%d control calls in 5 quiet minutes, %d refused", calls2-calls, refused2-refused)
		}
	})
}

func values[K comparable](m map[K]int) (out []int) {
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// Every shard of a wide stream ends within a minute: listings stay those of the clock where a reader names the children, and else those that end
// together share one (field case F62).
func TestManyShardsEnd(t *testing.T) {
	t.Run("children named", func(t *testing.T) { manyShardsEnd(t, core.SourceLacks{}, 5) })
	// Eight workers, a minute, and 2.5 s from one listing to the next.
	t.Run("children looked for", func(t *testing.T) { manyShardsEnd(t, core.SourceLacks{ChildrenAtEnd: true}, 200) })
}

func manyShardsEnd(t *testing.T, lacks core.SourceLacks, most int) {
	l := &limit{a: 100, burst: 100}
	const shards = 240
	bubble(t, shards, behind(l), func(t *testing.T, f *fleet) {
		f.stream = source.New("orders", shards, source.Idle(2*time.Second), source.Lacking(lacks))
		for i := range 8 {
			f.start(fmt.Sprintf("w%02d", i))
		}
		f.await("even", time.Minute, func() bool { o := f.owners(); return len(o) == 8 && slices.Max(values(o)) == shards/8 })
		time.Sleep(time.Minute)
		_, before, _ := l.counts()
		for i, s := range f.open() {
			if i%4 == 3 {
				time.Sleep(time.Second)
			}
			f.split(s)
		}
		took := f.await("children held", 3*time.Minute, func() bool {
			n := 0
			for id, k := range f.owners() {
				if id != core.Nobody {
					n += k
				}
			}
			return n == 2*shards
		})
		_, after, refused := l.counts()
		t.Logf("%d listings; all held %v after the last split", after-before, took)
		if n := after - before; n > most || refused > 0 {
			t.Errorf("%d listings while %d shards ended, %d calls refused; at most %d", n, shards, refused, most)
		}
		f.put(2*shards, 4*shards)
		f.await("delivered", time.Minute, f.allDelivered)
	})
}

// Shards that have ended cost nothing: each is read once, and after that never again (field case F26).
func TestManyOldShards(t *testing.T) {
	bubble(t, 4, nil, func(t *testing.T, f *fleet) {
		f.put(40, 20)
		for range 5 { // 4 to 8 and back to 4: 20 and more end
			for _, s := range f.open() {
				f.split(s)
			}
			for open := f.open(); len(open) >= 2; open = open[2:] {
				f.merge(open[0], open[1])
			}
			f.put(40, 20)
		}
		all := len(f.shards())
		a := f.start("a")
		f.await("all read", 5*time.Minute, f.allDelivered)
		time.Sleep(5 * time.Minute)
		if n := a.src.Calls()[source.Open]; n != all {
			t.Errorf("%d shards, 4 of them open, were opened %d times", all, n)
		}
		a.stop()
		<-a.done
		b := f.start("b")
		time.Sleep(5 * time.Minute)
		reading := 0
		for _, s := range b.Status().Shards {
			if s.State == worker.Reading {
				reading++
			}
		}
		if n := b.src.Calls()[source.Open]; n != 4 || reading != 4 {
			t.Errorf("the next worker opened %d shards and reads %d; 4 are open", n, reading)
		}
		f.check()
	})
}

func (f *fleet) shards() []core.Shard {
	f.t.Helper()
	all, err := f.stream.Shards(f.t.Context(), core.Position{})
	if err != nil {
		f.t.Fatal(err)
	}
	return all
}

// One pair of shards is merged: the others are read on as if nothing had happened (field case F28).
func TestOthersAreReadOnWhileAShardEnds(t *testing.T) {
	bubble(t, 4, nil, func(t *testing.T, f *fleet) {
		f.start("a")
		f.await("held", time.Minute, func() bool { return f.owners()["a"] == 4 })
		open := f.open()
		others := open[2:]
		const every = 200 * time.Millisecond
		n := 0
		trickle := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(every) {
				n++
				for _, s := range others {
					if err := f.stream.PutTo(s, core.Record{Key: string(s), Data: fmt.Append(nil, n)}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		trickle(10 * time.Second)
		f.merge(open[0], open[1])
		trickle(30 * time.Second)
		f.await("merged shard held", time.Minute, func() bool { return f.owners()["a"] == 3 })
		f.await("delivered", time.Minute, func() bool { return f.distinct() == n*len(others) })
		last := map[core.ShardID]time.Time{}
		for _, d := range f.ledger() {
			if gap := d.at.Sub(last[d.shard]); !last[d.shard].IsZero() && gap > 2*every {
				t.Errorf("%s: a gap of %v before record %s, they come each %v", d.shard, gap, d.val, every)
			}
			last[d.shard] = d.at
		}
		if f.duplicates() != 0 || len(f.table.Rows()) < 5 {
			t.Errorf("%d duplicates, %d leases", f.duplicates(), len(f.table.Rows()))
		}
	})
}
