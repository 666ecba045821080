package kclsim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	tables "github.com/shardwarden/shardwarden/emulator/dynamodb"

	"github.com/shardwarden/shardwarden/core/worker"
)

// A Java worker and a Go worker of the same id: both believe that what the other renews is their own. The Go worker sees it, says so and leaves the
// leases to Java, so that each shard is read by one again. (In 2.x it is Java that loses its leases, and never takes what its own id owns.)
func TestTheSameIDInBothLanguages(t *testing.T) {
	fleets(t, led3x, 4, func(f *fleet) {
		f.windows = Windows{Overlap: time.Hour, Repeat: time.Hour} // the recorder, too, can't tell them apart
		f.joinJava("one")
		f.settle(3 * time.Minute)
		g := f.joinGo("one")
		f.watch(3*time.Minute, func() {})
		if !g.said(worker.TwinSeen) {
			f.t.Error("the Go worker told of no twin")
		}
		accepted := 0
		for _, e := range g.told() {
			if strings.Contains(e, string(worker.LeaseAccepted)) {
				accepted++
			}
		}
		if accepted > 4*3 {
			f.t.Errorf("leases went to and fro: the Go worker accepted 4 of them %d times", accepted)
		}
	})
}

// Both languages begin at once on nothing, or one while the other makes the leases.
func TestBothBeginOnNothing(t *testing.T) {
	for _, first := range []string{"Go", "Java"} {
		for _, after := range []time.Duration{50 * time.Millisecond, 25 * time.Second} {
			t.Run(fmt.Sprintf("%s first by %v", first, after), func(t *testing.T) {
				within(t, V35, 4, stolen, func(f *fleet) {
					join := map[string]func(){"Java": func() { f.joinJava("java-1") }, "Go": func() { f.joinGo("go-1"); f.joinGo("go-2") }}
					join[first]()
					f.watch(after, func() {})
					join[map[string]string{"Java": "Go", "Go": "Java"}[first]]()
					f.settle(6 * time.Minute)
					f.calm(time.Minute)
				})
			})
		}
	}
}

// The coordinator's table is throttled, all of it: nobody leads, and what is held is held, without haste. Afterwards all goes on.
func TestCoordinatorTableIsThrottled(t *testing.T) {
	within(t, V34, 4, killed, func(f *fleet) {
		f.seed()
		f.joinGo("go-1")
		f.settle(3 * time.Minute)
		f.joinJava("java-1")
		f.joinGo("go-2")
		f.settle(3 * time.Minute)
		f.tables.SetFault(tables.Fault{Kind: tables.FaultThrottle, Table: app + "-CoordinatorState"})
		before := f.golang["go-1"].lines[0].calls.Load()
		f.calm(3 * time.Minute)
		if n := (f.golang["go-1"].lines[0].calls.Load() - before) / 3; n > 250 {
			f.t.Errorf("%d calls a minute of a worker of two leases", n)
		}
		f.tables.ClearFaults()
		f.killGo("go-2")
		f.settle(4 * time.Minute)
	})
}

// A side table vanishes under a fleet: what is held is held, and nothing moves.
func TestSideTableVanishes(t *testing.T) {
	for _, table := range []string{"CoordinatorState", "WorkerMetricStats"} {
		t.Run(table, func(t *testing.T) {
			within(t, V34, 6, killed, func(f *fleet) {
				f.seed()
				f.joinGo("go-1")
				f.settle(3 * time.Minute)
				f.joinJava("java-1")
				f.settle(3 * time.Minute)
				if _, err := f.db.DeleteTable(f.ctx, &dynamodb.DeleteTableInput{TableName: aws.String(app + "-" + table)}); err != nil {
					f.t.Fatal(err)
				}
				f.calm(5 * time.Minute)
			})
		})
	}
}

