package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// FormerStreams says what becomes of the leases of streams that are consumed no more, because the catalog no longer lists them or because they are
// gone. Whatever it says, such leases are released, and no longer taken.
type FormerStreams struct {
	// DeleteAfter is how long the leases of a former stream stay, untouched by anybody, before they are deleted. Progress is lost with them: a
	// stream that is listed again later begins at its start. Default 0: they stay for ever. At least twice LeaseDuration.
	DeleteAfter time.Duration
	// Only names the streams whose leases may be deleted. Without it every stream in the table that the catalog does not list is a former one: so
	// nobody else may keep leases in the table.
	Only []core.StreamID
}

func (f *FormerStreams) validate(lease time.Duration, bad func(string, ...any)) {
	switch {
	case f.DeleteAfter < 0:
		bad("Former.DeleteAfter is %v: must be positive", f.DeleteAfter)
	case f.DeleteAfter > 0 && f.DeleteAfter < 2*lease:
		bad("Former.DeleteAfter is %v: must be at least twice LeaseDuration, %v, and should outlast a deployment", f.DeleteAfter, lease)
	case f.DeleteAfter == 0 && len(f.Only) > 0:
		bad("Former.Only names %d streams while DeleteAfter is 0, which keeps all leases: say after how long they go", len(f.Only))
	}
	for _, id := range f.Only {
		if id == "" {
			bad("Former.Only has an empty stream id")
		}
	}
}

// formers is since when each lease of a former stream has stood unchanged, as far as this worker has seen. In memory alone: who begins to look
// waits anew.
type formers map[core.LeaseKey]*pulse

// due takes in the leases of former streams as they stand now, and returns those of streams whose every lease has been silent for after. evidence
// may be nil.
func (f formers) due(leases []core.Lease, now time.Time, after time.Duration, evidence evidence) []core.Lease {
	there := make(map[core.LeaseKey]bool, len(leases))
	awake := map[core.StreamID]bool{}
	for _, l := range leases {
		there[l.Key] = true
		p := f[l.Key]
		if p == nil {
			p = &pulse{}
			f[l.Key] = p
		}
		b := evidence.beat(&l)
		b.counter = l.Counter // any write is a touch
		p.see(b, now)
		if now.Sub(p.since) < after {
			awake[l.Key.Stream] = true
		}
	}
	for k := range f {
		if !there[k] {
			delete(f, k)
		}
	}
	var out []core.Lease
	for _, l := range leases {
		if !awake[l.Key.Stream] {
			out = append(out, l)
		}
	}
	return out
}

// cleanFormer deletes the leases of former streams once they have stood untouched for as long as the settings say. The lister does it.
func (w *Worker) cleanFormer(ctx context.Context, f formers) {
	policy := w.cfg.Former
	w.mu.Lock()
	lister, unknown := w.listerLocked() && w.taking, w.unknown
	w.mu.Unlock()
	if policy.DeleteAfter == 0 {
		return
	}
	if !lister || unknown > 0 && len(policy.Only) == 0 {
		// A stream that is listed and cannot be described may be any of those in the table.
		clear(f)
		return
	}
	callCtx, cancel := w.callContext(ctx)
	defer cancel()
	sight, err := core.See(callCtx, w.store, policy.Only...)
	if err != nil {
		if ctx.Err() == nil {
			w.storeError("look for former streams", core.LeaseKey{}, err)
		}
		return
	}
	now := time.Now()
	var leases []core.Lease
	for _, l := range sight.Leases {
		if l.Key.Stream != "" && w.stream(l.Key.Stream) == nil {
			leases = append(leases, l)
		}
	}
	for _, l := range f.due(leases, now, policy.DeleteAfter, w.evidence) {
		callCtx, cancel := w.callContext(ctx)
		err := w.store.Delete(callCtx, l, core.SameCounter|core.SameOwner|core.SameNext|core.SameCheckpoint)
		cancel()
		switch {
		case err == nil:
			w.emit(Event{Kind: LeaseDeleted, Key: l.Key, Position: l.Checkpoint, Text: fmt.Sprintf("its stream is not consumed, and nobody has touched it for %v", policy.DeleteAfter)})
		case errors.Is(err, core.ErrConflict):
		default:
			w.storeError("delete lease", l.Key, err)
		}
		if ctx.Err() != nil {
			return
		}
	}
}
