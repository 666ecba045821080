package worker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
)

// again kills a worker and starts another under its id.
func (f *fleet) again(id core.WorkerID) *member {
	f.t.Helper()
	former := f.member(id)
	former.kill()
	f.start(string(id))
	i, last := slices.Index(f.members, former), len(f.members)-1
	f.members[i], f.members[last] = f.members[last], former // the first of an id is the one that is meant
	return f.members[i]
}

// A process that is killed and begun anew under its id finds rows of a led table that name it by a run of the former one. It reads them once that
// one is dead: whoever leads, it alone too, and one of another library that goes on assigning them to this id.
func TestRestartUnderTheSameIDInALedTable(t *testing.T) {
	for name, who := range map[string]struct {
		ids   []string
		again func(f *fleet) core.WorkerID
	}{
		"alone":      {[]string{"a"}, func(*fleet) core.WorkerID { return "a" }},
		"the leader": {[]string{"a", "b"}, func(f *fleet) core.WorkerID { return f.leader() }},
		"a member":   {[]string{"a", "b"}, func(f *fleet) core.WorkerID { return others(f.leader(), "a", "b")[0] }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 4, nil, func(t *testing.T, f *fleet) {
				f.table.Share(led)
				var ids []core.WorkerID
				for _, id := range who.ids {
					f.start(id)
					ids = append(ids, core.WorkerID(id))
				}
				f.await("even", time.Minute, func() bool { return f.even(4, ids...) })
				f.put(80, 16)
				f.await("delivered", time.Minute, f.allDelivered)
				f.again(who.again(f))
				f.put(80, 16)
				took := f.await("delivered", 45*time.Second, f.allDelivered)
				t.Logf("read again after %v", took)
				f.await("even", time.Minute, func() bool { return f.even(4, ids...) })
				for _, id := range ids {
					if n := f.count(worker.TwinSeen, id); n != 0 {
						t.Errorf("%s told of a twin %d times: the former process is dead", id, n)
					}
				}
			})
		})
	}
	t.Run("another leads, and assigns to this id", func(t *testing.T) {
		bubble(t, 2, func(c *worker.Config) { c.NeverLead = true }, func(t *testing.T, f *fleet) {
			f.table.Share(led)
			for _, s := range f.open() {
				key := core.LeaseKey{Stream: id(t, f), Shard: s}
				if _, err := f.table.Create(t.Context(), core.Lease{Key: key, Owner: "a", Run: core.NewRun("a", "former.1"), Counter: 7, Checkpoint: core.FromHorizon, Ready: true}); err != nil {
					t.Fatal(err)
				}
			}
			f.start("a")
			f.put(40, 8)
			time.Sleep(8 * time.Second)
			for _, l := range f.table.Rows() { // as a leader does whose time for the former owner is over
				write := core.Assign(&l, "a")
				if _, err := f.table.Update(t.Context(), l, write.Same, write.Set); err != nil {
					t.Fatal(err)
				}
			}
			f.await("delivered", 15*time.Second, f.allDelivered)
			if n := f.count(worker.TwinSeen, "a"); n != 0 {
				t.Errorf("a twin was told of %d times", n)
			}
		})
	})
}
