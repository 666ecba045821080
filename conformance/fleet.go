package conformance

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestFleet lets fleets of whole workers ([worker.Worker]) share streams by way of lease tables, under faults, and tries them on every rule that
// keeps data safe. Each rule has a subtest, and a stream and a table of its own. The names begin with what they stand for: R1 to R13 are the rules
// of docs/design.md section 3, G1 to G28 the classes of failure of docs/reference/go-peers.md section 3.
//
// A store that loses a condition, or a source that drops a record, is found here too, by what it does to a fleet; [TestStore] and [TestSource]
// say better what it is, so run them first.
//
// Nothing is asked of adapters beyond their harnesses: what cuts a worker off, loses an answer or stalls a reader stands between worker and
// adapter. The rules are judged by what handlers were given, and by what the table shows through the store's own List.
//
// Under [FakeTime] workers have their default lease duration, 10 s, and each rule a bubble of its own. Without it leases last 2 s, and rules run
// side by side, so that harnesses are made and used concurrently; that takes a minute or two.
//
// [worker.Worker]: https://pkg.go.dev/github.com/shardwarden/shardwarden/core/worker#Worker
func TestFleet(t *testing.T, makeSource MakeSource, makeStore MakeStore, opts ...Option) {
	t.Helper()
	s := newSettings(opts)
	rules := slices.DeleteFunc(fleetRules(), func(r rule[makeFleet]) bool { return !s.only(r.name) })
	h := makeFleet{makeSource, makeStore}
	results := make([]*Result, len(rules))
	t.Cleanup(func() { // when all subtests are done
		report := Report{Suite: "fleet"}
		for _, r := range results {
			if r != nil {
				report.Rules = append(report.Rules, *r)
			}
		}
		t.Log("\n" + report.String())
		if err := report.WriteFile(filepath.Join(t.ArtifactDir(), "fleet.json")); err != nil {
			t.Error(err)
		}
	})
	slots := make(chan struct{}, sideBySide)
	for i, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			var res Result
			if s.fake {
				synctest.Test(t, func(t *testing.T) { res = run(t.Context(), s, r, h) })
			} else {
				// A rule waits most of its time, so many can go at once; t.Parallel alone would let as many as there are processors.
				done := make(chan Result, 1)
				ctx := t.Context()
				go func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					done <- run(ctx, s, r, h)
				}()
				t.Parallel()
				res = <-done
			}
			results[i] = &res
			for _, f := range res.Faults {
				t.Errorf("%s\n%s", r.demands, f)
			}
			if res.Outcome == Skip {
				t.Skipf("lacks %s", res.Lacks)
			}
		})
	}
}

// sideBySide is how many rules go at once in real time.
const sideBySide = 8

// CheckFleet does the same outside go test, in real time. The error is that of the report ([Report.Err]), or says why the rules could not be
// run.
func CheckFleet(ctx context.Context, makeSource MakeSource, makeStore MakeStore, opts ...Option) (Report, error) {
	s := newSettings(opts)
	report := Report{Suite: "fleet"}
	if s.fake {
		return report, errors.New("conformance: FakeTime needs go test, which has the bubbles: leave it out here")
	}
	rules := slices.DeleteFunc(fleetRules(), func(r rule[makeFleet]) bool { return !s.only(r.name) })
	report.Rules = make([]Result, len(rules))
	slots, done := make(chan struct{}, sideBySide), make(chan struct{})
	for i, r := range rules {
		go func() {
			defer func() { done <- struct{}{} }()
			slots <- struct{}{}
			defer func() { <-slots }()
			report.Rules[i] = run(ctx, s, r, makeFleet{makeSource, makeStore})
		}()
	}
	for range rules {
		<-done
	}
	if ctx.Err() != nil {
		return report, context.Cause(ctx)
	}
	return report, report.Err()
}

// makeFleet is what a rule about fleets is tried on.
type makeFleet struct {
	source MakeSource
	store  MakeStore
}

func fleetRule(name, demands string, f func(f *fleet)) rule[makeFleet] {
	return rule[makeFleet]{name, demands, func(c *checker, m makeFleet) { f(newFleet(c, m)) }}
}

func fleetRules() []rule[makeFleet] {
	return slices.Concat(livenessRules(), answerRules(), lineageRules(), shardEndRules(), checkpointRules(), handOverRules(), givenRules(), spreadRules(),
		readingRules(), listingRules(), handlerRules(), stopRules())
}

// leaseDuration is that of a fleet's workers.
func leaseDuration(fake bool) time.Duration {
	if fake {
		return 10 * time.Second
	}
	return 2 * time.Second
}
