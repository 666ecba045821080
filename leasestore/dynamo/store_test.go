package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

func TestCreateGetDelete(t *testing.T) {
	srv := serve(t, emulator.Config{EventualLag: time.Hour}) // a read that were not consistent would see nothing
	s := srv.ready(t)
	ctx := t.Context()
	key := core.LeaseKey{Stream: stream, Shard: "1"}

	_, err := s.Get(ctx, key)
	expect(t, "get before", err, core.ErrNotFound, "lease 1")
	first, err := s.Create(ctx, lease("1"))
	must(t, err)
	_, err = s.Create(ctx, lease("1"))
	expect(t, "create again", err, core.ErrExists, "lease 1")
	got, err := s.Get(ctx, key)
	must(t, err)
	if got.Counter != 0 || got.Owner != core.Nobody || !got.Checkpoint.Equal(core.FromHorizon) || got.Key != key {
		t.Errorf("Get: %+v", got)
	}
	_, err = s.Create(ctx, core.Lease{Key: core.LeaseKey{Stream: stream}, Checkpoint: core.FromHorizon})
	expect(t, "create without a shard", err, core.ErrInvalid, "shard id")

	expect(t, "delete of one that has not ended", s.Delete(ctx, first, core.Remove), core.ErrConflict)
	end := core.Store(core.AtShardEnd, nil)
	ended, err := s.Update(ctx, first, end.Same, end.Set)
	must(t, err)
	expect(t, "delete with the counter of before", s.Delete(ctx, first, core.Ended|core.SameCounter), core.ErrConflict)
	must(t, s.Delete(ctx, ended, core.Remove))
	must(t, s.Delete(ctx, ended, core.Remove))
	must(t, s.Delete(ctx, ended, 0))
	_, err = s.Get(ctx, key)
	expect(t, "get after", err, core.ErrNotFound)
	expect(t, "delete under a mask that can't be carried", s.Delete(ctx, ended, core.Ended|core.NotEnded), core.ErrInvalid, "ended")
}

// No write brings a deleted lease back, whatever its condition; the worker hears that it is gone.
func TestUpdateOfADeletedLease(t *testing.T) {
	for name, wrap := range map[string]func(string, string) string{
		"as the service answers":              func(_, body string) string { return body },
		"as emulators without the row answer": withoutRow,
	} {
		t.Run(name, func(t *testing.T) {
			srv := serve(t, emulator.Config{}, edit(wrap))
			s := srv.ready(t)
			l, err := s.Create(t.Context(), lease("1"))
			must(t, err)
			must(t, s.Delete(t.Context(), l, 0))
			for _, w := range []core.Write{core.Renew(nil), core.Take(&l, "A", "A:1"), core.Ask("B"), core.AddChildren([]core.ShardID{"2"}), core.FillRange(&core.HashRange{}), {}} {
				if w.Set.Next != nil && w.Set.Owner == nil {
					l.Owner = "A"
				}
				_, err := s.Update(t.Context(), l, w.Same, w.Set)
				expect(t, fmt.Sprintf("%+v", w), err, core.ErrNotFound)
			}
			if n := srv.size(); n != 0 {
				t.Errorf("the table has %d rows, want none", n)
			}
		})
	}
}

// withoutRow asks for no row with a refusal, as if the service did not give any.
func withoutRow(_, body string) string {
	return strings.ReplaceAll(body, `"ReturnValuesOnConditionCheckFailure":"ALL_OLD"`, `"ReturnValuesOnConditionCheckFailure":"NONE"`)
}

// A refused write says what the row is like: without a further call as the service answers, with one for emulators that keep it back.
func TestConflictCarriesTheRow(t *testing.T) {
	for _, c := range []struct {
		name  string
		wrap  func(string, string) string
		reads int64
	}{
		{"as the service answers", func(_, body string) string { return body }, 0},
		{"as emulators without the row answer", withoutRow, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := serve(t, emulator.Config{}, edit(c.wrap))
			s := srv.ready(t)
			before := srv.Calls()["GetItem"]
			old, err := s.Create(t.Context(), lease("1"))
			must(t, err)
			take := core.Take(&old, "B", "B:1")
			now, err := s.Update(t.Context(), old, take.Same, take.Set)
			must(t, err)
			for what, err := range map[string]error{
				"update": func() error { _, err := s.Update(t.Context(), old, take.Same, take.Set); return err }(),
				"delete": s.Delete(t.Context(), old, core.SameCounter),
			} {
				conflict, ok := errors.AsType[*core.ConflictError](err)
				if !ok || conflict.Row == nil || conflict.Row.Owner != "B" || conflict.Row.Counter != now.Counter || conflict.Row.Run != "B:1" || conflict.Key != old.Key {
					t.Errorf("%s: %v (%+v), want a conflict with B's row", what, err, conflict)
				}
			}
			if n := srv.Calls()["GetItem"] - before; n != c.reads {
				t.Errorf("%d reads, want %d", n, c.reads)
			}
		})
	}
}

