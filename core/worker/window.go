package worker

import (
	"context"
	"sync"

	"github.com/shardwarden/shardwarden/core"
)

// budget bounds the bytes that all shards of a worker have read ahead. A page counts from before it is read, by what it is expected to be: else
// all who wait would read when one page is given back.
type budget struct {
	most int64

	mu    sync.Mutex
	used  int64         // held, and expected
	page  int64         // what the last page with records was, of any shard
	blind int64         // shards that read their first page, which is expected to be like it
	freed chan struct{} // closed when bytes come back; nil while nobody waits
}

// add counts n bytes more, whatever the bound, and blind first pages more.
func (b *budget) add(n, blind int64) {
	b.mu.Lock()
	before := b.takenLocked()
	b.used += n
	b.blind += blind
	if b.freed != nil && b.takenLocked() < before {
		close(b.freed)
		b.freed = nil
	}
	b.mu.Unlock()
}

// came counts a page of n bytes for one that was expected to have so many.
func (b *budget) came(n, expected, blind int64) {
	if n > 0 {
		b.mu.Lock()
		b.page = n
		b.mu.Unlock()
	}
	b.add(n-expected, -blind)
}

func (b *budget) takenLocked() int64 { return b.used + b.blind*b.page }

// reserve counts n bytes more if there is room for them. Otherwise it returns what to wait for.
func (b *budget) reserve(n int64) (freed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.takenLocked()+n <= b.most {
		b.used += n
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
	next   int64 // what the next page is expected to be: like the last, 0 after one without records; negative: nothing was read yet
	asked  int64 // what the page under way is counted for in the budget
	blind  int64 // 1: the page under way is counted as a first one
	closed bool
}

// pageOf is a page with what it costs.
type pageOf struct {
	page  *core.Page
	bytes int64
}

func newWindow(b *budget, most int64, filled func()) *window {
	return &window{budget: b, most: most, filled: filled, eased: make(chan struct{}, 1), next: -1}
}

// mayRead reports whether another page may be read, and counts it if so, until it comes; if not, freed (where not nil) says when the budget has
// changed. An empty window has room for one page, whatever the budget says, so that no shard starves.
func (w *window) mayRead() (ok bool, freed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed || w.asked+w.blind > 0:
		return true, nil // under way
	case w.bytes == 0 && w.next < 0:
		w.blind = 1
		w.budget.add(0, 1)
		return true, nil
	case w.bytes == 0:
		w.asked = w.next
		w.budget.add(w.asked, 0)
		return true, nil
	}
	n := max(w.next, 1)
	if w.bytes+n > w.most {
		return false, nil
	}
	if freed = w.budget.reserve(n); freed == nil {
		w.asked = n
	}
	return freed == nil, freed
}

// cameLocked notes that the page under way has come, with n bytes.
func (w *window) cameLocked(n int64) {
	w.next = n
	w.bytes += n
	w.budget.came(n, w.asked, w.blind)
	w.asked, w.blind = 0, 0
}

// skip notes that a page came that nobody needs to see.
func (w *window) skip() {
	w.mu.Lock()
	w.cameLocked(0)
	w.mu.Unlock()
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
	w.cameLocked(n)
	w.mu.Unlock()
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
	back := p.bytes
	if w.bytes -= p.bytes; w.bytes == 0 && w.asked+w.blind == 0 && w.next > 0 && !w.closed {
		w.asked = w.next // this shard reads next, before those that have a page
		back -= w.asked
	}
	w.budget.add(-back, 0)
	w.mu.Unlock()
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
	w.budget.add(-w.asked, -w.blind)
	w.asked, w.blind = 0, 0
	w.mu.Unlock()
	for _, p := range pages {
		w.release(p)
	}
}
