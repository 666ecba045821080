package broken

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/conformance"
)

// patience is for what never comes; nothing here has to be waited for as long as that.
const patience = 300 * time.Millisecond

var all = flag.Bool("all", false, "try every rule on every broken adapter, not only the one that must find it")

func opts(rule string) []conformance.Option {
	return []conformance.Option{conformance.Patience(patience), conformance.Only(func(r string) bool { return *all || r == rule })}
}

func TestSoundStore(t *testing.T) {
	t.Parallel()
	conformance.TestStore(t, Sound.Make, conformance.FakeTime())
	report, err := conformance.CheckStore(t.Context(), Sound.Make)
	if err != nil {
		t.Errorf("%v\n%s", err, report)
	}
	var found []string
	for _, b := range Stores() {
		found = append(found, b.Rule)
	}
	complete(t, report, found)
}

// The suite finds what is wrong with each, by the rule that is about it.
func TestStores(t *testing.T) {
	for _, b := range Stores() {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			report, err := conformance.CheckStore(t.Context(), b.Make, opts(b.Rule)...)
			found(t, report, err, b.Rule)
		})
	}
}

// complete asks that nothing was skipped, and that each rule was seen to fail.
func complete(t *testing.T, report conformance.Report, found []string) {
	t.Helper()
	for _, r := range report.Rules {
		if r.Outcome == conformance.Skip {
			t.Errorf("rule %s was skipped: lacks %s", r.Rule, r.Lacks)
		}
		if !slices.Contains(found, r.Rule) {
			t.Errorf("nothing here breaks rule %s: %s", r.Rule, r.Demands)
		}
	}
}

func found(t *testing.T, report conformance.Report, err error, rule string) {
	t.Helper()
	failed := report.Failed()
	if !slices.Contains(failed, rule) || err == nil {
		t.Errorf("rule %s does not find it; failed: %v, error %v", rule, failed, err)
	}
	t.Logf("failed: %v", failed)
	if others := len(failed) - 1; *all && others > len(report.Rules)/2 {
		t.Errorf("%d other rules fail too: it is wrong in more than one way", others)
	}
}
