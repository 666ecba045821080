package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leasetable"
)

// checkWorkerRows: in a led fleet a worker gets leases only with a row of its own that is not older than a minute (docs/reference/kcl.md V8).
func checkWorkerRows(f *Facts) []Finding {
	if f.Report == nil {
		return nil
	}
	now := f.Report.Time.Add(-f.Ahead) // by the service's clock
	var out []Finding
	for _, w := range f.Report.Workers {
		moves := w.Silence != nil && !w.Silence.AtLeast
		switch age := now.Sub(w.Updated); {
		case w.Row && !w.Updated.IsZero() && age < -clockWarn:
			out = append(out, Finding{Level: level(-age > clockFail), What: fmt.Sprintf("the row of worker %s is of %v from now: its clock is ahead", w.ID, (-age).Round(time.Second)), Do: "set that machine's clock (NTP)"})
		case w.Row && moves && !w.Updated.IsZero() && age > rowCounts:
			out = append(out, Finding{
				Level: Fail, What: fmt.Sprintf("worker %s lives, and its row is %v old: its clock is behind, or it does not write the row", w.ID, age.Round(time.Second)),
				Do: "set that machine's clock (NTP), and allow UpdateItem on the table of worker rows: in a led fleet it gets no lease so",
			})
		case w.Unfit != "" && f.kcl().Regime == "kcl3":
			out = append(out, Finding{Level: Warn, What: fmt.Sprintf("the leader gives worker %s nothing: %s", w.ID, w.Unfit), Do: "a worker that has just started has no figures yet; one that stays so cannot read its CPU: start Java's with disableWorkerMetrics, ours with dynamo.NoWorkerMetrics"})
		case !w.Row && w.Leases > 0 && moves && f.kcl().Regime == "kcl3":
			out = append(out, Finding{
				Level: Warn, What: fmt.Sprintf("worker %s owns %d leases and has no row: it gets no more, and is relieved of none", w.ID, w.Leases),
				Do: "allow UpdateItem on the table of worker rows; a worker that has just started writes it within 30 s",
			})
		}
	}
	return out
}

func level(bad bool) Level {
	if bad {
		return Fail
	}
	return Warn
}

// checkWorkerID: two runs of one id take leases from each other, and the lock too, whose owner is the id.
func checkWorkerID(f *Facts) []Finding {
	if f.Report == nil {
		return nil
	}
	var out []Finding
	for _, id := range slices.Sorted(maps.Keys(f.Acquired)) {
		if n := f.Acquired[id]; n > 1 {
			out = append(out, Finding{Level: Fail, What: fmt.Sprintf("worker %s acquired leases anew %d times that it owned already: two run with this id", id, n), Do: "give each worker an id of its own; without --worker-id it is unique"})
		}
	}
	if f.WorkerID == "" {
		return out
	}
	for _, w := range f.Report.Workers {
		switch {
		case w.ID != f.WorkerID:
		case w.Lives(f.Report.Time):
			out = append(out, Finding{Level: Fail, What: fmt.Sprintf("--worker-id %s is in use by a worker that lives (%s, %d leases)", w.ID, w.Kind, w.Leases), Do: "choose another id, or leave it out: it is unique then"})
		default:
			out = append(out, Finding{Level: Warn, What: fmt.Sprintf("--worker-id %s was in use by a worker that shows no sign of life (%d leases)", w.ID, w.Leases), Do: "if that is the one to be started again, all is well"})
		}
	}
	return out
}

// checkLeaseDuration compares the settings with what the pace of renewals shows. All workers of a fleet must have the same (docs/reference/kcl.md V1).
func checkLeaseDuration(f *Facts) []Finding {
	if f.Report == nil {
		return nil
	}
	var out []Finding
	var fits []string
	for _, id := range slices.Sorted(maps.Keys(f.Renewals)) {
		r := f.Renewals[id]
		setting, kind := "failoverTimeMillis", "Java worker"
		if r.Ours {
			setting, kind = "LeaseDuration", "worker"
		}
		off := r.Lease - f.LeaseDuration
		if max(off, -off) <= max(f.LeaseDuration/5, r.Give) {
			fits = append(fits, id)
			continue
		}
		shown := r.Lease.Round(500 * time.Millisecond)
		found := Finding{
			What: fmt.Sprintf("%s %s renews each %v, which goes with a lease duration (%s) of about %v; --lease-duration is %v", kind, id, r.Every.Round(100*time.Millisecond), setting, shown, f.LeaseDuration),
			Do:   fmt.Sprintf("give all workers the same: ours --lease-duration (worker.Config.LeaseDuration), Java's failoverTimeMillis. Say --lease-duration %v here if that is what ours have", shown),
		}
		if r.AtLeast && off < 0 {
			found.Do = "if its handler stores checkpoints by hand, each moves the counter as a renewal does: look again at a quieter time. Else " + found.Do
		}
		// Whoever waits less than the owner's lease lasts takes it while it is read, whichever of the two that is. Of ours RenewEvery may be set apart.
		found.Level = level(!r.Ours)
		out = append(out, found)
	}
	if len(out) == 0 && len(fits) > 0 {
		return ok("the renewals of %s go with a lease duration of %v", strings.Join(fits, ", "), f.LeaseDuration)
	}
	if owners := slices.ContainsFunc(f.Report.Workers, func(w leasetable.Worker) bool { return w.Leases > 0 && w.Silence != nil && !w.Silence.AtLeast }); len(out) == 0 && owners {
		return one(Warn, fmt.Sprintf("no owner was seen to renew often enough in %.0f s to tell its lease duration", f.Report.Watched), "watch longer (--observe 1m), or at a quieter time: a checkpoint moves the counter as a renewal does")
	}
	return out
}

