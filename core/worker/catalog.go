package worker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// ErrStreamRetired is why a shard ends whose stream is consumed no more: the catalog no longer lists it, or it is gone. The error around it says
// which.
var ErrStreamRetired = errors.New("the stream is no longer consumed")

var (
	errUnlisted = fmt.Errorf("%w: the catalog no longer lists it", ErrStreamRetired)
	errMadeAnew = fmt.Errorf("%w: it was deleted and made again", ErrStreamRetired)
)

// describedAtOnce bounds the streams that are described side by side: services allow an account few such calls a second.
const describedAtOnce = 16

// beginWith takes in what the catalog lists at start. That some of several streams cannot be had now is told, and tried again each minute; that
// none can be had is an error, and so is a listing that makes no sense.
func (w *Worker) beginWith(ctx context.Context, list []core.Stream) error {
	errs := w.follow(ctx, list)
	for _, err := range errs {
		if errors.Is(err, core.ErrInvalid) {
			return err
		}
	}
	if len(w.streamList()) == 0 {
		return errors.Join(errs...)
	}
	w.tell(ctx, errs)
	return nil
}

func (w *Worker) tell(ctx context.Context, errs []error) {
	for _, err := range errs {
		if ctx.Err() == nil {
			w.emit(Event{Kind: ReadError, Err: &core.Error{Op: "describe stream", Err: err}})
		}
	}
}

// catalogLoop asks the catalog for streams each minute: new ones begin, former ones are retired. An error leaves the list as it was.
func (w *Worker) catalogLoop(ctx context.Context) {
	if w.single && w.cfg.Former.DeleteAfter == 0 {
		return
	}
	former := formers{}
	tick := time.NewTicker(w.cfg.ListEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !w.single {
			w.askCatalog(ctx)
		}
		w.cleanFormer(ctx, former)
	}
}

func (w *Worker) askCatalog(ctx context.Context) {
	var list []core.Stream
	err := safely("list streams", func() (err error) { list, err = w.cfg.Streams.Streams(ctx); return err })
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("the catalog is empty: %w", core.ErrInvalid)
	}
	if err == nil {
		w.tell(ctx, w.follow(ctx, list))
	} else if ctx.Err() == nil {
		w.emit(Event{Kind: ReadError, Err: &core.Error{Op: "list streams", Err: err}})
	}
}

// follow makes the streams that the worker consumes those of a listing. Streams that are consumed already cost no call. It returns what is wrong
// with the others.
func (w *Worker) follow(ctx context.Context, list []core.Stream) (errs []error) {
	ids, failed := make([]core.StreamID, len(list)), make([]error, len(list))
	g := group{slots: make(chan struct{}, describedAtOnce)}
	for i, s := range list {
		if ids[i] = w.consumed(s.Source); ids[i] != "" {
			continue
		}
		g.do(func() {
			callCtx := ctx
			if !w.single { // another stream's trouble must not take for ever
				bounded, cancel := context.WithTimeoutCause(ctx, max(w.cfg.LeaseDuration, time.Second), core.ErrUnavailable)
				defer cancel()
				callCtx = bounded
			}
			failed[i] = safely("describe stream", func() (err error) { ids[i], err = w.addStream(callCtx, s); return err })
			if failed[i] != nil && callCtx.Err() != nil && ctx.Err() == nil {
				failed[i] = fmt.Errorf("not described in time: %w: %w", core.ErrUnavailable, failed[i])
			}
		})
	}
	g.wait()
	if ctx.Err() != nil {
		return []error{ctx.Err()}
	}
	listed, sources, unknown := map[core.StreamID]bool{}, map[core.StreamSource]core.StreamID{}, 0
	for i, s := range list {
		if id := w.known(s.Source); id != "" {
			sources[s.Source] = id
		}
		switch {
		case failed[i] != nil:
			errs = append(errs, failed[i])
			if w.known(s.Source) == "" {
				unknown++
			}
		case listed[ids[i]]:
			errs = append(errs, fmt.Errorf("stream %s is listed twice: %w", ids[i], core.ErrInvalid))
		}
		listed[ids[i]] = true
	}
	w.mu.Lock()
	w.unknown, w.sources = unknown, sources // those that are no longer listed are forgotten
	w.mu.Unlock()
	for _, st := range w.streamList() {
		if !listed[st.id] {
			w.retire(st, errUnlisted)
		}
	}
	return errs
}

