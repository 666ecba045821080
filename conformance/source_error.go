package conformance

import (
	"context"

	"github.com/shardwarden/shardwarden/core"
)

func sourceErrorRules() []rule[MakeSource] {
	kind := func(f Fault, name string, want error) rule[MakeSource] {
		return sourceRule("error-"+name, "A service that is "+string(f)+" gives errors that match "+want.Error()+" from behind any wraps.", func(s *stream) {
			b := need[Breaker](s.checker, s.h, "Break")
			shard := s.first()
			s.put(shard.ID, 1)
			fresh := s.h.Source() // has described nothing yet
			heal := s.breakdown(b, f)
			defer heal()
			for name, do := range map[string]func() error{
				"Describe":     func() error { _, err := fresh.Describe(s.ctx); return err },
				"Shards":       func() error { _, err := s.b.Shards(s.ctx, core.Position{}); return err },
				"Open or Next": func() error { _, err := s.openOrRead(s.b, shard, core.FromHorizon); return err },
			} {
				s.returns(name, func() {
					if err := do(); !is(err, want) {
						s.errorf("%s: %v, want %v", name, err, want)
					}
				})
			}
		})
	}
	return []rule[MakeSource]{
		kind(Unavailable, "unavailable", core.ErrUnavailable),
		kind(Throttled, "throttled", core.ErrThrottled),
		kind(Denied, "denied", core.ErrDenied),
		sourceRule("reader-goes-on", "A reader whose Next has failed for what passes by itself goes on at the next call: no gap, no repeat.", func(s *stream) {
			b := need[Breaker](s.checker, s.h, "Break")
			shard := s.first()
			r := s.read(s.a, shard, core.FromHorizon)
			var want []string
			tried := false
			for _, f := range []Fault{Unavailable, Throttled, Unavailable} {
				want = append(want, s.put(shard.ID, 5)...)
				r.expect("before it failed", want)
				want = append(want, s.put(shard.ID, 5)...)
				heal := s.breakdown(b, f)
				tried = true
				for range 2 {
					s.returns("Next of a reader whose service is "+string(f), func() {
						if n, err := r.step(s.ctx); err == nil {
							s.errorf("Next while the service is %s: %d records and no error", f, n)
						}
					})
				}
				heal()
				r.expect("after it failed", want)
			}
			if !tried {
				s.skip("verb Break")
			}
		}),
		sourceRule("cancelled-during", "A call that waits for a service that does not answer returns promptly when its context ends.", func(s *stream) {
			b := need[Breaker](s.checker, s.h, "Break")
			shard := s.first()
			r := s.read(s.a, shard, core.FromHorizon)
			fresh := s.h.Source()
			heal := s.breakdown(b, Silent)
			defer heal()
			s.prompt("Describe", func(ctx context.Context) error { _, err := fresh.Describe(ctx); return err })
			s.prompt("Shards", func(ctx context.Context) error { _, err := s.b.Shards(ctx, core.Position{}); return err })
			s.prompt("Next", func(ctx context.Context) error { _, err := r.step(ctx); return err })
		}),
	}
}
