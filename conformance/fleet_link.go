package conformance

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// link is a worker's way to the table: any store, with faults on the way. What the worker sees has the abilities of the store and no more.
type link struct {
	f    *fleet
	next core.LeaseStore
	wg   sync.WaitGroup // writes that arrive late

	mu     sync.Mutex
	faults []*linkFault
	log    []linkWrite
	shown  map[showing]time.Time
}

// linkCall is a call on its way.
type linkCall struct {
	op   linkOp
	seen core.Lease // of update, create and delete
	set  core.Set   // of update
}

type linkOp string

const (
	opPrepare  linkOp = "prepare"
	opList     linkOp = "list"
	opGet      linkOp = "get"
	opCreate   linkOp = "create"
	opUpdate   linkOp = "update"
	opDelete   linkOp = "delete"
	opPresence linkOp = "presence"
)

// linkKind is what becomes of a call.
type linkKind uint8

const (
	callFails  linkKind = iota // it does not arrive
	callCut                    // it does not arrive, and nothing comes back before its context ends
	answerLost                 // it is carried out, and fails, a while later where a delay is named
	callLate                   // it fails, and is carried out a while later
	answerSlow                 // its answer takes a while
	listStale                  // listings show the table as it was when the fault began
	listPart                   // listings give some of their rows, and fail
	callSeen                   // nothing; the rule is told of it
)

type linkFault struct {
	kind  linkKind
	match func(c linkCall) bool // nil: every call
	err   error                 // nil: core.ErrUnavailable
	delay time.Duration
	every int // only each so manieth call; 0: each
	times int // over after so many; 0: never
	// before is called before the call is sent, after when it was carried out.
	before func(c linkCall)
	after  func(c linkCall, row core.Lease, err error)

	count  int
	healed chan struct{}
	sight  core.Sight // of listStale
}

// linkWrite is a write that was answered.
type linkWrite struct {
	linkCall
	row        core.Lease
	start, end time.Time
}

// showing is a counter as a listing showed it; what is kept is the end of the first listing that did.
type showing struct {
	key     core.LeaseKey
	counter int64
}

func newLink(f *fleet, next core.LeaseStore) *link {
	return &link{f: f, next: next, shown: map[showing]time.Time{}}
}

// breaks puts a fault on the way until heal is called.
func (l *link) breaks(x linkFault) (heal func()) {
	b := &x
	b.healed = make(chan struct{})
	if b.kind == listStale {
		sight, err := core.See(l.f.ctx, l.next, l.f.info.ID)
		if err != nil {
			l.f.fatalf("List: %v", err)
		}
		b.sight = sight
	}
	l.mu.Lock()
	l.faults = append(l.faults, b)
	l.mu.Unlock()
	return func() { l.remove(b) }
}

func (l *link) remove(b *linkFault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.faults, b); i >= 0 {
		l.faults = slices.Delete(l.faults, i, i+1)
		close(b.healed)
	}
}

// cut cuts the worker off.
func (l *link) cut() (heal func()) { return l.breaks(linkFault{kind: callCut}) }

// heal ends every fault.
func (l *link) heal() {
	l.mu.Lock()
	all := slices.Clone(l.faults)
	l.mu.Unlock()
	for _, b := range all {
		l.remove(b)
	}
}

// strike finds the faults of a call.
func (l *link) strike(c linkCall) (out []*linkFault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range slices.Clone(l.faults) {
		list := b.kind == listStale || b.kind == listPart
		if list && c.op != opList || b.match != nil && !b.match(c) {
			continue
		}
		if b.count++; b.every > 0 && b.count%b.every != 0 {
			continue
		}
		out = append(out, b)
		if b.times > 0 {
			if b.times--; b.times == 0 {
				l.faults = slices.DeleteFunc(l.faults, func(o *linkFault) bool { return o == b })
			}
		}
	}
	return out
}

// failure is an error as adapters make them: its kind deep inside.
func (b *linkFault) failure(c linkCall) error {
	kind := b.err
	if kind == nil {
		kind = core.ErrUnavailable
	}
	return &core.Error{Op: string(c.op), Stream: c.seen.Key.Stream, Shard: c.seen.Key.Shard, Err: fmt.Errorf("table: %w", fmt.Errorf("service: %w", kind))}
}

