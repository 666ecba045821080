package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// kill is what is known of a worker that was killed, or that shards were taken from while it lived: when, and the checkpoints of the shards it
// owned then, as the table had them.
type kill struct {
	worker      string
	at          time.Time
	checkpoints map[string]string // by shard
	subs        map[string]uint64 // of the checkpoints, where they stand within aggregated records
}

// verdict is what the ledger says of the deliveries. Each complaint is a sentence.
type verdict struct {
	put, delivered, distinct int
	duplicates               int           // of the killed worker's unsaved tail: allowed
	overlap                  time.Duration // the longest time in which two workers were at one shard
	failover                 time.Duration // kill to the last shard of the killed worker delivered by another; 0 if none had records left
	complaints               []string
}

func (v *verdict) complain(kind string, found []string) {
	if len(found) == 0 {
		return
	}
	shown := found
	if len(shown) > 3 {
		shown = shown[:3]
	}
	v.complaints = append(v.complaints, fmt.Sprintf("%d %s: %s", len(found), kind, strings.Join(shown, "; ")))
}

// judge compares what was delivered with what was put. It trusts nobody's counters: only the service's answers to the puts, its list of
// shards, and what came out of the workers, with the interval in which it did.
func judge(ledger map[string]put, order map[string][]string, shards []shard, ds []delivery, kills ...kill) verdict {
	v := verdict{put: len(ledger), delivered: len(ds)}
	byID := map[string][]delivery{}
	var strange []string
	for _, d := range ds {
		p, ok := ledger[d.id]
		switch {
		case !ok:
			strange = append(strange, fmt.Sprintf("%q from %s %s", d.id, d.shard, d.seq))
		case p.shard != d.shard || p.seq != d.seq || p.sub != d.sub || p.key != d.key:
			strange = append(strange, fmt.Sprintf("%q was put as %s %s and delivered as %s %s", d.id, p.shard, p.seq, d.shard, d.seq))
		default:
			byID[d.id] = append(byID[d.id], d)
		}
	}
	v.distinct = len(byID)
	v.complain("deliveries of what nobody put", strange)

	var missing []string
	for _, id := range slices.Sorted(maps.Keys(ledger)) {
		if len(byID[id]) == 0 {
			missing = append(missing, fmt.Sprintf("%q in %s", id, ledger[id].shard))
		}
	}
	v.complain("records missing", missing)
	v.judgeDuplicates(byID, kills)
	v.judgeOrder(order, byID)
	v.judgeParents(shards, ds)
	for _, k := range kills {
		v.failover = max(v.failover, failover(ds, k))
	}
	return v
}

// judgeDuplicates allows one only where a killed worker had delivered a record after its last checkpoint, and another gave it again.
func (v *verdict) judgeDuplicates(byID map[string][]delivery, kills []kill) {
	var bad []string
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		d := byID[id]
		v.duplicates += len(d) - 1
		for i := 1; i < len(d); i++ {
			if why := badDuplicate(d[i-1], d[i], kills); why != "" {
				bad = append(bad, fmt.Sprintf("%q of %s by %s and %s: %s", id, d[i].shard, d[i-1].worker, d[i].worker, why))
				break
			}
		}
	}
	v.complain("duplicates that nothing excuses", bad)
}

// badDuplicate says why nothing excuses that again came after once.
func badDuplicate(once, again delivery, kills []kill) string {
	why := "no worker was killed"
	for _, k := range kills {
		cp, owned := k.checkpoints[once.shard]
		switch {
		case once.worker == again.worker && (once.worker != k.worker || once.hold == again.hold), once.worker != k.worker && again.worker != k.worker:
			why = "it was not the killed worker's and then another's"
		case !owned:
			why = k.worker + " did not own the shard when it was killed"
		case isToken(cp) && !follows(once, delivery{seq: cp, sub: k.subs[once.shard]}):
			why = "it was checkpointed: " + cp
		case cp == "SHARD_END":
			why = "the shard was checkpointed to its end"
		default:
			return ""
		}
	}
	return why
}

