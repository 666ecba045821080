package leases

import (
	"strings"
	"testing"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leasetable"
	"github.com/shardwarden/shardwarden/core"
)

func TestMove(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.table("app", "leaseKey")
	c.put("app", lease("shard-1", "a", 7, "1", ours("a")))
	c.put("app", lease("shard-2", "b", 7, "1", ours("b")))
	c.put("app", lease("shard-3", "", 7, "1"))
	wantParts(t, c.must("move shard-1 --to b --app app --observe 0 --yes"), "a is asked to hand it to b", "asked for by")
	row := c.row("app", "shard-1")
	if row["leaseOwner"].(map[string]any)["S"] != "b" || row["checkpointOwner"].(map[string]any)["S"] != "a" || row["leaseCounter"].(map[string]any)["N"] != "7" {
		t.Errorf("a request is to leave the counter alone; the row is %v", row)
	}
	wantParts(t, c.must("move shard-1 --to a --app app --observe 0 --yes"), "the request of b is taken back")
	if row := c.row("app", "shard-1"); row["leaseOwner"].(map[string]any)["S"] != "a" || row["checkpointOwner"] != nil {
		t.Errorf("the row is %v", row)
	}
	wantParts(t, c.must("move shard-3 --to b --app app --observe 0 --yes"), "it is given to b at once")
	if row := c.row("app", "shard-3"); row["leaseOwner"].(map[string]any)["S"] != "b" || row["leaseCounter"].(map[string]any)["N"] != "8" {
		t.Errorf("the row is %v", row)
	}
	wantParts(t, c.must("move shard-3 --to b --app app --observe 0"), "it is there already; nothing was changed")
}

func TestMovePlan(t *testing.T) {
	t.Parallel()
	report := func(regime string, l leasetable.Lease) *leasetable.Report {
		return &leasetable.Report{
			Table: "app", KCL: &leasetable.KCL{Regime: regime}, Leases: []leasetable.Lease{l}, Watched: 7,
			Workers: []leasetable.Worker{
				{ID: "go", Kind: leasetable.Ours}, {ID: "java", Kind: leasetable.Java},
				{ID: "mute", Kind: leasetable.Ours, Silence: &leasetable.Silence{Seconds: 7, AtLeast: true}},
			},
		}
	}
	goes := leasetable.Lease{Shard: "s", State: leasetable.Held, Owner: "go", Kind: leasetable.Ours}
	javas := leasetable.Lease{Shard: "s", State: leasetable.Held, Owner: "java", Kind: leasetable.Java}
	free := leasetable.Lease{Shard: "s", State: leasetable.Free}
	ended := leasetable.Lease{Shard: "s", State: leasetable.Ended, Owner: "go"}
	for _, tt := range []struct {
		name, regime, to string
		lease            leasetable.Lease
		force            bool
		want, refused    string
		write            core.Write
	}{
		{name: "ended", to: "go", lease: ended, refused: "read to its end"},
		{name: "to nobody we know", to: "who", lease: free, refused: "no worker who is to be seen in table app (go, java, mute are)"},
		{name: "to nobody we know, by force", to: "who", lease: free, force: true, want: "given to who", write: core.Assign(&core.Lease{}, "who")},
		{name: "to one that is silent", to: "mute", lease: free, refused: "worker mute was silent for the 7s"},
		{name: "Java's to ours, led", regime: "kcl3", to: "go", lease: javas, want: "java is asked to hand it to go", write: core.AskFor("go")},
		{name: "ours to Java's, led", regime: "kcl3", to: "java", lease: goes, want: "go is asked to hand it to java", write: core.AskFor("java")},
		{name: "ours to Java's that picks nothing up", regime: "kcl2", to: "java", lease: goes, refused: "picks up none that it is given"},
		{name: "of Java's that hears nothing", regime: "kcl2", to: "go", lease: javas, refused: "hears no request"},
		{name: "of Java's that hears nothing, by force", regime: "kcl2", to: "go", lease: javas, force: true, want: "it is taken from java for go", write: core.Assign(&core.Lease{Owner: "java"}, "go")},
		{name: "ours to ours beside Java's takers", regime: "kcl2", to: "mute", lease: goes, force: true, want: "go is asked to hand it to mute", write: core.AskFor("mute")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := mover{report: report(tt.regime, tt.lease), lease: &tt.lease, to: tt.to, force: tt.force}
			how, err := m.plan()
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("%q, %v; want an error that says %q", how, err, tt.refused)
				}
				return
			}
			if err != nil || !strings.Contains(how, tt.want) {
				t.Fatalf("%q, %v; want %q", how, err, tt.want)
			}
			row := core.Lease{Owner: core.WorkerID(tt.lease.Owner)}
			w, err := m.decide(&row)
			if err != nil || w.Same != tt.write.Same || (w.Set.Owner == nil) != (tt.write.Set.Owner == nil) {
				t.Errorf("write %+v, %v; want %+v", w, err, tt.write)
			}
			if row.Owner = "another"; !m.force {
				if _, err := m.decide(&row); err == nil {
					t.Error("it is written though another owns it by now")
				}
			}
		})
	}
}
