package leases

import (
	"strings"
	"testing"

	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// A migration is shown first, whatever is said; without --yes nothing is written, and what speaks against it is an error.
func TestMigrateLayout(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.load("app", "kcl-2.7.2.single.after-split.json")
	wrote := c.wrote()
	wantParts(t, c.must("migrate --to kcl3 --app app"), "table app is kcl2; it is to become kcl3-tables", " 1. ", "CLIENT_VERSION_UPGRADE_FROM_2X", "then: ", "nothing was changed; say --yes")
	out, err := c.run("migrate --to single-table --app app --yes")
	if err == nil || !strings.Contains(err.Error(), "it can't be done now:\n  worker worker-1 owns leases") {
		t.Errorf("%v: %s", err, out)
	}
	wantParts(t, c.must("migrate --to kcl2 --app app --yes"), "there is nothing to do")
	if now := c.wrote(); !sameCalls(wrote, now) {
		t.Fatalf("calls that write went from %v to %v", wrote, now)
	}
	wantParts(t, c.must("migrate --to kcl3 --app app --yes"), "done: set row Migration3.0")
	wantParts(t, c.must("list --app app --observe 0"), "client version CLIENT_VERSION_UPGRADE_FROM_2X", "index of owners: ACTIVE", "side table app-CoordinatorState: ACTIVE")
	wantParts(t, c.must("migrate --to kcl2 --app app"), "looking at table app; where no worker may run, it is watched", "table app is kcl3-tables; it is to become kcl2")
	if _, err := c.run("migrate --to kcl3 --app app --yes"); err == nil || !strings.Contains(err.Error(), "has no row of the last minute") {
		t.Errorf("the second stage before workers followed: %v", err)
	}
}

func TestMigrationTarget(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		to          string
		found, want dynamo.LayoutKind
	}{
		{"kcl2", dynamo.KCL3Single, dynamo.KCL2},
		{"kcl3", dynamo.KCL2, dynamo.KCL3Tables},
		{"kcl3", dynamo.KCL3Tables, dynamo.KCL3Tables},
		{"kcl3", dynamo.KCL3Single, dynamo.KCL3Single},
		{"kcl3", dynamo.Native, dynamo.KCL3Single},
		{"single-table", dynamo.KCL2, dynamo.KCL3Single},
		{"single-table", dynamo.KCL3Tables, dynamo.KCL3Single},
	} {
		if got := target(tt.to, tt.found); got != tt.want {
			t.Errorf("--to %s of a table %s: %s, want %s", tt.to, tt.found, got, tt.want)
		}
	}
}
