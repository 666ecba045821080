package kclsim

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Worker is a Java worker (the Scheduler and all that it starts). Make it with New, Run it once.
type Worker struct {
	s    Settings
	stop chan struct{}
	once sync.Once

	mu       sync.Mutex
	layout   layout
	cv       string // the fleet's client version, as last read; 3.x
	rng      *rand.Rand
	mode     mode
	held     map[string]*held
	running  map[*consumer]bool
	sessions int
	finished map[string]bool // ended leases, to be deleted (LeaseCleanupManager's queue)
	stopping bool
	lock     lock
	shuffled []string // owners as last seen by the 2.x leader decider, nil before it has looked
	taker    taker
	assigner assigner
	holes    map[string]int // the auditor's
	cleaned  time.Time
	readyAt  time.Time // since when the conditions of the flip to 3.x hold
	log      []string
}

// mode is which rules of assignment a worker follows at the moment.
type mode uint8

const (
	taking mode = iota // 2.x
	led                // 3.x
)

// held is a lease that this worker believes it owns (the renewer's ownedLeases).
type held struct {
	token   chan struct{} // held by who writes the row: renewals and checkpoints go one after the other
	session string
	// Under Worker.mu.
	l         lease
	renewed   time.Time // when a write last went through, by its end
	requested time.Time // since when a hand-over is known of; zero: none is
	consumer  *consumer
	bytes     int     // delivered since the last renewal
	kbps      float64 // LeaseStatsRecorder: a moving average of it
	measured  bool    // there is something to tell of
}

// New makes a worker. It starts nothing.
func New(s Settings) *Worker {
	s = s.withDefaults()
	return &Worker{
		s: s, stop: make(chan struct{}), rng: rand.New(rand.NewPCG(s.Seed, uint64(len(s.ID)))), //nolint:gosec // a simulation, by its seed
		held: map[string]*held{}, running: map[*consumer]bool{}, finished: map[string]bool{}, holes: map[string]int{},
	}
}

// ID is the worker's id.
func (w *Worker) ID() string { return w.s.ID }

// Stop is a graceful shutdown: the processors are asked to stop and may checkpoint. Run returns when they have. Nothing is released: Java
// just stops renewing (V10).
func (w *Worker) Stop() { w.once.Do(func() { close(w.stop) }) }

// Held are the shards that the worker believes it owns.
func (w *Worker) Held() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.held))
}

// Leads reports whether the worker believes that it leads (3.x).
func (w *Worker) Leads() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lock.held
}

// Led reports whether the worker follows the 3.x rules at the moment.
func (w *Worker) Led() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mode == led
}

// Log is what the worker did, a line each.
func (w *Worker) Log() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log)
}

func (w *Worker) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (w *Worker) fault(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	w.note("FAULT %v", err)
	w.s.Fault("a Java worker of %s, %s: %v", w.s.Version, w.s.ID, err)
}

// wall is the time by the worker's own clock.
func (w *Worker) wall() time.Time { return time.Now().Add(w.s.ClockOff) }

func (w *Worker) chance(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *Worker) is(m mode) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mode == m
}

// Run works until ctx ends, which kills it, or Stop is called. The error says why it could not start.
func (w *Worker) Run(ctx context.Context) error {
	for n := 1; ; n++ {
		err := w.start(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			break
		}
		if n == startAttempts {
			return err
		}
		w.note("start: %v", err)
		if pause(ctx, startBackoff) != nil {
			return nil
		}
	}
	planning, end := context.WithCancel(ctx)
	defer end()
	var plan, life sync.WaitGroup
	alive, die := context.WithCancel(ctx)
	defer die()
	w.mu.Lock()
	w.cleaned = time.Now()
	w.mu.Unlock()
	life.Go(func() { every(alive, 0, w.s.renewEvery(), w.renewAll) })
	life.Go(func() { every(alive, handOffWatch, handOffWatch, w.watchHandOffs) })
	life.Go(func() { every(alive, 0, dispatchEvery, w.dispatch) })
	life.Go(func() { every(alive, cleanEvery, cleanEvery, w.clean) })
	for _, l := range []struct {
		first, period time.Duration
		when          func() bool
		do            func(context.Context)
	}{
		{0, w.s.takeEvery(), func() bool { return w.is(taking) }, w.takeOnce},
		{shuffleFirst, shuffleEvery, func() bool { return w.is(taking) }, w.lookForLister},
		{0, w.s.assignEvery(), func() bool { return w.is(led) }, w.assignOnce},
		{w.s.LeaderHeartbeat, w.s.LeaderHeartbeat, func() bool { return w.is(led) }, w.heartbeat},
		{0, w.s.discoverEvery(), func() bool { return w.is(led) }, w.discover},
		{2 * time.Second, w.s.MetricsEvery, w.emits, w.emit},
		{auditFirst, auditEvery, func() bool { return true }, w.audit},
		{monitorEvery, monitorEvery, func() bool { return w.s.Version >= V34 }, w.monitor},
	} {
		plan.Go(func() {
			every(planning, l.first, l.period, func(ctx context.Context) {
				if l.when() {
					l.do(ctx)
				}
			})
		})
	}
	select {
	case <-ctx.Done():
	case <-w.stop:
		end()
		plan.Wait()
		w.quit(ctx)
	}
	end()
	plan.Wait()
	w.mu.Lock()
	w.stopping = true
	w.mu.Unlock()
	die()
	life.Wait()
	w.mu.Lock()
	running := slices.Collect(maps.Keys(w.running))
	w.mu.Unlock()
	for _, c := range running {
		<-c.done
	}
	return nil
}

