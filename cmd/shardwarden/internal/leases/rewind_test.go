package leases

import (
	"strings"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

func TestParsePlace(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		text    string
		numbers bool
		want    core.Position
		bad     bool
	}{
		{text: "trim-horizon", want: core.FromHorizon},
		{text: "TRIM_HORIZON", want: core.FromHorizon},
		{text: "latest", want: core.Position{Anchor: core.Latest, Time: now}},
		{text: "2026-01-01T00:00:00+01:00", want: core.From(time.Date(2025, 12, 31, 23, 0, 0, 0, time.UTC))},
		{text: "4959033827", numbers: true, want: core.Position{Token: "4959033827"}},
		{text: "4959033827:3", numbers: true, want: core.Position{Token: "4959033827", Sub: 3}},
		{text: "an iterator", want: core.Position{Token: "an iterator"}},
		{text: "an iterator", numbers: true, bad: true},
		{text: "yesterday", numbers: true, bad: true},
		{text: "SHARD_END", bad: true}, // the way to skip a whole shard unseen
		{text: "AT_TIMESTAMP", bad: true},
		{text: "1:x", numbers: true, bad: true},
		{text: "1:-1", numbers: true, bad: true},
		{text: ":1", bad: true},
		{text: "", bad: true},
	} {
		t.Run(tt.text, func(t *testing.T) {
			got, err := parsePlace(tt.text, now, tt.numbers)
			if (err != nil) != tt.bad || err == nil && !got.Equal(tt.want) {
				t.Errorf("%+v, %v; want %+v, error %v", got, err, tt.want, tt.bad)
			}
			if err != nil && !strings.Contains(err.Error(), "must be trim-horizon") {
				t.Errorf("the error does not say what it may be: %v", err)
			}
		})
	}
}

func TestRewind(t *testing.T) {
	t.Parallel()
	rows := func(c *cloud) {
		c.table("app", "leaseKey")
		c.put("app", lease("free", "", 7, "50"))
		c.put("app", lease("begins", "", 0, "TRIM_HORIZON"))
		c.put("app", lease("held", "a", 7, "50", ours("a"), map[string]any{"pendingCheckpoint": s("60"), "pendingCheckpointSubSequenceNumber": n(0)}))
		c.put("app", lease("over", "", 7, "SHARD_END", children("child")))
		c.put("app", lease("child", "", 7, "70", parents("over")))
		c.put("app", lease("over-2", "", 7, "SHARD_END", children("child-2")))
		c.put("app", lease("child-2", "", 0, "TRIM_HORIZON", parents("over-2")))
	}
	for _, tt := range []struct {
		name, key, to string
		java          bool
		refused       string // a part of why, empty: it goes through
		checkpoint    string
	}{
		{name: "back", key: "free", to: "40", checkpoint: "40"},
		{name: "to the oldest", key: "free", to: "trim-horizon", checkpoint: "TRIM_HORIZON"},
		{name: "into an aggregated record", key: "free", to: "50:0", checkpoint: "50"},
		{name: "longer number, so forward", key: "free", to: "100", refused: "goes forward", checkpoint: "100"},
		{name: "latest skips", key: "free", to: "latest", refused: "goes forward", checkpoint: "LATEST"},
		{name: "latest skips of one that has not begun", key: "begins", to: "latest", refused: "goes forward", checkpoint: "LATEST"},
		{name: "to a time", key: "free", to: "2026-01-01T00:00:00Z", checkpoint: "AT_TIMESTAMP"},
		{name: "to a time that Java would not know", key: "free", to: "2026-01-01T00:00:00Z", java: true, refused: "Java workers use the table (j)", checkpoint: "AT_TIMESTAMP"},
		{name: "of an owner", key: "held", to: "40", refused: "a owns it", checkpoint: "40"},
		{name: "an end whose children have begun", key: "over", to: "40", refused: "its children have begun (child)", checkpoint: "40"},
		{name: "an end whose children have not", key: "over-2", to: "40", checkpoint: "40"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t)
			rows(c)
			if tt.java {
				c.put("app", lease("other", "j", 7, "50"))
			}
			line := "rewind " + tt.key + " --app app --observe 0 --yes --to " + tt.to
			before := c.row("app", tt.key)
			_, err := c.run(line)
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) || !strings.Contains(err.Error(), "--force") {
					t.Fatalf("error %v, want one that says %q and --force", err, tt.refused)
				}
				if now := c.row("app", tt.key); now["leaseCounter"].(map[string]any)["N"] != before["leaseCounter"].(map[string]any)["N"] {
					t.Fatalf("it was refused, and the row is %v", now)
				}
				_, err = c.run(line + " --force")
			}
			if err != nil {
				t.Fatal(err)
			}
			row := c.row("app", tt.key)
			if row["checkpoint"].(map[string]any)["S"] != tt.checkpoint || row["leaseOwner"] != nil || row["pendingCheckpoint"] != nil {
				t.Errorf("the row is %v, want it free at %s", row, tt.checkpoint)
			}
			if strings.HasPrefix(tt.to, "2026") && row["sw_startAt"].(map[string]any)["S"] != tt.to {
				t.Errorf("the row does not hold the time: %v", row)
			}
		})
	}
}
