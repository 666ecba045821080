// Package worker is the engine: a [Worker] takes its share of the leases of some streams, reads the shards and hands their records to user
// code, each shard at one worker at a time, parents before children, every record at least once and in order per key.
//
//	w, err := worker.New(worker.Config{Streams: worker.One(source, core.FromHorizon), Store: store, Process: handle})
//	…
//	err = w.Run(ctx) // until ctx ends
//
// # How it works
//
// Some loops, none of which waits for another. The look loop reads the lease table, plans, takes, asks and adopts (look.go; what was
// seen is in table.go; in a table that one worker leads, who that is and what it gives to others is in lead.go; by whose rules a table is
// shared with workers of another library is in foreign.go). The renewer writes each held lease's sign of life, and with it the checkpoint (renew.go; every write of a held lease
// is in holding.go). The keepers list shards, create and delete leases, for all workers (keep.go). The catalog says which streams there are
// (catalog.go, former.go). And each held shard has a consumer: one
// goroutine that reads ahead (read.go, window.go) and one that runs user code (consume.go, deliver.go, pull.go, end.go).
//
// Decisions are pure: package balance says who should hold what, package lineage what may begin, what to create and what to delete.
//
// # Goroutines
//
//	look loop, renewer, catalog  one each, from Run to its end
//	keeper                       one for each stream, so that a stream that does not answer keeps no other waiting
//	a renewal                    one for each write under way
//	a give-away                  one for each lease being given up
//	consumer                     one for each shard that has something to hand out (pulled: for each shard held): user code runs here; KeyConcurrency
//	                             more while a batch is handled
//	reading                      one for each shard read
//
// Run waits for all of them, except a handler that does not return: its shard is named as abandoned. Locks are Worker.mu, then holding.mu;
// neither is held while anything blocks.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/balance"
	"github.com/shardwarden/shardwarden/core/lineage"
)

// The states of a worker, as Status shows them.
const (
	stateNew      = "new"
	stateStarting = "starting"
	stateRunning  = "running"
	stateStopping = "stopping"
	stateStopped  = "stopped"
)

// Worker is one share-taker. Make it with New, start it with Run, once. Its methods are safe for concurrent use.
type Worker struct {
	cfg         Config
	store       core.LeaseStore
	presence    core.Presence
	hasPresence bool
	evidence    evidence
	log         *slog.Logger
	events      []EventHook
	counters    []CountHook
	counts      [counts]atomic.Int64
	plainRows   atomic.Bool   // no throughput is written
	trust       time.Duration // D_self: how long a write gives the right to process
	sharer      core.Sharer
	lock        core.LeaderLock
	seed        uint64
	began       time.Time
	unique      string // this process's part of runs and beats
	runs        atomic.Uint64
	budget      *budget
	slots       chan struct{}
	renewer     *renewer

	lookNow, keepNow chan struct{}
	base             context.Context // ends when the engine has stopped
	end              context.CancelFunc
	wg               sync.WaitGroup
	stop             chan stopRequest
	stopped          chan struct{}
	failed           chan error

	mu         sync.Mutex
	state      string
	limits     limits           // D_obs
	foreigners *core.Foreigners // who may share the table, as the last look showed; nil: nobody
	lead       lead
	taking     bool // false: starting, or stopping
	holdOff    bool
	streams    map[core.StreamID]*stream
	sources    map[core.StreamSource]core.StreamID // what each source of the catalog was last found to be
	unknown    int                                 // streams that the catalog lists and nobody could describe yet
	single     bool                                // one stream, fixed: its trouble is the worker's
	held       map[core.LeaseKey]*holding
	running    map[core.LeaseKey]*consumer // consumers whose user code has not returned
	given      map[core.LeaseKey]int64     // the highest counter under which a lease was given up
	table      *table
	graphs     map[core.StreamID]*lineage.Graph // of the look at hand
	present    []core.WorkerID
	lists      bool // at the last look this worker was to list shards for all
	unserved   []core.LeaseKey
	unservedAt time.Time
	holes      map[core.StreamID]int
	// The last plan's input, and until when it stays so while no row changes and the same workers are present.
	planned    []balance.Lease
	plannedBy  []balance.Worker
	plannedFor []core.WorkerID
	planAt     time.Time
	balanceAt  time.Time // when utilization is next evened out
	lookErr    error
	lookErrs   int
	announced  time.Time
	beat       uint64
	twin       bool
	runErr     error
}

