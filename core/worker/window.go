package worker

import (
	"context"
	"sync"

	"github.com/shardwarden/shardwarden/core"
)

// budget bounds the bytes that all shards of a worker have read ahead.
type budget struct {
	most int64

	mu    sync.Mutex
	used  int64
	freed chan struct{} // closed when bytes come back; nil while nobody waits
}

func (b *budget) add(n int64) {
	b.mu.Lock()
	b.used += n
	if n < 0 && b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
	b.mu.Unlock()
}

// full returns what to wait for while the budget is used up, nil when it isn't.
func (b *budget) full() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used < b.most {
		return nil
	}
	if b.freed == nil {
		b.freed = make(chan struct{})
	}
	return b.freed
}

// window is what one shard has read and not yet handled, bounded in bytes. A page counts until it is released, so the one being handled
// counts too. One goroutine puts, one takes.
type window struct {
	budget *budget
	most   int64
	filled func()        // called when something was put
	eased  chan struct{} // something was released

	mu     sync.Mutex
	pages  []pageOf
	bytes  int64
	closed bool
}

// pageOf is a page with what it costs.
type pageOf struct {
	page  *core.Page
	bytes int64
}

func newWindow(b *budget, most int64, filled func()) *window {
	return &window{budget: b, most: most, filled: filled, eased: make(chan struct{}, 1)}
}

// mayRead reports whether another page may be read; if not, freed (where not nil) says when the budget has changed. An empty window has room for
// one page, whatever the budget says, so that no shard starves.
func (w *window) mayRead() (ok bool, freed <-chan struct{}) {
	w.mu.Lock()
	bytes := w.bytes
	w.mu.Unlock()
	if bytes == 0 {
		return true, nil
	}
	if bytes < w.most {
		freed = w.budget.full()
		return freed == nil, freed
	}
	return false, nil
}

func (w *window) hasRoom() bool {
	ok, _ := w.mayRead()
	return ok
}

// room waits until another page may be read.
func (w *window) room(ctx context.Context) error {
	for {
		ok, freed := w.mayRead()
		if ok {
			return nil
		}
		select {
		case <-w.eased:
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (w *window) put(p *core.Page) {
	n := int64(p.Bytes)
	if n == 0 {
		for i := range p.Records {
			n += int64(len(p.Records[i].Data)+len(p.Records[i].Key)) + recordOverhead
		}
	}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		if p.Release != nil {
			p.Release()
		}
		return
	}
	w.pages = append(w.pages, pageOf{p, n})
	w.bytes += n
	w.mu.Unlock()
	w.budget.add(n)
	w.filled()
}

// recordOverhead is about what a Record costs beside its data and key.
const recordOverhead = 96

// take returns the next page, if one is there.
func (w *window) take() (pageOf, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pages) == 0 {
		return pageOf{}, false
	}
	p := w.pages[0]
	w.pages[0] = pageOf{}
	if w.pages = w.pages[1:]; len(w.pages) == 0 {
		w.pages = nil
	}
	return p, true
}

// release gives a page back, once no handler can see it any more.
func (w *window) release(p pageOf) {
	if p.page.Release != nil {
		p.page.Release()
	}
	w.mu.Lock()
	w.bytes -= p.bytes
	w.mu.Unlock()
	w.budget.add(-p.bytes)
	poke(w.eased)
}

func (w *window) empty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pages) == 0
}

func (w *window) held() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes
}

// close gives back what nobody took. What is put afterwards is released at once.
func (w *window) close() {
	w.mu.Lock()
	w.closed = true
	pages := w.pages
	w.pages = nil
	w.mu.Unlock()
	for _, p := range pages {
		w.release(p)
	}
}
