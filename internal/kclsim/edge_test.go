package kclsim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core/worker"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// A Go worker makes the table in the layout it is told, and Java of that version joins.
func TestJavaJoinsATableOfALayout(t *testing.T) {
	for v, layout := range map[Version]dynamo.LayoutKind{V27: dynamo.KCL2, V34: dynamo.KCL3Tables, V35: dynamo.KCL3Single} {
		t.Run(layout.String(), func(t *testing.T) {
			within(t, v, 4, stolen, func(f *fleet) {
				f.joinGoWith("go-1", []dynamo.Option{dynamo.Layout(layout)})
				f.settle(2 * time.Minute)
				f.joinJava("java-1")
				f.settle(5 * time.Minute)
				f.joinGoWith("go-2", []dynamo.Option{dynamo.Layout(layout)})
				f.settle(5 * time.Minute)
				f.calm(time.Minute)
			})
		})
	}
}

// 3.4 and 3.5 side by side on side tables, as in a rolling upgrade, and a Go worker among them: what it writes an old one must bear.
func TestJavaOfTwoVersions(t *testing.T) {
	within(t, V34, 6, onlyHandsOver, func(f *fleet) {
		f.joinJava("java-34")
		f.settle(3 * time.Minute)
		f.joinGo("go-1")
		f.settle(4 * time.Minute)
		f.joinJava("java-35", func(s *Settings) { s.Version = V35 })
		f.settle(4 * time.Minute)
		f.calm(time.Minute)
	})
}

// A handler that takes longer than a hand-over may: the Go worker keeps the lease, and says so in the row before anybody takes it by force.
func TestSlowGoHandlerKeepsItsLease(t *testing.T) {
	fleets(t, led3x, 6, func(f *fleet) {
		f.joinJava("java-1")
		f.settle(3 * time.Minute)
		g := f.joinGo("go-1")
		f.settle(4 * time.Minute)
		f.await(time.Minute, "the Go worker reads", func() bool { return f.reads("go-1", 3) })
		g.pace.set(100 * time.Second)
		f.watch(5*time.Second, func() {})
		f.joinJava("java-2")
		f.await(4*time.Minute, "the Go worker declines", func() bool { return g.said(worker.LeaseDeclined) })
		if load, _ := f.load(); load["go-1"] != 3 {
			f.t.Errorf("the Go worker has %d leases while its handlers run, want all 3", load["go-1"])
		}
		g.pace.set(50 * time.Millisecond)
		f.settle(8 * time.Minute)
	})
}

// A Java processor that takes longer than a hand-over may, in a fleet that a Go worker leads: Java hands over though it runs. That overlap is
// Java's, and ends with its batch.
func TestSlowJavaProcessorBesideAGoLeader(t *testing.T) {
	fleets(t, led3x, 4, func(f *fleet) {
		f.windows = Windows{Overlap: 50 * time.Second, Repeat: 50 * time.Second}
		f.seed()
		f.joinGo("go-1")
		f.settle(3 * time.Minute)
		j := f.joinJava("java-1")
		f.settle(3 * time.Minute)
		f.await(time.Minute, "Java reads", func() bool { return f.reads("java-1", 2) })
		j.pace.set(70 * time.Second)
		f.watch(5*time.Second, func() {})
		f.joinGo("go-2")
		f.settle(5 * time.Minute)
		if !slices.ContainsFunc(j.Log(), func(s string) bool { return strings.Contains(s, "though its processor still runs") }) {
			f.t.Error("Java handed nothing over while its processor ran: the scenario is void")
		}
		j.pace.set(50 * time.Millisecond)
		f.watch(75*time.Second, func() {})
	})
}

// A Java leader without graceful hand-overs assigns what a live Go worker owns: it must notice within a renewal.
func TestForcedAssignmentByJava(t *testing.T) {
	fleets(t, led3x, 4, func(f *fleet) {
		f.windows = stolen
		f.windows.Overlap = 4100 * time.Millisecond // one renewal interval of ours; a handler's context ends, and ours returns
		force := func(s *Settings) { s.NoHandOff = true }
		f.joinJava("java-1", force)
		f.settle(3 * time.Minute)
		f.joinGo("go-1")
		f.settle(4 * time.Minute)
		f.await(time.Minute, "the Go worker reads", func() bool { return f.reads("go-1", 2) })
		f.golang["go-1"].pace.set(2 * time.Second)
		f.joinJava("java-2", force)
		f.settle(4 * time.Minute)
		if !slices.ContainsFunc(f.java["java-1"].Log(), func(s string) bool { return strings.Contains(s, `of "go-1"`) }) {
			f.t.Error("nothing was taken from the Go worker: the scenario is void")
		}
	})
}

// Workers with fixed ids that are killed and come back.
func TestRestartUnderTheSameID(t *testing.T) {
	deaths(t, versions, 4, func(f *fleet) {
		f.joinJava("java-1")
		f.settle(3 * time.Minute)
		f.joinGo("go-1")
		f.settle(4 * time.Minute)
		f.await(time.Minute, "the Go worker reads", func() bool { return f.reads("go-1", 2) })
		f.killGo("go-1")
		f.rename("go-1")
		f.watch(2*time.Second, func() {})
		again := f.joinGo("go-1")
		f.await(2*time.Minute, "what names the Go worker is read again", func() bool { return again.said(worker.ShardStarted) && f.settled() })
		f.killJava("java-1")
		f.watch(2*time.Second, func() {})
		f.joinJava("java-1")
		f.settle(5 * time.Minute)
		f.calm(30 * time.Second)
	})
}

// The same where a Go worker leads.
func TestRestartUnderTheSameIDWhereGoLeads(t *testing.T) {
	deaths(t, led3x, 4, func(f *fleet) {
		f.seed()
		f.joinGo("go-0")
		f.settle(3 * time.Minute)
		f.joinJava("java-1")
		f.joinGo("go-1")
		f.settle(4 * time.Minute)
		f.await(time.Minute, "go-1 reads", func() bool { return f.reads("go-1", 1) })
		f.killGo("go-1")
		f.rename("go-1")
		f.watch(2*time.Second, func() {})
		f.joinGo("go-1")
		f.watch(time.Second, func() {})
		f.await(time.Minute, "all is read again", f.settled)
		f.killJava("java-1")
		f.watch(2*time.Second, func() {})
		f.joinJava("java-1")
		f.watch(time.Second, func() {})
		f.await(2*time.Minute, "all is read again", f.settled)
	})
}

// settled: an even spread, and nothing waits to be read for longer than it takes to read it.
func (f *fleet) settled() bool { return f.even() && f.rec.Oldest() < 3*time.Second }

// rename keeps a worker that is gone under another name, so that its own is free.
func (f *fleet) rename(id string) {
	if g, ok := f.golang[id]; ok {
		delete(f.golang, id)
		f.golang[id+", before"] = g
	}
}