// A shard ends while its lease is asked for: the row does not stay in the hand-over, and is deleted when its time has come.
func TestEndInAHandOver(t *testing.T) {
	fleets(t, led3x, 4, func(f *fleet) {
		f.windows = killed
		f.joinJava("java-1")
		f.settle(3 * time.Minute)
		g := f.joinGo("go-1")
		f.settle(4 * time.Minute)
		f.await(time.Minute, "the Go worker reads", func() bool { return f.reads("go-1", 2) })
		g.pace.set(9 * time.Second)
		f.watch(5*time.Second, func() {})
		s := f.ownedBy("go-1")
		f.split(s)
		f.watch(10*time.Second, func() {})
		f.stick(s.id, "java-1", "go-1")
		f.watch(20*time.Second, func() {})
		g.pace.set(50 * time.Millisecond)
		f.await(4*time.Minute, "unstuck", func() bool {
			for _, l := range f.rows() {
				if l.checkpointOwner != "" {
					return false
				}
			}
			return true
		})
		f.await(12*time.Minute, "ended leases are deleted", func() bool {
			for _, l := range f.rows() {
				if l.checkpoint == shardEnd {
					return false
				}
			}
			return true
		})
	})
}

// In 2.x a Java worker that lists shards dies with a lease that has ended, which no Go worker takes: somebody lists all the same.
func TestWhoListsIsDeadAndOwnsWhatHasEnded(t *testing.T) {
	deaths(t, []Version{V27}, 4, func(f *fleet) {
		f.joinJava("a-java")
		f.settle(3 * time.Minute)
		f.joinGo("go-1")
		f.settle(4 * time.Minute)
		parent := f.ownedBy("a-java").id
		f.split(f.ownedBy("a-java"))
		f.await(time.Minute, "ended", func() bool { return f.rows()[parent].checkpoint == shardEnd })
		if owner := f.rows()[parent].owner; owner != "a-java" {
			f.t.Fatalf("the ended lease is %s's: the scenario is void", owner)
		}
		f.killJava("a-java")
		f.await(4*time.Minute, "all leases are with the Go worker", func() bool { _, lost := f.load(); return lost == 0 })
		f.await(12*time.Minute, "what has ended is deleted", func() bool { _, there := f.rows()[parent]; return !there })
	})
}

// TestUnderTheSameIDsByChance lets workers be killed and come back at once under their ids, in the other language too, rules change to and fro in
// the middle of hand-overs, and answers be lost or writes be carried out late. For more, as TestByChance.
func TestUnderTheSameIDsByChance(t *testing.T) {
	for _, v := range versions {
		for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
			t.Run(fmt.Sprintf("%s/seed=%d", v, seed), func(t *testing.T) {
				w := Windows{Overlap: stolen.Overlap + 8*time.Second, Repeat: stolen.Repeat + 8*time.Second}
				if v == V27 { // who is stolen from may begin a child after the thief has: TestByChance looks at that, where ids tell who is who
					w = Windows{Overlap: time.Hour, Repeat: time.Hour}
				}
				within(t, v, 3, w, func(f *fleet) { f.underTheSameIDs(uint64(seed)) })
			})
		}
	}
}