// A write whose answer is lost was applied or not; it is sent once all the same, and comes back as unavailable.
func TestLostAnswers(t *testing.T) {
	for _, c := range []struct {
		kind    emulator.FaultKind
		applied bool
	}{{emulator.FaultDropBefore, false}, {emulator.FaultDropAfter, true}, {emulator.FaultServerError, false}} {
		t.Run(string(c.kind), func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			s := srv.ready(t)
			l, err := s.Create(t.Context(), lease("1"))
			must(t, err)
			before := srv.Calls()
			for _, op := range []string{"PutItem", "UpdateItem", "DeleteItem"} {
				srv.SetFault(emulator.Fault{Kind: c.kind, Op: op})
			}
			w := core.Renew(nil)
			_, err = s.Create(t.Context(), lease("2"))
			expect(t, "create", err, core.ErrUnavailable, "PutItem")
			_, err = s.Update(t.Context(), l, w.Same, w.Set)
			expect(t, "update", err, core.ErrUnavailable, "UpdateItem")
			second := lease("2")
			expect(t, "delete", s.Delete(t.Context(), second, 0), core.ErrUnavailable, "DeleteItem")
			for _, op := range []string{"PutItem", "UpdateItem", "DeleteItem"} {
				if n := srv.Calls()[op] - before[op]; n != 1 {
					t.Errorf("%s was sent %d times, want once", op, n)
				}
			}
			got, err := s.Get(t.Context(), l.Key)
			must(t, err)
			if (got.Counter == 1) != c.applied {
				t.Errorf("counter is %d: applied %v", got.Counter, c.applied)
			}
		})
	}
}

// Conditional writes are sent once whatever the service answers and however the client was configured; reads are repeated for a while.
func TestWritesAreSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, kind := range []emulator.FaultKind{emulator.FaultThrottle, emulator.FaultThrottleRequests, emulator.FaultServerError} {
			srv := serve(t, emulator.Config{})
			srv.cfg.RetryMaxAttempts = 9
			s := srv.ready(t)
			l, err := s.Create(t.Context(), lease("1"))
			must(t, err)
			srv.SetFault(emulator.Fault{Kind: kind, Op: "UpdateItem"})
			before := srv.Calls()["UpdateItem"]
			w := core.Renew(nil)
			if _, err := s.Update(t.Context(), l, w.Same, w.Set); err == nil {
				t.Fatal("no error")
			}
			if n := srv.Calls()["UpdateItem"] - before; n != 1 {
				t.Errorf("%s: sent %d times, want once", kind, n)
			}
			srv.SetFault(emulator.Fault{Kind: kind, Op: "GetItem", Times: 2})
			srv.SetFault(emulator.Fault{Kind: kind, Op: "Scan", Times: 2})
			if _, err := s.Get(t.Context(), l.Key); err != nil {
				t.Errorf("%s: a read gave up after two: %v", kind, err)
			}
			if _, err := s.Look(t.Context(), stream); err != nil {
				t.Errorf("%s: a look gave up after two: %v", kind, err)
			}
			// Patience is limited: the engine decides what comes then.
			srv.SetFault(emulator.Fault{Kind: kind, Op: "GetItem"})
			start := time.Now()
			if _, err := s.Get(t.Context(), l.Key); err == nil {
				t.Error("no error")
			}
			if d := time.Since(start); d > 10*time.Second {
				t.Errorf("%s: a read took %v to give up", kind, d)
			}
		}
	})
}

