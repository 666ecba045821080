package kclsim

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// The models alone: they must do what fleets of the real ones were seen to do, before they say anything about others.

var versions = []Version{V27, V34, V35}

// each runs a scenario for each version.
func each(t *testing.T, of []Version, shards int, windows Windows, scenario func(f *fleet)) {
	t.Helper()
	for _, v := range of {
		t.Run(v.String(), func(t *testing.T) { within(t, v, shards, windows, scenario) })
	}
}

// shape are the attributes of a row, with their types, under what kind of row it is.
func shape(row map[string]map[string]any, key string) (kind, attributes string) {
	text := func(name string) string { s, _ := row[name]["S"].(string); return s }
	switch id := text(key); {
	case id == "Leader" || id == "Migration3.0":
		kind = id
	case row["lut"] != nil:
		kind = "worker"
	case row["leaseCounter"] != nil:
		kind = "lease"
		if row["parentShardId"] != nil {
			kind += ", child"
		}
		if text("checkpoint") == shardEnd {
			kind += ", ended"
		}
	default:
		kind = "unknown: " + id
	}
	var names []string
	for name, v := range row {
		for t := range v {
			if name != "throughputKBps" && !strings.HasPrefix(name, "sw_") { // from the first data on; ours, which Java keeps and does not look at
				names = append(names, name+":"+t)
			}
		}
	}
	slices.Sort(names)
	return kind, strings.Join(names, " ")
}

// shapes are those of a table's rows.
func shapes(t *testing.T, rows []map[string]any, key string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, row := range rows {
		b, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		var r map[string]map[string]any
		if err := json.Unmarshal(b, &r); err != nil {
			t.Fatal(err)
		}
		kind, attributes := shape(r, key)
		if old, ok := out[kind]; ok && old != attributes {
			attributes = old + " | " + attributes
		}
		out[kind] = attributes
	}
	return out
}

// alike compares a table with the dump of one that the real worker left.
func (f *fleet) alike(table, key, dump string) {
	f.t.Helper()
	b, err := os.ReadFile("../../testdata/kcl-tables/" + dump + ".json")
	if err != nil {
		f.t.Fatal(err)
	}
	var want struct {
		Items                  []map[string]any `json:"items"`
		GlobalSecondaryIndexes []struct{ IndexName string }
	}
	if err := json.Unmarshal(b, &want); err != nil {
		f.t.Fatal(err)
	}
	if w, g := shapes(f.t, want.Items, key), shapes(f.t, f.tables.Items(table), key); !maps.Equal(w, g) {
		f.t.Errorf("%s is not as in %s:\n got %v\nwant %v", table, dump, told(g), told(w))
	}
	out, err := f.db.DescribeTable(f.ctx, &dynamodb.DescribeTableInput{TableName: aws.String(table)})
	if err != nil {
		f.t.Fatal(err)
	}
	if len(out.Table.GlobalSecondaryIndexes) != len(want.GlobalSecondaryIndexes) {
		f.t.Errorf("%s has %d indexes, in %s it has %d", table, len(out.Table.GlobalSecondaryIndexes), dump, len(want.GlobalSecondaryIndexes))
	}
}

func told(m map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "\n    %s: %s", k, m[k])
	}
	return b.String()
}

