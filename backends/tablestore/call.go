package tablestore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	sdk "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/internal/otsclient"
)

// once sends one request.
func once[Out any](ctx context.Context, s *Source, call string, f func(*sdk.TableStoreClient) (Out, error)) (Out, error) {
	return otsclient.Call(ctx, s.client, otsclient.Op{Name: call, Table: s.table}, f)
}

// patiently repeats a request while that may help and the source's patience lasts.
func patiently[Out any](ctx context.Context, t *tries, call string, f func(*sdk.TableStoreClient) (Out, error)) (Out, error) {
	for {
		out, err := once(ctx, t.s, call, f)
		if err == nil {
			*t = *t.s.tries()
		}
		if err == nil || !passes(err) {
			return out, err
		}
		if err := t.again(ctx, call, err); err != nil {
			return out, err
		}
	}
}

// tries counts failures in a row.
type tries struct {
	s     *Source
	n     int
	since time.Time
}

func (s *Source) tries() *tries { return &tries{s: s} }

// again waits after a failure that may pass. It returns the error where patience is at its end, or the context is.
func (t *tries) again(ctx context.Context, what string, err error) error {
	if t.since.IsZero() {
		t.since = time.Now()
	}
	wait := backoff(t.n)
	t.n++
	if time.Since(t.since)+wait > t.s.patience {
		return err
	}
	t.s.log.DebugContext(ctx, "call failed, trying again", "table", t.s.table, "call", what, "wait", wait, "error", err)
	return pause(ctx, wait)
}

// backoff is the pause after a failure, the try-th in a row, from 0: at random up to a bound that doubles, so that those who were throttled
// together do not come back together.
func backoff(try int) time.Duration {
	bound := min(100*time.Millisecond<<min(try, 10), 5*time.Second)
	return bound/4 + rand.N(bound)
}

// pause waits, or returns the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// passes reports whether trying again later may help.
func passes(err error) bool {
	return errors.Is(err, core.ErrThrottled) || errors.Is(err, core.ErrUnavailable)
}

// wrap adds what was being done to which shard.
func (s *Source) wrap(op string, shard core.ShardID, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*core.Error](err); ok {
		return err
	}
	return &core.Error{Op: op, Stream: s.stream(), Shard: shard, Err: err}
}
