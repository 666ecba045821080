package lineage

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// A history is a stream that is written, split, merged and trimmed while an application begins, lists, creates, reads, ends, changes owners,
// deletes, and crashes between any two writes, by the answers of this package. A dumb ledger beside it knows what must come of it.

type record struct {
	cell, n int // the n-th record of a key
	at      int // tick
}

type streamShard struct {
	core.Shard
	born, closed int // ticks; closed 0: open
	lo, hi       int // keys lo to hi-1
	records      []record
	gone         bool
}

type readState struct {
	read  int  // records of the shard taken
	owned bool // somebody reads it
}

// knobs change the application, so that histories show what a rule is for.
type knobs struct {
	forgetReady bool // the gate and Create do not see the flag
	foreign     bool // no row has the flag, nor an instant: the table is another library's
	keepListed  bool
	gateOpen    bool // children start without asking
	noListing   bool // Create believes a truncated listing
}

type history struct {
	rng     *rand.Rand
	knobs   knobs
	tick    int
	shards  map[core.ShardID]*streamShard
	order   []core.ShardID // by birth
	ticks   [][]int        // per key: when its records were written
	start   core.Position
	started int // tick of the start; -1: what was there at the bootstrap

	leases  map[core.ShardID]*core.Lease
	state   map[core.ShardID]*readState
	created map[core.ShardID]int
	bad     map[core.ShardID]bool
	listing []core.Shard
	open    []core.ShardID
	listed  bool
	missing []core.ShardID
	twice   []core.ShardID

	// lax: the bootstrap broke off, and the rows it made moved on before it was finished, so the instant of the start is lost. What is left
	// is read from its beginning, which may be before the start.
	lax bool

	expected  map[record]bool
	delivered []int // per key: the next record
	log       []string
}

const cells = 16

var histories = flag.Int("histories", 200, "random histories of each kind")

func instantOf(tick int) time.Time { return t0.Add(time.Duration(tick) * time.Second) }

func newHistory(seed uint64, k knobs) *history {
	h := &history{
		rng: rand.New(rand.NewPCG(seed, 3)), knobs: k, shards: map[core.ShardID]*streamShard{}, ticks: make([][]int, cells),
		leases: map[core.ShardID]*core.Lease{}, state: map[core.ShardID]*readState{}, created: map[core.ShardID]int{}, bad: map[core.ShardID]bool{},
		expected: map[record]bool{}, delivered: make([]int, cells), tick: 1,
	}
	n := 1 + h.rng.IntN(3)
	for i := range n {
		h.birth(i*cells/n, (i+1)*cells/n)
	}
	return h
}

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf("%4d ", h.tick)+fmt.Sprintf(format, args...))
}

func (h *history) birth(lo, hi int, parents ...core.ShardID) *streamShard {
	// Ids say nothing about age: not all services number their shards upwards.
	id := core.ShardID(fmt.Sprintf("%c%d", 'a'+h.rng.IntN(26), len(h.order)))
	s := &streamShard{Shard: core.Shard{ID: id, Parents: parents}, born: h.tick, lo: lo, hi: hi}
	s.Range = &core.HashRange{}
	s.Range.Start[0], s.Range.End = byte(lo*256/cells), maxKey
	s.Range.End[0] = byte(hi*256/cells - 1)
	h.shards[id] = s
	h.order = append(h.order, id)
	return s
}

func (h *history) openShards() (out []*streamShard) {
	for _, id := range h.order {
		if s := h.shards[id]; s.closed == 0 {
			out = append(out, s)
		}
	}
	return out
}

// reshard splits a shard or merges two neighbours.
func (h *history) reshard() {
	open := h.openShards()
	s := open[h.rng.IntN(len(open))]
	if h.rng.IntN(2) == 0 {
		for _, o := range open {
			if o.lo == s.hi {
				s.closed, o.closed, s.Closed, o.Closed = h.tick, h.tick, true, true
				m := h.birth(s.lo, o.hi, s.ID, o.ID)
				h.note("merge %s and %s into %s", s.ID, o.ID, m.ID)
				return
			}
		}
	}
	if s.hi-s.lo < 2 {
		return
	}
	s.closed, s.Closed = h.tick, true
	mid := s.lo + 1 + h.rng.IntN(s.hi-s.lo-1)
	a, b := h.birth(s.lo, mid, s.ID), h.birth(mid, s.hi, s.ID)
	h.note("split %s into %s and %s", s.ID, a.ID, b.ID)
}