func (f *fleet) underTheSameIDs(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 77+uint64(f.layout)))
	n := 0
	var java []func(*Settings)
	flips := f.layout != V27 && r.IntN(2) == 0
	if flips {
		java = append(java, func(s *Settings) { s.Compatible, s.Stabilise = true, time.Minute })
	}
	if r.IntN(3) == 0 {
		java = append(java, func(s *Settings) { s.NoHandOff = true })
	}
	join := func(isJava bool, id string) {
		if id == "" {
			n++
			id = fmt.Sprintf("w-%d", n)
		}
		f.happens("%s joins, Java %v", id, isJava)
		if isJava {
			process := len(f.story) // numbers its sessions anew
			f.joinJava(id, append(slices.Clone(java), func(s *Settings) {
				do := s.Process
				s.Process = func(ctx context.Context, d Delivery) bool {
					d.Session = fmt.Sprint(process, " ", d.Session)
					return do(ctx, d)
				}
			})...)
		} else {
			f.joinGo(id)
		}
	}
	f.happens("flips %v", flips)
	f.joinJava("java-0", java...)
	f.settle(3 * time.Minute)
	join(false, "")
	f.settle(5 * time.Minute)
	f.stopJava("java-0")
	join(r.IntN(2) == 0, "")
	if r.IntN(2) == 0 {
		f.happens("faults")
		for _, x := range []tables.Fault{
			{Kind: tables.FaultDropAfter, Op: "UpdateItem", Probability: 0.02}, // applied, the answer is lost
			{Kind: tables.FaultDropAfter, Op: "PutItem", Probability: 0.1},
			{Kind: tables.FaultDropAfter, Op: "DeleteItem", Probability: 0.1},
			{Kind: tables.FaultApplyLate, Op: "UpdateItem", Probability: 0.02, Delay: 20 * time.Second},
			{Kind: tables.FaultDelay, Probability: 0.02, Delay: 1500 * time.Millisecond},
			{Kind: tables.FaultPageSize, Op: "Scan", Items: 2},
		} {
			f.tables.SetFault(x)
		}
	}
	for i := range 14 {
		alive := f.alive()
		one := alive[r.IntN(len(alive))]
		_, isJava := f.java[one]
		open := f.open()
		switch n := r.IntN(12); {
		case n < 2 && len(alive) < 4 || len(alive) < 2:
			join(r.IntN(2) == 0, "")
		case n < 4: // killed and restarted at once, under its id, perhaps in the other language
			f.happens("%s is killed", one)
			if isJava {
				f.killJava(one)
				f.java[fmt.Sprint(one, " before ", i)] = f.java[one]
				delete(f.java, one)
			} else {
				f.killGo(one)
				f.golang[fmt.Sprint(one, " before ", i)] = f.golang[one]
				delete(f.golang, one)
			}
			f.watch(time.Duration(r.IntN(3000))*time.Millisecond, func() {})
			join(isJava != (r.IntN(3) == 0), one)
		case n < 5:
			f.happens("%s is stopped", one)
			if isJava {
				f.stopJava(one)
			} else {
				f.stopGo(one)
			}
		case n == 5 && flips:
			v := []string{cv2X, "CLIENT_VERSION_3X_WITH_ROLLBACK", cvUpgrade}[r.IntN(3)]
			f.happens("cv is %s", v)
			f.persist(func() error { return f.changeVersion(v) })
		case n == 6 && !isJava:
			d := time.Duration(r.IntN(25)) * time.Second // one that has just begun gives up after 30 s
			f.happens("%s does not reach the table for %v", one, d)
			l := f.way(one)
			l.cut.Store(true)
			f.watch(d, func() {})
			l.cut.Store(false)
		case n == 7 && len(open) < 6:
			s := open[r.IntN(len(open))]
			f.happens("%s is split into %v", s.id, f.split(s))
		case n == 8 && len(open) > 2:
			i := r.IntN(len(open) - 1)
			f.happens("%s and %s are merged into %v", open[i].id, open[i+1].id, f.merge(open[i], open[i+1]))
		case n == 9 && f.layout != V27:
			f.happens("the leader's lock is gone")
			f.dropLock()
		default:
			d := time.Duration(r.IntN(8000)) * time.Millisecond
			f.happens("%s takes %v for a batch", one, d)
			if isJava {
				f.java[one].pace.set(d)
			} else {
				f.golang[one].pace.set(d)
			}
		}
		f.watch(time.Duration(2+r.IntN(35))*time.Second, func() { f.rows() })
	}
	f.tables.ClearFaults()
	for _, j := range f.java {
		j.pace.set(50 * time.Millisecond)
	}
	for _, g := range f.golang {
		g.pace.set(50 * time.Millisecond)
	}
	f.await(5*time.Minute, "all leases are with workers that run", func() bool { _, lost := f.load(); return lost == 0 })
	f.await(5*time.Minute, "all is read", func() bool { return f.rec.Oldest() < 30*time.Second })
	f.settle(15 * time.Minute)
}