// checkHandOvers: a row stays between two owners where the one that has it never finishes (docs/reference/kcl.md 3.5).
func checkHandOvers(f *Facts) []Finding {
	if f.Report == nil || f.Before == nil {
		return nil
	}
	var out []Finding
	if f.kcl().Regime == "kcl2" {
		var left []string
		for _, l := range f.Report.Leases {
			if l.Next == "" && (slices.Contains(f.Asked, l.Shard) || slices.Contains(f.Asked, l.Stream+":"+l.Shard)) {
				left = append(left, l.Name())
			}
		}
		if len(left) > 0 {
			out = one(Warn, fmt.Sprintf("rows of %d leases have a checkpointOwner, which workers of the KCL 2.x do not look at: %s", len(left), some(left)), "it was left by the rules of 3.x; the next take by a worker of ours, or of a KCL 3.x, removes it")
		}
	}
	for _, l := range f.Report.Leases {
		was, err := f.Before.Find(l.Name())
		if l.Next == "" || err != nil || was.Owner != l.Owner || was.Next != l.Next {
			continue
		}
		silent := l.Silence != nil && l.Silence.AtLeast
		switch {
		case silent:
			out = append(out, Finding{
				Level: Fail, What: fmt.Sprintf("lease %s is stuck between %s, who was silent for %.0f s, and %s, who waits for it", l.Name(), l.Owner, l.Silence.Seconds, l.Next),
				Do: fmt.Sprintf("the leader, or the others, take it once it has expired; if it stays, shardwarden leases release %s", l.Name()),
			})
		default:
			out = append(out, Finding{
				Level: Warn, What: fmt.Sprintf("lease %s is still with %s after %.0f s, though %s asked for it", l.Name(), l.Owner, f.Report.Watched, l.Next),
				Do: fmt.Sprintf("its handler takes long; Java gives it 30 s. If it stays so, a Java worker renews it without a consumer: shardwarden leases release %s", l.Name()),
			})
		}
	}
	return out
}

// checkOwners: a lease that nobody owns is a shard that nobody reads.
func checkOwners(f *Facts) []Finding {
	if f.Report == nil || f.Before == nil {
		return nil
	}
	living := 0
	for _, w := range f.Report.Workers {
		if w.Silence != nil && !w.Silence.AtLeast {
			living++
		}
	}
	var free, dead, owners []string
	for _, l := range f.Report.Leases {
		was, err := f.Before.Find(l.Name())
		switch {
		case err != nil || l.State == leasetable.Ended || len(l.WaitsFor) > 0:
		case l.Owner == "" && was.Owner == "":
			free = append(free, l.Name())
		case l.Owner != "" && l.Silence != nil && l.Silence.AtLeast && l.Silence.Seconds > 1.5*f.LeaseDuration.Seconds():
			dead = append(dead, l.Name())
		}
		if l.Owner != "" && !slices.Contains(owners, l.Owner) {
			owners = append(owners, l.Owner)
		}
	}
	if living == 0 {
		if len(f.Report.Leases) == 0 {
			return nil
		}
		what := fmt.Sprintf("no worker was seen to live for %.0f s", f.Report.Watched)
		if len(owners) > 0 {
			what += "; leases are of " + some(owners)
		}
		return one(Warn, what, "that is right where none is started; one without leases shows itself each 30 s at most: watch longer (--observe 1m)")
	}
	var out []Finding
	if len(free) > 0 {
		out = append(out, Finding{Level: Warn, What: fmt.Sprintf("%d leases had no owner for %.0f s, though %d workers live: %s", len(free), f.Report.Watched, living, some(free)), Do: "in a led fleet, look at the leader and at the workers' rows; elsewhere at the limits of what a worker takes (MaxLeases, maxLeasesForWorker)"})
	}
	if len(dead) > 0 {
		out = append(out, Finding{Level: Warn, What: fmt.Sprintf("%d leases are of owners that were silent for %.0f s: %s", len(dead), f.Report.Watched, some(dead)), Do: "others take them once they have expired; if they don't, look at the leader; shardwarden leases release --worker ID frees them at once"})
	}
	if len(out) == 0 {
		return ok("every lease that can be read has an owner that lives; %d workers", living)
	}
	return out
}

// some is a list that does not grow too long.
func some(names []string) string {
	slices.Sort(names)
	if len(names) > 5 {
		return strings.Join(names[:5], ", ") + fmt.Sprintf(" and %d more", len(names)-5)
	}
	return strings.Join(names, ", ")
}
