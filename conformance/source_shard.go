package conformance

import (
	"fmt"
	"slices"
	"sync"

	"github.com/shardwarden/shardwarden/core"
)

func shardRules() []rule[MakeSource] {
	return []rule[MakeSource]{
		sourceRule("stream-id-stable", "A stream has one id, which is never empty: through every handle, at every call, whatever happens to its shards.", func(s *stream) {
			if s.info.ID == "" {
				s.errorf("Describe: the id is empty")
			}
			shard := s.first()
			for i, do := range []func(){func() {}, func() { s.put(shard.ID, 2) }, func() {
				if v, ok := s.h.(Splitter); ok {
					if err := v.Split(s.ctx, shard.ID); err != nil {
						s.fatalf("Split: %v", err)
					}
				}
			}} {
				do()
				for name, src := range map[string]core.StreamSource{"the same handle": s.a, "another": s.b, "a new one": s.h.Source()} {
					info, err := src.Describe(s.ctx)
					if err != nil {
						s.fatalf("Describe: %v", err)
					}
					if info.ID != s.info.ID {
						s.errorf("step %d, through %s: id %q, was %q", i, name, info.ID, s.info.ID)
					}
				}
			}
		}),
		sourceRule("stream-id-incarnation", "A stream that is deleted and made again under its name has another id.", func(s *stream) {
			v := need[Remaker](s.checker, s.h, "Remake")
			if err := v.Remake(s.ctx); err != nil {
				s.fatalf("Remake: %v", err)
			}
			for _, src := range []core.StreamSource{s.a, s.h.Source()} {
				info, err := src.Describe(s.ctx)
				if err != nil {
					s.fatalf("Describe: %v", err)
				}
				if info.ID == s.info.ID {
					s.errorf("the new stream has the id of the former, %q", info.ID)
				}
			}
		}),
		sourceRule("shards-stable", "Shards have ids that differ and stay, in every listing and through every handle, in whatever order.", func(s *stream) {
			want := s.list(s.a, core.Position{})
			if len(want) == 0 {
				s.fatalf("the stream lists no shards")
			}
			for i := range 4 {
				src := []core.StreamSource{s.a, s.b, s.h.Source()}[i%3]
				s.put(want[0].ID, 1)
				got := s.list(src, core.Position{})
				if !slices.Equal(names(got), names(want)) {
					s.errorf("shards %v, before that %v", names(got), names(want))
				}
				for j, x := range got {
					if x.ID == "" || j > 0 && x.ID == got[j-1].ID {
						s.errorf("shard id %q is empty, or listed twice", x.ID)
					}
					if x.Closed {
						s.errorf("shard %s is closed, and nothing has ended it", x.ID)
					}
				}
			}
		}),
		sourceRule("hash-ranges", "Every shard has its range of the key space, and those of the open shards cover it without holes or overlaps.", func(s *stream) {
			if s.info.Lacks.HashRanges {
				s.skip("ability HashRanges")
			}
			s.tiled()
			if _, ok := s.h.(Splitter); ok {
				s.split(s.first().ID)
				s.tiled()
			}
			if _, ok := s.h.(Merger); ok {
				a, b := s.neighbours()
				s.merge(a.ID, b.ID)
				s.tiled()
			}
		}),
		sourceRule("split-listed", "After a split the parent is listed as closed, and two open children name it as their parent.", func(s *stream) {
			parent := s.first()
			children := s.split(parent.ID)
			if len(children) != 2 {
				s.fatalf("%d shards name %s as a parent, want 2", len(children), parent.ID)
			}
			for _, c := range children {
				if c.Closed || !slices.Equal(c.Parents, []core.ShardID{parent.ID}) {
					s.errorf("child %s: closed %v, parents %v; want open, child of %s", c.ID, c.Closed, c.Parents, parent.ID)
				}
			}
			s.closed(s.b, parent.ID)
		}),
		sourceRule("merge-listed", "After a merge both parents are listed as closed, and one open child names both.", func(s *stream) {
			a, b := s.neighbours()
			child := s.merge(a.ID, b.ID)
			if child.Closed || !sameShards(child.Parents, []core.ShardID{a.ID, b.ID}) {
				s.errorf("child %s: closed %v, parents %v; want open, child of %s and %s", child.ID, child.Closed, child.Parents, a.ID, b.ID)
			}
			s.closed(s.b, a.ID)
			s.closed(s.b, b.ID)
		}),
		sourceRule("parents-closed", "No listing shows a child beside a parent that is still open, also while shards are being split.", func(s *stream) {
			v := need[Splitter](s.checker, s.h, "Split")
			var wg sync.WaitGroup
			stop := make(chan struct{})
			for _, src := range []core.StreamSource{s.a, s.b} {
				wg.Go(func() {
					defer s.rescue("Shards")
					for n := 0; ; n++ {
						select {
						case <-stop:
							if n > 0 {
								return
							}
						case <-s.ctx.Done():
							return
						default:
						}
						all, err := src.Shards(s.ctx, core.Position{})
						if err != nil {
							s.errorf("Shards: %v", err)
							return
						}
						byID := map[core.ShardID]core.Shard{}
						for _, x := range all {
							byID[x.ID] = x
						}
						for _, x := range all {
							for _, p := range x.Parents {
								if parent, ok := byID[p]; ok && !parent.Closed {
									s.errorf("shard %s is listed beside its parent %s, which is open", x.ID, p)
									return
								}
							}
						}
						if s.fake {
							s.pause(10)
						} else {
							s.pause(1)
						}
					}
				})
			}
			for range 4 {
				if err := v.Split(s.ctx, s.first().ID); err != nil {
					s.errorf("Split: %v", err)
				}
				s.pause(3)
			}
			close(stop)
			wg.Wait()
		}),
		sourceRule("open-at-horizon", "The shards open at the horizon are those that have no parent left.", func(s *stream) {
			before := names(s.list(s.a, core.FromHorizon))
			if want := names(s.open()); !slices.Equal(before, want) {
				s.errorf("open at the horizon of a new stream: %v, want all: %v", before, want)
			}
			s.split(s.first().ID)
			if got := names(s.list(s.b, core.FromHorizon)); !slices.Equal(got, before) {
				s.errorf("open at the horizon after a split: %v, want %v", got, before)
			}
		}),
		sourceRule("open-at-latest", "The shards open at the latest are those that take records now.", func(s *stream) {
			s.split(s.first().ID)
			s.now()
			if got, want := names(s.list(s.b, core.FromLatest)), names(s.open()); !slices.Equal(got, want) {
				s.errorf("open at the latest: %v, want %v", got, want)
			}
		}),
		sourceRule("open-at-time", "The shards open at an instant are those that took records then, whatever became of them since.", func(s *stream) {
			s.startTimes()
			var at []core.Position
			var want [][]core.ShardID
			note := func() {
				open := names(s.open())
				t := s.now()
				at, want = append(at, core.From(t), core.Position{Anchor: core.Latest, Time: t}), append(want, open, open)
			}
			note()
			s.split(s.first().ID)
			note()
			s.split(s.first().ID)
			note()
			for i := range at {
				if got := names(s.list(s.b, at[i])); !slices.Equal(got, want[i]) {
					s.errorf("open at instant %d of %d: %v, want %v", i/2+1, len(at)/2, got, want[i])
				}
			}
		}),
		sourceRule("listing-or-error", "A listing is complete, or an error: never a part.", func(s *stream) {
			b := need[Breaker](s.checker, s.h, "Break")
			if v, ok := s.h.(Splitter); ok {
				for range 3 {
					if err := v.Split(s.ctx, s.first().ID); err != nil {
						s.fatalf("Split: %v", err)
					}
				}
			}
			want := names(s.list(s.a, core.Position{}))
			heal := s.breakdown(b, PartList)
			got, err := s.b.Shards(s.ctx, core.Position{})
			heal()
			switch {
			case err == nil:
				s.errorf("Shards gave %d of %d shards and no error, while pages behind the first failed", len(got), len(want))
			case !is(err, core.ErrUnavailable):
				s.errorf("Shards: %v, want ErrUnavailable", err)
			case len(got) > 0:
				s.errorf("Shards gave %d shards beside its error %v", len(got), err)
			}
			if got := names(s.list(s.b, core.Position{})); !slices.Equal(got, want) {
				s.errorf("when it works again: %v, want %v", got, want)
			}
		}),
		sourceRule("forgotten", "A shard that the service dropped is no longer listed, and to read it is ErrNotFound; its children still name it.", func(s *stream) {
			v := need[Forgetter](s.checker, s.h, "Forget")
			parent := s.first()
			s.put(parent.ID, 3)
			s.split(parent.ID)
			if err := v.Forget(s.ctx, parent.ID); err != nil {
				s.fatalf("Forget: %v", err)
			}
			if slices.Contains(names(s.list(s.b, core.Position{})), parent.ID) {
				s.errorf("shard %s is still listed", parent.ID)
			}
			if c := s.childrenOf(parent.ID); len(c) != 2 {
				s.errorf("%d shards name it as their parent, want 2", len(c))
			}
			if n, err := s.openOrRead(s.b, core.Shard{ID: parent.ID}, core.FromHorizon); !is(err, core.ErrNotFound) {
				s.errorf("to read it: %d records, %v; want ErrNotFound", n, err)
			}
		}),
		sourceRule("unknown-shard", "To read a shard that never was is ErrNotFound.", func(s *stream) {
			id := core.ShardID(string(s.first().ID) + "9")
			if n, err := s.openOrRead(s.a, core.Shard{ID: id}, core.FromHorizon); !is(err, core.ErrNotFound) {
				s.errorf("to read shard %s: %d records, %v; want ErrNotFound", id, n, err)
			}
		}),
	}
}

