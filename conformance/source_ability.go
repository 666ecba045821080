package conformance

import (
	"slices"

	"github.com/shardwarden/shardwarden/core"
)

func sourceAbilityRules() []rule[MakeSource] {
	return []rule[MakeSource]{
		sourceRule("positions-ordered", "Compare orders positions of a shard as its records: the horizon before all, the end behind all.", func(s *stream) {
			o, ok := s.a.(core.PositionOrder)
			if !ok {
				s.skip("ability PositionOrder")
			}
			shard := s.first()
			want := s.put(shard.ID, 14)
			if v, ok := s.h.(Aggregator); ok {
				if err := v.PutAggregated(s.ctx, shard.ID, "k", []byte("part 1"), []byte("part 2"), []byte("part 3")); err != nil {
					s.fatalf("PutAggregated: %v", err)
				}
				want = append(want, "part 1", "part 2", "part 3")
				want = append(want, s.put(shard.ID, 2)...)
			}
			r := s.read(s.a, shard, core.FromHorizon)
			if !r.expect("from the horizon", want) {
				return
			}
			all := []core.Position{core.FromHorizon}
			for _, g := range r.all {
				if g.after.Equal(all[len(all)-1]) { // several records of one position
					continue
				}
				all = append(all, g.after)
			}
			all = append(all, core.AtShardEnd)
			if !s.info.Lacks.RecordPositions && len(all) != len(want)+2 {
				s.errorf("%d records have %d positions", len(want), len(all)-2)
			}
			for i, a := range all {
				for j, b := range all {
					if got := o.Compare(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
						s.errorf("Compare(%s, %s) is %d; they are number %d and %d", place(a), place(b), got, i, j)
					}
				}
			}
		}),
		sourceRule("clock", "The service's clock does not go back, and a start at what it showed has all that was put later.", func(s *stream) {
			c, ok := s.a.(core.Clock)
			if !ok {
				s.skip("ability Clock")
			}
			before, err := c.Now(s.ctx)
			if err != nil {
				s.fatalf("Now: %v", err)
			}
			shard := s.first()
			s.put(shard.ID, 3)
			at := s.now()
			if at.Before(before) {
				s.errorf("the clock showed %v, and then %v", before, at)
			}
			s.startTimes()
			s.read(s.b, shard, core.From(at)).expect("from what the clock showed", s.put(shard.ID, 3))
		}),
		sourceRule("start-resolved", "A start is resolved to a token behind which stand the records since that start, and all of them, whenever they are read.", func(s *stream) {
			v, ok := s.a.(core.Resolver)
			if !ok {
				s.skip("ability Resolver")
			}
			resolve := func(start core.Position) core.Position {
				p, err := v.Resolve(s.ctx, s.first(), start)
				if err != nil {
					s.fatalf("Resolve(%s): %v", start, err)
				}
				if p.Anchor != core.AfterToken || p.Token == "" {
					s.fatalf("Resolve(%s) is %s (anchor %d), want a token", start, place(p), p.Anchor)
				}
				return p
			}
			shard := s.first()
			empty := resolve(core.FromLatest)
			first := s.put(shard.ID, 4)
			at := s.now()
			latest := resolve(core.FromLatest)
			second := s.put(shard.ID, 4)
			s.now()
			all := slices.Concat(first, second)
			s.read(s.b, shard, empty).expect("from the latest of an empty shard", all)
			s.read(s.b, shard, latest).expect("from the latest as it was", second)
			if !s.info.Lacks.StartTime {
				s.read(s.b, shard, resolve(core.From(at))).expect("from an instant", second)
				s.read(s.b, shard, resolve(core.Position{Anchor: core.Latest, Time: at})).expect("from the latest, resolved to an instant", second)
			}
		}),
	}
}