func TestJavaLeavesTheRowsOfTheDumps(t *testing.T) {
	each(t, versions, 2, onlyHandsOver, func(f *fleet) {
		f.joinJava("worker-1")
		f.settle(3 * time.Minute)
		f.await(time.Minute, "all begun", func() bool {
			for _, l := range f.rows() {
				if l.checkpoint == trimHorizon {
					return false
				}
			}
			return true
		})
		f.watch(10*time.Second, func() {})
		if f.layout == V35 {
			f.alike(app, "leaseKey", "kcl-3.5.1.single.1-running")
		}
		f.split(f.open()[0])
		f.await(2*time.Minute, "children begun", func() bool {
			rows := f.rows()
			return len(rows) == 4 && !strings.HasPrefix(rows["shardId-000000000002"].checkpoint, "TRIM") && !strings.HasPrefix(rows["shardId-000000000003"].checkpoint, "TRIM")
		})
		f.watch(35*time.Second, func() {}) // a worker row in it, and throughput
		switch f.layout {
		case V27:
			f.alike(app, "leaseKey", "kcl-2.7.2.single.after-split")
		case V34:
			f.alike(app, "leaseKey", "kcl-3.4.2.single.after-split.lease")
			f.alike(app+"-CoordinatorState", "key", "kcl-3.4.2.single.after-split.lease-CoordinatorState")
			f.alike(app+"-WorkerMetricStats", "wid", "kcl-3.4.2.single.after-split.lease-WorkerMetricStats")
		case V35:
			f.alike(app, "leaseKey", "kcl-3.5.1.single.2-after-split")
		}
		f.stopJava("worker-1")
		if f.layout == V35 {
			f.alike(app, "leaseKey", "kcl-3.5.1.single.3-after-shutdown")
		}
		if n := len(f.rows()); n != 4 {
			f.t.Errorf("%d leases are left, want 4: the parent stays for five minutes", n)
		}
		for key, l := range f.rows() {
			if l.owner != "worker-1" {
				f.t.Errorf("%s was released by a Java worker that stopped: owner %q", key, l.owner)
			}
		}
		f.joinJava("worker-2")
	})
}

func TestJavaFleetSharesOut(t *testing.T) {
	each(t, []Version{V34, V35}, 6, onlyHandsOver, func(f *fleet) {
		f.joinJava("java-1")
		f.settle(3 * time.Minute)
		f.joinJava("java-2")
		f.joinJava("java-3")
		f.settle(4 * time.Minute)
	})
	t.Run("2.7.2", func(t *testing.T) {
		within(t, V27, 6, stolen, func(f *fleet) {
			f.joinJava("java-1")
			f.settle(3 * time.Minute)
			f.joinJava("java-2")
			f.joinJava("java-3")
			f.settle(4 * time.Minute)
		})
	})
}

func TestJavaIsKilled(t *testing.T) {
	each(t, versions, 4, stolen, func(f *fleet) {
		f.joinJava("java-1")
		f.settle(3 * time.Minute)
		f.joinJava("java-2")
		f.settle(4 * time.Minute)
		f.killJava("java-1") // the leader of a 3.x fleet
		took := f.settle(5 * time.Minute)
		f.t.Logf("rows name a live worker after %v", took)
		if f.layout >= V34 && (took < 120*time.Second || took > 180*time.Second) {
			f.t.Errorf("rows name a live worker %v after the leader was killed; with the real ones it was 150 to 178 s", took)
		}
	})
}

func TestJavaIsStopped(t *testing.T) {
	each(t, versions, 4, stolen, func(f *fleet) {
		f.joinJava("java-1")
		f.settle(3 * time.Minute)
		f.joinJava("java-2")
		f.settle(4 * time.Minute)
		f.stopJava("java-1")
		if took := f.settle(5 * time.Minute); took < 5*time.Second {
			f.t.Errorf("the leases of a worker that was stopped were taken after %v: Java does not release", took)
		}
	})
}

func TestJavaReshards(t *testing.T) {
	each(t, versions, 3, stolen, func(f *fleet) {
		f.joinJava("java-1")
		f.joinJava("java-2")
		f.settle(5 * time.Minute)
		open := f.open()
		f.split(open[0])
		f.merge(open[1], open[2])
		f.await(4*time.Minute, "ended leases deleted, and the others even", func() bool { return len(f.rows()) == 3 && f.even() })
	})
}

func TestJavaHandsOverInTheMiddleOfABatch(t *testing.T) {
	each(t, []Version{V34, V35}, 4, onlyHandsOver, func(f *fleet) {
		f.joinJava("java-1").pace.set(9 * time.Second)
		f.settle(3 * time.Minute)
		f.joinJava("java-2")
		asked := map[string]bool{}
		for end := time.Now().Add(4 * time.Minute); time.Now().Before(end) && !f.even(); time.Sleep(100 * time.Millisecond) {
			for key, l := range f.rows() {
				if l.checkpointOwner != "" {
					asked[key] = true
				}
			}
		}
		if !f.even() || len(asked) != 2 {
			f.t.Errorf("hand-overs of %v, want two, and an even spread", slices.Collect(maps.Keys(asked)))
		}
	})
}

