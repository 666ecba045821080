package leases

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/command"
)

// Without a terminal to ask on and without --yes nothing is changed, and that is a misuse.
func TestNothingIsDoneUnasked(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"release shard-1 --app app --observe 0",
		"release --worker a --app app --observe 0",
		"rewind shard-2 --to 3 --app app --observe 0",
		"move shard-1 --to b --app app --observe 0",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t)
			c.table("app", "leaseKey")
			c.put("app", lease("shard-1", "a", 7, "1", ours("a")))
			c.put("app", lease("shard-2", "", 7, "5"))
			c.put("app", lease("shard-3", "b", 7, "1", ours("b")))
			wrote := c.wrote()
			_, err := c.run(line)
			exit, ok := errors.AsType[*command.ExitError](err)
			if !ok || exit.Status != command.Misuse {
				t.Fatalf("error %v, want exit status 2", err)
			}
			wantParts(t, err.Error(), "nothing was changed", "--yes")
			if now := c.wrote(); !sameCalls(wrote, now) {
				t.Errorf("calls that write went from %v to %v", wrote, now)
			}
		})
	}
}

func TestRelease(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.table("app", "leaseKey")
	c.put("app", lease("shard-1", "a", 7, "1", ours("a"), map[string]any{"keep": s("me")}))
	c.put("app", lease("shard-2", "a", 3, "2", ours("a")))
	c.put("app", lease("shard-3", "b", 9, "3", ours("b")))
	out := c.must("release shard-1 --app app --observe 0 --yes")
	wantParts(t, out, "shard-1 at 1: a owns it", "owner", "a", "nobody")
	row := c.row("app", "shard-1")
	if row["leaseOwner"] != nil || row["leaseCounter"].(map[string]any)["N"] != "8" || row["keep"] == nil {
		t.Errorf("the row is %v", row)
	}
	wantParts(t, c.must("release shard-1 --app app --observe 0"), "it is free already; nothing was changed")
	c.must("release --worker a --app app --observe 0 --yes")
	if row := c.row("app", "shard-2"); row["leaseOwner"] != nil {
		t.Errorf("the row is %v", row)
	}
	if row := c.row("app", "shard-3"); row["leaseOwner"] == nil {
		t.Errorf("the lease of another worker was released: %v", row)
	}
	if _, err := c.run("release --worker a --app app --observe 0 --yes"); err == nil {
		t.Error("a worker without leases was no error")
	}
}

// Whoever is asked must say yes.
func TestConfirm(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		answer string
		goes   bool
	}{{"y\n", true}, {"YES\n", true}, {"n\n", false}, {"\n", false}, {"", false}, {"yes please\n", false}} {
		t.Run(tt.answer, func(t *testing.T) {
			var out bytes.Buffer
			err := new(act).confirm(streams{in: strings.NewReader(tt.answer), out: &out, asks: true}, "Release it?")
			if (err == nil) != tt.goes || !strings.Contains(out.String(), "Release it? [y/N]") {
				t.Errorf("%v; it was asked %q", err, out.String())
			}
		})
	}
}