// A call that gets no answer ends by itself; a write in the time of one attempt.
func TestTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serve(t, emulator.Config{})
		s := srv.ready(t, dynamo.RequestTimeout(time.Second))
		l, err := s.Create(t.Context(), lease("1"))
		must(t, err)
		srv.SetFault(emulator.Fault{Kind: emulator.FaultDelay, Delay: time.Hour})
		for _, c := range []struct {
			name string
			call func() error
			most time.Duration
		}{
			{"update", func() error { w := core.Renew(nil); _, err := s.Update(t.Context(), l, w.Same, w.Set); return err }, time.Second},
			{"create", func() error { _, err := s.Create(t.Context(), lease("2")); return err }, time.Second},
			{"get", func() error { _, err := s.Get(t.Context(), l.Key); return err }, 4 * time.Second},
			{"look", func() error { _, err := s.Look(t.Context(), stream); return err }, 4 * time.Second},
		} {
			start := time.Now()
			expect(t, c.name, c.call(), core.ErrUnavailable, "no answer in time")
			if d := time.Since(start); d > c.most {
				t.Errorf("%s ended after %v, want %v at most", c.name, d, c.most)
			}
		}
	})
}

func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serve(t, emulator.Config{})
		s := srv.ready(t)
		l, err := s.Create(t.Context(), lease("1"))
		must(t, err)
		w := core.Renew(nil)
		calls := map[string]func(context.Context) error{
			"get":      func(ctx context.Context) error { _, err := s.Get(ctx, l.Key); return err },
			"create":   func(ctx context.Context) error { _, err := s.Create(ctx, lease("2")); return err },
			"update":   func(ctx context.Context) error { _, err := s.Update(ctx, l, w.Same, w.Set); return err },
			"delete":   func(ctx context.Context) error { return s.Delete(ctx, l, 0) },
			"look":     func(ctx context.Context) error { _, err := s.Look(ctx); return err },
			"list":     func(ctx context.Context) error { _, err := core.Collect(s.List(ctx)); return err },
			"announce": func(ctx context.Context) error { return s.Announce(ctx, core.WorkerInfo{ID: "w"}) },
			"withdraw": func(ctx context.Context) error { return s.Withdraw(ctx, "w") },
			"prepare":  func(ctx context.Context) error { return s.Prepare(ctx) },
		}
		for name, call := range calls {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			expect(t, name+" cancelled before", call(ctx), context.Canceled)
		}
		srv.SetFault(emulator.Fault{Kind: emulator.FaultDelay, Delay: time.Hour})
		for name, call := range calls {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			start := time.Now()
			expect(t, name+" cancelled during", call(ctx), context.DeadlineExceeded)
			if d := time.Since(start); d > 300*time.Millisecond {
				t.Errorf("%s returned %v after its context ended", name, d-300*time.Millisecond)
			}
			cancel()
		}
	})
}

