package conformance

import (
	"context"
	"sync"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

func readerRules() []rule[MakeSource] {
	return []rule[MakeSource]{
		sourceRule("empty-page", "A reader that has caught up comes back with an empty page every few seconds: silence is how a stalled shard is known.", func(s *stream) {
			shard := s.first()
			want := s.put(shard.ID, 2)
			r := s.read(s.a, shard, core.FromHorizon)
			r.until(func() bool { return len(r.all) >= 2 })
			for range 3 {
				s.returns("Next at the tip", func() {
					if n, err := r.step(s.ctx); err != nil || n > 0 || r.end != nil {
						s.errorf("Next at the tip: %d records, error %v, end %v; want an empty page", n, err, r.end != nil)
					}
				})
			}
			want = append(want, s.put(shard.ID, 2)...)
			r.expect("behind empty pages", want)
		}),
		sourceRule("next-honours-context", "Next returns promptly when its context ends, and the reader goes on afterwards without gap or repeat.", func(s *stream) {
			shard := s.first()
			want := s.put(shard.ID, 3)
			r := s.read(s.a, shard, core.FromHorizon)
			r.until(func() bool { return len(r.all) >= 3 })
			for _, after := range []time.Duration{0, 3 * time.Millisecond, 20 * time.Millisecond} {
				var took time.Duration
				var err error
				s.returns("Next whose context ended", func() {
					ctx, cancel := context.WithCancel(s.ctx)
					if after == 0 {
						cancel()
					}
					timer := time.AfterFunc(after, cancel)
					defer timer.Stop()
					began := time.Now()
					for err == nil && time.Since(began) < after+promptly { // an empty page may come before the context ends
						_, err = r.step(ctx)
					}
					took = time.Since(began) - after
				})
				switch {
				case err == nil:
					s.errorf("Next does not fail, %v after its context has ended", took)
				case !is(err, context.Canceled):
					s.errorf("Next whose context ended: %v, want context.Canceled", err)
				case took > promptly:
					s.errorf("Next came back %v after its context had ended", took)
				}
				want = append(want, s.put(shard.ID, 2)...)
				if !r.expect("after a Next that was given up", want) {
					return
				}
			}
		}),
		sourceRule("close-ends-next", "Close ends a Next that waits, from another goroutine and promptly.", func(s *stream) {
			shard := s.first()
			for range 3 {
				r, err := s.a.Open(s.ctx, shard, core.FromHorizon)
				if err != nil {
					s.fatalf("Open: %v", err)
				}
				var closed, back time.Time
				s.returns("Next of a reader that is closed", func() {
					var wg sync.WaitGroup
					wg.Go(func() {
						s.pause(5)
						closed = time.Now()
						if err := r.Close(); err != nil {
							s.errorf("Close: %v", err)
						}
					})
					for { // an empty page may come before
						p, err := r.Next(s.ctx)
						if err != nil {
							break
						}
						if len(p.Records) > 0 || p.End {
							s.errorf("Next of an empty shard: %d records, end %v", len(p.Records), p.End)
							break
						}
					}
					back = time.Now()
					wg.Wait()
				})
				if took := back.Sub(closed); took > promptly {
					s.errorf("Next came back %v after Close", took)
				}
			}
		}),
		sourceRule("readers-apart", "Readers of one shard do not disturb each other, nor do those of others.", func(s *stream) {
			shard := s.first()
			want := s.put(shard.ID, 20)
			var all []*reader
			for i := range 4 {
				all = append(all, s.read([]core.StreamSource{s.a, s.b}[i%2], shard, core.FromHorizon))
			}
			all[0].expect("the first reader", want)
			_ = all[1].Close()
			want = append(want, s.put(shard.ID, 5)...)
			all[2].expect("one beside it", want)
			all[0].expect("the first again", want)
			all[3].expect("the last", want)
		}),
		sourceRule("lag", "Lag is how far reading is behind the end of the shard: above zero with older records to come, small when all was read; always negative where the source says that it has none.", func(s *stream) {
			shard := s.first()
			s.put(shard.ID, 3)
			r := s.read(s.a, shard, core.FromHorizon)
			r.until(func() bool { return len(r.all) >= 3 })
			r.peek()
			if s.info.Lacks.Lag {
				if r.lag >= 0 {
					s.errorf("lag %v of a source that says it has none", r.lag)
				}
				return
			}
			if r.lag < 0 || r.lag > time.Second {
				s.errorf("lag %v when all was read, want about 0", r.lag)
			}
		}),
		{"no-goroutine-left", "When its readers and its harness are closed, a source has left no goroutine behind.", func(c *checker, make MakeSource) {
			c.leaves(func() {
				inner := &checker{ctx: c.ctx, fake: c.fake, patience: c.patience}
				<-c.sub(inner, func() {
					s := newStream(inner, make)
					shard := s.first()
					s.put(shard.ID, 10)
					for range 3 {
						r, err := s.a.Open(s.ctx, shard, core.FromHorizon)
						if err != nil {
							s.fatalf("Open: %v", err)
						}
						if _, err := r.Next(s.ctx); err != nil {
							s.errorf("Next: %v", err)
						}
						_ = r.Close()
					}
				})
			})
		}},
	}
}