type stopRequest struct{ ctx context.Context }

// Option is something a worker works with, as opposed to a setting.
type Option func(*Worker) error

// WithLogger sends what happens to a logger. Default: silent.
func WithLogger(l *slog.Logger) Option {
	return func(w *Worker) error {
		if l == nil {
			return fmt.Errorf("worker.WithLogger: the logger is nil: %w", core.ErrInvalid)
		}
		w.log = l
		return nil
	}
}

// WithHooks adds hooks: each must be an [EventHook], a [CountHook], or both.
func WithHooks(hooks ...any) Option {
	return func(w *Worker) error {
		for _, h := range hooks {
			e, isEvent := h.(EventHook)
			c, isCount := h.(CountHook)
			if !isEvent && !isCount {
				return fmt.Errorf("worker.WithHooks: %T has neither OnEvent(worker.Event) nor OnCount(worker.Count, core.LeaseKey, int64): %w", h, core.ErrInvalid)
			}
			if isEvent {
				w.events = append(w.events, e)
			}
			if isCount {
				w.counters = append(w.counters, c)
			}
		}
		return nil
	}
}

// New makes a worker. It validates the settings and starts nothing: the table and the streams are looked at by Run. The error names each
// setting that is wrong, and is [core.ErrInvalid].
func New(c Config, opts ...Option) (*Worker, error) {
	c = c.WithDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	w := &Worker{
		cfg: c, store: c.Store, log: slog.New(slog.DiscardHandler),
		trust:   c.LeaseDuration - c.StopMargin,
		limits:  limits{ours: c.LeaseDuration, foreign: c.LeaseDuration + time.Second},
		unique:  randomText(6),
		budget:  &budget{most: c.ReadAhead},
		lookNow: make(chan struct{}, 1), keepNow: make(chan struct{}, 1),
		stop: make(chan stopRequest, 1), stopped: make(chan struct{}), failed: make(chan error, 1),
		state:   stateNew,
		streams: map[core.StreamID]*stream{}, sources: map[core.StreamSource]core.StreamID{}, held: map[core.LeaseKey]*holding{}, running: map[core.LeaseKey]*consumer{},
		given: map[core.LeaseKey]int64{}, graphs: map[core.StreamID]*lineage.Graph{}, holes: map[core.StreamID]int{},
	}
	w.table = newTable(w.held)
	w.presence, w.hasPresence = c.Store.(core.Presence)
	if e, ok := c.Store.(core.Evidence); ok {
		w.evidence = e.Evidence
	}
	if c.MaxShardsAtOnce > 0 {
		w.slots = make(chan struct{}, c.MaxShardsAtOnce)
	}
	w.began = time.Now()
	w.renewer = &renewer{w: w, wake: make(chan struct{}, 1), crew: crew{work: make(chan func())}}
	for _, o := range opts {
		if err := o(w); err != nil {
			return nil, err
		}
	}
	w.log = w.log.With("worker", c.ID) // in each line
	w.sharer, _ = c.Store.(core.Sharer)
	w.lock, _ = c.Store.(core.LeaderLock)
	if err := w.meetForeigners(); err != nil {
		return nil, err
	}
	return w, nil
}

// ID is the worker's id.
func (w *Worker) ID() core.WorkerID { return w.cfg.ID }

// Run works until ctx ends or Shutdown is called, then stops gracefully: as Shutdown, within Config.ShutdownTimeout. It returns nil after a
// clean stop; [*AbandonedError] if shards were left behind; else what made going on impossible. A worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	w.mu.Lock()
	if w.state != stateNew {
		w.mu.Unlock()
		return fmt.Errorf("worker %s has run already: make a new one: %w", w.cfg.ID, core.ErrInvalid)
	}
	w.state = stateStarting
	w.base, w.end = context.WithCancel(context.WithoutCancel(ctx))
	w.mu.Unlock()
	err := w.run(ctx)
	w.end()
	w.wg.Wait()
	w.mu.Lock()
	w.state, w.runErr = stateStopped, err
	w.mu.Unlock()
	w.emit(Event{Kind: WorkerStopped, Err: err})
	close(w.stopped)
	return err
}