// Of many who take at once one gets it, and no increment is lost, over separate handles.
func TestNoLostUpdate(t *testing.T) {
	srv := serve(t, emulator.Config{})
	first := srv.ready(t)
	l, err := first.Create(t.Context(), lease("1"))
	must(t, err)
	const workers, rounds = 16, 12
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := map[int64]int{}
	for i := range workers {
		wg.Go(func() {
			s, seen := srv.store(), l
			for done := 0; done < rounds; {
				id := core.WorkerID(fmt.Sprint("w", i))
				take := core.Take(&seen, id, core.NewRun(id, fmt.Sprint(done)))
				got, err := s.Update(t.Context(), seen, take.Same, take.Set)
				if conflict, ok := errors.AsType[*core.ConflictError](err); ok {
					seen = *conflict.Row
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if got.Owner != id {
					t.Errorf("%s took it and the row says %s", id, got.Owner)
				}
				mu.Lock()
				won[got.Counter]++
				mu.Unlock()
				seen, done = got, done+1
			}
		})
	}
	wg.Wait()
	got, err := first.Get(t.Context(), l.Key)
	must(t, err)
	if got.Counter != workers*rounds || len(won) != workers*rounds {
		t.Errorf("counter %d, %d different ones won, want %d each", got.Counter, len(won), workers*rounds)
	}
}

// Exactly one of many creations goes through.
func TestCreateRace(t *testing.T) {
	srv := serve(t, emulator.Config{})
	srv.ready(t)
	var wg sync.WaitGroup
	results := make(chan error, 16)
	for range cap(results) {
		wg.Go(func() { _, err := srv.store().Create(t.Context(), lease("1")); results <- err })
	}
	wg.Wait()
	close(results)
	made := 0
	for err := range results {
		if err == nil {
			made++
		} else if !errors.Is(err, core.ErrExists) {
			t.Error(err)
		}
	}
	if made != 1 {
		t.Errorf("%d creations went through, want 1", made)
	}
}

// The table of one stream refuses another, whichever call names it.
func TestOneStreamATable(t *testing.T) {
	const other = core.StreamID("123456789012:payments:1796039487")
	srv := serve(t, emulator.Config{})
	s := srv.ready(t)
	l, err := s.Create(t.Context(), lease("1"))
	must(t, err)
	foreign := l
	foreign.Key.Stream = other
	w := core.Renew(nil)
	for name, err := range map[string]error{
		"get":    func() error { _, err := s.Get(t.Context(), foreign.Key); return err }(),
		"create": func() error { _, err := s.Create(t.Context(), foreign); return err }(),
		"update": func() error { _, err := s.Update(t.Context(), foreign, w.Same, w.Set); return err }(),
		"delete": s.Delete(t.Context(), foreign, 0),
		"list":   func() error { _, err := core.Collect(s.List(t.Context(), other)); return err }(),
		"look":   func() error { _, err := s.Look(t.Context(), stream, other); return err }(),
	} {
		expect(t, name, err, core.ErrInvalid, string(stream), string(other), app)
	}
	_, err = core.Collect(srv.store().List(t.Context(), stream, other))
	expect(t, "two at once, on a store that knows none", err, core.ErrInvalid, string(stream), string(other))
}

// The leases of another stream, or of a former one of the same name, are refused by every call that meets them, and the text says which
// and what to do.
func TestOtherStream(t *testing.T) {
	for _, c := range []struct {
		name string
		id   core.StreamID
		why  string
	}{
		{"made again under the same name", "123456789012:orders:1796099999", "deleted and made again"},
		{"another name", "123456789012:payments:1796039487", "belongs to another stream"},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			former := srv.ready(t)
			old, err := former.Create(t.Context(), lease("1"))
			must(t, err)
			s := srv.store()
			_, err = core.Collect(s.List(t.Context(), c.id))
			says := []string{app, "lease 1", string(stream), string(c.id), c.why, "delete the table, or choose another application name"}
			expect(t, "list", err, core.ErrOtherStream, says...)
			_, err = s.Look(t.Context(), c.id)
			expect(t, "look", err, core.ErrOtherStream, says...)
			_, err = s.Get(t.Context(), core.LeaseKey{Stream: c.id, Shard: "1"})
			expect(t, "get", err, core.ErrOtherStream, says...)
			seen := old
			seen.Key.Stream = c.id
			take := core.Take(&seen, "A", "A:1")
			_, err = s.Update(t.Context(), seen, take.Same, take.Set)
			expect(t, "take", err, core.ErrOtherStream, says...)
			if got, err := former.Get(t.Context(), old.Key); err != nil || got.Owner != core.Nobody || got.Counter != 0 {
				t.Errorf("the refused take left %+v (%v)", got, err)
			}
		})
	}
}

// A row of Java's names no stream: it gets ours with the take, and with an accepting write.
func TestStampAtTake(t *testing.T) {
	for name, write := range map[string]func(l *core.Lease) core.Write{
		"take":   func(l *core.Lease) core.Write { return core.Take(l, "A", "A:1") },
		"accept": func(*core.Lease) core.Write { return core.Accept("java:1", true) },
	} {
		t.Run(name, func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			s := srv.ready(t)
			srv.put(t, `{"leaseKey":{"S":"1"},"leaseOwner":{"S":"java"},"leaseCounter":{"N":"9"},"checkpoint":{"S":"495"},"checkpointSubSequenceNumber":{"N":"0"},"ownerSwitchesSinceCheckpoint":{"N":"0"}}`)
			l, err := s.Get(t.Context(), core.LeaseKey{Stream: stream, Shard: "1"})
			must(t, err)
			w := write(&l)
			_, err = s.Update(t.Context(), l, w.Same, w.Set)
			must(t, err)
			if row := srv.row(t, "1"); !strings.Contains(row, "sw_stream=S "+string(stream)) || strings.Contains(row, "entityType") {
				t.Errorf("row after it: %s", row)
			}
			_, err = core.Collect(srv.store().List(t.Context(), "123456789012:orders:1799999999"))
			expect(t, "the next incarnation", err, core.ErrOtherStream)
		})
	}
}
