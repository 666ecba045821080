package main

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// kclScenario is what a fleet is led through.
type kclScenario struct {
	name, what string
	programs   bool // workers of ours are our program
	ours       bool // on our emulators only
	thirdJVM   bool // a second of the first kind runs beside the first
	play       func(context.Context, *kclFleet) error
	streams    []string           // empty: one
	shards     int                // of all streams together; 0: 6
	within     int                // user records in an aggregated record
	slow       time.Duration      // each batch takes a handler so long
	only       func(pairing) bool // nil: each
}

// kclScenarios are those of each pairing.
var kclScenarios = []kclScenario{
	{name: "join", what: "the second joins and is handed leases (3.x) or takes them (2.x) in the middle of a batch; it stops in order; another joins and is killed",
		play: join, slow: 1500 * time.Millisecond},
	{name: "succeed", what: "the second joins, the first stops in order; another joins, and the one that leads now is killed", play: succeed},
	{name: "reshard", what: "splits and a merge, children read by the other than their parents; one is killed as it stores the end of a shard", play: reshard, shards: 4},
	{name: "resume", what: "the first stores a place within an aggregated record and is killed, the second resumes there", play: resume, within: 10, shards: 2, ours: true},
	{name: "rolling", what: "two replaced one by one by two of the other language, and back", play: rolling, thirdJVM: true, ours: true, only: func(p pairing) bool { return p.first == javaKind }},
	{name: "program", what: "as succeed, with our program for a worker, and the KCL 3.x balancing by count", play: succeed, programs: true, ours: true,
		only: func(p pairing) bool { return p.version != "3.4.2" && p.first != p.second }},
	{name: "several", what: "two streams: as join", play: join, slow: 1500 * time.Millisecond, streams: []string{"orders", "payments"}, ours: true,
		only: func(p pairing) bool { return p.version == latestKCL }},
}

// kclPairings are who is led through them, on our emulators and on those of others. Java alone shows that the rules are those of the KCL itself.
func kclPairings() []pairing {
	var out []pairing
	for _, on := range [][2]string{{"", ""}, {"kinesis-local", "ministack"}} {
		for _, v := range []string{"2.7.2", "3.4.2", "3.5.1"} {
			for _, kinds := range [][2]kind{{javaKind, goKind}, {goKind, javaKind}, {javaKind, javaKind}} {
				if on[0] == "" || kinds[0] != kinds[1] {
					out = append(out, pairing{version: v, first: kinds[0], second: kinds[1], kinesis: on[0], dynamo: on[1]})
				}
			}
		}
	}
	return out
}

// inSmoke are the pairings that CI runs too: each joins, stops, is killed, hands over or is robbed, in both languages.
func inSmoke(p pairing, s *kclScenario) bool {
	return s.name == "join" && p.kinesis == "" && p.first != p.second && p.version != "3.4.2"
}

// kclMatrix is pairing x scenario.
func kclMatrix() []scenario {
	var out []scenario
	for _, p := range kclPairings() {
		for _, s := range kclScenarios {
			jvms := 0
			for _, k := range []kind{p.first, p.second} {
				if k == javaKind {
					jvms++
				}
			}
			if s.thirdJVM && p.first == javaKind {
				jvms++
			}
			if s.only != nil && !s.only(p) || s.ours && p.kinesis != "" || jvms > maxJVMs {
				continue
			}
			on, with := "", ""
			if p.kinesis != "" {
				on, with = "-"+p.kinesis, " on "+p.kinesis+" and "+p.dynamo
			}
			out = append(out, scenario{
				name:  fmt.Sprintf("kcl-%s-%s-%s-%s%s", p.version, p.first, p.second, s.name, on),
				what:  fmt.Sprintf("KCL %s%s, %s and then %s: %s", p.version, with, p.first, p.second, s.what),
				smoke: inSmoke(p, &s),
				limit: 10 * time.Minute,
				jvms:  jvms,
				run:   func(ctx context.Context, r *runner) (string, error) { return kclRun(ctx, r, p, s) },
			})
		}
	}
	return out
}

// kclRun leads a fleet through a scenario, under load, and judges it.
func kclRun(ctx context.Context, r *runner, p pairing, s kclScenario) (string, error) {
	streams := s.streams
	if len(streams) == 0 {
		streams = []string{stream}
	}
	f, err := newKCLFleet(ctx, r, p, cmp.Or(s.shards, 6)/len(streams), streams...)
	if err != nil {
		return "", err
	}
	f.slow, f.programs = s.slow, s.programs
	if p.kinesis != "" {
		f.slow *= 2 // longer than it is between two batches of the feed, see feed: handlers are to be busy
	}
	for _, p := range f.ps {
		p.within = s.within
	}
	stop := f.feed(ctx)
	if err := s.play(ctx, f); err != nil {
		_ = stop() // what the producer says is in the journal
		f.dump(ctx)
		return "", err
	}
	return f.settle(ctx, stop)
}