func (h *history) write() {
	c := h.rng.IntN(cells)
	for _, s := range h.openShards() {
		if s.lo <= c && c < s.hi {
			r := record{c, len(h.ticks[c]), h.tick}
			h.ticks[c] = append(h.ticks[c], h.tick)
			s.records = append(s.records, r)
			if h.started > 0 && h.tick >= h.started || h.started < 0 && h.listed {
				h.expected[r] = true
			}
		}
	}
}

// trim lets the service forget the shard that was closed first, unless the application still needs it.
func (h *history) trim() {
	var first *streamShard
	for _, id := range h.order {
		if s := h.shards[id]; !s.gone && s.closed > 0 && (first == nil || s.closed < first.closed) {
			first = s
		}
	}
	if first == nil {
		return
	}
	for _, r := range first.records {
		if h.expected[r] && h.delivered[r.cell] <= r.n {
			return
		}
	}
	if l := h.leases[first.ID]; l != nil && !l.Ended() && h.rng.IntN(4) > 0 {
		return
	}
	// A lease that no reader has brought to its end yet finds nothing more to read: that is an end, too.
	first.gone = true
	h.note("%s is trimmed", first.ID)
}

// begin fixes the start, before anything is listed.
func (h *history) begin() {
	switch h.rng.IntN(3) {
	case 0:
		h.start, h.started = core.FromHorizon, -1
		for _, s := range h.shards {
			for _, r := range s.records {
				h.expected[r] = !s.gone
			}
		}
	case 1:
		h.start, h.started = core.FromLatest, h.tick
	case 2:
		h.started = 1 + h.rng.IntN(h.tick)
		h.start = core.From(instantOf(h.started))
		for _, s := range h.shards {
			for _, r := range s.records {
				if r.at >= h.started {
					if s.gone { // as the service does: not before the oldest that is left
						h.start, h.started = core.From(instantOf(h.tick)), h.tick
						clear(h.expected)
						h.note("application begins at %v", h.start)
						return
					}
					h.expected[r] = true
				}
			}
		}
	}
	h.note("application begins at %v, tick %d", h.start, h.started)
}

func (h *history) list() {
	h.listing, h.open, h.listed = nil, nil, true
	for _, i := range h.rng.Perm(len(h.order)) {
		if s := h.shards[h.order[i]]; !s.gone {
			h.listing = append(h.listing, s.Shard)
		}
	}
	var missing []core.ShardID
	h.twice = nil
	for _, id := range New(h.input(false)).Missing() {
		missing = append(missing, id)
		if slices.Contains(h.missing, id) {
			h.twice = append(h.twice, id)
		}
	}
	h.missing = missing
}

// input is a look at the table, with the last listing, which may be older.
func (h *history) input(forDelete bool) Input {
	in := Input{Stream: "s", Shards: slices.Clone(h.listing), Listed: h.listed, Start: h.start}
	for _, id := range slices.Sorted(maps.Keys(h.leases)) {
		if h.bad[id] {
			in.Bad = append(in.Bad, id)
			continue
		}
		l := *h.leases[id]
		if h.knobs.forgetReady && !forDelete || h.knobs.foreign {
			l.Ready = false
		}
		if h.knobs.foreign && l.Checkpoint.Anchor != core.AtTime {
			l.StartAt = time.Time{}
		}
		in.Leases = append(in.Leases, l)
	}
	h.rng.Shuffle(len(in.Leases), func(i, j int) { in.Leases[i], in.Leases[j] = in.Leases[j], in.Leases[i] })
	if start, resolve := StartOf(in); resolve {
		in.Start.Time = instantOf(h.started)
	} else {
		in.Start = start
		if start.Anchor == core.Latest && start.Time.IsZero() {
			for id, s := range h.shards {
				h.lax = h.lax || h.created[id] == 0 && s.born <= h.started && (s.closed == 0 || s.closed > h.started)
			}
		}
	}
	if New(in).NeedsStart() {
		in.OpenAtStart = []core.ShardID{}
		for _, s := range h.shards {
			listed := slices.ContainsFunc(in.Shards, func(o core.Shard) bool { return o.ID == s.ID })
			if at := int(in.Start.Time.Sub(t0).Seconds()); listed && s.born <= at && (s.closed == 0 || s.closed > at) {
				in.OpenAtStart = append(in.OpenAtStart, s.ID)
			}
		}
	}
	return in
}

