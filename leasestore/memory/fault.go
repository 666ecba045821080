package memory

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// Op names a method of a store, for faults and counts.
type Op string

// The calls of [core.LeaseStore], [core.Presence] and [core.LeaderLock].
const (
	Prepare  Op = "prepare table"
	List     Op = "list leases"
	Get      Op = "get lease"
	Create   Op = "create lease"
	Update   Op = "update lease"
	Delete   Op = "delete lease"
	Announce Op = "announce worker"
	Withdraw Op = "withdraw worker"
	Look     Op = "look at table"
	Leader   Op = "read leader's lock"
	Lead     Op = "write leader's lock"
	Resign   Op = "give leader's lock back"
)

// Kind says what goes wrong with a call.
type Kind uint8

const (
	// Fail: the request does not arrive. Nothing is read or written.
	Fail Kind = iota
	// Lose: the request is carried out, and its answer does not arrive.
	Lose
	// Late: the call fails, and its request is carried out all the same, Delay after it failed.
	Late
	// Slow: nothing fails. The request arrives Delay later, or with Hang once the fault is healed; if the call's context ends before, it
	// never does.
	Slow
	// Stale: List and Look show the table as it was Delay ago, at most as it was when the first fault of this kind was set on it. Get is
	// always fresh.
	Stale
)

// Fault is something that goes wrong with the calls it matches. Where several match, delays add up, and the first that makes the call fail
// decides how. The zero Fault fails every call.
type Fault struct {
	Kind  Kind
	Ops   []Op          // none: every call
	Shard core.ShardID  // empty: any. Only Get, Create, Update and Delete are about one shard
	Err   error         // what a failing call returns; nil: [core.ErrUnavailable]. [core.ErrThrottled] makes a throttled table
	Delay time.Duration // see Kind; with Fail and Lose how long the caller waits for the error
	Hang  bool          // with Fail and Lose: the caller waits until the fault is healed or its context ends. Then it fails
	Skip  int           // so many matching calls go well first
	Times int           // the fault is over after it struck so often; 0: only when healed
	Odds  float64       // strikes with this probability, between 0 and 1; 0: always
	Seed  uint64        // of the dice for Odds
}

// faults are those of one handle, and how often each call was made.
type faults struct {
	mu    sync.Mutex
	set   []*fault
	calls map[Op]int
}

type fault struct {
	Fault
	dice   *rand.Rand
	over   bool // it struck Times times
	healed chan struct{}
}

// Break makes calls through this handle go wrong until heal is called or the fault's Times are over. Calls that hang fail then. heal may be
// called more than once.
func (s *Store) Break(f Fault) (heal func()) {
	if f.Kind == Stale {
		s.table.remember(f.Delay)
	}
	b := &fault{Fault: f, dice: rand.New(rand.NewPCG(f.Seed, 0)), healed: make(chan struct{})}
	b.Ops = slices.Clone(f.Ops)
	s.faults.mu.Lock()
	s.faults.set = append(s.faults.set, b)
	s.faults.mu.Unlock()
	return func() { s.faults.heal(b) }
}

// Heal ends every fault of this handle.
func (s *Store) Heal() {
	s.faults.mu.Lock()
	all := s.faults.set
	s.faults.set = nil
	s.faults.mu.Unlock()
	for _, b := range all {
		close(b.healed)
	}
}

// Calls is how many calls of each kind were made through this handle so far, those that failed included. A listing counts once for each
// page.
func (s *Store) Calls() map[Op]int {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	return maps.Clone(s.faults.calls)
}

func (f *faults) heal(b *fault) {
	f.mu.Lock()
	i := slices.Index(f.set, b)
	if i >= 0 {
		f.set = slices.Delete(f.set, i, i+1)
	}
	f.mu.Unlock()
	if i >= 0 {
		close(b.healed)
	}
}

// fate is what faults make of one call.
type fate struct {
	waits []*fault
	stale time.Duration
	fails *fault
}

// count counts a call and says what becomes of it.
func (f *faults) count(op Op, shard core.ShardID) fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls == nil {
		f.calls = map[Op]int{}
	}
	f.calls[op]++

	var out fate
	if len(f.set) == 0 {
		return out
	}
	for _, b := range slices.Clone(f.set) {
		switch {
		case !b.matches(op, shard) || b.fails() && out.fails != nil || !f.strikes(b):
		case b.Kind == Slow:
			out.waits = append(out.waits, b)
		case b.Kind == Stale:
			out.stale = max(out.stale, b.Delay)
		default:
			out.fails = b
		}
	}
	return out
}

func (b *fault) matches(op Op, shard core.ShardID) bool {
	if b.Kind == Stale && op != List && op != Look {
		return false
	}
	return (len(b.Ops) == 0 || slices.Contains(b.Ops, op)) && (b.Shard == "" || b.Shard == shard)
}

// strikes rolls the dice and counts Skip and Times down. A fault that is over leaves the set, unless calls may hang on it.
func (f *faults) strikes(b *fault) bool {
	if b.Skip > 0 {
		b.Skip--
		return false
	}
	if b.over || b.Odds > 0 && b.dice.Float64() >= b.Odds {
		return false
	}
	if b.Times > 0 {
		b.Times--
		b.over = b.Times == 0
	}
	if b.over && !b.Hang {
		f.set = slices.DeleteFunc(f.set, func(o *fault) bool { return o == b })
	}
	return true
}

func (b *fault) fails() bool { return b.Kind != Slow && b.Kind != Stale }

// fail waits as the fault says and returns its error, or that of a context that ended before.
func (b *fault) fail(ctx context.Context) error {
	if b.Kind != Late {
		if err := b.wait(ctx); err != nil {
			return err
		}
	}
	if b.Err != nil {
		return b.Err
	}
	return core.ErrUnavailable
}

// wait waits as the fault says.
func (b *fault) wait(ctx context.Context) error {
	if b.Delay <= 0 && !b.Hang {
		return nil
	}
	var alarm <-chan time.Time
	if !b.Hang {
		t := time.NewTimer(b.Delay)
		defer t.Stop()
		alarm = t.C
	}
	select {
	case <-alarm:
	case <-b.healed:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