// known is the stream that a source was last found to be.
func (w *Worker) known(s core.StreamSource) core.StreamID {
	if s == nil || !reflect.TypeOf(s).Comparable() {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sources[s]
}

// consumed is the stream of a source, if it is being consumed.
func (w *Worker) consumed(s core.StreamSource) core.StreamID {
	id := w.known(s)
	if id != "" && w.stream(id) != nil {
		return id
	}
	return ""
}

// addStream describes a stream and begins to consume it.
func (w *Worker) addStream(ctx context.Context, s core.Stream) (core.StreamID, error) {
	if s.Source == nil {
		return "", fmt.Errorf("a stream of the catalog has no source: %w", core.ErrInvalid)
	}
	info, err := s.Source.Describe(ctx)
	if err != nil {
		return "", err
	}
	if info.ID == "" {
		return "", fmt.Errorf("the source describes a stream %q without an id: %w", info.Name, core.ErrInvalid)
	}
	if s.Start.Anchor == core.AfterToken && !s.Start.IsZero() || s.Start.Anchor == core.ShardEnd {
		return "", fmt.Errorf("stream %s cannot start at %q: use core.FromHorizon, core.FromLatest or core.From(time): %w", info.ID, s.Start, core.ErrInvalid)
	}
	if s.Start.Anchor == core.AtTime && info.Lacks.StartTime {
		return "", fmt.Errorf("stream %s cannot start at a time: its source cannot open one: %w", info.ID, core.ErrInvalid)
	}
	if _, resolves := s.Source.(core.Resolver); s.Start.Anchor == core.Latest && info.Lacks.StartTime && !resolves {
		return "", fmt.Errorf("stream %s cannot start at %s: its source can neither open a time nor resolve one (core.Resolver): %w", info.ID, s.Start, core.ErrInvalid)
	}
	if was := w.known(s.Source); was != "" && was != info.ID {
		s.Start = core.FromHorizon // made again while we looked: all of it is new
	}
	st := newStream(s, info)
	w.mu.Lock()
	added := w.streams[info.ID] == nil
	if added {
		w.streams[info.ID], w.table.changed = st, true
	}
	if reflect.TypeOf(s.Source).Comparable() {
		w.sources[s.Source] = info.ID
	}
	w.mu.Unlock()
	if added {
		w.emit(Event{Kind: StreamAdded, Key: core.LeaseKey{Stream: info.ID}, Position: st.start, Text: info.Name})
		w.look()
		poke(w.keepNow)
	}
	return info.ID, nil
}

// retire ends the consumption of a stream: its leases here are given up, with what is acknowledged stored, and no more are taken. What becomes
// of its rows is cleanFormer's business.
func (w *Worker) retire(st *stream, why error) {
	w.mu.Lock()
	if !w.consumesLocked(st) {
		w.mu.Unlock()
		return
	}
	delete(w.streams, st.id)
	delete(w.graphs, st.id)
	delete(w.holes, st.id)
	w.table.changed = true
	var held []*holding
	for _, h := range w.held {
		if h.st == st {
			held = append(held, h)
		}
	}
	w.mu.Unlock()
	close(st.retired)
	w.emit(Event{Kind: StreamRetired, Key: core.LeaseKey{Stream: st.id}, Records: len(held), Err: why})
	for _, h := range held {
		w.giveAway(h, giving{why: why})
	}
}

// goneWith reports whether an error of describing a stream says that it is no longer there, or has become another.
func (w *Worker) goneWith(err error) bool {
	return !w.single && (errors.Is(err, core.ErrNotFound) || errors.Is(err, core.ErrOtherStream))
}
