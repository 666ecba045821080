package balance

import (
	"maps"
	"slices"

	"github.com/shardwarden/shardwarden/core"
)

// after is the look once the plan has been carried out, by everybody: those asked have handed over.
func after(in Input) Input { return apply(in, Make(in)) }

func apply(in Input, p Plan) Input {
	at := make(map[core.LeaseKey]int, len(in.Leases))
	in.Leases = slices.Clone(in.Leases)
	for i, l := range in.Leases {
		at[l.Key] = i
	}
	took := map[core.LeaseKey]bool{}
	for _, m := range p.Take {
		if !took[m.Lease] { // the first named gets it
			took[m.Lease] = true
			l := &in.Leases[at[m.Lease]]
			l.Owner, l.Next, l.Free, l.Waited = m.To, core.Nobody, false, 0
		}
	}
	for _, m := range p.Ask {
		l := &in.Leases[at[m.Lease]]
		l.Owner, l.Next = m.To, core.Nobody
	}
	for _, m := range p.Drop {
		l := &in.Leases[at[m.Lease]]
		l.Owner, l.Free = core.Nobody, true
	}
	for i := range in.Leases {
		if l := &in.Leases[i]; l.Next != core.Nobody && slices.ContainsFunc(in.Workers, func(w Worker) bool { return w.ID == l.Next }) {
			l.Owner, l.Next = l.Next, core.Nobody
		}
	}
	return in
}

// held are the numbers of leases that each worker present holds: those that can be read, and those that wait for a parent.
func held(in Input) (active, blocked map[core.WorkerID]int) {
	active, blocked = map[core.WorkerID]int{}, map[core.WorkerID]int{}
	for _, w := range in.Workers {
		active[w.ID], blocked[w.ID] = 0, 0
	}
	for _, l := range in.Leases {
		if l.Free || l.Ended {
			continue
		}
		who := l.Owner
		if _, ok := active[l.Next]; ok && l.Next != core.Nobody {
			who = l.Next
		}
		if _, ok := active[who]; !ok {
			continue
		}
		if l.Blocked {
			blocked[who]++
		} else {
			active[who]++
		}
	}
	return active, blocked
}

func sorted(m map[core.WorkerID]int) []int { return slices.Sorted(maps.Values(m)) }

// dumb evens out leases one at a time: each free one to the emptiest worker with room, then from the fullest to the emptiest with room while
// they differ by two. It is what Make must come to, by as few moves.
func dumb(in Input) (loads []int, asked, unserved int) {
	active, _ := held(in)
	room := func(w Worker) bool { return w.Cap == 0 || active[w.ID] < w.Cap }
	emptiest := func() (best core.WorkerID, ok bool) {
		for _, w := range in.Workers {
			if room(w) && (!ok || active[w.ID] < active[best]) {
				best, ok = w.ID, true
			}
		}
		return best, ok
	}
	for _, l := range in.Leases {
		if !l.Free || l.Ended || l.Blocked {
			continue
		}
		if w, ok := emptiest(); ok {
			active[w]++
		} else {
			unserved++
		}
	}
	for {
		to, ok := emptiest()
		if !ok {
			break
		}
		from := to
		for _, w := range in.Workers {
			if active[w.ID] > active[from] {
				from = w.ID
			}
		}
		if active[from]-active[to] < 2 {
			break
		}
		active[from]--
		active[to]++
		asked++
	}
	return sorted(active), asked, unserved
}
