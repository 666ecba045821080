package conformance

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// rule is one demand of a contract. H is what it is tried on.
type rule[H any] struct {
	name    string // of the subtest: words with hyphens
	demands string // in one sentence
	check   func(c *checker, h H)
}

// checker is what a rule works with: where it says what is wrong, and how long it may wait. Its methods are safe for concurrent use, fatalf
// and skip only on the goroutine of the rule.
type checker struct {
	ctx      context.Context
	fake     bool // in a bubble
	patience time.Duration

	mu       sync.Mutex
	faults   []string
	lacks    string
	cleanups []func()
}

// cleanup has f called when the rule has ended, last one first.
func (c *checker) cleanup(f func()) {
	c.mu.Lock()
	c.cleanups = append(c.cleanups, f)
	c.mu.Unlock()
}

// clean calls all of them, also where one ends early.
func (c *checker) clean() {
	c.mu.Lock()
	n := len(c.cleanups)
	if n == 0 {
		c.mu.Unlock()
		return
	}
	f := c.cleanups[n-1]
	c.cleanups = c.cleanups[:n-1]
	c.mu.Unlock()
	defer c.clean()
	f()
}

// errorf notes what is wrong; the rule goes on.
func (c *checker) errorf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	const enough = 12
	switch n := len(c.faults); {
	case n < enough:
		c.faults = append(c.faults, fmt.Sprintf(format, args...))
	case n == enough:
		c.faults = append(c.faults, "… and more")
	}
}

// fatalf notes what is wrong and ends the rule.
func (c *checker) fatalf(format string, args ...any) {
	c.errorf(format, args...)
	runtime.Goexit()
}

// skip ends the rule for want of a verb or an ability.
func (c *checker) skip(lacks string) {
	c.mu.Lock()
	c.lacks = lacks
	c.mu.Unlock()
	runtime.Goexit()
}

// need is the harness as one that has a further verb; the rule is skipped where it has not.
func need[V any](c *checker, h any, verb string) V {
	v, ok := h.(V)
	if !ok {
		c.skip("verb " + verb)
	}
	return v
}

// returns runs f as within does, and ends the rule if it does not return: nobody else may use what it uses.
func (c *checker) returns(what string, f func()) {
	if !c.within(what, f) {
		runtime.Goexit()
	}
}

// within runs f and waits for it as long as patience lasts; false means that it did not return.
func (c *checker) within(what string, f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer c.rescue(what)
		f()
	}()
	timer := time.NewTimer(c.patience)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		c.errorf("%s: still not back after %v", what, c.patience)
		return false
	}
}

// rescue makes a panic a fault of this rule.
func (c *checker) rescue(what string) {
	if p := recover(); p != nil {
		c.errorf("%s: panic: %v\n%s", what, p, debug.Stack())
	}
}

// run carries out one rule, on a goroutine of its own, so that it can end early and a panic is a fault like any other.
func run[H any](ctx context.Context, s settings, r rule[H], h H) Result {
	limit := 10 * s.patience // a rule waits for several things, one after the other
	if s.fake {
		limit = 24 * time.Hour
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &checker{ctx: ctx, fake: s.fake, patience: s.patience}
	began := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer c.rescue("rule " + r.name)
		defer c.clean()
		r.check(c, h)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		c.errorf("the rule is still running after %v: a call of the adapter does not return", limit)
	case <-ctx.Done():
		c.errorf("ended from outside: %v", context.Cause(ctx))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	out := Result{Rule: r.name, Demands: r.demands, Outcome: Pass, Took: time.Since(began)}
	switch {
	case len(c.faults) > 0:
		out.Outcome, out.Faults = Fail, append([]string(nil), c.faults...)
	case c.lacks != "":
		out.Outcome, out.Lacks = Skip, c.lacks
	}
	return out
}

// test runs the rules as subtests; the report goes to the test's artifacts.
func test[H any](t *testing.T, suite string, rules []rule[H], h H, opts []Option) {
	t.Helper()
	s := newSettings(opts)
	report := Report{Suite: suite}
	for _, r := range rules {
		if !s.only(r.name) {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			var res Result
			if s.fake {
				synctest.Test(t, func(t *testing.T) { res = run(t.Context(), s, r, h) })
			} else {
				res = run(t.Context(), s, r, h)
			}
			report.Rules = append(report.Rules, res)
			for _, f := range res.Faults {
				t.Errorf("%s\n%s", r.demands, f)
			}
			if res.Outcome == Skip {
				t.Skipf("lacks %s", res.Lacks)
			}
		})
	}
	t.Log("\n" + report.String())
	if err := report.WriteFile(filepath.Join(t.ArtifactDir(), suite+".json")); err != nil {
		t.Error(err)
	}
}

// check runs the rules outside go test.
func check[H any](ctx context.Context, suite string, rules []rule[H], h H, opts []Option) (Report, error) {
	s := newSettings(opts)
	report := Report{Suite: suite}
	if s.fake {
		return report, errors.New("conformance: FakeTime needs go test, which has the bubbles: leave it out here")
	}
	for _, r := range rules {
		if !s.only(r.name) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return report, context.Cause(ctx)
		}
		report.Rules = append(report.Rules, run(ctx, s, r, h))
	}
	return report, report.Err()
}

// wait lets time pass, of the bubble or of the world.
func (c *checker) wait(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.ctx.Done():
		c.fatalf("ended from outside: %v", context.Cause(c.ctx))
	}
}
