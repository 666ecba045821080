package kclsim

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/shardwarden/shardwarden/core/worker"
)

// Workers of this library beside Java ones. Each scenario runs for the fleets of each version of Java.

// moves are the windows of a fleet in which leases move while their owners live: taken in 2.x, handed over in 3.x.
func moves(v Version) Windows {
	if v == V27 {
		return stolen
	}
	return onlyHandsOver
}

// fleets runs a scenario in which leases move, and nobody dies.
func fleets(t *testing.T, of []Version, shards int, scenario func(f *fleet)) {
	t.Helper()
	for _, v := range of {
		t.Run(v.String(), func(t *testing.T) { within(t, v, shards, moves(v), scenario) })
	}
}

// deaths runs one in which a worker dies or stops.
func deaths(t *testing.T, of []Version, shards int, scenario func(f *fleet)) {
	t.Helper()
	for _, v := range of {
		w := killed
		if v == V27 {
			w = stolen
		}
		t.Run(v.String(), func(t *testing.T) { within(t, v, shards, w, scenario) })
	}
}

var led3x = []Version{V34, V35}

// seed lets Java make the tables and the leases, and go: what is left is a table of that version without a worker.
func (f *fleet) seed() {
	f.t.Helper()
	f.joinJava("java-0")
	f.settle(3 * time.Minute)
	f.stopJava("java-0")
}

func TestGoJoinsJava(t *testing.T) {
	fleets(t, versions, 6, func(f *fleet) {
		f.joinJava("java-1")
		f.settle(3 * time.Minute)
		f.joinGo("go-1")
		f.settle(4 * time.Minute)
		f.joinGo("go-2")
		f.settle(4 * time.Minute)
		f.calm(time.Minute)
	})
}

func TestJavaJoinsGo(t *testing.T) {
	deaths(t, versions, 6, func(f *fleet) {
		f.seed()
		f.joinGo("go-1")
		f.settle(4 * time.Minute)
		f.joinJava("java-1")
		f.settle(4 * time.Minute)
		f.joinJava("java-2")
		f.settle(4 * time.Minute)
		f.calm(time.Minute)
	})
}

// A table that a Go worker made, before there was any Java.
func TestJavaJoinsATableMadeByGo(t *testing.T) {
	t.Run("3.5.1", func(t *testing.T) {
		within(t, V35, 4, stolen, func(f *fleet) {
			f.joinGo("go-1")
			f.settle(2 * time.Minute)
			f.joinJava("java-1")
			f.settle(5 * time.Minute)
			f.calm(time.Minute)
		})
	})
}

// reads reports whether a worker has been given records of so many shards.
func (f *fleet) reads(id string, shards int) bool {
	n := 0
	for _, s := range f.open() {
		if slices.Contains(f.rec.Owners(s.id), id) {
			n++
		}
	}
	return n >= shards
}

// calm demands that a fleet that has settled stays so: no lease changes its owner.
func (f *fleet) calm(d time.Duration) {
	f.t.Helper()
	owners := func() map[string]string {
		out := map[string]string{}
		for key, l := range f.rows() {
			out[key] = l.owner
		}
		return out
	}
	before := owners()
	f.watch(d, func() {
		if now := owners(); !maps.Equal(now, before) && !f.t.Failed() {
			f.t.Errorf("a settled fleet moves its leases after %v: %v, before %v", time.Since(f.began), now, before)
		}
	})
}

func TestJavaIsKilledBesideGo(t *testing.T) {
	deaths(t, versions, 4, func(f *fleet) {
		f.joinJava("java-1")
		f.settle(3 * time.Minute)
		f.joinGo("go-1")
		f.settle(4 * time.Minute)
		f.killJava("java-1") // it led, in 3.x
		took := f.settle(4 * time.Minute)
		f.t.Logf("rows name a live worker %v after the Java worker (3.x: the leader) was killed", took)
		if most := 178 * time.Second; took > most {
			f.t.Errorf("that is above the %v which Java takes beside Java", most)
		}
		if f.layout != V27 && !f.golang["go-1"].leads() {
			f.t.Error("the Go worker does not lead, though the leader is dead")
		}
	})
}

