package conformance

import (
	"github.com/shardwarden/shardwarden/core"
)

func startRules() []rule[MakeSource] {
	return []rule[MakeSource]{
		sourceRule("start-horizon", "From the horizon every record comes, each once and in order, also those put while it is read.", func(s *stream) {
			shard := s.first()
			want := s.put(shard.ID, 60)
			r := s.read(s.b, shard, core.FromHorizon)
			r.expect("what was there", want)
			for range 3 {
				want = append(want, s.put(shard.ID, 7)...)
				r.expect("and what came later", want)
			}
		}),
		sourceRule("start-latest", "From the latest come the records put after reading began, and none from before.", func(s *stream) {
			shard := s.first()
			s.put(shard.ID, 5)
			s.now()
			if x, err := s.a.Open(s.ctx, shard, core.FromLatest); err == nil {
				_ = x.Close()
			} else if s.info.Lacks.StartTime && is(err, core.ErrInvalid) {
				s.skip("ability to start at a time") // then a Latest is resolved, or not used at all
			}
			r := s.read(s.a, shard, core.FromLatest)
			r.expect("before anything new", nil)
			r.expect("what came after", s.put(shard.ID, 3))
		}),
		sourceRule("start-latest-resolved", "From the latest with the instant it was resolved to come the records since that instant, however much later reading begins.", func(s *stream) {
			s.startTimes()
			shard := s.first()
			s.put(shard.ID, 5)
			at := core.Position{Anchor: core.Latest, Time: s.now()}
			want := s.put(shard.ID, 4)
			s.now()
			r := s.read(s.a, shard, at)
			r.expect("what came since the instant", want)
			want = append(want, s.put(shard.ID, 2)...)
			r.expect("and later", want)
		}),
		sourceRule("start-at-time", "From an instant come the records that arrived then or later, and all of them from one before the first.", func(s *stream) {
			s.startTimes()
			shard := s.first()
			var all []string
			at, from := []core.Position{core.From(s.now())}, []int{0}
			for range 3 {
				all = append(all, s.put(shard.ID, 5)...)
				at, from = append(at, core.From(s.now())), append(from, len(all))
			}
			all = append(all, s.put(shard.ID, 5)...)
			for i := range at {
				s.read(s.b, shard, at[i]).expect("from an instant", all[from[i]:])
			}
		}),
		sourceRule("start-of-ended", "A shard that has ended is read from any start: the horizon gives all of it, an instant after its last record gives the end alone.", func(s *stream) {
			parent := s.first()
			want := s.put(parent.ID, 5)
			s.split(parent.ID)
			s.read(s.a, parent, core.FromHorizon).toEnd("from the horizon", want)
			if !s.info.Lacks.StartTime {
				s.read(s.a, parent, core.From(s.now())).toEnd("from an instant behind it", nil)
			}
		}),
	}
}
