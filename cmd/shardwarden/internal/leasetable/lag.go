package leasetable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// readsAtOnce bounds how many shards are read side by side.
const readsAtOnce = 8

// Lags fills in how far each lease is behind: how long the oldest record behind its checkpoint has been waiting, by one read of the shard. name is what the
// user calls the stream; empty: the rows say. A shard that cannot be read has no lag; the report says why.
func (t *Table) Lags(ctx context.Context, r *Report, name string) {
	sources := map[core.StreamID]core.StreamSource{}
	now := map[core.StreamID]time.Time{}
	var mu sync.Mutex
	var errs []error
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	}
	gate := make(chan struct{}, readsAtOnce)
	var reads sync.WaitGroup
	for i := range r.Leases {
		l := &r.Leases[i]
		id := cmp.Or(l.lease.Key.Stream, core.StreamID(r.Stream))
		if _, asked := sources[id]; !asked {
			var err error
			if sources[id], err = t.Source(id, name); err != nil {
				fail(err)
			}
			now[id] = time.Now()
			if clock, ok := sources[id].(core.Clock); ok && err == nil {
				if served, err := clock.Now(ctx); err == nil {
					now[id] = served
				}
			}
		}
		source, at := sources[id], now[id]
		if source == nil || l.State == Ended || len(l.WaitsFor) > 0 {
			continue
		}
		gate <- struct{}{}
		reads.Go(func() {
			defer func() { <-gate }()
			lag, err := lagOf(ctx, source, &l.lease, at)
			if err != nil {
				fail(fmt.Errorf("shard %s: %w", l.Shard, err))
				return
			}
			l.Lag = new(seconds(lag))
		})
	}
	reads.Wait()
	if err := errors.Join(first(errs, 3)...); err != nil {
		r.LagError = err.Error()
		if more := len(errs) - 3; more > 0 {
			r.LagError += fmt.Sprintf("\nand %d more", more)
		}
	}
}

func first(errs []error, n int) []error { return errs[:min(n, len(errs))] }

// lagOf reads once at the checkpoint.
func lagOf(ctx context.Context, s core.StreamSource, l *core.Lease, now time.Time) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	at := l.From()
	if at.Anchor == core.AtTime && at.Time.IsZero() {
		return 0, errors.New("its checkpoint is AT_TIMESTAMP, and the row does not say which: only the Java worker that begins it knows")
	}
	if at.Anchor == core.Latest && at.Time.IsZero() {
		return 0, nil // it begins where it is begun
	}
	reader, err := s.Open(ctx, core.Shard{ID: l.Key.Shard, Parents: l.Parents, Range: l.Range}, at)
	if err != nil {
		return 0, err
	}
	defer func() { _ = reader.Close() }() // nothing was written
	page, err := reader.Next(ctx)
	if err != nil {
		return 0, err
	}
	if page.Release != nil {
		defer page.Release()
	}
	switch {
	case len(page.Records) > 0 && page.Records[0].Arrived > 0:
		return max(0, now.Sub(time.UnixMilli(page.Records[0].Arrived))), nil
	case page.Lag < 0 && len(page.Records) == 0:
		return 0, nil // a good read found nothing
	case page.Lag < 0:
		return 0, errors.New("its records do not say when they arrived")
	}
	return page.Lag, nil
}
