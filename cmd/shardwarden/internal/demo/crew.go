package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
)

// leaseDuration is short, so that a failover fits into the demo. The default of the library is 10 s.
const leaseDuration = 3 * time.Second

type state string

const (
	running state = "running"
	zombie  state = "zombie"
	stopped state = "stopped"
)

// member is one worker of the fleet. Each has a worker, a network and credentials of its own, as if it were a process.
type member struct {
	name   string
	seat   seat
	worker *worker.Worker
	cancel context.CancelFunc
	done   chan struct{} // closed when Run has returned
	err    error         // of Run; to be read after done
	state  state         // guarded by the crew
	cutAt  time.Duration
}

// crew is the fleet. Safe for concurrent use.
type crew struct {
	boundary *boundary
	log      *slog.Logger
	fail     func(error) // ends the demo

	mu      sync.Mutex
	members []*member
}

// start adds a worker and lets it run.
func (c *crew) start(ctx context.Context) (*member, error) {
	c.mu.Lock()
	name := fmt.Sprintf("w%d", len(c.members)+1)
	c.mu.Unlock()
	s, err := c.boundary.stage.join(name)
	if err != nil {
		return nil, fmt.Errorf("worker %s: %w", name, err)
	}
	w, err := worker.New(worker.Config{
		ID:              core.WorkerID(name),
		Streams:         worker.One(s.source, core.FromHorizon),
		Store:           s.store,
		Factory:         c.boundary.factory(name),
		LeaseDuration:   leaseDuration,
		CheckpointEvery: time.Second,
		ShutdownTimeout: 10 * time.Second,
	}, worker.WithLogger(c.log.With("worker", name)))
	if err != nil {
		return nil, fmt.Errorf("worker %s: %w", name, err)
	}
	// Stopping is asked for by stop alone: the end of ctx is the end of the demo, which stops its workers in order.
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	m := &member{name: name, seat: s, worker: w, cancel: cancel, done: make(chan struct{}), state: running}
	c.mu.Lock()
	c.members = append(c.members, m)
	c.mu.Unlock()
	go func() {
		defer close(m.done)
		m.err = w.Run(own)
		if own.Err() == nil {
			c.fail(fmt.Errorf("worker %s ended by itself: %w", name, m.err))
		}
	}()
	return m, nil
}

// in lists the members in a state.
func (c *crew) in(s state) []*member {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*member
	for _, m := range c.members {
		if m.state == s {
			out = append(out, m)
		}
	}
	return out
}

func (c *crew) all() []*member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*member(nil), c.members...)
}

func (c *crew) become(m *member, s state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.state = s
}

func (c *crew) stateOf(m *member) state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return m.state
}

// sever turns a worker into a zombie.
func (c *crew) sever(m *member, at time.Duration) {
	m.cutAt = at
	m.seat.sever()
	c.become(m, zombie)
}

// stop stops a worker gracefully and waits for it.
func (c *crew) stop(m *member) error {
	m.cancel()
	<-m.done
	c.become(m, stopped)
	if m.err != nil {
		return fmt.Errorf("worker %s: %w", m.name, m.err)
	}
	return nil
}

// disband stops all at once and waits. A zombie may end as it likes; what the others report is returned.
func (c *crew) disband() error {
	var wg sync.WaitGroup
	members := c.all()
	errs := make([]error, len(members))
	for i, m := range members {
		wg.Go(func() {
			if c.stateOf(m) == zombie {
				m.seat.leave()
				_ = c.stop(m)
				return
			}
			errs[i] = c.stop(m)
			m.seat.leave()
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
