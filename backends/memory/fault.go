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

// Op names a call to a stream, for faults and counts.
type Op string

// The calls of [core.StreamSource], [core.ShardReader], [core.Resolver] and [core.Clock].
const (
	Describe Op = "describe stream"
	Shards   Op = "list shards"
	Open     Op = "open"
	Next     Op = "read"
	Resolve  Op = "resolve start of"
	Now      Op = "ask time of"
)

// Kind says what goes wrong with a call.
type Kind uint8

const (
	// Fail: the call fails with Err, Delay later. A reader stands where it stood.
	Fail Kind = iota
	// Slow: nothing fails. The call takes Delay longer.
	Slow
	// Stale: Shards shows the stream as it was Delay ago: without newer shards, and with shards as open that have ended since.
	Stale
	// Empty: Next finds nothing though there may be records, after Delay (0: one second).
	Empty
	// FalseEnd: Next says that the shard has ended, and names no children, though it may be open. The records behind stay unread.
	FalseEnd
	// Orphans: Next names no children at the end of the shard.
	Orphans
)

// Fault is something that goes wrong with the calls it matches. Where several match, delays add up, and the first that makes the call fail
// decides how. The zero Fault fails every call.
type Fault struct {
	Kind  Kind
	Ops   []Op          // none: every call (that Kind is about)
	Shard core.ShardID  // empty: any. Only Open, Next and Resolve are about one shard
	Err   error         // of Fail; nil: core.ErrUnavailable. Throttled, denied, expired, trimmed and not found are other kinds to choose from
	Delay time.Duration // see Kind
	Hang  bool          // with Fail and Slow: the call waits until the fault is healed, its context ends or its reader is closed
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

// Break makes calls through this handle go wrong until heal is called or the fault's Times are over. Calls that hang go on then, or fail. heal
// may be called more than once.
func (h *Stream) Break(f Fault) (heal func()) {
	b := &fault{Fault: f, dice: rand.New(rand.NewPCG(f.Seed, 0)), healed: make(chan struct{})}
	b.Ops = slices.Clone(f.Ops)
	h.faults.mu.Lock()
	h.faults.set = append(h.faults.set, b)
	h.faults.mu.Unlock()
	return func() { h.faults.heal(b) }
}

// Heal ends every fault of this handle.
func (h *Stream) Heal() {
	h.faults.mu.Lock()
	all := h.faults.set
	h.faults.set = nil
	h.faults.mu.Unlock()
	for _, b := range all {
		close(b.healed)
	}
}

// Calls is how many calls of each kind were made through this handle so far, those that failed included.
func (h *Stream) Calls() map[Op]int {
	h.faults.mu.Lock()
	defer h.faults.mu.Unlock()
	return maps.Clone(h.faults.calls)
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
	waits               []*fault
	fails               *fault
	stale               time.Duration
	empty, end, orphans bool
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
		if !b.matches(op, shard) || b.Kind == Fail && out.fails != nil || !f.strikes(b) {
			continue
		}
		switch b.Kind {
		case Fail:
			out.fails = b
		case Slow:
			out.waits = append(out.waits, b)
		case Stale:
			out.stale = max(out.stale, b.Delay)
		case Empty:
			out.empty = true
			out.waits = append(out.waits, b)
		case FalseEnd:
			out.end = true
		case Orphans:
			out.orphans = true
		}
	}
	return out
}

func (b *fault) matches(op Op, shard core.ShardID) bool {
	switch b.Kind {
	case Stale:
		if op != Shards {
			return false
		}
	case Empty, FalseEnd, Orphans:
		if op != Next {
			return false
		}
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

// call carries out the faults of one call.
func (h *Stream) call(ctx context.Context, op Op, shard core.ShardID) (fate, error) {
	return h.callUntil(ctx, op, shard, nil)
}

// callUntil also ends when the reader is closed.
func (h *Stream) callUntil(ctx context.Context, op Op, shard core.ShardID, closed <-chan struct{}) (fate, error) {
	if err := ctx.Err(); err != nil {
		return fate{}, err
	}
	select {
	case <-closed:
		return fate{}, h.stream.wrap(string(op), shard, ErrClosed)
	default:
	}
	out := h.faults.count(op, shard)
	for _, b := range out.waits {
		if err := b.wait(ctx, closed); err != nil {
			return fate{}, h.stream.wrap(string(op), shard, err)
		}
	}
	if b := out.fails; b != nil {
		err := b.wait(ctx, closed)
		if err == nil {
			err = core.ErrUnavailable
			if b.Err != nil {
				err = b.Err
			}
		}
		return fate{}, h.stream.wrap(string(op), shard, err)
	}
	return out, nil
}

// wait waits as the fault says.
func (b *fault) wait(ctx context.Context, closed <-chan struct{}) error {
	delay := b.Delay
	if b.Kind == Empty && delay == 0 {
		delay = time.Second
	}
	if delay <= 0 && !b.Hang {
		return nil
	}
	var alarm <-chan time.Time
	if !b.Hang {
		t := time.NewTimer(delay)
		defer t.Stop()
		alarm = t.C
	}
	select {
	case <-alarm:
	case <-b.healed:
	case <-ctx.Done():
		return ctx.Err()
	case <-closed:
		return ErrClosed
	}
	return nil
}
