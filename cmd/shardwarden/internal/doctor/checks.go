// Package doctor looks for what does not fit in a fleet on Kinesis and DynamoDB, and says what to do about it.
package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leasetable"
	"github.com/shardwarden/shardwarden/core"
)

// check looks at one thing. A check that has nothing to say about these facts returns nothing.
type check struct {
	name string
	look func(*Facts) []Finding
}

var checks = []check{
	{"stream", checkStream},
	{"permissions", checkPermissions},
	{"clock", checkClock},
	{"table", checkTable},
	{"bad rows", checkBadRows},
	{"layout", checkLayout},
	{"migration", checkMigration},
	{"side tables", checkSideTables},
	{"older workers", checkOlderWorkers},
	{"index", checkIndex},
	{"leader", checkLeader},
	{"worker rows", checkWorkerRows},
	{"worker id", checkWorkerID},
	{"lease duration", checkLeaseDuration},
	{"hand-overs", checkHandOvers},
	{"owners", checkOwners},
	{"shards", checkShards},
}

// Examine makes every check.
func Examine(f *Facts) []Finding {
	var out []Finding
	for _, c := range checks {
		for _, found := range c.look(f) {
			found.Check = c.name
			out = append(out, found)
		}
	}
	return out
}

func ok(format string, args ...any) []Finding {
	return []Finding{{Level: OK, What: fmt.Sprintf(format, args...)}}
}

func one(l Level, what, do string) []Finding { return []Finding{{Level: l, What: what, Do: do}} }

// kcl is what the table tells of the KCL; never nil.
func (f *Facts) kcl() *leasetable.KCL {
	if f.Report == nil || f.Report.KCL == nil {
		return &leasetable.KCL{}
	}
	return f.Report.KCL
}

func checkStream(f *Facts) []Finding {
	if errors.Is(f.StreamErr, core.ErrNotFound) {
		return one(Fail, f.StreamErr.Error(), "check the name, the account and the region; a stream of another account is named by its ARN")
	}
	var out []Finding
	for _, err := range []error{f.StreamErr, f.ShardsErr, f.ReadErr} {
		if err != nil {
			out = append(out, one(Fail, err.Error(), "the text says what is missing; no record can be read without")...)
		}
	}
	if len(out) > 0 {
		return out
	}
	open := 0
	for _, s := range f.Shards {
		if !s.Closed {
			open++
		}
	}
	return ok("%s can be read: %d open shards, %d closed, records are kept for %v", f.Info.ID, open, len(f.Shards)-open, f.Info.Retention)
}

func checkPermissions(f *Facts) []Finding {
	if len(f.Denied) == 0 {
		if f.TableErr != nil || f.Missing {
			return nil // it was not tried
		}
		return ok("every call that a worker makes is allowed")
	}
	var out []Finding
	for _, d := range f.Denied {
		out = append(out, Finding{Level: Fail, What: fmt.Sprintf("dynamodb:%s on table %s is denied", d.Call, d.Table), Do: fmt.Sprintf("allow it in the policy of the workers: dynamodb:%s on table/%s", d.Call, d.Table)})
	}
	return out
}

// How much clocks may differ. A worker's row counts for 60 s and is written each 30 s (docs/reference/kcl.md 2.2), so half a minute kills it for good.
const (
	clockWarn = 5 * time.Second
	clockFail = 25 * time.Second
	rowCounts = time.Minute
)

func checkClock(f *Facts) []Finding {
	if f.StreamErr != nil || f.ClockErr != nil {
		return nil
	}
	off, word := f.Ahead, "ahead of"
	if off < 0 {
		off, word = -off, "behind"
	}
	text := fmt.Sprintf("this machine's clock is %v %s the service's", off.Round(time.Second), word)
	switch {
	case off > clockFail:
		return one(Fail, text+"; rows of workers carry a time, and Java's leader takes those older than a minute for dead", "set the clock (NTP) before a worker starts here")
	case off > clockWarn:
		return one(Warn, text, "set the clock (NTP): rows of workers carry a time, and count for a minute")
	}
	return ok("this machine's clock agrees with the service's")
}

