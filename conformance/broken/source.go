package broken

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardwarden/shardwarden/backends/memory"
	"github.com/shardwarden/shardwarden/core"
)

// from makes a wrapper out of what it changes.
func from(change func(s *source)) func(*sourceHarness, *memory.Stream) *source {
	return func(h *sourceHarness, m *memory.Stream) *source {
		s := &source{Stream: m, h: h}
		change(s)
		return s
	}
}

// shards changes a listing.
func shards(change func(all []core.Shard) []core.Shard) func(*sourceHarness, *memory.Stream) *source {
	return from(func(s *source) {
		s.shards = func(ctx context.Context, open core.Position) ([]core.Shard, error) {
			all, err := s.list(ctx, open)
			return change(all), err
		}
	})
}

// opened changes where reading begins.
func opened(change func(at core.Position) core.Position) func(*sourceHarness, *memory.Stream) *source {
	return from(func(s *source) {
		s.open = func(ctx context.Context, shard core.Shard, at core.Position) (core.ShardReader, error) {
			return s.Stream.Open(ctx, shard, change(at))
		}
	})
}

// readerHooks is a reader whose methods are replaced.
type readerHooks struct {
	core.ShardReader
	next   func(ctx context.Context) (*core.Page, error)
	closer func() error
}

func (r *readerHooks) Next(ctx context.Context) (*core.Page, error) { return r.next(ctx) }

func (r *readerHooks) Close() error {
	if r.closer != nil {
		return r.closer()
	}
	return r.ShardReader.Close()
}

// read replaces Next of each reader. next is the sound one.
func read(make func(s *source, next func(context.Context) (*core.Page, error)) func(ctx context.Context) (*core.Page, error)) func(*sourceHarness, *memory.Stream) *source {
	return from(func(s *source) {
		s.open = func(ctx context.Context, shard core.Shard, at core.Position) (core.ShardReader, error) {
			r, err := s.Stream.Open(ctx, shard, at)
			if err != nil {
				return nil, err
			}
			return &readerHooks{ShardReader: r, next: make(s, r.Next)}, nil
		}
	})
}

// pages changes pages.
func pages(change func(p *core.Page)) func(*sourceHarness, *memory.Stream) *source {
	return read(func(_ *source, next func(context.Context) (*core.Page, error)) func(context.Context) (*core.Page, error) {
		return func(ctx context.Context) (*core.Page, error) {
			p, err := next(ctx)
			if err == nil {
				change(p)
			}
			return p, err
		}
	})
}

// onRenewal changes the first page with records after an iterator would have run out.
func onRenewal(change func(last core.Record, p *core.Page)) func(*sourceHarness, *memory.Stream) *source {
	return read(func(s *source, next func(context.Context) (*core.Page, error)) func(context.Context) (*core.Page, error) {
		used := s.h.now()
		expired := false
		var last core.Record
		return func(ctx context.Context) (*core.Page, error) {
			expired = expired || s.h.now().Sub(used) > 5*time.Minute
			used = s.h.now()
			p, err := next(ctx)
			if err != nil || len(p.Records) == 0 {
				return p, err
			}
			newest := p.Records[len(p.Records)-1].Clone()
			if expired {
				expired = false
				change(last, p)
			}
			last = newest
			return p, err
		}
	})
}

// positions changes what stands behind record i.
func positions(change func(p *core.Page, i int) core.Position) func(*sourceHarness, *memory.Stream) *source {
	return pages(func(p *core.Page) { p.After = func(i int) core.Position { return change(p, i) } })
}

func behind(r *core.Record) core.Position {
	return core.Position{Token: strings.Clone(r.Sequence), Sub: r.Sub}
}

// afterError makes a reader that behaves differently once its Next has failed.
func afterError(change func(next func(context.Context) (*core.Page, error), ctx context.Context, failed error) (*core.Page, error)) func(*sourceHarness, *memory.Stream) *source {
	return read(func(_ *source, next func(context.Context) (*core.Page, error)) func(context.Context) (*core.Page, error) {
		var failed error
		return func(ctx context.Context) (*core.Page, error) {
			if failed != nil {
				p, err := change(next, ctx, failed)
				if err == nil {
					failed = nil
				}
				return p, err
			}
			p, err := next(ctx)
			if err != nil && ctx.Err() == nil {
				failed = err
			}
			return p, err
		}
	})
}