func (s *stream) closed(src core.StreamSource, id core.ShardID) {
	for _, x := range s.list(src, core.Position{}) {
		if x.ID == id {
			if !x.Closed {
				s.errorf("shard %s has ended, and is listed as open", id)
			}
			return
		}
	}
	s.errorf("shard %s has ended, and is not listed", id)
}

// merge merges, and returns the child.
func (s *stream) merge(a, b core.ShardID) core.Shard {
	v := need[Merger](s.checker, s.h, "Merge")
	if err := v.Merge(s.ctx, a, b); err != nil {
		s.fatalf("Merge(%s, %s): %v", a, b, err)
	}
	var found []core.Shard
	for _, x := range s.list(s.b, core.Position{}) {
		if slices.Contains(x.Parents, a) || slices.Contains(x.Parents, b) {
			found = append(found, x)
		}
	}
	if len(found) != 1 {
		s.fatalf("after the merge of %s and %s %d shards name them as parents, want one", a, b, len(found))
	}
	return found[0]
}

// tiled asks that the open shards cover the key space.
func (s *stream) tiled() {
	open := s.open()
	slices.SortFunc(open, func(a, b core.Shard) int {
		if a.Range == nil || b.Range == nil {
			s.fatalf("shards %s and %s: one has no range", a.ID, b.ID)
		}
		return slices.Compare(a.Range.Start[:], b.Range.Start[:])
	})
	var next [16]byte
	over := false
	for _, x := range open {
		if x.Range == nil || over || x.Range.Start != next {
			s.errorf("open shards leave a hole, or overlap, at %x (shard %s)", next, x.ID)
			return
		}
		next, over = following(x.Range.End)
	}
	if !over {
		s.errorf("open shards end at %x, before the end of the key space", next)
	}
}

func following(k [16]byte) (next [16]byte, over bool) {
	for i := len(k) - 1; i >= 0; i-- {
		if k[i]++; k[i] != 0 {
			return k, false
		}
	}
	return k, true
}

func kids(p *core.Page) string {
	var out []string
	for _, c := range p.Children {
		out = append(out, fmt.Sprintf("%s of %v", c.ID, c.Parents))
	}
	slices.Sort(out)
	return fmt.Sprint(out)
}
