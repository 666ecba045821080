package tablestore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	emulator "github.com/shardwarden/shardwarden/emulator/tablestore"
	leases "github.com/shardwarden/shardwarden/leasestore/memory"
)

// fleet is workers of one application and what they were given.
type fleet struct {
	*rig
	store *leases.Store

	mu     sync.Mutex
	got    []string            // values of the column "data"
	byKey  map[string][]string // the same
	events []worker.Event
	seen   map[core.StreamID]bool
}

func newFleet(r *rig) *fleet {
	return &fleet{rig: r, store: leases.New(), byKey: map[string][]string{}, seen: map[core.StreamID]bool{}}
}

// start begins a worker. It is stopped by the function it returns, which gives what Run returned.
func (f *fleet) start(c core.Catalog) (stop func() error) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	w, err := worker.New(worker.Config{
		Streams: c, Store: f.store.Handle("worker"),
		Process: func(_ context.Context, b *core.Batch) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.seen[b.Stream] = true
			for i := range b.Records {
				data, _ := b.Records[i].Native.(*Change).Column("data")
				v := fmt.Sprint(data.Value)
				f.got, f.byKey[b.Records[i].Key] = append(f.got, v), append(f.byKey[b.Records[i].Key], v)
			}
			return nil
		},
	}, worker.WithHooks(worker.EventFunc(func(e worker.Event) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.events = append(f.events, e)
	})))
	f.ok(err)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	var result error
	var once sync.Once
	stop = func() error {
		once.Do(func() {
			cancel()
			result = <-done
		})
		return result
	}
	f.t.Cleanup(func() { _ = stop() })
	return stop
}

// await waits until n values came, for at most d, and gives all that came.
func (f *fleet) await(n int, d time.Duration) []string {
	f.t.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		f.mu.Lock()
		got := slices.Clone(f.got)
		f.mu.Unlock()
		if len(got) >= n || time.Since(began) > d {
			return got
		}
	}
}

func (f *fleet) told(k worker.Kind) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.events {
		if e.Kind == k {
			n++
		}
	}
	return n
}

func tables(r *rig, start core.Position, names ...string) core.Catalog {
	return Tables(there(), start, names, Transport(r))
}

// A stream that is switched off and on goes on under its new id, from the beginning of that, and nothing is left of the former.
func TestStreamOffAndOn(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		first := string(r.only())
		f := newFleet(r)
		stop := f.start(tables(r, core.FromLatest, table))
		time.Sleep(10 * time.Second)
		want := r.puts(1, 5)
		r.same("before", f.await(5, time.Minute), want)
		r.ok(r.stream(false))
		time.Sleep(5 * time.Minute) // the worker has nothing to do, and says so, but stays
		r.ok(r.stream(true))
		if string(r.only()) == first {
			t.Fatal("the new stream has the shard of the former")
		}
		want = append(want, r.puts(1, 5)...) // before the worker has noticed
		r.same("after", f.await(10, 5*time.Minute), want)
		want = append(want, r.puts(1, 3)...)
		r.same("and on", f.await(13, time.Minute), want)
		time.Sleep(2 * time.Hour)
		if len(f.seen) != 2 {
			t.Errorf("%d streams were read, want 2", len(f.seen))
		}
		for stream := range f.seen {
			rows := 0
			for _, l := range f.store.Rows() {
				if l.Key.Stream == stream {
					rows++
				}
			}
			if former := strings.Contains(string(stream), strings.TrimLeft(first[len(first)-16:], "0")); former != (rows == 0) {
				t.Errorf("stream %s has %d leases left", stream, rows)
			}
		}
		if n := f.told(worker.ShardTrimmed); n != 1 {
			t.Errorf("%d events say that a shard has gone, want one", n)
		}
		r.ok(stop())
	})
}

// A source of New reports the new stream, which ends the worker rather than mix the two.
func TestStreamOffAndOnWithoutCatalog(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		f := newFleet(r)
		stop := f.start(worker.One(r.source(), core.FromHorizon))
		want := r.puts(1, 5)
		r.same("before", f.await(5, time.Minute), want)
		r.ok(r.stream(false))
		r.ok(r.stream(true))
		time.Sleep(5 * time.Minute)
		if err := stop(); !errors.Is(err, core.ErrOtherStream) {
			t.Errorf("the worker ended with %v, want ErrOtherStream", err)
		}
		f = newFleet(r)
		want = r.puts(1, 5)
		stop = f.start(worker.One(r.source(), core.FromHorizon))
		r.same("started again", f.await(5, time.Minute), want)
		r.ok(stop())
	})
}

