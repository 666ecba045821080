package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// TestSource tries a source on every rule of [core.StreamSource], each in a subtest with a stream of its own.
func TestSource(t *testing.T, make MakeSource, opts ...Option) {
	t.Helper()
	test(t, "source", sourceRules(), make, opts)
}

// CheckSource does the same outside go test. The error is that of the report ([Report.Err]), or says why the rules could not be run.
func CheckSource(ctx context.Context, make MakeSource, opts ...Option) (Report, error) {
	return check(ctx, "source", sourceRules(), make, opts)
}

func sourceRule(name, demands string, f func(s *stream)) rule[MakeSource] {
	return rule[MakeSource]{name, demands, func(c *checker, make MakeSource) { f(newStream(c, make)) }}
}

func sourceRules() []rule[MakeSource] {
	return slices.Concat(shardRules(), endRules(), startRules(), resumeRules(), readerRules(), sourceErrorRules(), sourceAbilityRules())
}

// stream is a stream under test, with two handles on it.
type stream struct {
	*checker
	h    SourceHarness
	a, b core.StreamSource
	info core.StreamInfo
	n    int // records put so far
}

func newStream(c *checker, make MakeSource) *stream {
	h, err := make(c.ctx)
	if err != nil {
		c.fatalf("make a stream: %v", err)
	}
	c.cleanup(func() {
		if err := h.Close(); err != nil {
			c.errorf("close the harness: %v", err)
		}
	})
	s := &stream{checker: c, h: h, a: h.Source(), b: h.Source()}
	if s.info, err = s.a.Describe(c.ctx); err != nil {
		c.fatalf("Describe: %v", err)
	}
	return s
}

// list is a listing by id.
func (s *stream) list(src core.StreamSource, open core.Position) []core.Shard {
	all, err := src.Shards(s.ctx, open)
	if err != nil {
		s.fatalf("Shards: %v", err)
	}
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b core.Shard) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return all
}

// open are the shards that take records.
func (s *stream) open() []core.Shard {
	return slices.DeleteFunc(s.list(s.a, core.Position{}), func(x core.Shard) bool { return x.Closed })
}

// first is an open shard.
func (s *stream) first() core.Shard {
	all := s.open()
	if len(all) == 0 {
		s.fatalf("the stream has no open shard")
	}
	return all[0]
}

func (s *stream) split(id core.ShardID) (children []core.Shard) {
	v := need[Splitter](s.checker, s.h, "Split")
	if err := v.Split(s.ctx, id); err != nil {
		s.fatalf("Split(%s): %v", id, err)
	}
	return s.childrenOf(id)
}

// neighbours are two open shards that can be merged.
func (s *stream) neighbours() (a, b core.Shard) {
	need[Merger](s.checker, s.h, "Merge")
	if _, ok := s.h.(Splitter); ok {
		if c := s.split(s.first().ID); len(c) == 2 {
			return c[0], c[1]
		}
		s.fatalf("a split gave no two children")
	}
	all := s.open()
	if len(all) < 2 {
		s.skip("verb Split, or a stream that begins with two shards to merge")
	}
	return all[0], all[1]
}

func (s *stream) childrenOf(id core.ShardID) (out []core.Shard) {
	for _, x := range s.list(s.a, core.Position{}) {
		if slices.Contains(x.Parents, id) {
			out = append(out, x)
		}
	}
	return out
}

func names(shards []core.Shard) []core.ShardID {
	var out []core.ShardID
	for _, x := range shards {
		out = append(out, x.ID)
	}
	return sorted(out)
}

// put adds n records whose data say which they are, and returns those data.
func (s *stream) put(shard core.ShardID, n int) (data []string) {
	for range n {
		s.n++
		text := fmt.Sprintf("record %06d", s.n)
		if err := s.h.Put(s.ctx, shard, fmt.Sprint("key-", s.n%7), []byte(text)); err != nil {
			s.fatalf("Put to %s: %v", shard, err)
		}
		data = append(data, text)
	}
	return data
}

// got is a record, copied, and where to resume behind it.
type got struct {
	core.Record
	after core.Position
	page  int
}

func data(all []got) []string {
	out := make([]string, len(all))
	for i, g := range all {
		out[i] = string(g.Data)
	}
	return out
}

// session is what a batch wants; its positions need none of it.
type session struct{ core.Session }

func (session) Key() core.LeaseKey { return core.LeaseKey{} }
func (session) Fence() uint64      { return 0 }

// reader is a reader under test, and what came out of it.
type reader struct {
	*stream
	core.ShardReader
	shard core.ShardID
	name  string
	all   []got
	page  int
	end   *core.Page // the last, once it came
	next  core.Position
	lag   time.Duration // of the last page
}

// read opens a shard. What goes wrong there ends the rule.
func (s *stream) read(src core.StreamSource, shard core.Shard, at core.Position) *reader {
	r, err := src.Open(s.ctx, shard, at)
	if err != nil {
		s.fatalf("Open(%s, at %s): %v", shard.ID, place(at), err)
	}
	s.cleanup(func() { _ = r.Close() })
	return &reader{stream: s, ShardReader: r, shard: shard.ID, name: fmt.Sprintf("shard %s from %s", shard.ID, place(at)), next: at}
}

