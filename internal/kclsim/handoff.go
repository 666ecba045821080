package kclsim

import (
	"context"
	"time"
)

// askConsumer tells a lease's consumer that the lease was asked for (shutdownRequested). One that has none waits for the watcher.
func (w *Worker) askConsumer(h *held) {
	w.mu.Lock()
	c := h.consumer
	w.mu.Unlock()
	if c != nil {
		c.ask()
	}
}

// watchHandOffs completes hand-overs that the processor holds up beyond the time for it.
func (w *Worker) watchHandOffs(ctx context.Context) {
	w.mu.Lock()
	var late []*held
	for _, h := range w.held {
		if !h.requested.IsZero() && time.Since(h.requested) >= w.s.HandOffTimeout {
			late = append(late, h)
		}
	}
	w.mu.Unlock()
	for _, h := range late {
		w.note("hands over %s though its processor still runs", h.l.key)
		w.transfer(ctx, h)
	}
}

// transfer is the owner's last step of a hand-over: the row is the next owner's alone.
func (w *Worker) transfer(ctx context.Context, h *held) {
	w.mu.Lock()
	l, mine := h.l, w.held[h.l.key] == h && !h.requested.IsZero()
	w.mu.Unlock()
	if !mine {
		return
	}
	ok, err := w.assign(ctx, &l, l.owner)
	if err != nil {
		return // the watcher tries again
	}
	w.lose(h, map[bool]string{true: "handed over to " + l.owner, false: "the hand-over was overtaken"}[ok])
}
