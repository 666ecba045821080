package kinesis

import (
	"context"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/shardwarden/shardwarden/core"
)

// defaultPageMemory is the read-ahead of eight workers by default, or some hundred shards with a page of a megabyte each.
const defaultPageMemory = 256 << 20

// pageMemory is what all pages of this process share.
var pageMemory atomic.Pointer[memoryLimit]

func init() { SetPageMemory(defaultPageMemory) }

type memoryLimit struct {
	*semaphore.Weighted
	most     int64
	used     atomic.Int64
	arriving *semaphore.Weighted // of what is read from connections and decoded at this moment
}

// arrivingPart is the part of the memory of pages that answers may take which come in at the same time. All shards of a worker that starts are
// answered at once, and without a bound all of these answers would be in memory half read, where a few at a time come as fast.
const arrivingPart = 8

// SetPageMemory bounds the memory of all pages of this process that are being read, or are read and not yet released, over all sources and
// workers, in bytes. A read that would go beyond it waits until pages are released, first come first served, for as long as
// [RequestTimeout]; then it fails as [core.ErrUnavailable] and is tried again. Default 256 MiB; what is below 1 MiB counts as 1 MiB. Pages
// that are out when it is called count towards the former bound.
//
// An eighth of it is for what is being read at the same moment, so that the pages of many shards come one after the other.
//
// It is the last resort, for thousands of shards in one process; what a worker reads ahead is bounded by its own settings. Pages of the
// SDK's decoder ([StockPages]) do not count.
func SetPageMemory(bytes int64) {
	bytes = max(bytes, 1<<20)
	pageMemory.Store(&memoryLimit{Weighted: semaphore.NewWeighted(bytes), most: bytes, arriving: semaphore.NewWeighted(bytes / arrivingPart)})
}

// PageMemory is how many bytes of pages are out now; see [SetPageMemory].
func PageMemory() int64 { return pageMemory.Load().used.Load() }

// arrive waits until an answer of n bytes may be read and decoded; below 0: of unknown length. leave ends that, whatever becomes of the page.
func arrive(ctx context.Context, n int64) (leave func(), err error) {
	m := pageMemory.Load()
	if n < 0 {
		n = leastBody
	}
	n = min(n, m.most/arrivingPart)
	if err := m.arriving.Acquire(ctx, n); err != nil {
		return nil, fmt.Errorf("%w: no turn to read a page, so many come at the same time (see SetPageMemory): %w", core.ErrUnavailable, err)
	}
	return func() { m.arriving.Release(n) }, nil
}

// reservation is what one page has of the memory that all share.
type reservation struct {
	from *memoryLimit
	n    atomic.Int64
}

// take waits for n bytes. More than there is altogether is as good as all of it, else such a page could never be read.
func (r *reservation) take(ctx context.Context, n int) error {
	m := pageMemory.Load()
	size := min(int64(n), m.most)
	if !m.TryAcquire(size) {
		if err := m.Acquire(ctx, size); err != nil {
			return fmt.Errorf("%w: no memory for a page of %d bytes: handlers hold %d of the %d that pages may take (see SetPageMemory): %w", core.ErrUnavailable, n, m.used.Load(), m.most, err)
		}
	}
	r.from = m
	r.n.Store(size)
	m.used.Add(size)
	return nil
}

// more adds what decoding took beside the body, as far as it is to be had at once: the body is there, so waiting would only hold more for longer.
func (r *reservation) more(n int) {
	if r.from != nil && r.from.TryAcquire(int64(n)) {
		r.n.Add(int64(n))
		r.from.used.Add(int64(n))
	}
}

// cancel gives all of it back.
func (r *reservation) cancel() {
	if n := r.n.Swap(0); n > 0 {
		r.from.used.Add(-n)
		r.from.Release(n)
	}
}
