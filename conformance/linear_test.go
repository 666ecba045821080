package conformance_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
	"github.com/shardwarden/shardwarden/leasestore/memory"
)

// call is what a client of one lease asks, answer what it is told: a read of the counter, or a compare-and-swap from the counter it saw.
type (
	call   struct{ swap, seen int64 }
	answer struct {
		counter int64
		done    bool
	}
)

// counter is the lease as one register: what every interleaving must be explicable by.
var counter = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, in, out any) (bool, any) {
		now, c, a := state.(int64), in.(call), out.(answer)
		switch {
		case c.swap == 0:
			return a.counter == now, now
		case a.done:
			return c.seen == now && a.counter == now+1, now + 1
		default: // refused: the row was another
			return c.seen != now, now
		}
	},
}

// TestLinearizable: whatever many writers of one row are told can be explained by the calls happening one after another, each at some instant between
// its question and its answer.
func TestLinearizable(t *testing.T) {
	table := memory.New()
	service := dynamodb.New(dynamodb.Config{})
	server := httptest.NewServer(service)
	defer server.Close()
	cfg := aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("x", "x", "")}
	for name, open := range map[string]func() core.LeaseStore{
		"memory":   func() core.LeaseStore { return table.Handle("client") },
		"dynamodb": func() core.LeaseStore { return dynamo.New(cfg, "app", dynamo.Endpoint(server.URL)) },
	} {
		t.Run(name, func(t *testing.T) {
			history := contend(t, open)
			if !porcupine.CheckOperations(counter, history) {
				t.Errorf("a history of %d calls has no order that explains it", len(history))
			}
			// The check can fail: a read of a value that never was.
			history[len(history)/2] = porcupine.Operation{ClientId: 9, Input: call{}, Output: answer{counter: -1, done: true}, Call: 1, Return: 2}
			if porcupine.CheckOperations(counter, history) {
				t.Error("a history with a read of nothing passes")
			}
		})
	}
}

// contend lets six clients read and swap one row, and returns what each asked and was told.
func contend(t *testing.T, open func() core.LeaseStore) []porcupine.Operation {
	t.Helper()
	key := core.LeaseKey{Stream: "s", Shard: "1"}
	first := open()
	if err := first.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	row, err := first.Create(t.Context(), core.Lease{Key: key, Checkpoint: core.FromHorizon})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	var wg sync.WaitGroup
	for client := range 6 {
		wg.Go(func() {
			store, seen := open(), row
			for i := range 40 {
				c, a := call{seen: seen.Counter}, answer{}
				from := time.Since(start).Nanoseconds()
				got, err := ask(t.Context(), store, &seen, i%3 != 0, &c)
				a.counter, a.done = got.Counter, err == nil
				to := time.Since(start).Nanoseconds()
				if err != nil && !errors.Is(err, core.ErrConflict) {
					t.Error(err)
					return
				}
				if err == nil {
					seen = got
				}
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: client, Input: c, Call: from, Output: a, Return: to})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return history
}

func ask(ctx context.Context, s core.LeaseStore, seen *core.Lease, swap bool, c *call) (core.Lease, error) {
	if !swap {
		return s.Get(ctx, seen.Key)
	}
	c.swap = 1
	w := core.Renew(nil)
	return s.Update(ctx, *seen, w.Same, w.Set)
}
