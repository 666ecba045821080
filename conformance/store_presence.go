package conformance

import (
	"fmt"
	"slices"
	"sync"

	"github.com/shardwarden/shardwarden/core"
)

// presence is the store's, or the rule is skipped.
func (t *table) presence() (a, b core.Presence) {
	a, ok := t.a.(core.Presence)
	if !ok {
		t.skip("ability Presence")
	}
	return a, t.b.(core.Presence)
}

func (t *table) look(p core.Presence) core.Sight {
	s, err := p.Look(t.ctx, t.stream)
	if err != nil {
		t.fatalf("Look: %v", err)
	}
	slices.SortFunc(s.Workers, func(a, b core.WorkerInfo) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return s
}

func ids(workers []core.WorkerInfo) []core.WorkerID {
	var out []core.WorkerID
	for _, w := range workers {
		out = append(out, w.ID)
	}
	return out
}

func presenceRules() []rule[MakeStore] {
	announce := func(t *table, p core.Presence, id core.WorkerID, beat string) {
		if err := p.Announce(t.ctx, core.WorkerInfo{ID: id, Beat: beat, Load: map[string]float64{"cpu": 12.5}}); err != nil {
			t.fatalf("Announce(%s): %v", id, err)
		}
	}
	return []rule[MakeStore]{
		storeRule("presence-announced", "A worker that announces itself is seen through every handle, with its load, whether or not it was there before.", func(t *table) {
			a, b := t.presence()
			announce(t, a, "worker-1", "b1")
			announce(t, b, "worker-2", "b1")
			announce(t, b, "worker-1", "b2")
			t.settle()
			s := t.look(b)
			if !slices.Equal(ids(s.Workers), []core.WorkerID{"worker-1", "worker-2"}) {
				t.fatalf("Look shows workers %v, want worker-1 and worker-2", ids(s.Workers))
			}
			if s.Workers[0].Load["cpu"] != 12.5 {
				t.errorf("load of worker-1 is %v, want cpu 12.5", s.Workers[0].Load)
			}
		}),
		storeRule("presence-beat-differs", "The beat of a worker differs after each announcement, and stays without one.", func(t *table) {
			a, b := t.presence()
			seen := map[string]bool{}
			for i := range 5 {
				announce(t, a, "worker-1", fmt.Sprint("beat-", i))
				t.settle()
				for range 2 {
					s := t.look(b)
					if len(s.Workers) != 1 {
						t.fatalf("Look shows workers %v, want worker-1", ids(s.Workers))
					}
					seen[s.Workers[0].Beat] = true
				}
			}
			if len(seen) != 5 {
				t.errorf("five announcements, looked at twice each, showed %d beats: %v", len(seen), seen)
			}
		}),
		storeRule("presence-withdrawn", "A worker that withdraws is gone, may withdraw again, and takes no other and no lease with it.", func(t *table) {
			a, b := t.presence()
			l := t.create(t.full())
			announce(t, a, "worker-1", "b")
			announce(t, a, l.Owner, "b")
			for range 2 {
				if err := b.Withdraw(t.ctx, "worker-1"); err != nil {
					t.fatalf("Withdraw: %v", err)
				}
			}
			t.settle()
			if s := t.look(a); !slices.Equal(ids(s.Workers), []core.WorkerID{l.Owner}) {
				t.errorf("workers after it: %v, want %s", ids(s.Workers), l.Owner)
			}
			t.want("lease after it", t.get(l.Key), l)
		}),
		storeRule("presence-look", "Look shows the leases that List does, complete, and the workers beside them; List shows no worker as a lease.", func(t *table) {
			a, b := t.presence()
			all := t.fill(many, nil)
			var wg sync.WaitGroup
			for i := range 12 {
				wg.Go(func() {
					if err := a.Announce(t.ctx, core.WorkerInfo{ID: core.WorkerID(fmt.Sprintf("worker-%02d", i)), Beat: "b"}); err != nil {
						t.errorf("Announce: %v", err)
					}
				})
			}
			wg.Wait()
			t.settle()
			s := t.look(b)
			t.complete("Look", s.Leases, all)
			if len(s.Workers) != 12 || len(s.Bad) != 0 {
				t.errorf("Look shows %d workers and %d unreadable rows, want 12 and none", len(s.Workers), len(s.Bad))
			}
			t.complete("List", t.list(t.b, t.stream), all)
		}),
	}
}

func abilityRules() []rule[MakeStore] {
	return []rule[MakeStore]{
		storeRule("update-many", "Many updates in one call go through or fail each on its own condition, with answers in the order of the calls.", func(t *table) {
			s, ok := t.a.(core.ManyUpdater)
			if !ok {
				t.skip("ability ManyUpdater")
			}
			var u []core.LeaseUpdate
			for i := range 30 {
				l := t.create(t.full())
				if i%3 == 1 {
					l.Counter--
				}
				u = append(u, core.LeaseUpdate{Seen: l, Write: core.Write{Same: core.SameCounter, Set: core.Set{Bump: true, Checkpoint: &core.Position{Token: sequence(i)}}}})
			}
			rows, errs := s.UpdateMany(t.ctx, u)
			if len(rows) != len(u) || len(errs) != len(u) {
				t.fatalf("%d updates gave %d rows and %d errors", len(u), len(rows), len(errs))
			}
			for i, x := range u {
				if i%3 == 1 {
					t.conflict(fmt.Sprint("update ", i), errs[i], x.Seen)
					continue
				}
				if errs[i] != nil {
					t.errorf("update %d: %v", i, errs[i])
					continue
				}
				t.want(fmt.Sprint("update ", i, ": row returned"), rows[i], x.Write.Set.Apply(x.Seen))
				t.want(fmt.Sprint("update ", i, ": row"), t.get(x.Seen.Key), x.Write.Set.Apply(x.Seen))
			}
		}),
		storeRule("evidence-moves", "The beat that stands for the owner of a lease differs after each sign of life of that owner.", func(t *table) {
			s, ok := t.a.(core.Evidence)
			if !ok {
				t.skip("ability Evidence")
			}
			l := t.create(t.full())
			subject, beat := s.Evidence(l)
			for range 3 {
				var err error
				if l, err = t.a.Update(t.ctx, l, core.SameCounter, core.Set{Bump: true}); err != nil {
					t.fatalf("Update: %v", err)
				}
				sub, b := s.Evidence(t.get(l.Key))
				if sub != subject || b == beat {
					t.errorf("after a renewal: subject %q, beat %q; before it %q, %q", sub, b, subject, beat)
				}
				beat = b
			}
		}),
	}
}
