package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// Kinds of sabotage: what is done to records between the engine and the ledger, to see that the ledger notices.
const (
	skip       = "skip"        // some records are dropped
	repeat     = "repeat"      // some are given twice
	reorder    = "reorder"     // some are held back until a later record of their key has gone by
	earlyChild = "early-child" // a shard's handler is held up while records of its children are delivered
)

var sabotages = []string{skip, repeat, reorder, earlyChild}

// spoiler spoils deliveries on purpose. The zero kind spoils nothing.
type spoiler struct {
	kind string
	seed uint64

	mu      sync.Mutex
	spoiled int
	held    map[string]item // by shard, of reorder
	epoch   map[string]int32
	gates   map[string]*gate // by shard, of early-child
}

func newSpoiler(kind string, seed uint64) (*spoiler, error) {
	if kind != "" && !slices.Contains(sabotages, kind) {
		return nil, fmt.Errorf("--sabotage is %q: must be one of %s", kind, strings.Join(sabotages, ", "))
	}
	return &spoiler{kind: kind, seed: seed, held: map[string]item{}, epoch: map[string]int32{}, gates: map[string]*gate{}}, nil
}

// chosen picks one record in fifty, the same ones each time they come, and the first of all so that there is one.
func (s *spoiler) chosen(id recordID) bool {
	return id == recordID{} || rand.New(rand.NewPCG(s.seed, ^(uint64(id.key)<<32|uint64(id.n)))).IntN(50) == 0
}

// pass is what the ledger gets to see of a batch.
func (s *spoiler) pass(shard string, epoch int32, in []item) []item {
	if s.kind == "" || s.kind == earlyChild {
		return in
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch[shard] = epoch
	var out []item
	for _, r := range in {
		held, holding := s.held[shard]
		switch {
		case r.foreign:
			out = append(out, r)
		case s.kind == reorder && holding && held.id.key == r.id.key:
			if out = append(out, r); r.id.n > held.id.n { // else the shard began again before it, and it comes again by itself
				out = append(out, held)
				s.spoiled++
			}
			delete(s.held, shard)
		case s.kind == reorder && !holding && s.chosen(r.id):
			s.held[shard] = r
		case s.kind == repeat && s.chosen(r.id):
			out = append(out, r, r)
			s.spoiled++
		case s.kind == skip && s.chosen(r.id):
			s.spoiled++
		default:
			out = append(out, r)
		}
	}
	return out
}

// last is what is still held back of a shard that has ended: with its children waiting, it can be held no longer.
func (s *spoiler) last(shard string) []item {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, holding := s.held[shard]
	if !holding {
		return nil
	}
	delete(s.held, shard)
	return []item{r}
}

// rest is what is still held back once everything has arrived, by epoch.
func (s *spoiler) rest() map[int32][]item {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[int32][]item{}
	for shard, r := range s.held {
		out[s.epoch[shard]] = append(out[s.epoch[shard]], r)
	}
	clear(s.held)
	return out
}

// gate holds up the handler of a shard.
type gate struct {
	reached chan struct{} // closed: a handler with records stands before it
	open    chan struct{} // closed: go on
	once    sync.Once
}

func (s *spoiler) shut(shard string) *gate {
	g := &gate{reached: make(chan struct{}), open: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gates[shard] = g
	return g
}

// wait stands before the gate of a shard, if it has one.
func (s *spoiler) wait(ctx context.Context, shard string) error {
	s.mu.Lock()
	g := s.gates[shard]
	s.mu.Unlock()
	if g == nil {
		return nil
	}
	g.once.Do(func() { close(g.reached) })
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *spoiler) did(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spoiled += n
}

func (s *spoiler) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spoiled
}
