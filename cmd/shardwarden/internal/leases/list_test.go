package leases

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leasetable"
	"github.com/shardwarden/shardwarden/core"
)

// Every table that a Java KCL left here is shown, whichever version wrote it, and nothing is written.
func TestListTablesOfTheKCLs(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../../testdata/kcl-tables/*.json")
	if err != nil || len(files) < 14 {
		t.Fatalf("found %d tables, want at least 14: %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if strings.HasSuffix(name, "-CoordinatorState") || strings.HasSuffix(name, "-WorkerMetricStats") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t)
			c.load("app", name+".json")
			before := c.server.Items("app")
			wrote := c.wrote()
			var r leasetable.Report
			if err := json.Unmarshal([]byte(c.must("list --app app --observe 0 --json")), &r); err != nil {
				t.Fatal(err)
			}
			shards := 0
			for _, row := range before {
				if row["leaseCounter"] == nil {
					continue
				}
				shards++
				key := row["leaseKey"].(map[string]any)["S"].(string)
				l, err := r.Find(key)
				if err != nil {
					t.Errorf("row %s: %v", key, err)
					continue
				}
				if at := row["checkpoint"].(map[string]any)["S"]; l.Checkpoint != at {
					t.Errorf("lease %s is at %s, the row says %v", key, l.Checkpoint, at)
				}
				if owner, ok := row["leaseOwner"].(map[string]any); ok != (l.Owner != "") || ok && owner["S"] != l.Owner {
					t.Errorf("lease %s has owner %q, the row says %v", key, l.Owner, owner)
				}
				wantParts(t, c.must("describe "+key+" --app app --observe 0"), l.Shard, l.Checkpoint)
			}
			if len(r.Leases) != shards || shards == 0 {
				t.Errorf("%d leases are shown of %d", len(r.Leases), shards)
			}
			wantParts(t, c.must("list --app app --observe 0"), "SHARD", r.Leases[0].Shard)
			wantParts(t, c.must("watch --app app --once --every 1ms"), r.Leases[0].Shard)
			lines := strings.Split(strings.TrimSpace(c.must("export --app app")), "\n")
			if len(lines) != len(before) {
				t.Errorf("%d rows are exported of %d", len(lines), len(before))
			}
			if now := c.wrote(); !sameCalls(wrote, now) {
				t.Errorf("calls that write went from %v to %v", wrote, now)
			}
		})
	}
}

func sameCalls(a, b map[string]int64) bool {
	if len(a) != len(b) {
		return false
	}
	for op, count := range a {
		if b[op] != count {
			return false
		}
	}
	return true
}

// An export holds every attribute with its type, and can be put back as it is.
func TestExportIsWhole(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.load("app", "kcl-3.5.1.single.2-after-split.json")
	c.put("app", map[string]any{
		"leaseKey": s("odd"), "b": map[string]any{"B": "AAEC"}, "n": n(7), "bool": map[string]any{"BOOL": true}, "null": map[string]any{"NULL": true},
		"set": map[string]any{"NS": []string{"1", "2"}}, "bytes": map[string]any{"BS": []string{"AQ=="}},
		"list": map[string]any{"L": []any{s("<x>"), map[string]any{"M": map[string]any{"deep": n(1)}}}},
	})
	c.table("app-CoordinatorState", "key")
	c.put("app-CoordinatorState", map[string]any{"key": s("Leader"), "ownerName": s("a")})
	out := c.must("export --app app")
	c.table("copy", "leaseKey")
	side := 0
	for line := range strings.Lines(out) {
		var row struct {
			Table      string
			Attributes map[string]any
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if row.Table == "app" {
			c.put("copy", row.Attributes)
		} else {
			side++
		}
	}
	if side != 1 {
		t.Errorf("%d rows of side tables are exported, want 1", side)
	}
	want, _ := json.Marshal(sorted(c.server.Items("app")))
	got, _ := json.Marshal(sorted(c.server.Items("copy")))
	if string(want) != string(got) {
		t.Errorf("the copy is\n%s\nthe table is\n%s", got, want)
	}
}

func sorted(rows []map[string]any) []map[string]any {
	slices.SortFunc(rows, func(a, b map[string]any) int {
		return strings.Compare(a["leaseKey"].(map[string]any)["S"].(string), b["leaseKey"].(map[string]any)["S"].(string))
	})
	return rows
}

func TestListShowsWhatStandsOut(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.table("app", "leaseKey")
	c.put("app", lease("shard-1", "a", 7, "SHARD_END", children("shard-3"), typed, ours("a")))
	c.put("app", lease("shard-2", "a", 7, "4711", ours("a"), typed))
	c.put("app", lease("shard-3", "", 0, "TRIM_HORIZON", parents("shard-1", "shard-2"), typed))
	c.put("app", lease("shard-4", "b", 3, "LATEST", typed, ours("a"), map[string]any{"checkpointOwner": s("a"), "sw_startAt": s("2026-01-02T03:04:05Z"), "sw_startFor": s("LATEST")}))
	c.put("app", lease("shard-5", "a", 3, "9", typed, ours("a"), map[string]any{"leaseCounter": s("many")}))
	out := c.must("list --app app --observe 200ms")
	wantParts(t, out, "4 leases, 2 held, 1 free, 1 ended", "free, waits for shard-2", "held, asked for by b", "LATEST 2026-01-02T03:04:05Z", "row shard-5 can't be read: leaseCounter is S \"many\"", "SEEN", "  >")
	if strings.Contains(out, "waits for shard-1") {
		t.Errorf("it waits for a parent that has ended:\n%s", out)
	}
	_, err := c.run("describe shard-5 --app app --observe 0")
	if err == nil || !strings.Contains(err.Error(), "can't be read") {
		t.Errorf("a row that cannot be read: %v", err)
	}
}

func TestListErrors(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.load("app", "kcl-3.5.1.multi.2-after-split-and-shutdown.json")
	for _, tt := range []struct {
		name, line string
		want       []string
		kind       error
	}{
		{"no table", "list --app other", []string{"table other does not exist in region us-east-1"}, core.ErrNotFound},
		{"no lease", "describe shardId-9 --app app --observe 0", []string{"no lease shardId-9, of 6"}, core.ErrNotFound},
		{"shard of two streams", "describe shardId-000000000001 --app app --observe 0", []string{"2 streams have a shard shardId-000000000001", "say which, as 123456789012:m1:"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := c.run(tt.line)
			if err == nil || tt.kind != nil && !errors.Is(err, tt.kind) {
				t.Fatalf("error %v, want one of kind %v", err, tt.kind)
			}
			wantParts(t, err.Error(), tt.want...)
		})
	}
}

// A lease whose counter moves while the table is watched is seen to live; one that stands still is not.
func TestSeenIsWhatWasObserved(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.table("app", "leaseKey")
	c.put("app", lease("still", "a", 7, "1"))
	c.put("app", lease("moving", "b", 7, "1"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 8; c.server.Calls()["Scan"] < 20; i++ { // writes between any two looks
			c.put("app", lease("moving", "b", i, "1"))
		}
	}()
	var r leasetable.Report
	if err := json.Unmarshal([]byte(c.must("list --app app --observe 1100ms --json")), &r); err != nil {
		t.Fatal(err)
	}
	for c.server.Calls()["Scan"] < 20 {
		c.must("list --app app --observe 0")
	}
	<-done
	for _, l := range r.Leases {
		if l.Silence == nil || l.Silence.AtLeast != (l.Shard == "still") {
			t.Errorf("lease %s: silence %+v", l.Shard, l.Silence)
		}
	}
}
