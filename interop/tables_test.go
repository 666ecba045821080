package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// splitShards are the shards of the stream whose table KCL 3.5.1 left in kcl-3.5.1.single.2-after-split.json.
var splitShards = []shard{
	{id: "shardId-000000000000", start: "0", end: "170141183460469231731687303715884105726", closed: true},
	{id: "shardId-000000000001", start: "170141183460469231731687303715884105727", end: "340282366920938463463374607431768211455"},
	{id: "shardId-000000000002", start: "0", end: "85070591730234615865843651857942052862", parents: []string{"shardId-000000000000"}},
	{id: "shardId-000000000003", start: "85070591730234615865843651857942052863", end: "170141183460469231731687303715884105726", parents: []string{"shardId-000000000000"}},
}

func loadDump(t *testing.T) (*model, table) {
	t.Helper()
	m, err := loadModel("..", latestKCL, false)
	if err != nil {
		t.Fatal(err)
	}
	return m, readDump(t, "kcl-3.5.1.single.2-after-split.json")
}

func nobody(string) bool { return false }

func TestKCLsOwnTablesPass(t *testing.T) {
	for _, tt := range []struct {
		version, dump string
		stream        string // of several, the one to look at
	}{
		{"3.5.1", "kcl-3.5.1.single.2-after-split.json", ""},
		{"3.4.2", "kcl-3.4.2.single.after-split.lease.json", ""},
		{"2.7.2", "kcl-2.7.2.single.after-split.json", ""},
		{"3.5.1", "kcl-3.5.1.multi.2-after-split-and-shutdown.json", "123456789012:m1:1796039487"},
	} {
		t.Run(tt.dump, func(t *testing.T) {
			m, err := loadModel("..", tt.version, tt.stream != "")
			if err != nil {
				t.Fatal(err)
			}
			tab := readDump(t, tt.dump)
			tab.Items = slices.DeleteFunc(tab.Items, func(i item) bool { return tt.stream != "" && i.str("streamName") != tt.stream })
			if bad := m.check(tab, splitShards, false, nobody); len(bad) > 0 {
				t.Errorf("complaints about KCL's own table: %q", bad)
			}
		})
	}
}

// A row that an older worker cannot read must be seen.
func TestOlderTableComplaints(t *testing.T) {
	m, err := loadModel("..", "2.7.2", false)
	if err != nil {
		t.Fatal(err)
	}
	tab := readDump(t, "kcl-2.7.2.single.after-split.json")
	tab.Items = append(tab.Items, item{"leaseKey": {"S": jsonRaw(`"Leader"`)}, "entityType": {"S": jsonRaw(`"LEADER"`)}})
	tab.Items[0]["checkpointOwner"] = map[string]jsonRaw{"S": jsonRaw(`"w"`)}
	bad := strings.Join(m.check(tab, splitShards, false, nobody), "\n")
	for _, want := range []string{`entityType "LEADER", which KCL 2.7.2 doesn't write`, "checkpointOwner is neither KCL's"} {
		if !strings.Contains(bad, want) {
			t.Errorf("complaints %q, want %q", bad, want)
		}
	}
}

func readDump(t *testing.T, name string) table {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "testdata", "kcl-tables", name))
	if err != nil {
		t.Fatal(err)
	}
	var tab table
	if err := json.Unmarshal(b, &tab); err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestTableComplaints(t *testing.T) {
	set := func(i item, attr, letter, json string) { i[attr] = map[string]jsonRaw{letter: jsonRaw(json)} }
	tests := []struct {
		name  string
		spoil func(rows map[string]item, tab *table)
		want  string
	}{
		{"type changed", func(r map[string]item, _ *table) { set(r["shardId-000000000001"], "leaseCounter", "S", `"3"`) }, "leaseCounter is of type S, KCL's is N"},
		{"attribute missing", func(r map[string]item, _ *table) {
			delete(r["shardId-000000000001"], "ownerSwitchesSinceCheckpoint")
		}, "lacks ownerSwitchesSinceCheckpoint"},
		{"attribute of nobody", func(r map[string]item, _ *table) { set(r["shardId-000000000001"], "leaseowner", "S", `"w"`) }, "leaseowner is neither KCL's nor prefixed"},
		{"our own attribute", func(r map[string]item, _ *table) { set(r["shardId-000000000001"], ownPrefix+"Run", "S", `"w"`) }, ""},
		{"wrong parents", func(r map[string]item, _ *table) {
			set(r["shardId-000000000002"], "parentShardId", "SS", `["shardId-000000000001"]`)
		}, "has parentShardId"},
		{"children not recorded", func(r map[string]item, _ *table) { delete(r["shardId-000000000000"], "childShardIds") }, "at SHARD_END with childShardIds []"},
		{"end of an open shard", func(r map[string]item, _ *table) { set(r["shardId-000000000003"], "checkpoint", "S", `"SHARD_END"`) }, "the shard is open"},
		{"checkpoint of no form", func(r map[string]item, _ *table) { set(r["shardId-000000000003"], "checkpoint", "S", `"49x"`) }, "neither a sequence number"},
		{"hash range", func(r map[string]item, _ *table) { set(r["shardId-000000000003"], "endingHashKey", "S", `"1"`) }, "has hash range"},
		{"kind of row", func(r map[string]item, _ *table) { set(r["shardId-000000000003"], "entityType", "S", `"SESSION"`) }, "entityType \"SESSION\""},
		{"lease missing", func(r map[string]item, _ *table) { delete(r, "shardId-000000000003") }, "is open and has no lease"},
		{"lease of no shard", func(r map[string]item, _ *table) {
			c := maps.Clone(r["shardId-000000000003"])
			set(c, "leaseKey", "S", `"shardId-000000000009"`)
			r["new"] = c
		}, "is of no shard"},
		{"key", func(_ map[string]item, tab *table) { tab.KeySchema = []keyPart{{"leasekey", "HASH"}} }, "key is"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, tab := loadDump(t)
			rows := map[string]item{}
			for _, i := range tab.Items {
				rows[i.str("leaseKey")] = i
			}
			tt.spoil(rows, &tab)
			tab.Items = nil
			for _, i := range rows {
				tab.Items = append(tab.Items, i)
			}
			bad := strings.Join(m.check(tab, splitShards, false, nobody), "\n")
			if tt.want == "" && bad != "" || !strings.Contains(bad, tt.want) {
				t.Errorf("complaints %q, want %q", bad, tt.want)
			}
		})
	}
}

// After a graceful stop no lease may keep its owner; the dump was taken while the KCL ran.
func TestStoppedTableMustBeReleased(t *testing.T) {
	m, tab := loadDump(t)
	if bad := strings.Join(m.check(tab, splitShards, true, func(string) bool { return true }), "\n"); !strings.Contains(bad, "is still owned by worker-1") {
		t.Errorf("complaints %q, want one about the owner", bad)
	}
}

// A lease that is asked for still belongs to the one who is asked.
func TestOwnerWhileAHandOverIsAsked(t *testing.T) {
	var tab table
	rows := `{"Items": [{"leaseKey": {"S": "1"}, "checkpoint": {"S": "7"}, "leaseOwner": {"S": "w2"}, "checkpointOwner": {"S": "w1"}}]}`
	if err := json.Unmarshal([]byte(rows), &tab); err != nil {
		t.Fatal(err)
	}
	if w1, w2 := tab.checkpoints("w1"), tab.checkpoints("w2"); w1["1"] != "7" || len(w2) != 0 {
		t.Errorf("w1 owns %v, w2 owns %v", w1, w2)
	}
}