func TestGoIsKilledBesideJava(t *testing.T) {
	deaths(t, versions, 4, func(f *fleet) {
		f.joinJava("java-1")
		f.settle(3 * time.Minute)
		f.joinGo("go-1")
		f.settle(4 * time.Minute)
		f.killGo("go-1")
		took := f.settle(2 * time.Minute)
		f.t.Logf("rows name a live worker %v after the Go worker was killed; Java leads", took)
	})
}

// The other way round: a Go leader dies, and Java takes over leading.
func TestGoLeaderIsKilled(t *testing.T) {
	deaths(t, led3x, 4, func(f *fleet) {
		f.seed()
		f.joinGo("go-1")
		f.settle(3 * time.Minute)
		f.joinJava("java-1")
		f.settle(3 * time.Minute)
		if !f.golang["go-1"].leads() || f.java["java-1"].Leads() {
			f.t.Error("the Go worker shall lead")
		}
		f.killGo("go-1")
		took := f.settle(4 * time.Minute)
		f.t.Logf("rows name a live worker %v after the Go leader was killed", took)
		if most := 150 * time.Second; took > most {
			f.t.Errorf("that is more than %v, which Java takes beside Java", most)
		}
		if !f.java["java-1"].Leads() {
			f.t.Error("nobody leads")
		}
	})
}

// While a Go worker leads, the leases of a dead member have a live owner within 15 s.
func TestGoLeaderGivesOnWhatTheDeadHad(t *testing.T) {
	deaths(t, led3x, 6, func(f *fleet) {
		f.seed()
		f.joinGo("go-1")
		f.settle(3 * time.Minute)
		f.joinJava("java-1")
		f.joinJava("java-2")
		f.settle(3 * time.Minute)
		f.killJava("java-2")
		took := f.await(2*time.Minute, "all rows name a live worker", func() bool { _, lost := f.load(); return lost == 0 })
		f.t.Logf("rows name a live worker %v after the Java member was killed; Go leads", took)
		if took > 15*time.Second {
			f.t.Errorf("that is more than 15 s")
		}
		f.settle(2 * time.Minute)
	})
}

func TestGoIsStoppedBesideJava(t *testing.T) {
	fleets(t, versions, 4, func(f *fleet) {
		f.joinJava("java-1")
		f.settle(3 * time.Minute)
		f.joinGo("go-1")
		f.settle(4 * time.Minute)
		f.await(time.Minute, "the Go worker reads its shards", func() bool { return f.reads("go-1", 2) })
		began := time.Now()
		f.stopGo("go-1")
		f.await(time.Minute, "all rows name the Java worker", func() bool { _, lost := f.load(); return lost == 0 })
		took := time.Since(began)
		f.t.Logf("rows name a live worker %v after the Go worker was told to stop", took)
		if f.layout != V27 && took > 2*time.Second {
			f.t.Errorf("that is more than 2 s, though the leases can be handed over")
		}
		undone := func() bool { return f.rec.Undone() < 12 }
		f.await(18*time.Second, "its shards are read again", undone)
	})
}

func TestJavaIsStoppedBesideGo(t *testing.T) {
	deaths(t, versions, 4, func(f *fleet) {
		f.joinJava("java-1")
		f.settle(3 * time.Minute)
		f.joinGo("go-1")
		f.settle(4 * time.Minute)
		f.stopJava("java-1") // a 3.x leader gives its lock back
		took := f.settle(2 * time.Minute)
		f.t.Logf("rows name a live worker %v after the Java worker was told to stop", took)
		if took > 40*time.Second {
			f.t.Error("that is more than 40 s")
		}
	})
}

