package tablestore

import (
	"context"
	"time"
)

// slots bound the reads that are under way at once over all shards of a worker, since each takes a connection with its buffers: a thousand idle
// shards are read with a few dozen. A read that has waited for long goes without one, so that those which hang do not hold up the rest.
type slots chan struct{}

const (
	readsAtOnce  = 64
	slotPatience = time.Second
)

// take waits for a slot, and returns what gives it back.
func (s slots) take(ctx context.Context) (free func(), err error) {
	free = func() { <-s }
	select {
	case s <- struct{}{}:
		return free, nil
	default:
	}
	t := time.NewTimer(slotPatience)
	defer t.Stop()
	select {
	case s <- struct{}{}:
		return free, nil
	case <-t.C:
		return func() {}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