// describing gives errors of one kind as another.
func describing(kind, as error) func(*sourceHarness, *memory.Stream) *source {
	return from(func(s *source) {
		s.describe = func(ctx context.Context) (core.StreamInfo, error) {
			info, err := s.Stream.Describe(ctx)
			if errors.Is(err, kind) {
				err = fmt.Errorf("describe: %w (%s)", as, err.Error())
			}
			return info, err
		}
	})
}

func (s *source) closed(ctx context.Context, id core.ShardID) bool {
	all, err := s.Stream.Shards(ctx, core.Position{})
	return err == nil && slices.ContainsFunc(all, func(x core.Shard) bool { return x.ID == id && x.Closed })
}

// Sources are all of them.
func Sources() []Source {
	return []Source{
		{"has another id for each handle", "stream-id-stable", from(func(s *source) {
			s.describe = func(ctx context.Context) (core.StreamInfo, error) {
				info, err := s.Stream.Describe(ctx)
				info.ID += core.StreamID(fmt.Sprintf(":%p", s))
				return info, err
			}
		})},
		{"names shards anew in each listing", "shards-stable", func() func(*sourceHarness, *memory.Stream) *source {
			var mu sync.Mutex
			n := 0
			return shards(func(all []core.Shard) []core.Shard {
				mu.Lock()
				defer mu.Unlock()
				n++
				if len(all) > 0 && n%2 == 0 {
					all[0].ID += "~"
				}
				return all
			})
		}()},
		{"lists a part when the rest fails", "listing-or-error", from(func(s *source) {
			s.shards = func(ctx context.Context, open core.Position) ([]core.Shard, error) {
				all, err := s.Stream.Shards(ctx, open)
				if s.h.partly() {
					all = all[:len(all)/2]
				}
				return all, err
			}
		})},
		{"does not list shards that are closed", "split-listed", shards(func(all []core.Shard) []core.Shard {
			return slices.DeleteFunc(all, func(x core.Shard) bool { return x.Closed })
		})},
		{"lists a child beside a parent that looks open", "parents-closed", shards(func(all []core.Shard) []core.Shard {
			for i := range all {
				all[i].Closed = false
			}
			return all
		})},
		{"lists one parent of a merge", "merge-listed", shards(func(all []core.Shard) []core.Shard {
			for i := range all {
				all[i].Parents = all[i].Parents[:min(1, len(all[i].Parents))]
			}
			return all
		})},
		{"leaves a hole between ranges", "hash-ranges", shards(func(all []core.Shard) []core.Shard {
			for i := range all {
				r := *all[i].Range
				r.End[15]--
				all[i].Range = &r
			}
			return all
		})},
		{"lists all shards as open at the latest", "open-at-latest", from(func(s *source) {
			s.shards = func(ctx context.Context, open core.Position) ([]core.Shard, error) {
				if open.Anchor == core.Latest {
					open = core.Position{}
				}
				return s.list(ctx, open)
			}
		})},
		{"lists what is open now for any instant", "open-at-time", from(func(s *source) {
			s.shards = func(ctx context.Context, open core.Position) ([]core.Shard, error) {
				if open.Anchor == core.AtTime {
					open = core.FromLatest
				}
				return s.list(ctx, open)
			}
		})},
		{"lists what is open now for the horizon", "open-at-horizon", from(func(s *source) {
			s.shards = func(ctx context.Context, open core.Position) ([]core.Shard, error) {
				if open.Anchor == core.Horizon {
					open = core.FromLatest
				}
				return s.list(ctx, open)
			}
		})},
		{"reads a shard that never was as one without records", "unknown-shard", from(func(s *source) {
			s.open = func(ctx context.Context, shard core.Shard, at core.Position) (core.ShardReader, error) {
				r, err := s.Stream.Open(ctx, shard, at)
				if errors.Is(err, core.ErrNotFound) {
					return &readerHooks{next: func(context.Context) (*core.Page, error) { return &core.Page{End: true}, nil }, closer: func() error { return nil }}, nil
				}
				return r, err
			}
		})},
		{"drops the last batch with the end", "closed-with-backlog", pages(func(p *core.Page) {
			if p.End {
				p.Records = nil
			}
		})},
		{"never says that a shard has ended", "empty-shard-ends", pages(func(p *core.Page) { p.End, p.Children = false, nil })},
		{"takes the tip for the end", "open-shard-does-not-end", pages(func(p *core.Page) { p.End = p.End || len(p.Records) == 0 })},
		{"names no children at the end", "end-names-children", pages(func(p *core.Page) { p.Children = nil })},
		{"names children with one parent at the end", "end-names-children", pages(func(p *core.Page) {
			for i := range p.Children {
				p.Children[i].Parents = p.Children[i].Parents[:1]
			}
		})},
		{"begins at the horizon with what comes from now on", "start-horizon", opened(func(at core.Position) core.Position {
			if at.Anchor == core.Horizon {
				return core.FromLatest
			}
			return at
		})},
		{"begins at the latest with what was there", "start-latest", opened(func(at core.Position) core.Position {
			if at.Anchor == core.Latest {
				return core.FromHorizon
			}
			return at
		})},
		{"resolves the latest when it is opened", "start-latest-resolved", opened(func(at core.Position) core.Position {
			if at.Anchor == core.Latest {
				return core.FromLatest
			}
			return at
		})},
		{"begins at the horizon for any instant", "start-at-time", opened(func(at core.Position) core.Position {
			if at.Anchor == core.AtTime {
				return core.FromHorizon
			}
			return at
		})},
		{"ignores where inside a token reading stopped", "resume-inside-aggregate", opened(func(at core.Position) core.Position {
			at.Sub = 0
			return at
		})},
		{"gives positions one record too far", "resume-behind-each", positions(func(p *core.Page, i int) core.Position { return behind(&p.Records[min(i+1, len(p.Records)-1)]) })},
		{"gives positions one record too early", "resume-behind-each", positions(func(p *core.Page, i int) core.Position { return behind(&p.Records[max(i-1, 0)]) })},
		{"gives a page's first position for its end", "resume-behind-pages", pages(func(p *core.Page) {
			if len(p.Records) > 0 {
				p.Next = behind(&p.Records[0])
			}
		})},
		{"gives positions that share memory with the page", "positions-own-memory", positions(func(p *core.Page, i int) core.Position {
			return core.Position{Token: p.Records[i].Sequence, Sub: p.Records[i].Sub}
		})},
		{"uses a page again for the next", "pages-stay", read(func(_ *source, next func(context.Context) (*core.Page, error)) func(context.Context) (*core.Page, error) {
			var release func()
			return func(ctx context.Context) (*core.Page, error) {
				if release != nil {
					release()
				}
				p, err := next(ctx)
				if err == nil {
					release, p.Release = p.Release, nil
				}
				return p, err
			}
		})},
		{"repeats a record when its iterator has run out", "renewal", onRenewal(func(last core.Record, p *core.Page) {
			if last.Sequence != "" {
				p.Records = slices.Insert(slices.Clone(p.Records), 0, last)
			}
		})},
		{"skips a record when its iterator has run out", "renewal", onRenewal(func(_ core.Record, p *core.Page) { p.Records = p.Records[1:] })},
		{"begins each page with the last record of the one before", "start-horizon", read(func(_ *source, next func(context.Context) (*core.Page, error)) func(context.Context) (*core.Page, error) {
			var last []core.Record
			return func(ctx context.Context) (*core.Page, error) {
				p, err := next(ctx)
				if err == nil && len(p.Records) > 0 {
					all := append(last, p.Records...)
					last = []core.Record{p.Records[len(p.Records)-1].Clone()}
					p.Records = all
				}
				return p, err
			}
		})},
		{"turns the records of a page round", "start-horizon", pages(func(p *core.Page) {
			p.Records = slices.Clone(p.Records)
			slices.Reverse(p.Records)
		})},
		{"skips silently what was trimmed", "trimmed", from(func(s *source) {
			s.open = func(ctx context.Context, shard core.Shard, at core.Position) (core.ShardReader, error) {
				r, err := s.Stream.Open(ctx, shard, at)
				if errors.Is(err, core.ErrTrimmed) {
					return s.Stream.Open(ctx, shard, core.FromHorizon)
				}
				return r, err
			}
		})},
		{"ends a reader with its first error", "reader-goes-on", afterError(func(_ func(context.Context) (*core.Page, error), _ context.Context, failed error) (*core.Page, error) {
			return nil, failed
		})},
		{"skips a page after an error", "reader-goes-on", afterError(func(next func(context.Context) (*core.Page, error), ctx context.Context, _ error) (*core.Page, error) {
			p, err := next(ctx)
			if err == nil {
				p.Records = nil
			}
			return p, err
		})},
		{"says nothing of an error and comes back empty", "reader-goes-on", read(func(_ *source, next func(context.Context) (*core.Page, error)) func(context.Context) (*core.Page, error) {
			return func(ctx context.Context) (*core.Page, error) {
				p, err := next(ctx)
				if err != nil && ctx.Err() == nil {
					return &core.Page{}, nil
				}
				return p, err
			}
		})},
		{"loses the kind of an error in wrapping", "error-throttled", from(func(s *source) {
			s.shards = func(ctx context.Context, open core.Position) ([]core.Shard, error) {
				all, err := s.list(ctx, open)
				if err != nil {
					err = errors.New("list shards: " + err.Error())
				}
				return all, err
			}
		})},
		{"does not look at the context of Next", "next-honours-context", read(func(_ *source, next func(context.Context) (*core.Page, error)) func(context.Context) (*core.Page, error) {
			return func(ctx context.Context) (*core.Page, error) { return next(context.WithoutCancel(ctx)) }
		})},
		{"waits for a service that is silent although its context has ended", "cancelled-during", from(func(s *source) {
			s.shards = func(ctx context.Context, open core.Position) ([]core.Shard, error) {
				return s.list(context.WithoutCancel(ctx), open)
			}
		})},
		{"does not wake Next when it is closed", "close-ends-next", from(func(s *source) {
			s.open = func(ctx context.Context, shard core.Shard, at core.Position) (core.ShardReader, error) {
				r, err := s.Stream.Open(ctx, shard, at)
				return &readerHooks{ShardReader: r, next: func(ctx context.Context) (*core.Page, error) { return r.Next(ctx) }, closer: func() error { return nil }}, err
			}
		})},
		{"says nothing as long as there is nothing", "empty-page", read(func(_ *source, next func(context.Context) (*core.Page, error)) func(context.Context) (*core.Page, error) {
			return func(ctx context.Context) (*core.Page, error) {
				for {
					p, err := next(ctx)
					if err != nil || p.End || len(p.Records) > 0 {
						return p, err
					}
				}
			}
		})},
		{"takes records away from other readers", "readers-apart", func() func(*sourceHarness, *memory.Stream) *source {
			var taken sync.Map
			return read(func(s *source, next func(context.Context) (*core.Page, error)) func(context.Context) (*core.Page, error) {
				return func(ctx context.Context) (*core.Page, error) {
					p, err := next(ctx)
					if err == nil {
						p.Records = slices.DeleteFunc(slices.Clone(p.Records), func(r core.Record) bool {
							_, gone := taken.LoadOrStore(fmt.Sprintf("%p %s", s.h, r.Sequence), true)
							return gone
						})
					}
					return p, err
				}
			})
		}()},
		{"knows no lag and does not say so", "lag", pages(func(p *core.Page) { p.Lag = -1 })},
		{"makes pages larger than it says", "page-bytes", read(func(_ *source, next func(context.Context) (*core.Page, error)) func(context.Context) (*core.Page, error) {
			return func(ctx context.Context) (*core.Page, error) {
				p, err := next(ctx)
				for err == nil && !p.End && len(p.Records) > 0 && len(p.Records) < 12 {
					more, err2 := next(ctx)
					if err2 != nil || len(more.Records) == 0 {
						break
					}
					release := p.Release
					p.Records, p.End, p.Children = append(slices.Clone(p.Records), more.Records...), more.End, more.Children
					p.Release = func() {
						release()
						more.Release()
					}
				}
				return p, err
			}
		})},
		{"takes data for text that ends at the first zero", "values", pages(func(p *core.Page) {
			for i := range p.Records {
				p.Records[i].Data, _, _ = bytes.Cut(p.Records[i].Data, []byte{0})
			}
		})},
		{"numbers records page by page", "sequences", pages(func(p *core.Page) {
			for i := range p.Records {
				p.Records[i].Sequence, p.Records[i].Sub = fmt.Sprint(i), 0
			}
		})},
		{"compares tokens and not what lies inside", "positions-ordered", from(func(s *source) {
			s.compare = func(a, b core.Position) int {
				a.Sub, b.Sub = 0, 0
				return s.Stream.Compare(a, b)
			}
		})},
		{"resolves the latest to the first record", "start-resolved", from(func(s *source) {
			s.resolve = func(ctx context.Context, shard core.Shard, start core.Position) (core.Position, error) {
				p, err := s.Stream.Resolve(ctx, shard, start)
				p.Token = "10000000000000000000"
				return p, err
			}
		})},
		{"has a clock that is an hour ahead", "clock", from(func(s *source) {
			s.clock = func(ctx context.Context) (time.Time, error) {
				now, err := s.Stream.Now(ctx)
				return now.Add(time.Hour), err
			}
		})},
		{"gives a stream made again the id of the former", "stream-id-incarnation", from(func(s *source) {
			s.describe = func(ctx context.Context) (core.StreamInfo, error) {
				info, err := s.Stream.Describe(ctx)
				info.ID = core.StreamID(info.Name)
				return info, err
			}
		})},
		{"drops parents that are not listed any more", "forgotten", shards(func(all []core.Shard) []core.Shard {
			for i := range all {
				all[i].Parents = slices.DeleteFunc(all[i].Parents, func(id core.ShardID) bool {
					return !slices.ContainsFunc(all, func(x core.Shard) bool { return x.ID == id })
				})
			}
			return all
		})},
		{"looks for the end before it reads the rest", "end-while-reading", from(func(s *source) {
			s.open = func(ctx context.Context, shard core.Shard, at core.Position) (core.ShardReader, error) {
				r, err := s.Stream.Open(ctx, shard, at)
				if err != nil {
					return nil, err
				}
				begun := false
				return &readerHooks{ShardReader: r, next: func(ctx context.Context) (*core.Page, error) {
					if begun && s.closed(ctx, shard.ID) {
						return &core.Page{End: true}, nil
					}
					p, err := r.Next(ctx)
					begun = begun || err == nil && len(p.Records) > 0 && p.Lag == 0
					return p, err
				}}, nil
			}
		})},
		{"misses the end of a shard it waits on", "end-wakes-reader", read(func(_ *source, next func(context.Context) (*core.Page, error)) func(context.Context) (*core.Page, error) {
			waited := false
			return func(ctx context.Context) (*core.Page, error) {
				p, err := next(ctx)
				if err == nil && !p.End {
					waited = waited || len(p.Records) == 0
				} else if err == nil && waited {
					p.End, p.Children = false, nil
				}
				return p, err
			}
		})},
		{"begins a child with what comes from now on", "children-from-beginning", from(func(s *source) {
			s.open = func(ctx context.Context, shard core.Shard, at core.Position) (core.ShardReader, error) {
				if len(shard.Parents) > 0 {
					at = core.FromLatest
				}
				return s.Stream.Open(ctx, shard, at)
			}
		})},
		{"has no end behind the last record", "resume-behind-the-last", from(func(s *source) {
			s.open = func(ctx context.Context, shard core.Shard, at core.Position) (core.ShardReader, error) {
				r, err := s.Stream.Open(ctx, shard, at)
				if err != nil || at.Anchor != core.AfterToken {
					return r, err
				}
				return &readerHooks{ShardReader: r, next: func(ctx context.Context) (*core.Page, error) {
					p, err := r.Next(ctx)
					if err == nil && p.End && len(p.Records) == 0 {
						p.End = false
					}
					return p, err
				}}, nil
			}
		})},
		{"reads no closed shard from an instant", "start-of-ended", from(func(s *source) {
			s.open = func(ctx context.Context, shard core.Shard, at core.Position) (core.ShardReader, error) {
				if at.Anchor == core.AtTime && s.closed(ctx, shard.ID) {
					return nil, fmt.Errorf("shard is closed: %w", core.ErrInvalid)
				}
				return s.Stream.Open(ctx, shard, at)
			}
		})},
		{"calls a service that is not there an invalid answer", "error-unavailable", describing(core.ErrUnavailable, core.ErrInvalid)},
		{"takes a refusal for a stream that is not there", "error-denied", describing(core.ErrDenied, core.ErrNotFound)},
		{"leaves a goroutine behind with each reader", "no-goroutine-left", from(func(s *source) {
			s.open = func(ctx context.Context, shard core.Shard, at core.Position) (core.ShardReader, error) {
				go rest(3 * time.Second) // longer than the suite waits
				return s.Stream.Open(ctx, shard, at)
			}
		})},
	}
}
