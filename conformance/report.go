package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// Outcome says how a rule went.
type Outcome string

const (
	Pass Outcome = "pass"
	Fail Outcome = "fail"
	Skip Outcome = "skip" // the harness lacks a verb that it needs, or the adapter an ability that is optional
)

// Result is the outcome of one rule.
type Result struct {
	Rule    string        `json:"rule"`
	Demands string        `json:"demands"` // what the rule demands, in one sentence
	Outcome Outcome       `json:"outcome"`
	Lacks   string        `json:"lacks,omitempty"`  // of Skip: the verb or ability that is missing
	Faults  []string      `json:"faults,omitempty"` // of Fail: what was seen and what was expected
	Took    time.Duration `json:"took_ns"`
}

// Report is the outcome of a suite, rule by rule, in the order in which they ran.
type Report struct {
	Suite string   `json:"suite"` // "store", "source" or "fleet"
	Rules []Result `json:"rules"`
}

// Failed are the names of the rules that are broken.
func (r Report) Failed() []string {
	var out []string
	for _, x := range r.Rules {
		if x.Outcome == Fail {
			out = append(out, x.Rule)
		}
	}
	return out
}

// Err is nil where no rule is broken, else an error that names those that are, and what was seen.
func (r Report) Err() error {
	var all []error
	for _, x := range r.Rules {
		if x.Outcome == Fail {
			all = append(all, fmt.Errorf("%s rule %s: %s", r.Suite, x.Rule, strings.Join(x.Faults, "; ")))
		}
	}
	return errors.Join(all...)
}

// String is one line a rule, with what was seen indented below those that failed.
func (r Report) String() string {
	var b strings.Builder
	wide := 0
	for _, x := range r.Rules {
		wide = max(wide, len(x.Rule))
	}
	count := map[Outcome]int{}
	for _, x := range r.Rules {
		count[x.Outcome]++
		fmt.Fprintf(&b, "%s  %-*s  %s", x.Outcome, wide, x.Rule, x.Demands)
		if x.Outcome == Skip {
			fmt.Fprintf(&b, " (skipped: lacks %s)", x.Lacks)
		}
		b.WriteByte('\n')
		for _, f := range x.Faults {
			fmt.Fprintf(&b, "      %s\n", strings.ReplaceAll(f, "\n", "\n      "))
		}
	}
	fmt.Fprintf(&b, "%s: %d passed, %d failed, %d skipped\n", r.Suite, count[Pass], count[Fail], count[Skip])
	return b.String()
}

// WriteFile writes the report as JSON.
func (r Report) WriteFile(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
