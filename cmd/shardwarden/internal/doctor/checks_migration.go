package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leasetable"
)

// checkMigration says how far a migration of the KCL is, and what it waits for (docs/reference/kcl.md 2.6, 2.7).
func checkMigration(f *Facts) []Finding {
	return append(checkVersion(f), checkTables(f)...)
}

func checkVersion(f *Facts) []Finding {
	k := f.kcl()
	since := age(f, "Migration3.0", k.Changes)
	switch k.ClientVersion {
	case "", "CLIENT_VERSION_3X":
		return nil
	case "CLIENT_VERSION_UPGRADE_FROM_2X":
		waits := rowless(f)
		if k.Index != "ACTIVE" {
			waits = append(waits, "the index of owners")
		}
		if slices.ContainsFunc(f.Report.Leases, func(l leasetable.Lease) bool { return l.Owner == "" }) {
			waits = append(waits, "an owner of each lease")
		}
		if len(waits) == 0 {
			return one(Warn, "the fleet is on its way from 2.x to 3.x"+since+": all is ready, and it goes over once that has been so for 10 minutes", "wait; leases watch shows the regime change")
		}
		return one(Warn, "the fleet is on its way from 2.x to 3.x"+since+", and waits for "+some(waits), "every worker must publish a row, and run a version that knows 3.x")
	case "CLIENT_VERSION_3X_WITH_ROLLBACK":
		return one(Warn, "the fleet runs 3.x and can still go back to 2.x"+since, "once you are content, restart the Java workers with CLIENT_VERSION_CONFIG_3X: then it is for good")
	case "CLIENT_VERSION_2X":
		return one(Warn, "the fleet was set back to the rules of 2.x"+since, "to go on: shardwarden leases migrate --to kcl3, or the KCL's migration tool with rollforward")
	}
	return one(Fail, fmt.Sprintf("row Migration3.0 says %s, which is no state of the KCL", k.ClientVersion), "no worker knows by which rules to go: mend the row (leases export shows it)")
}

func checkTables(f *Facts) []Finding {
	k := f.kcl()
	since := age(f, "TableMigration3.5", k.Changes)
	switch strings.TrimPrefix(k.TableMigration, "TABLE_MIGRATION_STATUS_") {
	case "", "COMPLETE":
		return nil
	case "INIT":
		if waits := unsupporting(f); len(waits) > 0 {
			return one(Warn, "the way into one table has not begun"+since+": these owners do not say that they understand it: "+some(waits), "they must run KCL 3.5 or later, or a worker of ours with --layout auto, and publish their row (sup, slu)")
		}
		return one(Warn, "the way into one table is prepared"+since+"; an hour after it began workers may be told to go it", "set migrateAllEntitiesToLeaseTable in the Java workers then, if that is wanted")
	case "DEPLOYED":
		return one(Warn, "all workers understand one table"+since+"; rows still stand in three", "set migrateAllEntitiesToLeaseTable in the Java workers to go on; nothing happens until then")
	case "PENDING":
		return one(Warn, "rows stand in one table, and the three are kept for the way back"+since, "it is complete a day later (tableMigrationCompleteBakeTimeSeconds); delete no table before. To go back, take migrateAllEntitiesToLeaseTable away")
	}
	return one(Fail, fmt.Sprintf("row TableMigration3.5 says %s, which is no state of the KCL", k.TableMigration), "no worker knows where to keep its rows: mend the row (leases export shows it)")
}

// age says since when, as far as the history tells.
func age(f *Facts, row string, changes []leasetable.Change) string {
	if f.Report == nil {
		return ""
	}
	for _, c := range changes {
		if c.Row == row && !c.At.IsZero() {
			return fmt.Sprintf(" (for %v)", f.Report.Time.Sub(c.At).Round(time.Minute))
		}
	}
	return ""
}

// rowless are owners without a row that counts.
func rowless(f *Facts) []string {
	var out []string
	for _, w := range f.Report.Workers {
		if w.Leases > 0 && (!w.Row || f.Report.Time.Add(-f.Ahead).Sub(w.Updated) > rowCounts) {
			out = append(out, "a row of "+w.ID)
		}
	}
	return out
}

// unsupporting are owners that do not say they understand the single-table layout; that they do wears off after three announcements.
func unsupporting(f *Facts) []string {
	const wearsOff = 90 * time.Second
	var out []string
	for _, w := range f.Report.Workers {
		if w.Leases > 0 && (w.Support == nil || *w.Support < 1 || f.Report.Time.Add(-f.Ahead).Sub(w.SupportAt) > wearsOff) {
			out = append(out, w.ID)
		}
	}
	return out
}