func (w *Worker) run(ctx context.Context) error {
	startCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	started := make(chan error, 1)
	w.wg.Go(func() { started <- w.prepare(startCtx) })
	select {
	case err := <-started:
		if err != nil {
			if ctx.Err() != nil {
				return nil // stopped before it began
			}
			return err
		}
	case <-w.stop:
		cancel()
		if err := <-started; err != nil && ctx.Err() == nil {
			w.log.Debug("stopped before it began", "error", err)
		}
		return nil
	}
	lookCtx, stopLooking := context.WithCancel(w.base)
	defer stopLooking()
	w.mu.Lock()
	w.state, w.taking = stateRunning, true
	w.mu.Unlock()
	w.emit(Event{Kind: WorkerStarted})
	var loops sync.WaitGroup
	loops.Go(func() { w.lookLoop(lookCtx) })
	loops.Go(func() { w.keepLoop(lookCtx) })
	loops.Go(func() { w.catalogLoop(lookCtx) })
	w.wg.Go(func() { w.renewer.run(w.base) })

	var fault error
	patience, impatient := context.WithCancel(w.base)
	defer impatient()
	soft := w.cfg.ShutdownTimeout * 2 / 3
	select {
	case <-ctx.Done():
		defer time.AfterFunc(w.cfg.ShutdownTimeout, impatient).Stop()
	case q := <-w.stop:
		defer context.AfterFunc(q.ctx, impatient)()
		if by, ok := q.ctx.Deadline(); ok {
			soft = time.Until(by) * 2 / 3
		}
	case fault = <-w.failed:
		defer time.AfterFunc(w.cfg.ShutdownTimeout, impatient).Stop()
	}
	w.wg.Go(func() { w.hearMore(patience, impatient) })
	w.mu.Lock()
	w.state, w.taking = stateStopping, false
	w.mu.Unlock()
	stopLooking()
	loops.Wait()
	w.withdraw(patience) // so that nobody hands us anything more
	w.resign(patience)
	left := w.release(patience, soft)
	for tries := 0; tries < 3 && patience.Err() == nil && !w.sweep(patience); tries++ {
	}
	if left != nil {
		return errors.Join(fault, left)
	}
	return fault
}

// hearMore hears who else wants the worker to stop, perhaps with less patience than who asked first.
func (w *Worker) hearMore(patience context.Context, impatient func()) {
	var forget []func() bool
	defer func() {
		for _, f := range forget {
			f()
		}
	}()
	for {
		select {
		case q := <-w.stop:
			forget = append(forget, context.AfterFunc(q.ctx, impatient))
		case <-patience.Done():
			return
		}
	}
}

// startPatience is how long a worker tries to reach its services before it gives up.
const startPatience = 30 * time.Second

// prepare readies the store and describes the streams. What passes by itself is tried again for a while.
func (w *Worker) prepare(ctx context.Context) error {
	if err := w.persistStart(ctx, "prepare lease table", w.store.Prepare); err != nil {
		return err
	}
	var list []core.Stream
	err := w.persistStart(ctx, "list streams", func(ctx context.Context) (err error) { list, err = w.cfg.Streams.Streams(ctx); return err })
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return &core.Error{Op: "list streams", Err: fmt.Errorf("the catalog is empty: %w", core.ErrInvalid)}
	}
	_, fixed := w.cfg.Streams.(fixed)
	w.single = fixed && len(list) == 1
	return w.persistStart(ctx, "describe stream", func(ctx context.Context) error { return w.beginWith(ctx, list) })
}

