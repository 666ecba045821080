package main

import (
	"context"
	"fmt"
	"time"
)

// kclScenarios are those of each pairing.
var kclScenarios = []kclScenario{
	{name: "stay", what: "one joins, stops in order; another joins, is killed", jvms: 2, play: joinStopKill},
	{name: "succeed", what: "one joins, the first stops in order; another joins, the one before it is killed", jvms: 2, play: succeed},
}

// kclPairings are who is led through them. Of Java alone shows that the rules are those of the KCL itself.
func kclPairings() []pairing {
	var out []pairing
	for _, v := range []string{"2.7.2", "3.4.2", "3.5.1"} {
		out = append(out, pairing{version: v, first: javaKind, second: goKind}, pairing{version: v, first: goKind, second: javaKind}, pairing{version: v, first: javaKind, second: javaKind})
	}
	return out
}

// kclMatrix is pairing x scenario.
func kclMatrix() []scenario {
	var out []scenario
	for _, p := range kclPairings() {
		for _, s := range kclScenarios {
			if s.only != nil && !s.only(p) {
				continue
			}
			out = append(out, scenario{
				name:  fmt.Sprintf("kcl-%s-%s-%s-%s", p.version, p.first, p.second, s.name),
				what:  fmt.Sprintf("KCL %s and ours in one fleet, %s first: %s", p.version, p.first, s.what),
				limit: 8 * time.Minute,
				run:   func(ctx context.Context, r *runner) (string, error) { return kclRun(ctx, r, p, s) },
			})
		}
	}
	return out
}

// kclRun leads a fleet through a scenario, under load, and judges it.
func kclRun(ctx context.Context, r *runner, p pairing, s kclScenario) (string, error) {
	f, err := newKCLFleet(ctx, r, p, 6)
	if err != nil {
		return "", err
	}
	f.slow = s.slow
	stop := f.feed(ctx)
	if err := s.play(ctx, f); err != nil {
		_ = stop() // what the producer says is in the journal
		f.dump(ctx)
		return "", err
	}
	return f.settle(ctx, stop)
}