// put creates leases in their order and may crash on the way.
func (h *history) put(leases []core.Lease) (all bool) {
	for _, l := range leases {
		if h.rng.IntN(12) == 0 {
			h.note("crash before %s is created", l.Key.Shard)
			return false
		}
		if h.leases[l.Key.Shard] != nil {
			continue
		}
		h.note("created %s at %v ready %v", l.Key.Shard, l.Checkpoint, l.Ready)
		h.created[l.Key.Shard]++
		h.leases[l.Key.Shard] = &l
		h.state[l.Key.Shard] = &readState{}
		if l.Checkpoint.Anchor != core.Horizon {
			for _, r := range h.shards[l.Key.Shard].records {
				if r.at < int(l.StartAt.Sub(t0).Seconds()) {
					h.state[l.Key.Shard].read++
				}
			}
		}
	}
	return true
}

func (h *history) sync() error {
	if !h.listed {
		return nil
	}
	in := h.input(false)
	if h.knobs.noListing && len(in.Shards) > 1 {
		in.Shards = in.Shards[:1+h.rng.IntN(len(in.Shards)-1)]
	}
	leases, err := Create(in)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	h.put(leases)
	for id, n := range h.created {
		if n > 1 {
			return fmt.Errorf("%s was created %d times", id, n)
		}
	}
	return nil
}

// work takes a lease that may be read, reads some of it, and ends or releases it.
func (h *history) work(id core.ShardID) error {
	l, st, s := h.leases[id], h.state[id], h.shards[id]
	if l.Ended() || h.bad[id] {
		return nil
	}
	if !st.owned {
		if ok, _ := MayStart(h.input(false), id); !ok && !h.knobs.gateOpen {
			return nil
		}
		st.owned = true
		l.Ready = true // as each take writes
	}
	for n := h.rng.IntN(4); n > 0 && st.read < len(s.records); n-- {
		r := s.records[st.read]
		if s.gone {
			break
		}
		st.read++
		l.Checkpoint, l.StartAt = core.Position{Token: fmt.Sprint(r.at)}, time.Time{}
		if !h.expected[r] {
			if h.lax {
				continue
			}
			return fmt.Errorf("%s delivers %+v, which was there before the start", id, r)
		}
		switch next := h.delivered[r.cell]; {
		case r.n < next:
			return fmt.Errorf("%s delivers %+v again", id, r)
		case r.n > next && h.expected[record{r.cell, next, h.ticks[r.cell][next]}]:
			return fmt.Errorf("%s delivers %+v before record %d of that key", id, r, next)
		}
		h.delivered[r.cell] = r.n + 1
	}
	switch {
	case s.gone || s.closed > 0 && st.read == len(s.records):
		h.end(id)
	case h.rng.IntN(4) == 0:
		st.owned = false // released, or its owner died
	}
	return nil
}

func (h *history) end(id core.ShardID) {
	var children []core.Shard
	if h.rng.IntN(3) > 0 && !h.shards[id].gone { // sources may not name them, and a listing may be too old to show them
		for _, o := range h.order {
			if s := h.shards[o]; slices.Contains(s.Parents, id) {
				children = append(children, s.Shard)
			}
		}
	}
	leases := ChildLeases(h.input(false), id, children)
	if !h.put(leases) || h.rng.IntN(12) == 0 {
		h.state[id].owned = false
		return
	}
	l := h.leases[id]
	for _, c := range children {
		l.Children = append(l.Children, c.ID)
	}
	if h.rng.IntN(12) == 0 {
		h.state[id].owned = false
		return
	}
	l.Checkpoint, l.StartAt = core.AtShardEnd, time.Time{}
	h.state[id].owned = false
	h.note("%s ended, children %v", id, children)
}