// A parent that ended in one language, with children read in the other, both ways, split and merged.
func TestReshardingAcrossLanguages(t *testing.T) {
	fleets(t, versions, 4, func(f *fleet) {
		f.joinJava("java-1")
		f.settle(3 * time.Minute)
		f.joinGo("go-1")
		f.settle(4 * time.Minute)
		across := map[string]bool{} // "java to go", "go to java"
		merged := 0
		for round := 0; round < 6 && (len(across) < 2 || merged == 0); round++ {
			open, rows := f.open(), f.rows()
			i := slices.IndexFunc(open[1:], func(s shard) bool { return rows[s.id].owner != rows[open[0].id].owner }) // open[i] and its right neighbour are of different owners
			var parents []shard
			if round%2 == 1 && i >= 0 {
				parents = []shard{open[i], open[i+1]}
				f.merge(open[i], open[i+1])
				merged++
			} else {
				parents = []shard{f.ownedBy("java-1"), f.ownedBy("go-1")}
				f.split(parents[0])
				f.split(parents[1])
			}
			f.await(4*time.Minute, "the children are read", func() bool {
				for _, p := range parents {
					for _, c := range f.children(p.id) {
						if len(f.rec.Owners(c)) == 0 {
							return false
						}
					}
				}
				return true
			})
			f.settle(3 * time.Minute)
			f.watch(25*time.Second, func() {}) // what ended counts in a share, so that open ones move until it is deleted
			for _, child := range f.listShards() {
				for _, p := range child.parents {
					from, _ := f.rec.Last(p)
					for _, to := range f.rec.Owners(child.id) {
						if to[:2] != from[:2] {
							across[from[:2]+" to "+to[:2]] = true
						}
					}
				}
			}
		}
		if len(across) < 2 || merged == 0 {
			f.t.Errorf("children were read in the other language %v, and %d merges: want both ways, and one", slices.Collect(maps.Keys(across)), merged)
		}
		f.await(10*time.Minute, "ended leases are deleted", func() bool {
			for _, l := range f.rows() {
				if l.checkpoint == shardEnd {
					return false
				}
			}
			return true
		})
	})
}

// Of two shards that are merged one is slow, in either language: the child has a lease when the quick one ends, and waits.
func TestMergeWithASlowParent(t *testing.T) {
	for _, slow := range []string{"Java", "Go"} {
		t.Run(slow, func(t *testing.T) {
			fleets(t, versions, 2, func(f *fleet) {
				f.windows = stolen // a steal may come in between, of what is slow
				f.windows.Overlap, f.windows.Repeat = f.windows.Overlap+20*time.Second, f.windows.Repeat+20*time.Second
				java := f.joinJava("java-1")
				f.settle(3 * time.Minute)
				g := f.joinGo("go-1")
				f.settle(4 * time.Minute)
				f.await(time.Minute, "both read", func() bool { return f.reads("java-1", 1) && f.reads("go-1", 1) })
				pace := map[string]*pace{"Java": java.pace, "Go": g.pace}[slow]
				pace.set(20 * time.Second)
				f.watch(3*time.Second, func() {})
				open := f.open()
				child := f.merge(open[0], open[1])[0]
				waited := false
				f.await(4*time.Minute, "the child is read", func() bool {
					rows := f.rows()
					ended := 0
					for _, s := range open {
						if l, ok := rows[s.id]; !ok || l.checkpoint == shardEnd {
							ended++
						}
					}
					if _, ok := rows[child]; ok && ended == 1 {
						waited = true
						if f.rec.Begun(child) {
							f.t.Fatal("the child began before its slow parent ended")
						}
					}
					return f.rec.Begun(child)
				})
				if !waited {
					f.t.Error("the child did not have to wait: the scenario is void")
				}
				pace.set(50 * time.Millisecond)
				f.settle(4 * time.Minute)
			})
		})
	}
}

func TestHandOverInTheMiddleOfABatch(t *testing.T) {
	t.Run("Java to Go", func(t *testing.T) {
		fleets(t, led3x, 4, func(f *fleet) {
			f.joinJava("java-1").pace.set(7 * time.Second)
			f.settle(3 * time.Minute)
			f.joinGo("go-1")
			f.handedOver("java-1", "go-1", 2)
			f.settle(4 * time.Minute)
		})
	})
	t.Run("Go to Java", func(t *testing.T) {
		fleets(t, led3x, 4, func(f *fleet) {
			f.windows = killed // java-0 stops releasing nothing
			f.seed()
			g := f.joinGo("go-1")
			f.settle(3 * time.Minute)
			g.pace.set(12 * time.Second) // longer than Java goes without a look for its leases
			f.joinJava("java-1")
			f.handedOver("go-1", "java-1", 2)
			f.settle(4 * time.Minute)
		})
	})
	t.Run("Go to Go, of a Java leader", func(t *testing.T) {
		fleets(t, led3x, 6, func(f *fleet) {
			f.joinJava("java-1")
			f.settle(3 * time.Minute)
			g := f.joinGo("go-1")
			f.settle(4 * time.Minute)
			g.pace.set(7 * time.Second)
			f.joinGo("go-2")
			f.handedOver("go-1", "go-2", 1)
			f.settle(4 * time.Minute)
		})
	})
}

