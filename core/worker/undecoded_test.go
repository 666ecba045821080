package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	source "github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
)

// undecoding is a source that cannot make sense of the records of one key.
type undecoding struct{ *source.Stream }

const damagedKey = "damaged"

var errDamaged = errors.New("no sense in it")

func (u undecoding) Open(ctx context.Context, s core.Shard, at core.Position) (core.ShardReader, error) {
	r, err := u.Stream.Open(ctx, s, at)
	return undecodingReader{r}, err
}

type undecodingReader struct{ core.ShardReader }

func (u undecodingReader) Next(ctx context.Context) (*core.Page, error) {
	p, err := u.ShardReader.Next(ctx)
	if err != nil {
		return nil, err
	}
	for i := range p.Records {
		if p.Records[i].Key == damagedKey {
			if p.Undecoded == nil {
				p.Undecoded = map[int]error{}
			}
			p.Undecoded[i] = errDamaged
		}
	}
	return p, nil
}

// forms are the ways in which user code gets its records.
var forms = map[string]func(*worker.Config){
	"process": func(*worker.Config) {},
	"keys side by side": func(c *worker.Config) {
		c.KeyConcurrency = 4
	},
	"bisecting": func(c *worker.Config) { c.OnError.Bisect = true },
	"pulled": func(c *worker.Config) {
		record := c.Process
		c.Process = nil
		c.Shard = func(ctx context.Context, s core.PullSession) error {
			for b, err := range s.Batches(ctx) {
				if err != nil {
					return fmt.Errorf("told of it: %w", errors.ErrUnsupported) // what the function says of it counts for nothing
				}
				if err := record(ctx, b); err != nil {
					return err
				}
			}
			return nil
		}
	},
}

func undecoded(t *testing.T, policy worker.ErrorPolicy, test func(*testing.T, *fleet)) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(c *worker.Config) {
				list, err := c.Streams.Streams(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				c.Streams, c.OnError = worker.One(undecoding{list[0].Source.(*source.Stream)}, core.FromHorizon), policy
				form(c)
			}, test)
		})
	}
}

// damage puts records of the key that cannot be decoded.
func (f *fleet) damage(n int) {
	for range n {
		f.stream.Put(damagedKey, []byte("as it came"))
	}
}

func (f *fleet) keys() (keys []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.delivered {
		keys = append(keys, d.key)
	}
	return keys
}

// Only what could not be decoded is put aside, record by record and as it came; everything around it is delivered, once and in order.
func TestUndecodedRecordsAreDeadLettersAlone(t *testing.T) {
	var mu sync.Mutex
	var dead []core.Record
	undecoded(t, worker.ErrorPolicy{GiveUpAfter: 3, DeadLetter: func(_ context.Context, b *core.Batch, cause error) error {
		mu.Lock()
		defer mu.Unlock()
		if !errors.Is(cause, errDamaged) || len(b.Records) != 1 {
			return fmt.Errorf("%d records, because of %w", len(b.Records), cause)
		}
		dead = append(dead, b.Records...)
		return nil
	}}, func(t *testing.T, f *fleet) {
		dead = nil
		f.damage(1)
		f.put(20, 5)
		f.damage(2)
		f.put(20, 5)
		f.damage(1)
		a := f.start("a")
		last := func() bool { mu.Lock(); defer mu.Unlock(); return len(dead) == 4 }
		f.await("delivered", time.Minute, func() bool { return f.allDelivered() && last() })
		f.check()
		if f.duplicates() > 0 || slices.Contains(f.keys(), damagedKey) {
			t.Errorf("delivered %v", f.keys())
		}
		for _, r := range dead {
			if r.Key != damagedKey || string(r.Data) != "as it came" {
				t.Errorf("dead letter %+v", r)
			}
		}
		if n := f.count(worker.HandlerError, "a"); n != 4*3 {
			t.Errorf("%d failures shown, want 3 for each of the 4", n)
		}
		a.stop()
		<-a.done
		f.start("b")
		f.put(5, 5)
		f.await("delivered", time.Minute, f.allDelivered)
		if f.duplicates() > 0 || len(dead) != 4 {
			t.Errorf("the next owner begins too early: %d duplicates, %d dead letters", f.duplicates(), len(dead))
		}
	})
}

func TestUndecodedRecordHaltsItsShard(t *testing.T) {
	undecoded(t, worker.ErrorPolicy{GiveUpAfter: 2, Halt: true}, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.put(7, 1)
		f.damage(1)
		f.put(7, 1)
		f.await("halted", time.Minute, func() bool {
			l := f.table.Rows()
			return len(l) == 1 && f.state(a, l[0].Key.Shard).State == worker.Halted
		})
		time.Sleep(time.Minute)
		if n := f.count(worker.ShardHalted, "a"); n != 1 {
			t.Errorf("%d events of the halt, want one", n)
		}
		if n := f.distinct(); n > 14 || slices.Contains(f.keys(), damagedKey) {
			t.Errorf("delivered %v", f.keys())
		}
		f.n = map[string]int{}
	})
}

// By default it is tried for ever, and seen; nothing is skipped, and what stands before it stays done.
func TestUndecodedRecordIsTriedForEver(t *testing.T) {
	undecoded(t, worker.ErrorPolicy{}, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.put(7, 1)
		f.await("delivered", time.Minute, f.allDelivered)
		f.damage(1)
		f.put(7, 1)
		time.Sleep(5 * time.Minute)
		tried := func(m *member, most int) {
			s := f.state(m, f.table.Rows()[0].Key.Shard)
			if s.State != worker.Retrying || !errors.Is(s.Err, errDamaged) || s.Failures < 5 || s.Failures > most {
				t.Errorf("it shows %v, %v, %d failures", s.State, s.Err, s.Failures)
			}
		}
		tried(a, 60)
		a.stop()
		<-a.done
		b := f.start("b")
		time.Sleep(5 * time.Minute)
		tried(b, 60)
		if slices.Contains(f.keys(), damagedKey) {
			t.Errorf("delivered %v", f.keys())
		}
		f.n = map[string]int{}
	})
}

// A handler may look at the batch: it has no such record in it, whichever way it is cut.
func TestBatchKnowsWhatIsUndecoded(t *testing.T) {
	var seen atomic.Int64
	undecoded(t, worker.ErrorPolicy{GiveUpAfter: 1, DeadLetter: func(_ context.Context, b *core.Batch, _ error) error {
		if i, err := b.Undecoded(); i != 0 || !errors.Is(err, errDamaged) {
			return fmt.Errorf("record %d: %w", i, err)
		}
		seen.Add(1)
		return nil
	}}, func(t *testing.T, f *fleet) {
		seen.Store(0)
		f.put(3, 3)
		f.damage(1)
		f.start("a")
		f.await("put aside", time.Minute, func() bool { return seen.Load() == 1 })
	})
}
