package kclsim

import (
	"testing"
	"time"
)

// A Go worker makes no more calls of DynamoDB for each lease that it holds than a Java worker beside it, in a settled fleet without traffic.
func TestCallsOfASettledFleet(t *testing.T) {
	for _, leader := range []string{"Java", "Go"} {
		t.Run(leader+" leads", func(t *testing.T) {
			within(t, V35, 32, stolen, func(f *fleet) {
				slowly := func(s *Settings) { s.IdleBetween = 10 * time.Second }
				if leader == "Go" {
					f.seed()
					f.joinGo("go-1")
					f.settle(3 * time.Minute)
				}
				f.joinJava("java-1", slowly)
				f.settle(5 * time.Minute)
				if leader == "Java" {
					f.joinGo("go-1")
					f.settle(5 * time.Minute)
				}
				f.dry()
				f.await(time.Minute, "nothing is left to do", func() bool { return f.rec.Undone() == 0 })
				f.watch(20*time.Second, func() {})
				if f.java["java-1"].Leads() != (leader == "Java") {
					f.t.Errorf("Java leads: %v; want %s to lead", f.java["java-1"].Leads(), leader)
				}
				java, golang := f.java["java-1"].tables.calls.Load(), f.golang["go-1"].lines[0].calls.Load()
				const minutes = 3
				f.watch(minutes*time.Minute, func() {})
				load, _ := f.load()
				perLease := func(before, after int64, leases int) float64 {
					return float64(after-before) / minutes / float64(leases)
				}
				j := perLease(java, f.java["java-1"].tables.calls.Load(), load["java-1"])
				g := perLease(golang, f.golang["go-1"].lines[0].calls.Load(), load["go-1"])
				f.t.Logf("calls a minute for each lease: Java %.1f, Go %.1f (load %v)", j, g, load)
				if g > j {
					f.t.Errorf("a Go worker makes %.1f calls a minute for each lease, a Java worker %.1f", g, j)
				}
			})
		})
	}
}