// handedOver waits for hand-overs of n leases, at the time of each of which the handler of the owner works for the shard.
func (f *fleet) handedOver(from, to string, n int) {
	f.t.Helper()
	busy, moved := map[string]bool{}, map[string]bool{}
	f.await(6*time.Minute, "leases handed over from "+from+" to "+to, func() bool {
		for key, l := range f.rows() {
			if l.checkpointOwner == from && l.owner == to && f.rec.Busy(from, key) {
				busy[key] = true
			}
			if l.owner == to && l.checkpointOwner == "" {
				moved[key] = true
			}
		}
		return len(moved) >= n
	})
	if len(busy) == 0 {
		f.t.Errorf("no handler of %s was in the middle of a batch when it was asked", from)
	}
}

func TestStealing(t *testing.T) {
	t.Run("Go from Java", func(t *testing.T) {
		within(t, V27, 4, stolen, func(f *fleet) {
			f.joinJava("java-1")
			f.settle(3 * time.Minute)
			f.joinGo("go-1")
			took := f.settle(2 * time.Minute)
			f.t.Logf("an even spread %v after a Go worker joined", took)
		})
	})
	t.Run("Java from Go", func(t *testing.T) {
		within(t, V27, 4, stolen, func(f *fleet) {
			f.seed()
			f.joinGo("go-1")
			f.settle(2 * time.Minute)
			f.joinJava("java-1")
			f.settle(4 * time.Minute)
		})
	})
	t.Run("in the middle of a batch", func(t *testing.T) {
		w := stolen
		w.Overlap += 9 * time.Second // Java's handler is not interrupted
		w.Repeat += 9 * time.Second
		within(t, V27, 4, w, func(f *fleet) {
			f.joinJava("java-1").pace.set(9 * time.Second)
			f.settle(3 * time.Minute)
			f.joinGo("go-1")
			f.settle(4 * time.Minute)
			f.joinJava("java-2")
			f.settle(4 * time.Minute)
		})
	})
}

func TestRollingReplacement(t *testing.T) {
	deaths(t, versions, 4, func(f *fleet) {
		f.joinJava("java-1")
		f.joinJava("java-2")
		f.settle(5 * time.Minute)
		for i, id := range []string{"java-1", "java-2"} {
			f.joinGo([]string{"go-1", "go-2"}[i])
			f.settle(4 * time.Minute)
			f.stopJava(id)
			f.settle(4 * time.Minute)
		}
		for i, id := range []string{"go-1", "go-2"} {
			f.joinJava([]string{"java-3", "java-4"}[i])
			f.settle(5 * time.Minute)
			f.stopGo(id)
			f.settle(4 * time.Minute)
		}
	})
}

// Two leaders: the lock row is taken away from under the leader, so that another leads while it believes it does.
func TestTwoLeadersAtOnce(t *testing.T) {
	t.Run("Java led", func(t *testing.T) {
		fleets(t, led3x, 6, func(f *fleet) {
			f.joinJava("java-1")
			f.settle(3 * time.Minute)
			f.joinGo("go-1")
			f.settle(4 * time.Minute)
			f.dropLock()
			f.joinGo("go-2")
			f.await(25*time.Second, "a Go worker leads beside Java", func() bool {
				return f.java["java-1"].Leads() && (f.golang["go-1"].leads() || f.golang["go-2"].leads())
			})
			f.await(2*time.Minute, "one of them leads", func() bool { return !f.java["java-1"].Leads() })
			f.settle(4 * time.Minute)
			f.calm(time.Minute)
		})
	})
	t.Run("Go led", func(t *testing.T) {
		fleets(t, led3x, 6, func(f *fleet) {
			f.windows = killed
			f.seed()
			f.joinGo("go-1")
			f.settle(3 * time.Minute)
			f.joinJava("java-1")
			f.settle(3 * time.Minute)
			f.dropLock()
			f.joinJava("java-2")
			f.await(time.Minute, "Java leads", func() bool { return f.java["java-1"].Leads() || f.java["java-2"].Leads() || f.golang["go-1"].leads() })
			f.settle(4 * time.Minute)
			f.calm(time.Minute)
		})
	})
}