// persistStart repeats a step of starting while its error is one that passes.
func (w *Worker) persistStart(ctx context.Context, op string, step func(context.Context) error) error {
	deadline := time.Now().Add(startPatience)
	b := &backoff{next: 100 * time.Millisecond, most: 5 * time.Second}
	for {
		err := safely(op, func() error { return step(ctx) })
		if err == nil {
			return nil
		}
		passes := errors.Is(err, core.ErrThrottled) || errors.Is(err, core.ErrUnavailable)
		if !passes || ctx.Err() != nil || time.Now().After(deadline) {
			return &core.Error{Op: op, Err: err}
		}
		w.log.Warn("not ready yet, trying again", "op", op, "error", err)
		if !b.wait(ctx) {
			return &core.Error{Op: op, Err: err}
		}
	}
}

// fail ends the worker: going on would harm.
func (w *Worker) fail(err error) {
	select {
	case w.failed <- err:
	default:
	}
}

// stream returns a stream by id, nil where the worker does not consume it.
func (w *Worker) stream(id core.StreamID) *stream {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.streams[id]
}

func (w *Worker) streamList() []*stream {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.streamListLocked()
}

func (w *Worker) streamListLocked() []*stream {
	out := make([]*stream, 0, len(w.streams))
	for _, st := range w.streams {
		out = append(out, st)
	}
	slices.SortFunc(out, func(a, b *stream) int { return strings.Compare(string(a.id), string(b.id)) })
	return out
}

// consumesLocked reports whether a stream is still the one that the worker consumes.
func (w *Worker) consumesLocked(st *stream) bool { return w.streams[st.id] == st }

func (w *Worker) streamIDs() []core.StreamID {
	var ids []core.StreamID
	for _, st := range w.streamList() {
		ids = append(ids, st.id)
	}
	return ids
}

func (w *Worker) noLeases() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.table.rows) == 0
}

// setWaiting notes why nothing of a stream is taken yet; empty: there is no reason any more.
func (w *Worker) setWaiting(st *stream, text string) {
	w.mu.Lock()
	changed := st.waiting != text
	st.waiting = text
	w.mu.Unlock()
	if changed && text != "" {
		w.log.Info("waiting for the start", "why", text)
	}
}

// look asks for a look at the lease table soon.
func (w *Worker) look() { poke(w.lookNow) }

// newRun names an acquisition: no two have the same, of this process or another.
func (w *Worker) newRun() string {
	return core.NewRun(w.cfg.ID, w.unique+"."+strconv.FormatUint(w.runs.Add(1), 10))
}

// myRun reports whether a run is one of this process.
func (w *Worker) myRun(run string) bool {
	return strings.HasPrefix(run, core.NewRun(w.cfg.ID, w.unique+"."))
}

// drop forgets a lease that is no longer held.
func (w *Worker) drop(h *holding) {
	w.mu.Lock()
	if w.held[h.key] == h {
		delete(w.held, h.key)
		w.table.changed = true
		if r := w.table.rows[h.key]; r != nil {
			r.held = nil
		}
	}
	w.mu.Unlock()
}

// noteRow takes a row that a write of ours left into what is known of the table, so that Status is right also when no look follows.
func (w *Worker) noteRow(row core.Lease) {
	w.mu.Lock()
	w.table.row(row, time.Now(), w.evidence)
	w.mu.Unlock()
}

// gaveUp notes under which counter a lease is being given up: it is not adopted again at or below it (docs/model, M-adopt-old-read).
func (w *Worker) gaveUp(k core.LeaseKey, counter int64) {
	w.mu.Lock()
	if g, ok := w.given[k]; !ok || counter > g {
		w.given[k] = counter
	}
	w.mu.Unlock()
}

