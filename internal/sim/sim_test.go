package sim_test

import (
	"flag"
	"fmt"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardwarden/shardwarden/internal/sim"
)

var (
	workers = flag.Int("workers", 6, "workers of a fleet")
	shards  = flag.Int("shards", 16, "shards of a stream")
	hours   = flag.Float64("hours", 0.3, "fake time")
	seed    = flag.Uint64("seed", 0, "only this seed")
	seeds   = flag.Int("seeds", 10, "how many seeds, from 1")
	until   = flag.Bool("until", false, "one seed after the other, until one breaks a rule")
	led     = flag.Bool("led", false, "one worker says who gets what")
	faults  = flag.String("faults", "heavy", "none, light or heavy")
)

// A simulation makes much garbage and keeps little.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	m.Run()
}

// TestSimulate runs fleets from seeds and prints what became of them. See docs/simulation.md.
func TestSimulate(t *testing.T) {
	first, last := uint64(1), uint64(*seeds)
	if *seed != 0 {
		first, last = *seed, *seed
	}
	switch sim.Faults(*faults) {
	case sim.None, sim.Light, sim.Heavy:
	default:
		t.Fatalf("-faults is %q: must be none, light or heavy", *faults)
	}
	for n := first; n <= last && !(*until && t.Failed()); n++ {
		t.Run(fmt.Sprintf("seed=%d", n), func(t *testing.T) {
			if !*until {
				t.Parallel()
			}
			set := sim.Settings{Workers: *workers, Shards: *shards, Duration: time.Duration(*hours * float64(time.Hour)), Seed: n, Faults: sim.Faults(*faults), Led: *led}
			began := time.Now()
			var report sim.Report
			synctest.Test(t, func(*testing.T) { report = sim.Run(set) })
			report.Took = time.Since(began)
			if len(report.Broken) > 0 {
				t.Error(report)
				return
			}
			t.Log(report)
		})
	}
}
