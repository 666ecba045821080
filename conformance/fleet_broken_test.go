package conformance

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/shardwarden/shardwarden/core"
)

// What a fleet does over an adapter that is wrong is found by these rules at least. What each adapter does wrong is in its name. Other faults (a
// Create that overwrites, a condition on Next that is ignored) harm a fleet only in races too rare to bring about; TestStore finds them.
func TestFleetFindsBrokenAdapters(t *testing.T) {
	for _, c := range []struct {
		name   string
		store  func(core.LeaseStore) core.LeaseStore
		source func(core.StreamSource) core.StreamSource
		rules  []string // which must fail
	}{
		{name: "an update that ignores the counter", rules: []string{"R3_one-take-wins", "R7_G1_late-checkpoint-changes-nothing"}, store: func(s core.LeaseStore) core.LeaseStore { return &ignoring{s, core.SameCounter} }},
		{name: "a bump that is lost", rules: []string{"R2_R13_G8_handler-may-block", "R8_G17_hand-over-under-load"}, store: func(s core.LeaseStore) core.LeaseStore { return &editing{s, func(x *core.Set) { x.Bump = false }} }},
		{name: "ready that is lost", rules: []string{"R5_R6_G7_finished-rows"}, store: func(s core.LeaseStore) core.LeaseStore { return &editing{s, func(x *core.Set) { x.Ready = false }} }},
		{name: "children that are lost", rules: []string{"R6_end-in-order"}, store: func(s core.LeaseStore) core.LeaseStore { return &editing{s, func(x *core.Set) { x.Children = nil }} }},
		{name: "a run that is lost", rules: []string{"R8_G17_hand-over-under-load", "R9_G10_restart-under-one-id"}, store: func(s core.LeaseStore) core.LeaseStore { return &editing{s, func(x *core.Set) { x.Run = "" }} }},
		{name: "a listing without its last row", rules: []string{"R5_G3_every-listing-order", "R8_G17_hand-over-under-load"}, store: func(s core.LeaseStore) core.LeaseStore { return &shortList{s} }},
		{name: "checkpoints that are lost", rules: []string{"R6_G20_end-is-stored", "R8_G17_hand-over-under-load"}, store: func(s core.LeaseStore) core.LeaseStore {
			return &editing{s, func(x *core.Set) { x.Checkpoint = nil }}
		}},
		{name: "an end without the last page", rules: []string{"G5_closed-shard-with-backlog"}, source: changed(func(p *core.Page) {
			if p.End {
				p.Records, p.After = nil, nil
			}
		})},
		{name: "a page without its first record", rules: []string{"R2_outage-for-all", "G5_closed-shard-with-backlog"}, source: changed(func(p *core.Page) {
			if len(p.Records) > 1 {
				p.Records = p.Records[1:]
			}
		})},
		{name: "a page in the wrong order", rules: []string{"R2_outage-for-all", "G5_closed-shard-with-backlog"}, source: changed(func(p *core.Page) {
			if len(p.Records) > 1 {
				p.Records = slices.Clone(p.Records)
				slices.Reverse(p.Records)
			}
		})},
		{name: "positions that lie behind the page", rules: []string{"R7_checkpoint-follows-what-is-done"}, source: changed(func(p *core.Page) {
			if n := len(p.Records); n > 1 {
				last := core.Position{Token: p.Records[n-1].Clone().Sequence}
				p.After = func(int) core.Position { return last }
				p.Records = p.Records[:n-1]
			}
		})},
		{name: "children without parents", rules: []string{"R5_G4_merged-child-waits-for-both"}, source: listed(func(all []core.Shard) []core.Shard {
			for i := range all {
				all[i].Parents = nil
			}
			return all
		})},
		{name: "one parent of a merge", rules: []string{"R5_G4_merged-child-waits-for-both"}, source: listed(func(all []core.Shard) []core.Shard {
			for i := range all {
				all[i].Parents = all[i].Parents[:min(1, len(all[i].Parents))]
			}
			return all
		})},
		{name: "a listing without its first shard", rules: []string{"R5_G3_every-listing-order"}, source: listed(func(all []core.Shard) []core.Shard { return all[min(1, len(all)):] })},
		{name: "closed shards that are not listed", rules: []string{"R5_G3_every-listing-order", "R5_G3_parent-without-a-lease"}, source: listed(func(all []core.Shard) []core.Shard {
			return slices.DeleteFunc(all, func(s core.Shard) bool { return s.Closed })
		})},
		{name: "a reader that always begins at the beginning", rules: []string{"R4_R9_given-lease-is-accepted-first", "R8_G17_hand-over-under-load"}, source: opened(func(at core.Position) core.Position { return core.FromHorizon })},
		{name: "a reader that begins at the end", rules: []string{"G5_closed-shard-with-backlog"}, source: opened(func(at core.Position) core.Position {
			if at.Anchor == core.Horizon {
				return core.FromLatest
			}
			return at
		})},
	} {
		t.Run(c.name, func(t *testing.T) {
			store, source := makeMemoryTable(), makeMemoryStream()
			if c.store != nil {
				store = wrapStore(store, c.store)
			}
			if c.source != nil {
				source = wrapSource(source, c.source)
			}
			report := Report{Suite: "fleet"}
			s := newSettings([]Option{FakeTime()})
			for _, r := range fleetRules() {
				if !slices.Contains(c.rules, r.name) {
					continue
				}
				synctest.Test(t, func(t *testing.T) {
					report.Rules = append(report.Rules, run(t.Context(), s, r, makeFleet{source, store}))
				})
			}
			for _, name := range c.rules {
				if !slices.Contains(report.Failed(), name) {
					t.Errorf("passes %s; it fails %q", name, report.Failed())
				}
			}
		})
	}
}

