package kclsim

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	tables "github.com/shardwarden/shardwarden/emulator/dynamodb"
)

var (
	seeds     = flag.Int("seeds", 1, "how many seeds TestByChance runs for each version")
	firstSeed = flag.Int("seed", 1, "the first of them")
)

// TestByChance lets workers of both kinds come, stop, die and slow down, shards split and merge, and leaders lose their lock, by chance. For more:
//
//	go test -run TestByChance ./internal/kclsim -seeds 50
func TestByChance(t *testing.T) {
	for _, v := range versions {
		for _, faulty := range []bool{false, true} {
			for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
				name := fmt.Sprintf("%s/seed=%d", v, seed)
				w := killed
				if v == V27 {
					w = stolen
				}
				w.Repeat += 8 * time.Second // a handler's longest batch
				w.Overlap += map[bool]time.Duration{false: 0, true: 8 * time.Second}[w.Overlap > 0]
				if faulty { // an answer that is lost makes a Java worker lose a lease that it has
					name += "/faults"
					w = stolen
					w.Repeat, w.Overlap = w.Repeat+8*time.Second, w.Overlap+8*time.Second
				}
				t.Run(name, func(t *testing.T) {
					within(t, v, 3, w, func(f *fleet) { f.byChance(uint64(seed), faulty) })
				})
			}
		}
	}
}

func (f *fleet) byChance(seed uint64, faulty bool) {
	r := rand.New(rand.NewPCG(seed, uint64(f.layout)))
	javas, gos := 0, 0
	join := func(java bool) {
		if java {
			javas++
			f.happens("java-%d joins", javas)
			f.joinJava(fmt.Sprintf("java-%d", javas))
		} else {
			gos++
			f.happens("go-%d joins", gos)
			f.joinGo(fmt.Sprintf("go-%d", gos))
		}
	}
	f.seed()
	join(r.IntN(2) == 0)
	join(r.IntN(2) == 0)
	f.settle(5 * time.Minute)
	if faulty {
		for _, x := range []tables.Fault{
			{Kind: tables.FaultThrottle, Probability: 0.02},
			{Kind: tables.FaultDropAfter, Op: "UpdateItem", Probability: 0.02}, // applied, the answer is lost
			{Kind: tables.FaultDropBefore, Probability: 0.01},
			{Kind: tables.FaultDelay, Probability: 0.05, Delay: 400 * time.Millisecond},
			{Kind: tables.FaultPageSize, Op: "Scan", Items: 2},
		} {
			f.tables.SetFault(x)
		}
	}
	for range 12 {
		alive := f.alive()
		one := alive[r.IntN(len(alive))]
		_, java := f.java[one]
		open := f.open()
		switch n := r.IntN(10); {
		case n < 3 && len(alive) < 4 || len(alive) < 2:
			join(r.IntN(2) == 0)
		case n < 5:
			f.happens("%s is killed", one)
			if java {
				f.killJava(one)
			} else {
				f.killGo(one)
			}
		case n < 6:
			f.happens("%s is stopped", one)
			if java {
				f.stopJava(one)
			} else {
				f.stopGo(one)
			}
		case n == 7 && len(open) < 6:
			s := open[r.IntN(len(open))]
			f.happens("%s is split into %v", s.id, f.split(s))
		case n == 6 && !java || n == 6 && faulty: // a Java worker goes on for a round of its dispatch loop when its time is over
			d := time.Duration(r.IntN(30)) * time.Second
			f.happens("%s does not reach the table for %v", one, d)
			l := f.way(one)
			l.cut.Store(true)
			f.watch(d, func() {})
			l.cut.Store(false)
		case n == 8 && len(open) > 2:
			i := r.IntN(len(open) - 1)
			f.happens("%s and %s are merged into %v", open[i].id, open[i+1].id, f.merge(open[i], open[i+1]))
		default:
			d := time.Duration(r.IntN(8000)) * time.Millisecond
			f.happens("%s takes %v for a batch", one, d)
			if java {
				f.java[one].pace.set(d)
			} else {
				f.golang[one].pace.set(d)
			}
		}
		if r.IntN(8) == 0 && f.layout != V27 {
			f.happens("the leader's lock is gone")
			f.dropLock()
		}
		f.watch(time.Duration(5+r.IntN(40))*time.Second, func() { f.rows() })
	}
	f.tables.ClearFaults()
	for _, j := range f.java {
		j.pace.set(50 * time.Millisecond)
	}
	for _, g := range f.golang {
		g.pace.set(50 * time.Millisecond)
	}
	f.await(5*time.Minute, "all leases are with workers that run", func() bool { _, lost := f.load(); return lost == 0 })
	f.settle(15 * time.Minute) // a share counts what has ended, too
}

// way is a worker's way to the table.
func (f *fleet) way(id string) *line {
	if j, ok := f.java[id]; ok {
		return j.tables
	}
	return f.golang[id].lines[0]
}

// happens notes what the scenario does, for when it fails.
func (f *fleet) happens(format string, args ...any) {
	f.story = append(f.story, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}
