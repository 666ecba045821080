package dynamo_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

var anyUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)

// The lock goes from hand to hand under its version, in the row of the KCL's lock client, where the layout has it.
func TestLeaderLock(t *testing.T) {
	for _, c := range []struct {
		layout          dynamo.LayoutKind
		table, key, row string
	}{
		{dynamo.KCL3Single, app, "leaseKey", "entityType=S LEADER leaseDuration=S 30000 leaseKey=S Leader ownerName=S a recordVersionNumber=S UUID"},
		{dynamo.KCL3Tables, coordinatorTable, "key", "key=S Leader leaseDuration=S 30000 ownerName=S a recordVersionNumber=S UUID"},
	} {
		t.Run(c.layout.String(), func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			a, b := srv.ready(t, dynamo.Layout(c.layout)), srv.ready(t, dynamo.Layout(c.layout), dynamo.LeaderLease(7*time.Second))
			ctx := t.Context()
			leader := func(want core.Lock) {
				t.Helper()
				got, err := b.Leader(ctx)
				must(t, err)
				if got != want {
					t.Errorf("leader is %+v, want %+v", got, want)
				}
			}
			leader(core.Lock{})
			first, err := a.Lead(ctx, core.Lock{}, "a")
			must(t, err)
			if first.Owner != "a" || first.Duration != 30*time.Second || !anyUUID.MatchString(first.Version) {
				t.Errorf("the lock is %+v", first)
			}
			leader(first)
			if row := anyUUID.ReplaceAllString(srv.rowIn(t, c.table, c.key, "Leader"), "UUID"); row != c.row {
				t.Errorf("row\n%s, want\n%s", row, c.row)
			}
			_, err = b.Lead(ctx, core.Lock{}, "b")
			expect(t, "a lock that somebody has", err, core.ErrConflict)
			again, err := a.Lead(ctx, first, "a")
			must(t, err)
			if again.Version == first.Version {
				t.Error("the version stays at a heartbeat")
			}
			_, err = a.Lead(ctx, first, "a")
			expect(t, "a heartbeat under an old version", err, core.ErrConflict)
			_, err = b.Lead(ctx, first, "b")
			expect(t, "taking over a lock that moved", err, core.ErrConflict)
			must(t, b.Resign(ctx, first)) // not its own
			leader(again)
			taken, err := b.Lead(ctx, again, "b")
			must(t, err)
			if taken.Duration != 7*time.Second {
				t.Errorf("duration %v", taken.Duration)
			}
			leader(taken)
			_, err = a.Lead(ctx, again, "a")
			expect(t, "the heartbeat of who lost it", err, core.ErrConflict)
			must(t, a.Resign(ctx, again))
			leader(taken)
			must(t, b.Resign(ctx, taken))
			must(t, b.Resign(ctx, taken))
			leader(core.Lock{})
			if row := srv.rowIn(t, c.table, c.key, "Leader"); row != "" {
				t.Errorf("left behind: %s", row)
			}
			must(t, b.Resign(ctx, core.Lock{}))

			// One that tells only the version is not enough.
			srv.putIn(t, c.table, `{"`+c.key+`":{"S":"Leader"},`+lockRow+`}`)
			java, err := a.Leader(ctx)
			must(t, err)
			java.Owner = "a"
			_, err = a.Lead(ctx, java, "a")
			expect(t, "the heartbeat of another", err, core.ErrConflict)
			must(t, a.Resign(ctx, java))
			if row := srv.rowIn(t, c.table, c.key, "Leader"); !strings.Contains(row, "ownerName=S java") {
				t.Errorf("another's lock is now %q", row)
			}

			// Given back as the lock client does when it keeps the row.
			srv.putIn(t, c.table, `{"`+c.key+`":{"S":"Leader"},"isReleased":{"S":"1"},`+lockRow+`}`)
			leader(core.Lock{})
			_, err = a.Lead(ctx, core.Lock{}, "a")
			must(t, err)
			if row := srv.rowIn(t, c.table, c.key, "Leader"); strings.Contains(row, "isReleased") {
				t.Errorf("still released: %s", row)
			}
		})
	}
}

func TestLockThatCantBeHad(t *testing.T) {
	srv := serve(t, emulator.Config{})
	_, err := srv.ready(t, dynamo.Layout(dynamo.KCL2)).Lead(t.Context(), core.Lock{}, "a")
	expect(t, "in the layout of 2.x", err, core.ErrInvalid, app, "kcl2")
	s := srv.ready(t, dynamo.Layout(dynamo.KCL3Single))
	_, err = s.Lead(t.Context(), core.Lock{}, "")
	expect(t, "nobody", err, core.ErrInvalid)
	for row, says := range map[string]string{
		`{"leaseKey":{"S":"Leader"},"ownerName":{"S":"x"},"leaseDuration":{"S":"1000"}}`:                                       "recordVersionNumber is missing",
		`{"leaseKey":{"S":"Leader"},"ownerName":{"S":"x"},"recordVersionNumber":{"S":"v"},"leaseDuration":{"N":"1000"}}`:       "leaseDuration is N 1000",
		`{"leaseKey":{"S":"Leader"},"ownerName":{"S":"x"},"recordVersionNumber":{"S":"v"},"leaseDuration":{"S":"-5"}}`:         "milliseconds",
		`{"leaseKey":{"S":"Leader"},"recordVersionNumber":{"S":"v"},"leaseDuration":{"S":"1000"},"entityType":{"S":"LEADER"}}`: "ownerName is missing",
	} {
		srv.put(t, row)
		_, err := s.Leader(t.Context())
		expect(t, row, err, core.ErrInvalid, app, "Leader", says)
	}
	srv.put(t, `{"leaseKey":{"S":"Leader"},"entityType":{"S":"LEADER"},`+lockRow+`}`)
	l, err := s.Leader(t.Context())
	must(t, err)
	if l != (core.Lock{Owner: "java", Version: "dae3f1c1-76cc-4049-8c21-dfc3665cb369", Duration: 2 * time.Minute}) {
		t.Errorf("Java's lock is read as %+v", l)
	}
}

// The lock stays in the coordinator's table until the tables have become one.
func TestLockWhileTablesBecomeOne(t *testing.T) {
	srv := serve(t, emulator.Config{})
	makeTable(t, srv, app, "leaseKey")
	sideTables(t, srv, versionRow("key", "CLIENT_VERSION_3X"), tablesRow("PENDING"))
	l, err := srv.ready(t, dynamo.Layout(dynamo.Auto)).Lead(t.Context(), core.Lock{}, "a")
	must(t, err)
	if srv.rowIn(t, coordinatorTable, "key", "Leader") == "" || srv.row(t, "Leader") != "" {
		t.Error("the lock is not where Java's workers look for it")
	}
	srv.putIn(t, coordinatorTable, tablesRow("COMPLETE"))
	s := srv.ready(t, dynamo.Layout(dynamo.Auto))
	if now, err := s.Leader(t.Context()); err != nil || now != (core.Lock{}) {
		t.Errorf("after the move the lock is %+v, %v: want it free", now, err)
	}
	_, err = s.Lead(t.Context(), l, "a")
	expect(t, "the lock of the old table", err, core.ErrConflict)
}