func wrapStore(make MakeStore, wrap func(core.LeaseStore) core.LeaseStore) MakeStore {
	return func(ctx context.Context) (StoreHarness, error) {
		h, err := make(ctx)
		return storeAround{h, wrap}, err
	}
}

type storeAround struct {
	StoreHarness
	wrap func(core.LeaseStore) core.LeaseStore
}

func (h storeAround) Store() core.LeaseStore { return h.wrap(h.StoreHarness.Store()) }

func wrapSource(make MakeSource, wrap func(core.StreamSource) core.StreamSource) MakeSource {
	return func(ctx context.Context) (SourceHarness, error) {
		h, err := make(ctx)
		if err != nil {
			return nil, err
		}
		return sourceAround{h.(*memoryStream), wrap}, nil
	}
}

type sourceAround struct {
	*memoryStream
	wrap func(core.StreamSource) core.StreamSource
}

func (h sourceAround) Source() core.StreamSource { return h.wrap(h.memoryStream.Source()) }

type ignoring struct {
	core.LeaseStore
	what core.Same
}

func (s *ignoring) Update(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
	return s.LeaseStore.Update(ctx, seen, same&^s.what, set)
}

type editing struct {
	core.LeaseStore
	edit func(*core.Set)
}

func (s *editing) Update(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
	s.edit(&set)
	return s.LeaseStore.Update(ctx, seen, same, set)
}

type shortList struct{ core.LeaseStore }

func (s *shortList) List(ctx context.Context, streams ...core.StreamID) iter.Seq2[core.Lease, error] {
	return func(yield func(core.Lease, error) bool) {
		sight, err := core.Collect(s.LeaseStore.List(ctx, streams...))
		if err != nil {
			yield(core.Lease{}, err)
			return
		}
		slices.SortFunc(sight.Leases, func(a, b core.Lease) int { return strings.Compare(string(a.Key.Shard), string(b.Key.Shard)) })
		for _, l := range sight.Leases[:max(0, len(sight.Leases)-1)] {
			if !yield(l, nil) {
				return
			}
		}
	}
}

// changed is a source whose pages were changed.
func changed(change func(p *core.Page)) func(core.StreamSource) core.StreamSource {
	return func(s core.StreamSource) core.StreamSource { return &altered{StreamSource: s, page: change} }
}

func listed(change func([]core.Shard) []core.Shard) func(core.StreamSource) core.StreamSource {
	return func(s core.StreamSource) core.StreamSource { return &altered{StreamSource: s, shards: change} }
}

func opened(change func(core.Position) core.Position) func(core.StreamSource) core.StreamSource {
	return func(s core.StreamSource) core.StreamSource { return &altered{StreamSource: s, open: change} }
}

type altered struct {
	core.StreamSource
	page   func(*core.Page)
	shards func([]core.Shard) []core.Shard
	open   func(core.Position) core.Position
}

func (s *altered) Shards(ctx context.Context, open core.Position) ([]core.Shard, error) {
	all, err := s.StreamSource.Shards(ctx, open)
	if s.shards != nil && err == nil {
		all = s.shards(slices.Clone(all))
	}
	return all, err
}

func (s *altered) Open(ctx context.Context, shard core.Shard, at core.Position) (core.ShardReader, error) {
	if s.open != nil {
		at = s.open(at)
	}
	r, err := s.StreamSource.Open(ctx, shard, at)
	return &alteredReader{r, s}, err
}

type alteredReader struct {
	core.ShardReader
	s *altered
}

func (r *alteredReader) Next(ctx context.Context) (*core.Page, error) {
	p, err := r.ShardReader.Next(ctx)
	if err != nil {
		return p, err
	}
	c := *p
	if r.s.page != nil {
		r.s.page(&c)
	}
	if r.s.shards != nil {
		c.Children = r.s.shards(slices.Clone(c.Children))
	}
	return &c, nil
}
