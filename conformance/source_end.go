package conformance

import (
	"slices"

	"github.com/shardwarden/shardwarden/core"
)

func endRules() []rule[MakeSource] {
	return []rule[MakeSource]{
		sourceRule("closed-with-backlog", "A shard that has ended is read to its last record before its end comes, and stays listed until then.", func(s *stream) {
			parent := s.first()
			want := s.put(parent.ID, 40)
			s.split(parent.ID)
			s.read(s.b, parent, core.FromHorizon).toEnd("a shard that ended before it was read", want)
			s.read(s.b, core.Shard{ID: parent.ID}, core.FromHorizon).toEnd("opened again, by its id alone", want)
		}),
		sourceRule("end-while-reading", "A reader that has caught up gets the records put before the end, and then the end.", func(s *stream) {
			parent := s.first()
			r := s.read(s.a, parent, core.FromHorizon)
			want := s.put(parent.ID, 5)
			r.until(func() bool { return len(r.all) >= 5 })
			want = append(want, s.put(parent.ID, 5)...)
			s.split(parent.ID)
			r.toEnd("a reader that was there when the shard ended", want)
		}),
		sourceRule("end-wakes-reader", "A reader that waits at the tip is told of the end.", func(s *stream) {
			parent := s.first()
			r := s.read(s.a, parent, core.FromHorizon)
			want := s.put(parent.ID, 1)
			r.expect("before the end", want)
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer s.rescue("Next")
				r.toEnd("a reader that waits", want)
			}()
			s.pause(5)
			s.split(parent.ID)
			<-done
		}),
		sourceRule("empty-shard-ends", "A shard that ends without ever having had a record has its end.", func(s *stream) {
			parent := s.first()
			s.split(parent.ID)
			s.read(s.a, parent, core.FromHorizon).toEnd("a shard without records", nil)
		}),
		sourceRule("open-shard-does-not-end", "A shard that is open has no end, whether or not it has records.", func(s *stream) {
			for _, n := range []int{0, 3} {
				shard := s.first()
				want := s.put(shard.ID, n)
				r := s.read(s.a, shard, core.FromHorizon)
				for range 3 {
					r.expect("an open shard", want)
				}
				if r.end != nil {
					s.errorf("%s: a page says that it has ended", r.name)
					return
				}
			}
		}),
		sourceRule("end-names-children", "The end names the children that the listing has, with all their parents, and nothing else does.", func(s *stream) {
			if s.info.Lacks.ChildrenAtEnd {
				s.skip("ability ChildrenAtEnd")
			}
			parent := s.first()
			s.put(parent.ID, 3)
			s.split(parent.ID)
			s.endsIn(parent)
			if _, ok := s.h.(Merger); !ok {
				return
			}
			c := s.childrenOf(parent.ID)
			s.merge(c[0].ID, c[1].ID)
			s.endsIn(parent)
			s.endsIn(c[0])
			s.endsIn(c[1])
		}),
		sourceRule("children-from-beginning", "The children of a shard are read from their beginning, as their parent's end names them or as they are listed, and hold their own records only.", func(s *stream) {
			parent := s.first()
			s.put(parent.ID, 4)
			c := s.split(parent.ID)
			want := map[core.ShardID][]string{}
			for i := range 12 {
				id := c[i%2].ID
				want[id] = append(want[id], s.put(id, 1)...)
			}
			shards := c
			r := s.read(s.b, parent, core.FromHorizon)
			if r.until(func() bool { return r.end != nil }); r.end != nil {
				shards = slices.Concat(shards, r.end.Children)
			}
			for _, x := range shards {
				s.read(s.b, x, core.FromHorizon).expect("a child", want[x.ID])
			}
		}),
		sourceRule("resume-behind-the-last", "To resume behind the last record of a shard that has ended is to get its end, again and again.", func(s *stream) {
			parent := s.first()
			want := s.put(parent.ID, 6)
			s.split(parent.ID)
			r := s.read(s.a, parent, core.FromHorizon)
			if !r.toEnd("from the horizon", want) {
				return
			}
			for range 2 {
				again := s.read(s.b, core.Shard{ID: parent.ID}, r.all[len(r.all)-1].after)
				again.toEnd("behind the last record", nil)
				if again.end != nil && kids(again.end) != kids(r.end) {
					s.errorf("the end names children %s, and at the first reading %s", kids(again.end), kids(r.end))
				}
			}
		}),
	}
}

// endsIn reads a shard to its end, and compares the children it names with the listing.
func (s *stream) endsIn(shard core.Shard) {
	r := s.read(s.b, shard, core.FromHorizon)
	if !r.until(func() bool { return r.end != nil }) {
		s.errorf("%s: the shard has ended, and no page said so", r.name)
		return
	}
	if got, want := kids(r.end), kids(&core.Page{Children: s.childrenOf(shard.ID)}); got != want {
		s.errorf("the end of %s names children %s, want %s", shard.ID, got, want)
	}
}