func isToken(checkpoint string) bool {
	return checkpoint != "" && strings.Trim(checkpoint, "0123456789") == ""
}

// judgeOrder looks at first deliveries: those of a key must be in the order of the puts, as must all of one worker's from one shard.
func (v *verdict) judgeOrder(order map[string][]string, byID map[string][]delivery) {
	var bad []string
	for _, key := range slices.Sorted(maps.Keys(order)) {
		var latest delivery // of those that should have come before
		for _, id := range order[key] {
			if len(byID[id]) == 0 {
				continue
			}
			d := slices.MinFunc(byID[id], func(a, b delivery) int { return cmp.Or(a.before.Compare(b.before), a.after.Compare(b.after)) })
			if latest.id != "" && surelyBefore(d, latest) {
				bad = append(bad, fmt.Sprintf("%q (%s of %s) came before %q (%s of %s)", d.id, d.worker, d.shard, latest.id, latest.worker, latest.shard))
			}
			if latest.id == "" || d.after.After(latest.after) {
				latest = d
			}
		}
	}
	// Within one worker the pipe itself is the order.
	type source struct {
		worker, shard string
		hold          int
	}
	last := map[source]delivery{}
	var flat []delivery
	for _, ds := range byID {
		flat = append(flat, ds...)
	}
	slices.SortFunc(flat, func(a, b delivery) int { return cmp.Compare(a.index, b.index) })
	for _, d := range flat {
		s := source{d.worker, d.shard, d.hold}
		if l, ok := last[s]; ok && !follows(d, l) {
			bad = append(bad, fmt.Sprintf("%s gave %q of %s after %q", d.worker, d.id, d.shard, l.id))
		}
		last[s] = d
	}
	v.complain("records out of order", bad)
}

// follows reports whether d stands behind l in their shard.
func follows(d, l delivery) bool {
	c := integer(d.seq).Cmp(integer(l.seq))
	return c > 0 || c == 0 && d.sub > l.sub
}

// surelyBefore reports whether a was written before b, whatever the readers' delays.
func surelyBefore(a, b delivery) bool {
	if a.worker == b.worker {
		return a.index < b.index
	}
	return !a.before.After(b.after)
}

// judgeParents wants every record of a shard to come after all records of its parents, repeated ones too: once a child has begun,
// its parents' ends are stored.
func (v *verdict) judgeParents(shards []shard, ds []delivery) {
	first := map[string]map[string]delivery{} // by shard, then worker
	last := map[string]map[string]delivery{}
	for _, d := range ds {
		if first[d.shard] == nil {
			first[d.shard], last[d.shard] = map[string]delivery{}, map[string]delivery{}
		}
		if f, ok := first[d.shard][d.worker]; !ok || d.index < f.index {
			first[d.shard][d.worker] = d
		}
		if l, ok := last[d.shard][d.worker]; !ok || d.index > l.index {
			last[d.shard][d.worker] = d
		}
	}
	var bad []string
	for _, s := range shards {
		for _, p := range s.parents {
			for _, child := range first[s.id] {
				for _, parent := range last[p] {
					if surelyBefore(child, parent) {
						bad = append(bad, fmt.Sprintf("%s (%s, %q) began before %s was finished (%s, %q)", s.id, child.worker, child.id, p, parent.worker, parent.id))
					}
				}
			}
		}
	}
	v.complain("shards that began before a parent was finished", bad)
}

// failover is the time from the kill to the last shard, of those the killed worker owned, that another worker delivered from.
func failover(ds []delivery, k kill) time.Duration {
	first := map[string]time.Time{}
	for _, d := range ds {
		if _, owned := k.checkpoints[d.shard]; !owned || d.worker == k.worker || d.before.Before(k.at) {
			continue
		}
		if t, ok := first[d.shard]; !ok || d.before.Before(t) {
			first[d.shard] = d.before
		}
	}
	var longest time.Duration
	for _, t := range first {
		longest = max(longest, t.Sub(k.at))
	}
	return longest
}