func TestSeveralTables(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		meta := &sdk.TableMeta{TableName: "other"}
		meta.AddPrimaryKeyColumn("id", sdk.PrimaryKeyType_BINARY)
		option := sdk.NewTableOptionWithMaxVersion(1)
		option.TimeToAlive = -1
		_, err := r.admin.CreateTable(&sdk.CreateTableRequest{TableMeta: meta, TableOption: option, ReservedThroughput: &sdk.ReservedThroughput{},
			StreamSpec: &sdk.StreamSpecification{EnableStream: true, ExpirationTime: 24}})
		r.ok(err)
		f := newFleet(r)
		stop := f.start(tables(r, core.FromHorizon, table, "other"))
		want := r.puts(1, 2)
		change := &sdk.PutRowChange{TableName: "other", PrimaryKey: &sdk.PrimaryKey{}}
		change.PrimaryKey.AddPrimaryKeyColumn("id", []byte{0, 1})
		change.AddColumn("data", "of the other")
		change.SetCondition(sdk.RowExistenceExpectation_IGNORE)
		_, err = r.admin.PutRow(&sdk.PutRowRequest{PutRowChange: change})
		r.ok(err)
		got := f.await(3, time.Minute)
		slices.Sort(got)
		r.same("of both", got, append(want, "of the other"))

		// A table that goes away is no harm to the other.
		_, err = r.admin.DeleteTable(&sdk.DeleteTableRequest{TableName: "other"})
		r.ok(err)
		time.Sleep(5 * time.Minute)
		r.puts(1, 2)
		if n := len(f.await(5, time.Minute)); n != 5 {
			t.Errorf("%d changes, want 5", n)
		}
		r.ok(stop())
	})
}

func TestCatalogRefuses(t *testing.T) {
	bubble(t, emulator.Config{}, func(t *testing.T, r *rig) {
		r.ok(r.create(24))
		for name, c := range map[string]struct {
			tables []string
			kind   error
			text   string
		}{
			"no table":        {nil, core.ErrInvalid, "no table"},
			"one named twice": {[]string{table, table}, core.ErrInvalid, "twice"},
			"one is missing":  {[]string{table, "none"}, core.ErrNotFound, "table none"},
		} {
			if _, err := tables(r, core.FromHorizon, c.tables...).Streams(r.ctx); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A fleet reads a table whose partitions are split and merged, and whose workers come and go: every change arrives, those of a key in order.
func TestFleet(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dice := rand.New(rand.NewPCG(seed, 3))
			bubble(t, emulator.Config{Seed: seed, LateEnd: seed%2 == 0, PageRecords: 20, ShardsByID: true, Faults: []emulator.Fault{
				{Kind: emulator.Fail, Code: "OTSServerBusy", Probability: 0.02},
				{Kind: emulator.Corrupt, Operation: "GetStreamRecord", Probability: 0.02},
				{Kind: emulator.StaleList, Delay: 3 * time.Second, Probability: 0.1},
			}}, func(t *testing.T, r *rig) {
				r.ok(r.create(24))
				f := newFleet(r)
				var stops []func() error
				want := map[string][]string{} // by key
				n := 0
				for i := range int64(60) {
					for range dice.IntN(30) {
						part := dice.Int64N(10)
						key := fmt.Sprintf(`%d,"k"`, part)
						n++
						want[key] = append(want[key], fmt.Sprint(n))
						for r.put(part, "k", int64(n)) != nil { // the emulator is busy at times, and says so before it does anything
							time.Sleep(time.Millisecond)
						}
					}
					time.Sleep(time.Duration(dice.IntN(5000)) * time.Millisecond)
					switch parts := r.parts(); {
					case i%12 == 0:
						stops = append(stops, f.start(tables(r, core.FromHorizon, table)))
					case i%17 == 16:
						r.ok(stops[0]())
						stops = stops[1:]
					case dice.IntN(3) == 0 && len(parts) > 1:
						k := dice.IntN(len(parts) - 1)
						_, err := r.Merge(instance, table, parts[k].Shard, parts[k+1].Shard)
						r.ok(err)
					case dice.IntN(3) == 0:
						_, _, _ = r.Split(instance, table, dice.Int64N(10)) // where one begins already: not
					}
				}
				f.await(n, 10*time.Minute)
				time.Sleep(time.Minute)
				for _, stop := range stops {
					r.ok(stop())
				}
				for key, values := range want {
					var got []string
					last := 0
					for _, v := range f.byKey[key] {
						if k, err := strconv.Atoi(v); err == nil && k > last { // a repeat is not forbidden
							got, last = append(got, v), k
						}
					}
					r.same("changes of "+key, got, values)
				}
			})
		})
	}
}