// lockRow is where the leader's lock stands.
func (f *fleet) lockRow() (table, pk string) {
	if f.layout == V34 {
		return app + "-CoordinatorState", "key"
	}
	return app, "leaseKey"
}

func (f *fleet) dropLock() {
	f.t.Helper()
	table, pk := f.lockRow()
	f.persist(func() error {
		_, err := f.db.DeleteItem(f.ctx, &dynamodb.DeleteItemInput{TableName: aws.String(table), Key: item{pk: str(leaderKey)}})
		return err
	})
}

// persist repeats what the scenario itself does to a table that has faults.
func (f *fleet) persist(do func() error) {
	f.t.Helper()
	for n := 1; ; n++ {
		err := do()
		if err == nil {
			return
		}
		if n == 20 {
			f.t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// stick leaves a row as a hand-over that nobody completes.
func (f *fleet) stick(key, owner, checkpointOwner string) {
	f.t.Helper()
	_, err := f.db.UpdateItem(f.ctx, &dynamodb.UpdateItemInput{
		TableName: aws.String(app), Key: item{"leaseKey": str(key)}, UpdateExpression: aws.String("SET leaseOwner = :o, checkpointOwner = :co"),
		ExpressionAttributeValues: item{":o": str(owner), ":co": str(checkpointOwner)},
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) unstuck() bool {
	for _, l := range f.rows() {
		if l.checkpointOwner != "" {
			return false
		}
	}
	return f.even()
}

func TestRowStuckWithCheckpointOwner(t *testing.T) {
	t.Run("of workers that are gone", func(t *testing.T) {
		fleets(t, led3x, 4, func(f *fleet) {
			f.windows = killed
			f.seed()
			f.stick("shardId-000000000001", "java-7", "java-8")
			f.joinGo("go-1")
			f.await(2*time.Minute, "nothing is stuck", f.unstuck)
			f.joinJava("java-1")
			f.await(3*time.Minute, "nothing is stuck", f.unstuck)
		})
	})
	t.Run("to one that is gone, of a Go owner", func(t *testing.T) {
		fleets(t, led3x, 4, func(f *fleet) {
			f.joinJava("java-1")
			f.settle(3 * time.Minute)
			f.joinGo("go-1")
			f.settle(4 * time.Minute)
			f.stick(f.ownedBy("go-1").id, "java-7", "go-1")
			f.await(3*time.Minute, "nothing is stuck", f.unstuck)
		})
	})
	t.Run("to one that is gone, of a Java owner, Go leads", func(t *testing.T) {
		fleets(t, led3x, 4, func(f *fleet) {
			f.windows = killed
			f.seed()
			f.joinGo("go-1")
			f.settle(3 * time.Minute)
			f.joinJava("java-1")
			f.settle(3 * time.Minute)
			f.stick(f.ownedBy("java-1").id, "java-7", "java-1")
			f.await(3*time.Minute, "nothing is stuck", f.unstuck)
		})
	})
}

func TestNeverLead(t *testing.T) {
	deaths(t, led3x, 4, func(f *fleet) {
		follow := func(c *worker.Config) { c.NeverLead = true }
		f.joinJava("java-1")
		f.settle(3 * time.Minute)
		f.joinGo("go-1", follow)
		f.settle(4 * time.Minute)
		f.joinJava("java-2")
		f.settle(4 * time.Minute)
		f.killJava("java-1")
		f.settle(4 * time.Minute)
		if f.golang["go-1"].said(worker.LeadTaken) {
			f.t.Error("a worker that shall never lead led")
		}
		if !f.java["java-2"].Leads() {
			f.t.Error("nobody leads")
		}
	})
}

// A Java worker whose clock is off by an hour: its own row looks old to others, or theirs to it. What is owned stays owned, and is read.
func TestClockAnHourOff(t *testing.T) {
	for name, off := range map[string]time.Duration{"behind": -time.Hour, "ahead": time.Hour} {
		t.Run("a Java member "+name+", Go leads", func(t *testing.T) {
			fleets(t, led3x, 4, func(f *fleet) {
				f.windows = killed
				f.seed()
				f.joinGo("go-1")
				f.settle(3 * time.Minute)
				f.joinJava("java-1", func(s *Settings) { s.ClockOff = off })
				// Our engine times changes of a row and reads no time from it.
				f.settle(4 * time.Minute)
				f.calm(time.Minute)
			})
		})
		t.Run("the Java leader "+name, func(t *testing.T) {
			fleets(t, led3x, 4, func(f *fleet) {
				f.joinJava("java-1", func(s *Settings) { s.ClockOff = off })
				f.settle(3 * time.Minute)
				f.joinGo("go-1")
				f.watch(2*time.Minute, func() {})
				load, lost := f.load()
				if lost > 0 {
					f.t.Errorf("%d leases are nobody's", lost)
				}
				if want := map[bool]int{true: 2, false: 0}[off < 0]; load["go-1"] != want { // behind: our row is from the future, and good
					f.t.Errorf("the Go worker has %d leases, want %d: load %v", load["go-1"], want, load)
				}
			})
		})
	}
}

// A fleet whose lease duration is three times ours: we take nothing from who lives by its own rules.
func TestJavaOfALongerLeaseDuration(t *testing.T) {
	fleets(t, versions, 4, func(f *fleet) {
		slow := func(s *Settings) { s.Failover = 30 * time.Second }
		f.windows.Overlap *= 3
		f.joinJava("java-1", slow)
		f.settle(3 * time.Minute)
		f.joinGo("go-1")
		f.settle(6 * time.Minute)
		f.calm(2 * time.Minute)
	})
}

// The client version flips while all run: 2.x, 3.x with the way back open, 2.x again.
func TestClientVersionFlips(t *testing.T) {
	for _, v := range led3x {
		t.Run(v.String(), func(t *testing.T) {
			within(t, v, 4, stolen, func(f *fleet) {
				compatible := func(s *Settings) { s.Compatible, s.Stabilise = true, time.Minute }
				f.joinJava("java-1", compatible)
				f.settle(3 * time.Minute)
				f.joinGo("go-1")
				f.joinJava("java-2", compatible)
				f.settle(5 * time.Minute)
				f.await(10*time.Minute, "Java follows 3.x", func() bool { return f.java["java-1"].Led() && f.java["java-2"].Led() })
				f.await(2*time.Minute, "the Go worker too", func() bool { return f.golang["go-1"].said(worker.RegimeChanged) })
				f.joinGo("go-2")
				f.settle(5 * time.Minute)
				f.setVersion(cv2X)
				f.await(2*time.Minute, "Java follows 2.x", func() bool { return !f.java["java-1"].Led() && !f.java["java-2"].Led() })
				f.killJava("java-2")
				f.settle(3 * time.Minute)
				f.calm(30 * time.Second)
			})
		})
	}
}

// The states of the table migration: three tables to one.
func TestTableMigrationStates(t *testing.T) {
	for _, status := range []string{"INIT", "DEPLOYED"} {
		t.Run(status, func(t *testing.T) {
			within(t, V35, 4, killed, func(f *fleet) {
				f.layout = V34
				f.seed()
				f.layout = V35
				f.migrateTable(status)
				f.joinJava("java-1")
				f.settle(4 * time.Minute)
				f.joinGo("go-1")
				f.settle(4 * time.Minute)
				if f.item(app+"-WorkerMetricStats", "wid", "go-1") == nil {
					f.t.Error("the Go worker has no row in the old table")
				}
				f.calm(time.Minute)
				if row := f.item(app+"-CoordinatorState", "key", tableMigrationKey); textOf(row, "tm") != statusPrefix+status {
					f.t.Errorf("the migration is at %q, want %s: a fleet whose workers all understand it goes on", textOf(row, "tm"), status)
				}
			})
		})
	}
	t.Run("PENDING", func(t *testing.T) {
		within(t, V35, 4, killed, func(f *fleet) {
			f.layout = V34
			f.seed()
			f.layout = V35
			f.migrateTable("PENDING")
			f.joinJava("java-1", func(s *Settings) { s.MigrateAll = true })
			f.settle(4 * time.Minute)
			f.joinGo("go-1")
			f.settle(4 * time.Minute)
			f.migrateTable("COMPLETE")
			f.watch(2*time.Minute, func() {})
			f.joinGo("go-2")
			f.settle(4 * time.Minute)
		})
	})
	t.Run("a Go worker keeps it from beginning no longer than an old Java does", func(t *testing.T) {
		within(t, V35, 2, killed, func(f *fleet) {
			f.layout = V34
			f.seed()
			f.layout = V35
			f.joinJava("java-1")
			f.joinGo("go-1")
			f.settle(4 * time.Minute)
			f.await(2*time.Minute, "the migration is at INIT (V9)", func() bool {
				return textOf(f.item(app+"-CoordinatorState", "key", tableMigrationKey), "tm") == statusPrefix+"INIT"
			})
		})
	})
}

// migrateTable puts the table migration into a state, as a leader would: COMPLETE stands in both tables.
func (f *fleet) migrateTable(status string) {
	f.t.Helper()
	row := func(pk string) item {
		return item{pk: str(tableMigrationKey), "tm": str(statusPrefix + status), "mb": str("java-0"), "mts": num(time.Now().UnixMilli()), "entityType": str("TABLE_MIGRATION")}
	}
	places := map[string]string{app + "-CoordinatorState": "key"}
	if status == "COMPLETE" {
		places[app] = "leaseKey"
	}
	if status != "INIT" && status != "DEPLOYED" { // all but the lock and the state itself has been copied
		if v := f.item(app+"-CoordinatorState", "key", clientVersionKey); v != nil {
			v["leaseKey"], v["entityType"] = v["key"], str("CLIENT_VERSION_MIGRATION")
			delete(v, "key")
			if _, err := f.db.PutItem(f.ctx, &dynamodb.PutItemInput{TableName: aws.String(app), Item: v}); err != nil {
				f.t.Fatal(err)
			}
			if _, err := f.db.DeleteItem(f.ctx, &dynamodb.DeleteItemInput{TableName: aws.String(app + "-CoordinatorState"), Key: item{"key": str(clientVersionKey)}}); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	for table, pk := range places {
		if _, err := f.db.PutItem(f.ctx, &dynamodb.PutItemInput{TableName: aws.String(table), Item: row(pk)}); err != nil {
			f.t.Fatal(err)
		}
	}
}

// Java must find in the rows that a Go worker leaves all that it finds in its own.
func TestGoLeavesTheRowsOfTheDumps(t *testing.T) {
	fleets(t, versions, 2, func(f *fleet) {
		f.windows = killed
		f.seed()
		f.joinGo("worker-1")
		f.settle(3 * time.Minute)
		f.split(f.open()[0])
		f.await(2*time.Minute, "children begun", func() bool {
			rows := f.rows()
			return len(rows) == 4 && !strings.HasPrefix(rows["shardId-000000000002"].checkpoint, "TRIM") && !strings.HasPrefix(rows["shardId-000000000003"].checkpoint, "TRIM")
		})
		f.watch(35*time.Second, func() {})
		dump := map[Version]string{V27: "kcl-2.7.2.single.after-split", V34: "kcl-3.4.2.single.after-split.lease", V35: "kcl-3.5.1.single.2-after-split"}[f.layout]
		if f.layout == V34 {
			f.alike(app+"-CoordinatorState", "key", "kcl-3.4.2.single.after-split.lease-CoordinatorState")
			row := f.item(app+"-WorkerMetricStats", "wid", "worker-1") // with what 3.5 adds to it
			for _, name := range []string{"lut", "sts", "opr", "sup", "slu", "entityType"} {
				if row[name] == nil {
					f.t.Errorf("the Go worker's row has no %s: %v", name, row)
				}
			}
		}
		f.alike(app, "leaseKey", dump)
	})
}