func checkTable(f *Facts) []Finding {
	switch {
	case f.Missing:
		return one(Warn, fmt.Sprintf("there is no lease table %s yet", f.Table), "a worker makes it, which needs dynamodb:CreateTable. Where a fleet runs already, the name of the application, the account or the region is another one")
	case errors.Is(f.TableErr, core.ErrOtherStream), errors.Is(f.TableErr, core.ErrInvalid):
		return one(Fail, f.TableErr.Error(), "it is a table of another application: check --app and --table")
	case f.TableErr != nil:
		return one(Fail, f.TableErr.Error(), "the text says what is missing")
	case f.Report == nil:
		return nil
	}
	if len(f.Report.Leases) == 0 && len(f.Report.Bad) == 0 {
		if len(f.Foreign) > 0 && f.kcl().Others == len(f.Foreign) {
			return one(Fail, fmt.Sprintf("table %s has %d rows, and none is a lease", f.Table, len(f.Foreign)), "it is a table of another application: choose another name")
		}
		return ok("table %s has no leases yet: the first worker makes them", f.Table)
	}
	if found := otherStream(f); found != nil {
		return found
	}
	return ok("table %s has %d leases", f.Table, len(f.Report.Leases))
}

// otherStream tells leases of another stream than the one that was named.
func otherStream(f *Facts) []Finding {
	if f.StreamErr != nil || f.ShardsErr != nil {
		return nil
	}
	listed := map[core.ShardID]bool{}
	for _, s := range f.Shards {
		listed[s.ID] = true
		for _, p := range s.Parents {
			listed[p] = true // gone by now, and its lease may stay for a while
		}
	}
	name := func(id string) string { return id[:max(0, strings.LastIndexByte(id, ':'))] }
	var mine, former, others int
	other := ""
	for _, l := range f.Report.Leases {
		id := cmp.Or(l.Stream, f.Report.Stream)
		switch {
		case id == string(f.Info.ID), id == "" && listed[core.ShardID(l.Shard)]:
			mine++
		case id != "" && name(id) == name(string(f.Info.ID)):
			former++
			other = id
		default:
			others++
			other = l.Name()
		}
	}
	several := len(f.kcl().Streams) > 0
	switch {
	case former > 0 && !several:
		return one(Fail, fmt.Sprintf("%d leases are of %s, a stream of the same name that was deleted: this one is %s", former, other, f.Info.ID), "its progress means nothing now: delete the table (leases export keeps a copy), or choose another application name")
	case mine == 0 && several:
		return one(Fail, fmt.Sprintf("no lease is of stream %s; the table holds those of %s", f.Info.ID, strings.Join(f.kcl().Streams, ", ")), "check --stream, or add the stream to the workers")
	case mine == 0:
		return one(Fail, fmt.Sprintf("none of the %d leases is of a shard of %s (the first is %s)", len(f.Report.Leases), f.Info.ID, other), "the table belongs to another application or stream: check --app and --stream")
	case others > 0 && !several:
		return one(Warn, fmt.Sprintf("%d leases are of shards that the stream does not list, such as %s", others, other), "they go once their children are read; a Java worker clears them, or leases describe shows why not")
	}
	return nil
}

func checkBadRows(f *Facts) []Finding {
	if f.Report == nil {
		return nil
	}
	var out []Finding
	for _, b := range f.Report.Bad {
		out = append(out, Finding{Level: Fail, What: fmt.Sprintf("row %s is a lease and can't be read: %s", b.Row, b.Error), Do: "its shard, and what comes after it, stands still until the row is mended or deleted; leases export shows it whole"})
	}
	return out
}

func checkLayout(f *Facts) []Finding {
	k := f.kcl()
	if k.Layout == "" {
		return nil
	}
	if k.Regime == "" {
		return one(Fail, "by which rules the fleet goes can't be told: "+k.Why, "no worker of ours starts with --layout auto so; leases export shows the rows it is about")
	}
	text := fmt.Sprintf("layout %s, regime %s", k.Layout, k.Regime)
	if k.Why != "" {
		text += ": " + k.Why
	}
	if k.Regime == "kcl2" || k.Regime == "kcl3" {
		return []Finding{{Level: OK, What: text, Do: "workers of ours join with --layout auto (dynamo.Layout(dynamo.Auto)); without it they refuse a table that Java workers use"}}
	}
	return ok("%s", text)
}

// checkSideTables: whoever may not ask whether they exist cannot tell where the fleet keeps its rows (docs/reference/kcl.md 2.5).
func checkSideTables(f *Facts) []Finding {
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(f.SideErrs)) {
		out = append(out, Finding{
			Level: Fail, What: fmt.Sprintf("side table %s: %v", name, f.SideErrs[name]),
			Do: fmt.Sprintf("allow dynamodb:DescribeTable on it, even if it does not exist: a worker that takes it for absent writes its rows where the fleet does not look. Where it exists, also GetItem, PutItem, UpdateItem, DeleteItem and Scan on table/%s", name),
		})
	}
	return out
}