// send carries a call out, with what befalls it on the way.
func (l *link) send(ctx context.Context, c linkCall, call func(context.Context) (core.Lease, error)) (core.Lease, error) {
	faults := l.strike(c)
	for _, b := range faults {
		if b.before != nil {
			b.before(c)
		}
	}
	faults = append(faults, l.strikeCut(c)...)
	for _, b := range faults {
		switch b.kind {
		case callFails:
			return core.Lease{}, b.failure(c)
		case callCut:
			select {
			case <-ctx.Done():
				return core.Lease{}, fmt.Errorf("%s: %w", c.op, ctx.Err())
			case <-b.healed:
				return core.Lease{}, b.failure(c)
			}
		case callLate:
			later := context.WithoutCancel(ctx)
			l.wg.Go(func() {
				timer := time.NewTimer(b.delay)
				defer timer.Stop()
				<-timer.C
				_, _ = call(later)
			})
			return core.Lease{}, b.failure(c)
		}
	}
	start, waiter := time.Now(), ctx
	if slices.ContainsFunc(faults, func(b *linkFault) bool { return b.kind == answerLost }) {
		ctx = context.WithoutCancel(ctx)
	}
	row, err := call(ctx)
	for _, b := range faults {
		if b.after != nil {
			b.after(c, row, err)
		}
	}
	for _, b := range faults {
		switch b.kind {
		case answerLost, answerSlow:
			if b.delay > 0 {
				timer := time.NewTimer(b.delay)
				select {
				case <-timer.C:
				case <-waiter.Done():
					timer.Stop()
					return core.Lease{}, fmt.Errorf("%s: %w", c.op, waiter.Err())
				}
			}
			if b.kind == answerLost {
				return core.Lease{}, b.failure(c)
			}
		}
	}
	if err == nil && (c.op == opUpdate || c.op == opCreate || c.op == opDelete) {
		l.mu.Lock()
		l.log = append(l.log, linkWrite{c, row, start, time.Now()})
		l.mu.Unlock()
	}
	return row, err
}

// strikeCut finds a cut that a hook of this very call made.
func (l *link) strikeCut(c linkCall) (out []*linkFault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.faults {
		if b.kind == callCut && (b.match == nil || b.match(c)) {
			return []*linkFault{b}
		}
	}
	return nil
}

// writes are the answered writes about a shard, oldest first.
func (l *link) writes(shard core.ShardID, is func(w linkWrite) bool) (out []linkWrite) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.log {
		if (shard == "" || w.seen.Key.Shard == shard) && (is == nil || is(w)) {
			out = append(out, w)
		}
	}
	return out
}

// The writes of the protocol, told by what they change.
func takes(me core.WorkerID) func(c linkCall) bool {
	return func(c linkCall) bool {
		return c.op == opUpdate && c.set.Owner != nil && *c.set.Owner == me && c.set.Run != ""
	}
}

func asks(c linkCall) bool {
	return c.op == opUpdate && c.set.Next != nil && *c.set.Next != core.Nobody && c.set.Owner == nil
}

func accepts(c linkCall) bool { return c.op == opUpdate && c.set.Owner == nil && c.set.Run != "" }

func handsOver(c linkCall) bool {
	return c.op == opUpdate && c.set.Owner != nil && *c.set.Owner != core.Nobody && c.set.Run == ""
}

func declines(c linkCall) bool {
	return c.op == opUpdate && c.set.Next != nil && *c.set.Next == core.Nobody && c.set.Owner == nil && c.set.Bump
}

func ends(c linkCall) bool {
	return c.op == opUpdate && c.set.Checkpoint != nil && c.set.Checkpoint.IsEnd()
}

func addsChildren(c linkCall) bool { return c.op == opUpdate && len(c.set.Children) > 0 }

func isOp(op linkOp) func(c linkCall) bool { return func(c linkCall) bool { return c.op == op } }

func isWrite(w linkWrite) bool { return w.op == opUpdate && w.set.Bump }

// saw notes which counters a listing showed.
func (l *link) saw(rows []core.Lease) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range rows {
		if k := (showing{r.Key, r.Counter}); l.shown[k].IsZero() {
			l.shown[k] = now
		}
	}
}

// shownBefore is the end of the first listing that showed the counter on which a write stood.
func (l *link) shownBefore(w linkWrite) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shown[showing{w.seen.Key, w.seen.Counter}]
}

// look is one listing.
func (l *link) look(ctx context.Context, read func(context.Context) (core.Sight, error)) (core.Sight, error) {
	c := linkCall{op: opList}
	var sight core.Sight
	part, stale := false, false
	for _, b := range l.peekLists() {
		part = part || b.kind == listPart
		if b.kind == listStale {
			stale, sight = true, b.sight
			sight.Leases = slices.Clone(sight.Leases)
		}
	}
	_, err := l.send(ctx, c, func(ctx context.Context) (core.Lease, error) {
		if stale {
			return core.Lease{}, nil
		}
		var err error
		sight, err = read(ctx)
		return core.Lease{}, err
	})
	if err != nil {
		return core.Sight{}, err
	}
	if part {
		sight.Leases, err = sight.Leases[:len(sight.Leases)/2], (&linkFault{}).failure(c)
		return sight, err
	}
	l.saw(sight.Leases)
	return sight, nil
}

func (l *link) peekLists() (out []*linkFault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.faults {
		if b.kind == listStale || b.kind == listPart {
			out = append(out, b)
		}
	}
	return out
}