// quit is startGracefulShutdown: consumers are asked to stop and waited for, then the lock is given back.
func (w *Worker) quit(ctx context.Context) {
	w.mu.Lock()
	w.stopping = true
	running := slices.Collect(maps.Keys(w.running))
	w.mu.Unlock()
	for _, c := range running {
		c.ask()
	}
	for _, c := range running {
		select {
		case <-c.done:
		case <-ctx.Done():
			return
		}
	}
	w.unlock(ctx)
	w.note("stopped")
}

// every calls f at first, and then at a fixed rate; a call that takes longer than the period delays the next.
func every(ctx context.Context, first, period time.Duration, f func(context.Context)) {
	t := time.NewTimer(first)
	defer t.Stop()
	due := time.Now().Add(first)
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		f(ctx)
		due = due.Add(period)
		t.Reset(max(0, time.Until(due)))
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// hold adds a lease to those that are renewed, with a concurrency token of its own.
func (w *Worker) hold(l lease, how string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held[l.key] != nil || w.stopping {
		return
	}
	w.sessions++
	h := &held{token: make(chan struct{}, 1), session: fmt.Sprintf("%s/%d", w.s.ID, w.sessions), l: l, renewed: time.Now()}
	w.held[l.key] = h
	w.log = append(w.log, time.Now().Format("15:04:05.000 ")+how+" "+l.key)
}

// lose drops a lease. The consumer learns of it in the next dispatch loop.
func (w *Worker) lose(h *held, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held[h.l.key] == h {
		delete(w.held, h.l.key)
		w.log = append(w.log, time.Now().Format("15:04:05.000 ")+"lost "+h.l.key+": "+why)
	}
}

// current is what the worker believes of a lease that it holds; false: it does not, or by its own clock no longer (getCurrentlyHeldLease).
func (w *Worker) current(h *held) (lease, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return h.l, w.held[h.l.key] == h && time.Since(h.renewed) <= w.s.Failover
}

func (h *held) acquire(ctx context.Context) bool {
	select {
	case h.token <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (h *held) release() { <-h.token }

// dispatch is the Scheduler's loop: consumers are told of leases that are gone, and made for leases that are new.
func (w *Worker) dispatch(ctx context.Context) {
	w.mu.Lock()
	var lost, drop []*consumer
	expired := func(h *held) bool { return time.Since(h.renewed) > w.s.Failover } // by its own clock: not held, though nobody has taken it
	for c := range w.running {
		if w.held[c.h.l.key] != c.h || expired(c.h) {
			lost = append(lost, c)
		}
	}
	for _, h := range w.held {
		switch {
		case w.stopping || expired(h):
		case h.consumer == nil:
			c := newConsumer(w, h)
			h.consumer = c
			w.running[c] = true
			go func() {
				defer close(c.done)
				c.run(ctx)
				w.mu.Lock()
				delete(w.running, c)
				w.mu.Unlock()
			}()
		case !w.running[h.consumer] && h.l.checkpoint != shardEnd && w.s.Version >= V34:
			drop = append(drop, h.consumer) // the consumer is over and the lease is not: it shall be found again
		}
	}
	w.mu.Unlock()
	for _, c := range lost {
		c.leaseLost()
	}
	for _, c := range drop {
		w.lose(c.h, "its consumer is over")
	}
}