// step reads a page, notes its records and gives its memory back.
func (r *reader) step(ctx context.Context) (records int, err error) {
	p, err := r.Next(ctx)
	if err != nil {
		return 0, err
	}
	if p == nil {
		r.fatalf("%s: Next gave neither a page nor an error", r.name)
	}
	r.note(p)
	n := len(p.Records)
	if p.Release != nil {
		p.Release()
	}
	return n, nil
}

func (r *reader) note(p *core.Page) {
	b := core.NewBatch(session{}, p)
	for i := range p.Records {
		r.all = append(r.all, got{p.Records[i].Clone(), b.After(i), r.page})
	}
	r.page++
	r.lag = p.Lag
	if n := b.Next(); !n.IsZero() {
		r.next = n.Clone()
	}
	if p.End {
		e := *p
		e.Records, e.After, e.Release = nil, nil, nil
		r.end = &e
	}
}

// until reads until f holds or the shard ends, as long as patience lasts. An error ends the rule.
func (r *reader) until(f func() bool) bool {
	ctx, cancel := context.WithTimeout(r.ctx, r.patience)
	defer cancel()
	for !f() && r.end == nil {
		if _, err := r.step(ctx); err != nil {
			if ctx.Err() != nil && r.ctx.Err() == nil {
				return false
			}
			r.fatalf("%s: Next after %d records: %v", r.name, len(r.all), err)
		}
		if ctx.Err() != nil {
			return f()
		}
	}
	return f()
}

// expect reads so many records and looks once more, so that one too many shows, and compares them all.
func (r *reader) expect(what string, want []string) bool {
	ok := r.until(func() bool { return len(r.all) >= len(want) })
	if ok && r.end == nil {
		r.peek()
	}
	return r.compare(what, want)
}

// peek looks once for more than there should be. That nothing comes for a while is fine.
func (r *reader) peek() {
	d := 500 * time.Millisecond
	if r.fake {
		d = 6 * time.Second // longer than any pause between reads
	}
	ctx, cancel := context.WithTimeout(r.ctx, min(r.patience, d))
	defer cancel()
	if _, err := r.step(ctx); err != nil && !ended(ctx, err) {
		r.fatalf("%s: Next after %d records: %v", r.name, len(r.all), err)
	}
}

func (r *reader) compare(what string, want []string) bool {
	if d := missing(data(r.all), want); d != "" {
		r.errorf("%s: %s: %s", what, r.name, d)
		return false
	}
	return true
}

// toEnd reads the rest of a shard that has ended.
func (r *reader) toEnd(what string, want []string) bool {
	if !r.until(func() bool { return r.end != nil }) {
		r.errorf("%s: %s: the shard has ended, and %d records and %v later no page said so", what, r.name, len(r.all), r.patience)
		return false
	}
	return r.compare(what, want)
}

// missing says how what was read differs from what should have been, "" where it does not.
func missing(got, want []string) string {
	if slices.Equal(got, want) {
		return ""
	}
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	at := func(all []string) string {
		if i < len(all) {
			return fmt.Sprintf("%q", short(all[i]))
		}
		return "nothing"
	}
	return fmt.Sprintf("%d records, want %d; the first %d are right, then comes %s, want %s", len(got), len(want), i, at(got), at(want))
}

// now is an instant of the service, with what happened before it and what happens after it apart by more than the grain of its clock.
func (s *stream) now() time.Time {
	grain := 25 * time.Millisecond
	if s.fake {
		grain = 2 * time.Second
	}
	s.wait(grain)
	at := time.Now()
	if c, ok := s.a.(core.Clock); ok {
		var err error
		if at, err = c.Now(s.ctx); err != nil {
			s.fatalf("Now: %v", err)
		}
	}
	s.wait(grain)
	return at
}

// startTimes skips the rule where the source starts at no time.
func (s *stream) startTimes() {
	if s.info.Lacks.StartTime {
		s.skip("ability to start at a time")
	}
}

// advance lets time pass for the service.
func (s *stream) advance(d time.Duration) {
	if s.fake {
		s.wait(d)
		return
	}
	if err := need[Advancer](s.checker, s.h, "Advance").Advance(s.ctx, d); err != nil {
		s.fatalf("Advance(%v): %v", d, err)
	}
}

// openOrRead is the error of a shard that cannot be read at a position: that of Open, or of the first Next that has one.
func (s *stream) openOrRead(src core.StreamSource, shard core.Shard, at core.Position) (records int, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.patience)
	defer cancel()
	r, err := src.Open(ctx, shard, at)
	if err != nil {
		return 0, err
	}
	defer func() { _ = r.Close() }()
	x := &reader{stream: s, ShardReader: r, name: string(shard.ID)}
	for records == 0 && x.end == nil {
		n, err := x.step(ctx)
		if records += n; err != nil {
			return records, err
		}
	}
	return records, nil
}

// pause lets a few milliseconds pass, so that what was started gets somewhere.
func (c *checker) pause(ms int) {
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.ctx.Done():
	}
}
