// Package sim runs whole fleets of workers in fake time, under faults, and judges everything they do: each write of the lease table, each call
// of a handler. It is for a testing/synctest bubble.
//
//	synctest.Test(t, func(t *testing.T) {
//		report := sim.Run(sim.Settings{Workers: 10, Shards: 60, Duration: 2 * time.Hour, Seed: 7, Faults: sim.Heavy})
//		…
//	})
//
// A [Fleet] is a stream and a lease table in memory, the workers, and a [Judge]. [Run] drives one by chance, from a seed; scripts (testdata/*.txt)
// drive one by hand. What the judge holds against a fleet are the rules of core/doc.go and of the design, none of them made for a fault that
// somebody had in mind: docs/simulation.md lists them.
//
// The seed fixes the scenario: settings, faults, traffic, and when they come. What the engine draws by chance (jitter, run names) and the order of
// goroutines that are due at the same instant are not fixed, so a fault that needs a narrow race may want a few runs of its seed.
package sim