// checkOlderWorkers: a KCL before 3.5, and in multi-stream mode before 3.5.1, fails on the first row that is no lease (docs/reference/kcl.md V4).
func checkOlderWorkers(f *Facts) []Finding {
	k := f.kcl()
	side := len(k.SideTables) > 0 && !strings.HasSuffix(k.TableMigration, "COMPLETE")
	old := k.Regime == "kcl2" || k.Untyped > 0 || side
	if len(f.Foreign) == 0 || !old {
		return nil
	}
	var keys []string
	java := false
	for _, r := range f.Foreign {
		java = java || !r.Ours && r.Type != ""
		keys = append(keys, r.Key)
	}
	slices.Sort(keys)
	if len(keys) > 5 {
		keys = append(keys[:5], fmt.Sprintf("%d more", len(keys)-5))
	}
	rows := fmt.Sprintf("%d rows of the lease table are no leases (%s)", len(f.Foreign), strings.Join(keys, ", "))
	if java { // only 3.5 and later put such rows here
		return one(Warn, rows+", as KCL 3.5 and later keep them; lease rows of an older KCL are there too, or its side tables", "start no worker of a KCL before 3.5 (multi-stream: before 3.5.1) on this table, also not to roll a deployment back: it fails on the first such row")
	}
	return one(Fail, rows+", and a KCL before 3.5 uses the table, which fails on the first of them", "stop the workers that wrote them, and start them with --layout auto, which writes none there; then delete the rows that stay (leases export shows them)")
}

func checkIndex(f *Facts) []Finding {
	k := f.kcl()
	upgrading := k.ClientVersion == "CLIENT_VERSION_UPGRADE_FROM_2X"
	if k.Regime != "kcl3" && !upgrading {
		return nil
	}
	const name = "LeaseOwnerToLeaseKeyIndex"
	switch {
	case k.Index == "ACTIVE":
		return ok("the index %s is there", name)
	case k.Index == "":
		return one(Fail, fmt.Sprintf("the index %s is missing, by which Java 3.x workers find what they were given", name), "a Java 3.x worker makes it when it starts; or: shardwarden leases migrate --to kcl3 makes it")
	}
	return one(Warn, fmt.Sprintf("the index %s is %s: until it is ACTIVE Java 3.x workers find no leases", name, k.Index), "wait; a table of some thousand leases takes minutes")
}

func checkLeader(f *Facts) []Finding {
	k := f.kcl()
	owners := map[string]bool{}
	var where []string
	for _, l := range f.Leaders {
		owners[l.Owner] = true
		where = append(where, fmt.Sprintf("%s in table %s", l.Owner, l.Table))
	}
	switch {
	case len(owners) > 1:
		return one(Fail, "two leaders at once: "+strings.Join(where, ", "), "part of the fleet takes another table for the coordinator's: the workers must agree on the side tables, and on the layout; look at the migration of tables")
	case f.LeaderChanges > 1:
		return one(Fail, fmt.Sprintf("the leader changed %d times while the table was watched", f.LeaderChanges), "two workers run with one id, or the leader's passes fail: look at its log")
	case k.Regime != "kcl3":
		return nil
	case k.Leader == nil:
		return one(Warn, "nobody leads the fleet: free leases stay free", "a worker that may lead takes the lock when it next looks, within 30 s; workers with --never-lead don't")
	}
	l := k.Leader
	if l.Silence != nil && l.Silence.AtLeast && l.Silence.Seconds > l.Duration && l.Duration > 0 {
		return one(Warn, fmt.Sprintf("leader %s has not renewed its lock for %.0f s, more than the %.0f s it holds", l.Owner, l.Silence.Seconds, l.Duration), "no worker that may lead is running: start one")
	}
	for _, w := range f.Report.Workers {
		if w.ID == l.Owner && w.Lives(f.Report.Time) {
			return ok("%s leads, with a lock of %.0f s", l.Owner, l.Duration)
		}
	}
	if l.Silence != nil && !l.Silence.AtLeast {
		return ok("%s leads, with a lock of %.0f s", l.Owner, l.Duration)
	}
	return one(Warn, fmt.Sprintf("the lock is %s's, of whom there is no other sign of life", l.Owner), fmt.Sprintf("if it is gone, another leads %.0f s after its last renewal, at the next look; until then free leases stay free", l.Duration))
}