// announce makes this worker known. One that owns leases is known by these, and announces itself now and then only.
func (w *Worker) announce(ctx context.Context) {
	if !w.hasPresence {
		return
	}
	w.mu.Lock()
	every := 3 * w.cfg.LeaseDuration
	if len(w.held) == 0 {
		every = w.cfg.RenewEvery
	}
	if f := w.foreigners; f != nil && f.Led && f.Announce > 0 {
		every = min(every, f.Announce)
	}
	due := w.announced.IsZero() || time.Since(w.announced) >= every-min(w.cfg.LookEvery, every)/2
	if due {
		w.announced = time.Now()
		w.beat++
	}
	beat := w.unique + "." + strconv.FormatUint(w.beat, 10)
	w.mu.Unlock()
	if !due {
		return
	}
	callCtx, cancel := w.callContext(ctx)
	defer cancel()
	if err := w.presence.Announce(callCtx, core.WorkerInfo{ID: w.cfg.ID, Beat: beat}); err != nil && ctx.Err() == nil {
		w.mu.Lock()
		w.announced = time.Time{}
		w.mu.Unlock()
		w.storeError("announce", core.LeaseKey{}, err)
	}
}

// seeOwnBeat notices a twin by its beat on the row of this worker's id. Called under mu.
func (w *Worker) seeOwnBeat(workers []core.WorkerInfo) {
	for _, o := range workers {
		if o.ID == w.cfg.ID && o.Beat != "" && !strings.HasPrefix(o.Beat, w.unique+".") {
			if p := w.table.workers[o.ID]; p != nil && p.moves > 0 && !w.twin {
				w.twin = true
				w.emit(Event{Kind: TwinSeen, Err: core.ErrTwin, Text: "another worker announces itself with this worker's id"})
			}
		}
	}
}

func (w *Worker) noteTwin() {
	w.mu.Lock()
	w.twin = true
	w.mu.Unlock()
}

func (w *Worker) withdraw(ctx context.Context) {
	if !w.hasPresence {
		return
	}
	callCtx, cancel := w.callContext(ctx)
	defer cancel()
	if err := w.presence.Withdraw(callCtx, w.cfg.ID); err != nil {
		w.storeError("withdraw", core.LeaseKey{}, err)
	}
}

// count adds to a counter.
func (w *Worker) count(c Count, k core.LeaseKey, n int64) {
	w.counts[c].Add(n)
	for _, h := range w.counters {
		h.OnCount(c, k, n)
	}
}

// emit tells of an event.
func (w *Worker) emit(e Event) {
	e.Time, e.Worker = time.Now(), w.cfg.ID
	for _, h := range w.events {
		h.OnEvent(e)
	}
	level := slog.LevelInfo
	switch e.Kind {
	case Checkpoint, LeaseCreated, LeaseDeleted:
		level = slog.LevelDebug
	case LeaseLost, ShardStalled, ShardHalted, ShardTrimmed, HandlerError, ReadError, StoreError, BadRow, HoleFound, Unserved, TwinSeen, HandlerOverran, DeadLettered:
		level = slog.LevelWarn
	}
	why := "error"
	switch {
	case e.Kind == WorkerStopped && e.Err != nil:
		level = slog.LevelError
	case e.Kind == ShardStopped:
		why = "why" // to be shut down or handed over is no failure
	}
	if !w.log.Enabled(context.Background(), level) { //nolint:forbidigo // slog wants a context and reads nothing from it here
		return
	}
	var args []any
	add := func(k string, v any, ok bool) {
		if ok {
			args = append(args, k, v)
		}
	}
	add("stream", e.Key.Stream, e.Key.Stream != "")
	add("shard", e.Key.Shard, e.Key.Shard != "")
	add("other", e.Other, e.Other != "")
	add("position", e.Position.String(), !e.Position.IsZero())
	add("counter", e.Counter, e.Counter != 0)
	add("failures", e.Failures, e.Failures != 0)
	add("records", e.Records, e.Records != 0)
	add("text", e.Text, e.Text != "")
	add(why, e.Err, e.Err != nil)
	w.log.Log(context.Background(), level, string(e.Kind), args...) //nolint:forbidigo,sloglint // as above; the kinds are constants
}

// storeError tells of a call to the store that failed and will be tried again.
func (w *Worker) storeError(op string, k core.LeaseKey, err error) {
	if w.base.Err() != nil {
		return
	}
	w.emit(Event{Kind: StoreError, Key: k, Err: &core.Error{Op: op, Stream: k.Stream, Shard: k.Shard, Err: err}})
}