// store is what the worker gets: the six methods, and the optional abilities that the store has.
func (l *link) store() core.LeaseStore {
	s := linkStore{l}
	p, hasPresence := l.next.(core.Presence)
	m, hasMany := l.next.(core.ManyUpdater)
	switch {
	case hasPresence && hasMany:
		return struct {
			linkStore
			linkPresence
			linkMany
		}{s, linkPresence{l, p}, linkMany{l, m}}
	case hasPresence:
		return struct {
			linkStore
			linkPresence
		}{s, linkPresence{l, p}}
	case hasMany:
		return struct {
			linkStore
			linkMany
		}{s, linkMany{l, m}}
	}
	return s
}

// plain is the store without what is optional.
func (l *link) plain() core.LeaseStore { return linkStore{l} }

type linkStore struct{ l *link }

func (s linkStore) Prepare(ctx context.Context) error {
	_, err := s.l.send(ctx, linkCall{op: opPrepare}, func(ctx context.Context) (core.Lease, error) { return core.Lease{}, s.l.next.Prepare(ctx) })
	return err
}

func (s linkStore) List(ctx context.Context, streams ...core.StreamID) iter.Seq2[core.Lease, error] {
	return func(yield func(core.Lease, error) bool) {
		sight, err := s.l.look(ctx, func(ctx context.Context) (core.Sight, error) { return core.Collect(s.l.next.List(ctx, streams...)) })
		for _, r := range sight.Leases {
			if !yield(r, nil) {
				return
			}
		}
		for _, bad := range sight.Bad {
			if !yield(core.Lease{Key: bad.Key}, bad) {
				return
			}
		}
		if err != nil {
			yield(core.Lease{}, err)
		}
	}
}

func (s linkStore) Get(ctx context.Context, key core.LeaseKey) (core.Lease, error) {
	return s.l.send(ctx, linkCall{op: opGet, seen: core.Lease{Key: key}}, func(ctx context.Context) (core.Lease, error) { return s.l.next.Get(ctx, key) })
}

func (s linkStore) Create(ctx context.Context, r core.Lease) (core.Lease, error) {
	return s.l.send(ctx, linkCall{op: opCreate, seen: r}, func(ctx context.Context) (core.Lease, error) { return s.l.next.Create(ctx, r) })
}

func (s linkStore) Update(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
	return s.l.send(ctx, linkCall{op: opUpdate, seen: seen, set: set}, func(ctx context.Context) (core.Lease, error) { return s.l.next.Update(ctx, seen, same, set) })
}

func (s linkStore) Delete(ctx context.Context, seen core.Lease, same core.Same) error {
	_, err := s.l.send(ctx, linkCall{op: opDelete, seen: seen}, func(ctx context.Context) (core.Lease, error) { return core.Lease{}, s.l.next.Delete(ctx, seen, same) })
	return err
}

// HoldsStart and Evidence mean the same with and without the ability, so every linkStore has them.
func (s linkStore) HoldsStart() bool {
	h, ok := s.l.next.(core.StartHolder)
	return !ok || h.HoldsStart()
}

func (s linkStore) Evidence(r core.Lease) (subject, beat string) {
	if e, ok := s.l.next.(core.Evidence); ok {
		return e.Evidence(r)
	}
	return "", strconv.FormatInt(r.Counter, 10)
}

type linkPresence struct {
	l    *link
	next core.Presence
}

func (p linkPresence) Announce(ctx context.Context, w core.WorkerInfo) error {
	_, err := p.l.send(ctx, linkCall{op: opPresence}, func(ctx context.Context) (core.Lease, error) { return core.Lease{}, p.next.Announce(ctx, w) })
	return err
}

func (p linkPresence) Withdraw(ctx context.Context, id core.WorkerID) error {
	_, err := p.l.send(ctx, linkCall{op: opPresence}, func(ctx context.Context) (core.Lease, error) { return core.Lease{}, p.next.Withdraw(ctx, id) })
	return err
}

func (p linkPresence) Look(ctx context.Context, streams ...core.StreamID) (core.Sight, error) {
	sight, err := p.l.look(ctx, func(ctx context.Context) (core.Sight, error) { return p.next.Look(ctx, streams...) })
	if err != nil {
		return core.Sight{}, err
	}
	return sight, nil
}

type linkMany struct {
	l    *link
	next core.ManyUpdater
}

// UpdateMany fails as a whole or goes through as a whole on the way; each update has its own fate at the table.
func (m linkMany) UpdateMany(ctx context.Context, u []core.LeaseUpdate) (rows []core.Lease, errs []error) {
	c := linkCall{op: opUpdate}
	if len(u) > 0 {
		c.seen, c.set = u[0].Seen, u[0].Write.Set
	}
	_, err := m.l.send(ctx, c, func(ctx context.Context) (core.Lease, error) {
		rows, errs = m.next.UpdateMany(ctx, u)
		return core.Lease{}, nil
	})
	if err != nil {
		rows, errs = make([]core.Lease, len(u)), make([]error, len(u))
		for i := range errs {
			errs[i] = err
		}
	}
	return rows, errs
}