func TestJavaForcesALateHandOver(t *testing.T) {
	w := Windows{Overlap: 50 * time.Second, Repeat: 50 * time.Second}
	each(t, []Version{V34, V35}, 2, w, func(f *fleet) {
		slow := f.joinJava("java-1")
		f.settle(3 * time.Minute)
		slow.pace.set(75 * time.Second)
		f.joinJava("java-2")
		f.settle(4 * time.Minute)
		slow.pace.set(50 * time.Millisecond)
		f.watch(80*time.Second, func() {})
		late := false
		for _, l := range slow.Log() {
			late = late || strings.Contains(l, "though its processor still runs")
		}
		if !late {
			f.t.Error("nothing was handed over while the processor ran")
		}
	})
}

func TestJavaMovesFrom2xTo3x(t *testing.T) {
	within(t, V35, 4, stolen, func(f *fleet) {
		compatible := func(s *Settings) { s.Compatible = true }
		f.joinJava("java-1", compatible)
		f.joinJava("java-2", compatible)
		f.settle(5 * time.Minute)
		for _, j := range f.java {
			if j.Led() {
				f.t.Errorf("%s follows 3.x though the fleet is moving from 2.x", j.ID())
			}
		}
		f.await(15*time.Minute, "both follow 3.x", func() bool { return f.java["java-1"].Led() && f.java["java-2"].Led() })
		if cv := textOf(f.item(app, "leaseKey", clientVersionKey), "cv"); cv != cvRollback {
			f.t.Errorf("the fleet is at %s, want %s", cv, cvRollback)
		}
		f.setVersion(cv2X)
		f.await(2*time.Minute, "both follow 2.x", func() bool { return !f.java["java-1"].Led() && !f.java["java-2"].Led() })
		f.killJava("java-2")
		f.settle(2 * time.Minute)
	})
}

// V4: what a 3.5 worker or Go worker may write beside the leases is the end of an older worker.
func TestOldJavaFailsOnForeignRows(t *testing.T) {
	for v, fails := range map[Version]bool{V27: true, V34: true, V35: false} {
		t.Run(v.String(), func(t *testing.T) {
			within(t, v, 2, onlyHandsOver, func(f *fleet) {
				f.joinJava("java-1")
				f.settle(3 * time.Minute)
				_, err := f.db.PutItem(f.ctx, &dynamodb.PutItemInput{TableName: aws.String(app), Item: item{"leaseKey": str("somebody"), "lut": num(1), "entityType": str("WORKER_METRIC_STATS")}})
				if err != nil {
					f.t.Fatal(err)
				}
				f.watch(45*time.Second, func() {})
				f.mu.Lock()
				if failed := len(f.faults) > 0; failed != fails {
					f.t.Errorf("fails on a row that is no lease: %v, want %v; %v", failed, fails, f.faults)
				}
				f.faults = nil
				f.mu.Unlock()
				if _, err := f.db.DeleteItem(f.ctx, &dynamodb.DeleteItemInput{TableName: aws.String(app), Key: item{"leaseKey": str("somebody")}}); err != nil {
					f.t.Fatal(err)
				}
			})
		})
	}
}

// setVersion does what the KCL's migration tool does.
func (f *fleet) setVersion(to string) {
	f.t.Helper()
	if err := f.changeVersion(to); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) changeVersion(to string) error {
	w := New(Settings{ID: "tool", Version: f.layout, App: app, DynamoDB: f.db, Fault: f.fault})
	if err := w.findLayout(f.ctx); err != nil {
		return err
	}
	row, at, err := w.readVersion(f.ctx)
	if err != nil || textOf(row, "cv") == to {
		return err
	}
	return w.changeState(f.ctx, at, clientVersionKey, "cv", row, to)
}
