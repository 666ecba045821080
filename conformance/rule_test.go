package conformance

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What becomes of a rule: it passes, notes faults, ends early, lacks something, panics, or does not come back.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		name   string
		check  func(c *checker, _ int)
		want   Outcome
		says   string
		faults int
	}{
		{"passes", func(*checker, int) {}, Pass, "", 0},
		{"two faults", func(c *checker, _ int) { c.errorf("one"); c.errorf("two") }, Fail, "one two", 2},
		{"ends early", func(c *checker, _ int) { c.fatalf("one"); c.errorf("never") }, Fail, "one", 1},
		{"lacks a verb", func(c *checker, h int) { need[Splitter](c, h, "Split") }, Skip, "verb Split", 0},
		{"a fault before it lacks something", func(c *checker, _ int) { c.errorf("one"); c.skip("verb X") }, Fail, "one", 1},
		{"panics", func(*checker, int) { panic("broken") }, Fail, "panic: broken", 1},
		{"panics elsewhere", func(c *checker, _ int) { c.within("a call", func() { panic("broken") }) }, Fail, "a call: panic: broken", 1},
		{"waits too long", func(c *checker, _ int) { c.within("a call", func() { c.wait(2 * c.patience) }) }, Fail, "a call: still not back", 1},
		{"does not come back", func(c *checker, _ int) { <-c.ctx.Done() }, Fail, "does not return", 1},
		{"cleans up, last first", func(c *checker, _ int) {
			c.cleanup(func() { c.errorf("two") })
			c.cleanup(func() { c.fatalf("one") })
			c.skip("nothing")
		}, Fail, "one two", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := run(t.Context(), newSettings([]Option{Patience(time.Second)}), rule[int]{"r", "d", c.check}, 0)
				text := strings.Join(append(got.Faults, got.Lacks), " ")
				if got.Outcome != c.want || len(got.Faults) < c.faults || !strings.Contains(text, c.says) {
					t.Errorf("%s %q, want %s with %q", got.Outcome, text, c.want, c.says)
				}
				time.Sleep(time.Minute) // for what is left behind on purpose
			})
		})
	}
}

// Names are those of subtests and of reports: each once, and each says what it demands.
func TestRules(t *testing.T) {
	count := func(suite string, names, demands []string) {
		if s := slices.Sorted(slices.Values(names)); len(slices.Compact(s)) != len(names) {
			t.Errorf("%s: a rule is there twice: %v", suite, s)
		}
		for i, n := range names {
			if strings.ContainsAny(n, " _/") || !strings.HasSuffix(demands[i], ".") {
				t.Errorf("%s rule %q demands %q: want words with hyphens, and a sentence", suite, n, demands[i])
			}
		}
	}
	var names, demands []string
	for _, r := range storeRules() {
		names, demands = append(names, r.name), append(demands, r.demands)
	}
	count("store", names, demands)
	names, demands = nil, nil
	for _, r := range sourceRules() {
		names, demands = append(names, r.name), append(demands, r.demands)
	}
	count("source", names, demands)
}

func TestFakeTimeNeedsATest(t *testing.T) {
	if _, err := CheckStore(t.Context(), nil, FakeTime()); err == nil || !strings.Contains(err.Error(), "go test") {
		t.Errorf("CheckStore under FakeTime: %v, want an error that says where it works", err)
	}
	r, err := CheckSource(t.Context(), nil, Only(func(string) bool { return false }))
	if err != nil || len(r.Rules) != 0 {
		t.Errorf("no rules: %v, %v", r, err)
	}
	_, err = CheckStore(t.Context(), nil) // no table can be made: a panic in each rule
	if err == nil || errors.Is(err, t.Context().Err()) {
		t.Errorf("without a way to make a table: %v", err)
	}
}
