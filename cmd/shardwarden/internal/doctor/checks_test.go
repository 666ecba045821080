package doctor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leasetable"
	"github.com/shardwarden/shardwarden/core"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const stream = "111122223333:orders:1719000000"

// fleet is two workers with a lease each, one Java's and one ours, led by the former; all is well.
func fleet(mutate func(*Facts)) *Facts {
	half := core.HashRange{End: [16]byte{0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}
	rest := core.HashRange{Start: [16]byte{0x80}, End: [16]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}
	leases := []core.Lease{
		{Key: core.LeaseKey{Shard: "shard-1"}, Owner: "java-1", Checkpoint: core.Position{Token: "1"}, Range: &half},
		{Key: core.LeaseKey{Stream: stream, Shard: "shard-2"}, Owner: "go-1", Run: "go-1:1", Checkpoint: core.Position{Token: "1"}, Range: &rest},
	}
	f := &Facts{
		Stream: "orders", App: "billing", Table: "billing", LeaseDuration: 10 * time.Second,
		Info:   core.StreamInfo{ID: stream, Name: "orders", Retention: 24 * time.Hour},
		Shards: []core.Shard{{ID: "shard-1", Range: &half}, {ID: "shard-2", Range: &rest}},
		Renewals: map[string]Renewal{
			"java-1": newRenewal(false, 3308*time.Millisecond, 50*time.Millisecond),
			"go-1":   newRenewal(true, 4*time.Second, 50*time.Millisecond),
		},
		Leaders: []LockRow{{"billing", "java-1"}},
		Before:  reportOf(leases), Report: reportOf(leases),
	}
	if mutate != nil {
		mutate(f)
	}
	return f
}

// reportOf is a table that is watched for 20 s while everybody renews.
func reportOf(leases []core.Lease) *leasetable.Report {
	moves := func() *leasetable.Silence { return &leasetable.Silence{Seconds: 1} }
	r := leasetable.Of(now, leases)
	r.Watched = 20
	r.KCL = &leasetable.KCL{Layout: "kcl3-single", Regime: "kcl3", Index: "ACTIVE", ClientVersion: "CLIENT_VERSION_3X", Leader: &leasetable.Leader{Owner: "java-1", Table: "billing", Duration: 120, Silence: moves()}}
	for i := range r.Leases {
		if r.Leases[i].Owner != "" {
			r.Leases[i].Silence = moves()
		}
	}
	one := int64(1)
	r.Workers = []leasetable.Worker{
		{ID: "go-1", Kind: leasetable.Ours, Leases: 1, Row: true, Silence: moves(), Updated: now.Add(-10 * time.Second), Support: &one, SupportAt: now.Add(-10 * time.Second)},
		{ID: "java-1", Kind: leasetable.Java, Leases: 1, Row: true, Silence: moves(), Updated: now.Add(-10 * time.Second), Support: &one, SupportAt: now.Add(-10 * time.Second)},
	}
	return r
}

// both changes the table as it was at the beginning and at the end.
func both(f *Facts, change func(*leasetable.Report)) {
	change(f.Before)
	change(f.Report)
}

func TestAllIsWell(t *testing.T) {
	t.Parallel()
	for _, found := range Examine(fleet(nil)) {
		if found.Level != OK {
			t.Errorf("%s: %s: %s", found.Level, found.Check, found.What)
		}
	}
}

// Each thing that can be wrong is found, by the check it belongs to, with what to do; and nothing else is found beside it.
func TestWhatIsWrongIsFound(t *testing.T) {
	t.Parallel()
	mute := &leasetable.Silence{Seconds: 20, AtLeast: true}
	for _, tt := range []struct {
		name   string
		breaks func(*Facts)
		check  string
		level  Level
		want   string   // of the finding, or of what to do
		also   []string // checks that find it too
	}{
		{"no such stream", func(f *Facts) { f.StreamErr = fmt.Errorf("stream orders: %w", core.ErrNotFound) }, "stream", Fail, "another account is named by its ARN", nil},
		{"stream denied", func(f *Facts) { f.StreamErr = fmt.Errorf("needs kinesis:DescribeStreamSummary: %w", core.ErrDenied) }, "stream", Fail, "needs kinesis:DescribeStreamSummary", nil},
		{"listing denied", func(f *Facts) { f.ShardsErr = fmt.Errorf("needs kinesis:ListShards: %w", core.ErrDenied) }, "stream", Fail, "needs kinesis:ListShards", nil},
		{"reading denied", func(f *Facts) { f.ReadErr = fmt.Errorf("needs kinesis:GetRecords: %w", core.ErrDenied) }, "stream", Fail, "needs kinesis:GetRecords", nil},
		{"call denied", func(f *Facts) { f.Denied = []Denial{{"UpdateItem", "billing"}} }, "permissions", Fail, "dynamodb:UpdateItem on table/billing", nil},

		{"clock an hour ahead", func(f *Facts) { f.Ahead = time.Hour; f.Report.Time = now.Add(time.Hour) }, "clock", Fail, "1h0m0s ahead of the service's", nil},
		{"clock an hour behind", func(f *Facts) { f.Ahead = -time.Hour; f.Report.Time = now.Add(-time.Hour) }, "clock", Fail, "1h0m0s behind the service's", nil},
		{"clock ten seconds off", func(f *Facts) { f.Ahead = 10 * time.Second; f.Report.Time = now.Add(10 * time.Second) }, "clock", Warn, "10s ahead", nil},

		{"no table", func(f *Facts) { f.Missing, f.Before, f.Report, f.Leaders = true, nil, nil, nil }, "table", Warn, "dynamodb:CreateTable", nil},
		{"table of another shape", func(f *Facts) {
			f.TableErr, f.Before, f.Report, f.Leaders = fmt.Errorf("table billing has hash key id (S): %w", core.ErrInvalid), nil, nil, nil
		}, "table", Fail, "it is a table of another application", nil},
		{"table of another application", func(f *Facts) {
			f.Foreign, f.Leaders = []ForeignRow{{Key: "user-1"}}, nil
			both(f, func(r *leasetable.Report) {
				r.Leases, r.Workers = nil, nil
				r.KCL = &leasetable.KCL{Regime: "native", Layout: "native", Others: 1}
			})
			f.Renewals = nil
		}, "table", Fail, "it is a table of another application", nil},
		{"leases of another stream", func(f *Facts) {
			f.Shards = []core.Shard{{ID: "shard-7"}}
			both(f, func(r *leasetable.Report) { r.Leases = r.Leases[:1] })
		}, "table", Fail, "none of the 1 leases is of a shard of " + stream, nil},
		{"leases of a former stream", func(f *Facts) { f.Info.ID = "111122223333:orders:1799999999" }, "table", Fail, "a stream of the same name that was deleted", nil},
		{"leases of other streams", func(f *Facts) {
			f.Info.ID, f.Shards = "111122223333:payments:1", []core.Shard{{ID: "shard-1"}}
			both(f, func(r *leasetable.Report) { r.KCL.Streams = []string{stream}; r.Leases = r.Leases[1:] })
		}, "table", Fail, "the table holds those of " + stream, nil},
		{"row that cannot be read", func(f *Facts) {
			both(f, func(r *leasetable.Report) {
				r.Bad = []leasetable.BadRow{{Row: "shard-9", Shard: "shard-9", Error: "checkpoint is missing"}}
			})
		}, "bad rows", Fail, "row shard-9 is a lease and can't be read: checkpoint is missing", nil},

		{"rules that nobody knows", func(f *Facts) {
			f.Leaders = nil
			both(f, func(r *leasetable.Report) { r.KCL = &leasetable.KCL{Layout: "native", Why: "cv is CLIENT_VERSION_9X"} })
		}, "layout", Fail, "can't be told: cv is CLIENT_VERSION_9X", nil},
		{"on the way to 3.x", func(f *Facts) {
			f.Leaders = nil
			both(f, func(r *leasetable.Report) {
				r.KCL.Regime, r.KCL.ClientVersion, r.KCL.Leader = "kcl2", "CLIENT_VERSION_UPGRADE_FROM_2X", nil
				r.KCL.Changes = []leasetable.Change{{Row: "Migration3.0", At: now.Add(-2 * time.Hour)}}
				r.Workers[1].Row, r.Workers[1].Updated = false, time.Time{}
			})
		}, "migration", Warn, "(for 2h0m0s), and waits for a row of java-1", nil},
		{"can still go back to 2.x", func(f *Facts) {
			both(f, func(r *leasetable.Report) { r.KCL.ClientVersion = "CLIENT_VERSION_3X_WITH_ROLLBACK" })
		}, "migration", Warn, "restart the Java workers with CLIENT_VERSION_CONFIG_3X", nil},
		{"went back to 2.x", func(f *Facts) {
			f.Leaders = nil
			both(f, func(r *leasetable.Report) {
				r.KCL.Regime, r.KCL.ClientVersion, r.KCL.Leader = "kcl2", "CLIENT_VERSION_2X", nil
			})
		}, "migration", Warn, "set back to the rules of 2.x", nil},
		{"a version nobody knows", func(f *Facts) {
			both(f, func(r *leasetable.Report) { r.KCL.ClientVersion = "CLIENT_VERSION_9X" })
		}, "migration", Fail, "CLIENT_VERSION_9X, which is no state of the KCL", nil},
		{"one table, not begun", func(f *Facts) {
			both(f, func(r *leasetable.Report) {
				r.KCL.TableMigration = "TABLE_MIGRATION_STATUS_INIT"
				r.Workers[1].SupportAt = now.Add(-time.Hour)
			})
		}, "migration", Warn, "these owners do not say that they understand it: java-1", nil},
		{"one table, deployed", func(f *Facts) {
			both(f, func(r *leasetable.Report) { r.KCL.TableMigration = "TABLE_MIGRATION_STATUS_DEPLOYED" })
		}, "migration", Warn, "migrateAllEntitiesToLeaseTable", nil},
		{"one table, pending", func(f *Facts) {
			both(f, func(r *leasetable.Report) { r.KCL.TableMigration = "TABLE_MIGRATION_STATUS_PENDING" })
		}, "migration", Warn, "delete no table before", nil},
		{"one table, a state nobody knows", func(f *Facts) {
			both(f, func(r *leasetable.Report) { r.KCL.TableMigration = "TABLE_MIGRATION_STATUS_LOST" })
		}, "migration", Fail, "which is no state of the KCL", nil},

		{"side table denied", func(f *Facts) {
			f.SideErrs = map[string]error{"billing-CoordinatorState": errors.New("it may not be asked whether it exists")}
		}, "side tables", Fail, "allow dynamodb:DescribeTable on it", nil},
		{"rows of ours before an old KCL", func(f *Facts) {
			f.Foreign, f.Leaders = []ForeignRow{{Key: "go-1", Type: "WORKER_METRIC_STATS", Ours: true}}, nil
			both(f, func(r *leasetable.Report) { r.KCL = &leasetable.KCL{Layout: "kcl2", Regime: "kcl2", Untyped: 2} })
		}, "older workers", Fail, "a KCL before 3.5 uses the table, which fails", nil},
		{"rows of unknown kinds before an old KCL", func(f *Facts) {
			f.Foreign, f.Leaders = []ForeignRow{{Key: "note"}}, nil
			both(f, func(r *leasetable.Report) {
				r.KCL = &leasetable.KCL{Layout: "kcl2", Regime: "kcl2", Untyped: 2, Others: 1}
			})
		}, "older workers", Fail, "(note)", nil},
		{"rows of 3.5 in an old table", func(f *Facts) {
			f.Foreign = []ForeignRow{{Key: "Leader", Type: "LEADER"}}
			both(f, func(r *leasetable.Report) { r.KCL.Untyped = 2 })
		}, "older workers", Warn, "start no worker of a KCL before 3.5", nil},

		{"index missing", func(f *Facts) { both(f, func(r *leasetable.Report) { r.KCL.Index = "" }) }, "index", Fail, "LeaseOwnerToLeaseKeyIndex is missing", nil},
		{"index being built", func(f *Facts) { both(f, func(r *leasetable.Report) { r.KCL.Index = "CREATING" }) }, "index", Warn, "is CREATING", nil},

		{"two leaders", func(f *Facts) { f.Leaders = []LockRow{{"billing", "java-1"}, {"billing-CoordinatorState", "java-2"}} }, "leader", Fail, "two leaders at once: java-1 in table billing, java-2 in table billing-CoordinatorState", nil},
		{"leader comes and goes", func(f *Facts) { f.LeaderChanges = 3 }, "leader", Fail, "the leader changed 3 times", nil},
		{"no leader", func(f *Facts) { f.Leaders = nil; both(f, func(r *leasetable.Report) { r.KCL.Leader = nil }) }, "leader", Warn, "nobody leads", nil},
		{"leader gone", func(f *Facts) {
			both(f, func(r *leasetable.Report) {
				r.KCL.Leader = &leasetable.Leader{Owner: "java-9", Duration: 120, Silence: mute}
			})
		}, "leader", Warn, "the lock is java-9's, of whom there is no other sign of life", nil},
		{"lock run out", func(f *Facts) {
			both(f, func(r *leasetable.Report) { r.KCL.Leader.Duration, r.KCL.Leader.Silence = 15, mute })
		}, "leader", Warn, "has not renewed its lock for 20 s, more than the 15 s it holds", nil},

		{"a worker's clock behind", func(f *Facts) { both(f, func(r *leasetable.Report) { r.Workers[1].Updated = now.Add(-time.Hour) }) }, "worker rows", Fail, "worker java-1 lives, and its row is 1h0m0s old", nil},
		{"a worker's clock ahead", func(f *Facts) { both(f, func(r *leasetable.Report) { r.Workers[1].Updated = now.Add(time.Hour) }) }, "worker rows", Fail, "its clock is ahead", nil},
		{"an owner without a row", func(f *Facts) {
			both(f, func(r *leasetable.Report) { r.Workers[1].Row, r.Workers[1].Updated = false, time.Time{} })
		}, "worker rows", Warn, "owns 1 leases and has no row", nil},

		{"a worker whose figures fail", func(f *Facts) {
			both(f, func(r *leasetable.Report) { r.Workers[1].Unfit = "its last sample of C failed" })
		}, "worker rows", Warn, "the leader gives worker java-1 nothing: its last sample of C failed", nil},

		{"one id twice", func(f *Facts) { f.Acquired = map[string]int{"go-1": 4} }, "worker id", Fail, "two run with this id", nil},
		{"id in use", func(f *Facts) { f.WorkerID = "java-1" }, "worker id", Fail, "--worker-id java-1 is in use by a worker that lives (java, 1 leases)", nil},
		{"id was in use", func(f *Facts) {
			f.WorkerID = "go-0"
			f.Report.Workers = append(f.Report.Workers, leasetable.Worker{ID: "go-0", Silence: mute})
		}, "worker id", Warn, "shows no sign of life", nil},

		{"Java's leases last longer", func(f *Facts) { f.Renewals["java-1"] = newRenewal(false, 10*time.Second, 0) }, "lease duration", Fail, "(failoverTimeMillis) of about 30s; --lease-duration is 10s", nil},
		{"Java's leases are shorter", func(f *Facts) { f.Renewals["java-1"] = newRenewal(false, time.Second, 0) }, "lease duration", Fail, "of about 3s", nil},
		{"ours last longer", func(f *Facts) { f.Renewals["go-1"] = newRenewal(true, 12*time.Second, 0) }, "lease duration", Warn, "(LeaseDuration) of about 30s", nil},
		{"ours last longer, and store checkpoints", func(f *Facts) {
			f.Renewals = map[string]Renewal{"go-1": {Ours: true, Lease: 30 * time.Second, AtLeast: true}}
		}, "lease duration", Warn, "(LeaseDuration) of about 30s", nil},
		{"ours are shorter, or store checkpoints by hand", func(f *Facts) {
			f.Renewals = map[string]Renewal{"go-1": {Ours: true, Lease: 3 * time.Second, AtLeast: true}}
		}, "lease duration", Warn, "by hand, each moves the counter as a renewal does: look again at a quieter time. Else give all", nil},
		{"pace not seen", func(f *Facts) { f.Renewals = nil }, "lease duration", Warn, "watch longer", nil},

		{"hand-over stuck", func(f *Facts) {
			both(f, func(r *leasetable.Report) { r.Leases[0].Next, r.Leases[0].Silence = "go-1", mute })
		}, "hand-overs", Fail, "is stuck between java-1, who was silent for 20 s, and go-1", []string{"owners"}},
		{"hand-over slow", func(f *Facts) { both(f, func(r *leasetable.Report) { r.Leases[0].Next = "go-1" }) }, "hand-overs", Warn, "still with java-1 after 20 s", nil},
		{"hand-over that 2.x does not hear", func(f *Facts) {
			f.Leaders, f.Asked = nil, []string{"shard-1"}
			both(f, func(r *leasetable.Report) { r.KCL = &leasetable.KCL{Layout: "kcl2", Regime: "kcl2"} })
		}, "hand-overs", Warn, "rows of 1 leases have a checkpointOwner", nil},

		{"lease without owner", func(f *Facts) {
			both(f, func(r *leasetable.Report) { l := &r.Leases[0]; l.Owner, l.State, l.Silence = "", leasetable.Free, nil })
		}, "owners", Warn, "1 leases had no owner for 20 s, though 2 workers live: shard-1", nil},
		{"owner silent", func(f *Facts) { both(f, func(r *leasetable.Report) { r.Leases[0].Silence = mute }) }, "owners", Warn, "1 leases are of owners that were silent for 20 s: shard-1", nil},
		{"nobody lives", func(f *Facts) {
			f.Renewals, f.Leaders = nil, nil
			both(f, func(r *leasetable.Report) {
				r.KCL = &leasetable.KCL{Layout: "native", Regime: "native"}
				for i := range r.Workers {
					r.Workers[i].Silence, r.Leases[i].Silence = mute, mute
				}
			})
		}, "owners", Warn, "no worker was seen to live for 20 s; leases are of go-1, java-1", nil},

		{"shard without lease", func(f *Facts) { both(f, func(r *leasetable.Report) { r.Leases = r.Leases[:1] }) }, "shards", Fail, "1 parts of the stream have no lease, so nobody reads them: shard-2", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var found bool
			for _, x := range Examine(fleet(tt.breaks)) {
				switch {
				case x.Level == OK:
				case x.Check == tt.check:
					found = true
					if x.Level != tt.level || !strings.Contains(x.What+" "+x.Do, tt.want) || x.Do == "" {
						t.Errorf("%s: %s -> %s; want %s with %q", x.Level, x.What, x.Do, tt.level, tt.want)
					}
				case !contains(tt.also, x.Check):
					t.Errorf("found beside it: %s: %s: %s", x.Level, x.Check, x.What)
				}
			}
			if !found {
				t.Errorf("%s found nothing", tt.check)
			}
		})
	}
}

func contains(list []string, s string) bool {
	return strings.Contains(strings.Join(list, " "), s) && s != ""
}

// One look that falls between two writes shows a hole that is none.
func TestHoleIsSeenTwice(t *testing.T) {
	t.Parallel()
	f := fleet(func(f *Facts) { f.Report.Leases = f.Report.Leases[:1] })
	for _, x := range checkShards(f) {
		if x.Level != OK {
			t.Errorf("%s: %s", x.Level, x.What)
		}
	}
}
