package conformance

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/shardwarden/shardwarden/core"
)

// leaderLock is the store's, or the rule is skipped.
func (t *table) leaderLock() (a, b core.LeaderLock) {
	a, ok := t.a.(core.LeaderLock)
	if !ok {
		t.skip("ability LeaderLock")
	}
	return a, t.b.(core.LeaderLock)
}

func (t *table) leader(l core.LeaderLock) core.Lock {
	lock, err := l.Leader(t.ctx)
	if err != nil {
		t.fatalf("Leader: %v", err)
	}
	return lock
}

func (t *table) lead(l core.LeaderLock, seen core.Lock, me core.WorkerID) core.Lock {
	lock, err := l.Lead(t.ctx, seen, me)
	if err != nil {
		t.fatalf("Lead(%+v, %s): %v", seen, me, err)
	}
	return lock
}

func leaderRules() []rule[MakeStore] {
	return []rule[MakeStore]{
		storeRule("leader-once", "Of many who take a lock that nobody holds exactly one gets it; it is no lease, and every handle sees it at once.", func(t *table) {
			a, b := t.leaderLock()
			all := t.fill(3, nil)
			if lock := t.leader(b); lock != (core.Lock{}) {
				t.fatalf("Leader of a table that nobody leads: %+v, want the zero Lock", lock)
			}
			var wg sync.WaitGroup
			var got atomic.Pointer[core.Lock]
			var won atomic.Int32
			for i := range 8 {
				wg.Go(func() {
					defer t.rescue("Lead")
					lock, err := []core.LeaderLock{a, b}[i%2].Lead(t.ctx, core.Lock{}, core.WorkerID(fmt.Sprint("worker-", i)))
					switch {
					case err == nil:
						won.Add(1)
						got.Store(&lock)
						if lock.Owner != core.WorkerID(fmt.Sprint("worker-", i)) || lock.Version == "" || lock.Duration <= 0 {
							t.errorf("Lead by worker-%d returned %+v: want it as owner, a version and a duration", i, lock)
						}
					case !errors.Is(err, core.ErrConflict):
						t.errorf("Lead: %v, want ErrConflict where another was quicker", err)
					}
				})
			}
			wg.Wait()
			if won.Load() != 1 {
				t.fatalf("%d of 8 got the lock, want one", won.Load())
			}
			if lock := t.leader(b); lock != *got.Load() {
				t.errorf("Leader: %+v, want %+v as written", lock, *got.Load())
			}
			t.settle()
			t.complete("List", t.list(t.b, t.stream), all)
		}),
		storeRule("leader-kept", "Who writes the lock as it was seen holds it, under a version never used before; who saw an older one gets ErrConflict and changes nothing.", func(t *table) {
			a, b := t.leaderLock()
			first := t.lead(a, core.Lock{}, "worker-1")
			second := t.lead(a, first, "worker-1")
			third := t.lead(b, second, "worker-2") // one that was silent for too long
			if first.Version == second.Version || second.Version == third.Version || first.Version == third.Version {
				t.errorf("versions %q, %q, %q: each write has its own", first.Version, second.Version, third.Version)
			}
			for _, seen := range []core.Lock{first, second, {}} {
				if _, err := a.Lead(t.ctx, seen, "worker-1"); !errors.Is(err, core.ErrConflict) {
					t.errorf("Lead as seen at version %q: %v, want ErrConflict", seen.Version, err)
				}
			}
			if lock := t.leader(a); lock != third {
				t.errorf("Leader: %+v, want %+v", lock, third)
			}
		}),
		storeRule("leader-resigned", "Who gives the lock back as it was seen leaves none; what was seen before changes nothing, and neither is an error.", func(t *table) {
			a, b := t.leaderLock()
			old := t.lead(a, core.Lock{}, "worker-1")
			lock := t.lead(b, old, "worker-2")
			for _, seen := range []core.Lock{old, {Owner: "worker-2", Version: "none of its", Duration: lock.Duration}} {
				if err := a.Resign(t.ctx, seen); err != nil {
					t.errorf("Resign as seen at version %q: %v, want no error", seen.Version, err)
				}
			}
			if now := t.leader(b); now != lock {
				t.fatalf("Leader: %+v, want %+v", now, lock)
			}
			for range 2 {
				if err := b.Resign(t.ctx, lock); err != nil {
					t.fatalf("Resign: %v", err)
				}
			}
			if now := t.leader(a); now != (core.Lock{}) {
				t.errorf("Leader after it: %+v, want the zero Lock", now)
			}
			t.lead(a, core.Lock{}, "worker-3")
		}),
	}
}