func (h *history) cleanUp() {
	finished, garbage := Delete(h.input(true), DeleteOptions{GoneTwice: h.twice, KeepWhileListed: h.knobs.keepListed})
	for _, k := range finished {
		if h.rng.IntN(8) == 0 {
			return
		}
		h.note("deleted %s", k.Shard)
		delete(h.leases, k.Shard)
	}
	for _, k := range garbage {
		if !h.state[k.Shard].owned {
			h.note("deleted %s, whose data is gone", k.Shard)
			delete(h.leases, k.Shard)
		}
	}
}

func (h *history) run() error {
	for range h.rng.IntN(60) { // before the application
		h.tick++
		switch h.rng.IntN(8) {
		case 0:
			h.reshard()
		case 1:
			h.trim()
		default:
			h.write()
		}
	}
	h.tick++
	h.begin()
	for range h.rng.IntN(4) { // between the instant and the first listing
		h.tick++
		h.reshard()
		h.write()
	}
	h.list()
	if h.started < 0 { // what was there when the oldest was listed
		for _, id := range h.order {
			for _, r := range h.shards[id].records {
				h.expected[r] = !h.shards[id].gone
			}
		}
	}
	for range 150 {
		h.tick++
		if err := h.step(); err != nil {
			return err
		}
	}
	// The stream comes to rest, and so must the application, with everything read and nothing left over.
	clear(h.bad)
	wrong := h.atRest()
	for range 100 {
		if wrong == nil {
			break
		}
		h.tick++
		h.list()
		if err := h.sync(); err != nil {
			return err
		}
		for _, id := range slices.Sorted(maps.Keys(h.leases)) {
			if err := h.work(id); err != nil {
				return err
			}
		}
		h.cleanUp()
		wrong = h.atRest()
	}
	return wrong
}

func (h *history) atRest() error {
	for r, want := range h.expected {
		if want && h.delivered[r.cell] <= r.n {
			return fmt.Errorf("stuck: %+v was never delivered", r)
		}
	}
	for id, l := range h.leases {
		// Rows of others show that a child has begun only once it has read something.
		if !h.knobs.foreign && !h.knobs.keepListed && h.shards[id].closed > 0 {
			return fmt.Errorf("left over: lease of %s at %v", id, l.Checkpoint)
		}
	}
	if holes := Audit(h.input(false)); len(holes) > 0 {
		return fmt.Errorf("holes at rest: %v", holes)
	}
	return nil
}

func (h *history) step() error {
	ids := slices.Sorted(maps.Keys(h.leases))
	switch n := h.rng.IntN(20); {
	case n < 5:
		h.write()
	case n < 6:
		h.reshard()
	case n < 7:
		h.trim()
	case n < 9:
		h.list()
	case n < 11:
		return h.sync()
	case n < 12:
		h.cleanUp()
	case n < 13 && len(ids) > 3:
		if id := ids[h.rng.IntN(len(ids))]; h.bad[id] {
			delete(h.bad, id)
		} else if len(h.bad) == 0 && h.leases[id].Checkpoint.Anchor != core.Latest && !h.state[id].owned {
			h.bad[id] = true
		}
	case len(ids) > 0:
		return h.work(ids[h.rng.IntN(len(ids))])
	}
	return nil
}

func TestHistories(t *testing.T) {
	for _, c := range []struct {
		name  string
		knobs knobs
	}{
		{"ours", knobs{}},
		{"rows of another library", knobs{foreign: true}},
		{"rows kept while listed", knobs{keepListed: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(*histories) {
				h := newHistory(seed, c.knobs)
				if err := h.run(); err != nil {
					t.Fatalf("history %d: %v\n%s", seed, err, strings.Join(h.log, "\n"))
				}
			}
		})
	}
}

// The rules are needed: with one of them broken, histories go wrong.
func TestHistoriesNeedTheRules(t *testing.T) {
	for _, c := range []struct {
		name  string
		knobs knobs
	}{
		{"the ready flag", knobs{forgetReady: true}},
		{"the gate", knobs{gateOpen: true}},
		{"complete listings", knobs{noListing: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wrong := 0
			const n = 200
			for seed := range uint64(n) {
				if err := newHistory(seed, c.knobs).run(); err != nil {
					wrong++
				}
			}
			if wrong < n/20 {
				t.Errorf("without %s only %d of %d histories go wrong", c.name, wrong, n)
			}
			t.Logf("without %s %d of %d histories go wrong", c.name, wrong, n)
		})
	}
}
