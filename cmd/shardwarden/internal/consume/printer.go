package consume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
)

// Why printing ended before anybody asked for it.
var (
	errEnough = errors.New("printed as many records as were asked for")
	errReader = errors.New("nobody reads stdout any more")
	errIdle   = errors.New("no record came for a while")
)

// printer writes records to out. A batch is acknowledged only once all of it was written, so what was acknowledged outlives a kill -9.
// Batches of different shards come at the same time; a batch is written in one piece.
type printer struct {
	out     io.Writer
	streams *named
	form    form
	max     int64 // 0: no limit
	end     func(error)

	mu      sync.Mutex // held while writing, on purpose: a slow reader slows all shards, and the leases are renewed meanwhile
	printed int64
	last    time.Time // when the last record was printed, or waiting for one began; zero before that
	looks   int64
	failed  error
	buf     []byte
}

// process is the handler. core.ErrDone keeps the shard and reads it no more, which is what is wanted between the call for the end and the end:
// nothing is acknowledged that was not printed.
func (p *printer) process(ctx context.Context, b *core.Batch) error {
	if len(b.Records) == 0 {
		return nil
	}
	n, enough, err := p.print(b)
	if err != nil {
		p.end(err)
		return core.ErrDone
	}
	if n == len(b.Records) {
		if enough {
			p.end(errEnough)
		}
		return nil
	}
	if n > 0 { // the rest of the batch is for whoever comes next
		why := errEnough
		if err := b.CheckpointAfter(ctx, n-1); err != nil {
			why = fmt.Errorf("store a checkpoint behind the last record printed (records that were printed will come again): %w", err)
		}
		p.end(why)
	}
	return core.ErrDone
}

// print writes as many records as may be printed and says how many, and whether that was the last that may. After an error none counts.
func (p *printer) print(b *core.Batch) (n int, enough bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		return 0, false, p.failed
	}
	n = len(b.Records)
	if p.max > 0 {
		n = int(min(int64(n), p.max-p.printed))
	}
	p.buf = p.buf[:0]
	stream := p.streams.name(b.Stream)
	for i := range n {
		p.buf = appendLine(p.buf, stream, b.Shard, &b.Records[i], p.form)
	}
	_, err = p.out.Write(p.buf)
	p.last = time.Now()
	if err != nil {
		if p.failed = fmt.Errorf("write to stdout: %w", err); errors.Is(err, syscall.EPIPE) {
			p.failed = errReader
		}
		return 0, false, p.failed
	}
	p.printed += int64(n)
	return n, p.max > 0 && p.printed == p.max, nil
}

// OnCount implements [worker.CountHook]: the idle time begins with the first good read, or, where this worker has nothing to read, with its
// third look at the leases. How long it takes to begin is not idleness.
func (p *printer) OnCount(c worker.Count, _ core.LeaseKey, n int64) {
	if c != worker.Reads && c != worker.Looks {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c == worker.Looks {
		p.looks += n
	}
	if p.last.IsZero() && (c == worker.Reads || p.looks >= 3) {
		p.last = time.Now()
	}
}

// watch ends everything once no record was printed for so long. It returns when ctx ends.
func (p *printer) watch(ctx context.Context, idle time.Duration) {
	for {
		p.mu.Lock()
		left := idle
		if !p.last.IsZero() {
			left = time.Until(p.last.Add(idle))
		}
		p.mu.Unlock()
		if left <= 0 {
			p.end(errIdle)
			return
		}
		t := time.NewTimer(left)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}
