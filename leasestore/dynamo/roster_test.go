package dynamo_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// metricRow is a row of a worker as Java writes it, so many seconds ago by its own clock.
func metricRow(keyAttr, id string, ago int64, sts, opr string) string {
	return fmt.Sprintf(`{%q:{"S":%q},"lut":{"N":"%d"},"sts":{"M":{%s}},"opr":{"M":{%s}}}`, keyAttr, id, time.Now().Unix()-ago, sts, opr)
}

const (
	cpuRange = `"C":{"L":[{"N":"100"}]}`
	cpuStats = `"C":{"L":[{"N":"5"},{"N":"61.5"}]}`
)

// Who is listed of the workers in Java's tables: those that its leader would give leases to, and nobody who is long gone.
func TestRoster(t *testing.T) {
	for _, layout := range []dynamo.LayoutKind{dynamo.KCL3Tables, dynamo.KCL3Single} {
		t.Run(layout.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := serve(t, emulator.Config{})
				srv.external(true) // no network in a bubble
				s := srv.ready(t, dynamo.Layout(layout))
				key := "leaseKey"
				put := func(rows ...string) { srv.put(t, rows...) }
				if layout == dynamo.KCL3Tables {
					key = "wid"
					put = func(rows ...string) { srv.putIn(t, metricsTable, rows...) }
				}
				row := func(id string, ago int64, sts, opr string) {
					r := metricRow(key, id, ago, sts, opr)
					if layout == dynamo.KCL3Single {
						r = strings.Replace(r, "{", `{"entityType":{"S":"WORKER_METRIC_STATS"},`, 1)
					}
					put(r)
				}
				listed := func() string {
					time.Sleep(11 * time.Second) // what is known of the metrics is not older
					return fmt.Sprint(slices.Sorted(maps.Keys(workers(t, s))))
				}
				row("fresh", 0, cpuStats, cpuRange)
				row("default", 20, "", "")
				row("crashed", 600, cpuStats, cpuRange)
				row("no-range", 0, cpuStats, "")
				row("range-of-nothing", 0, cpuStats, `"C":{"L":[{"N":"0"}]}`)
				row("failing", 0, `"C":{"L":[{"N":"50"},{"N":"-1"}]}`, cpuRange)
				put(strings.Replace(strings.Replace(metricRow(key, "timeless", 0, cpuStats, cpuRange), `"lut":{"N":`, `"other":{"N":`, 1), "{", `{"entityType":{"S":"WORKER_METRIC_STATS"},`, 1))
				must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "go"}))
				if got := listed(); got != "[default fresh go]" {
					t.Errorf("listed: %s, want [default fresh go]", got)
				}
				w := workers(t, s)["fresh"]
				if w.Every != 30*time.Second || fmt.Sprint(w.Load) != "map[cpu:33.25]" {
					t.Errorf("a worker of Java's is %+v", w)
				}

				// One whose clock is an hour behind is seen once its row moves, and as long as it does.
				row("slow-clock", 3600, cpuStats, cpuRange)
				if got := listed(); got != "[default fresh go]" {
					t.Errorf("listed with one whose clock is behind: %s", got)
				}
				for range 4 {
					time.Sleep(19 * time.Second)
					row("slow-clock", 3600, cpuStats, cpuRange)
					row("fresh", 0, cpuStats, cpuRange)
					must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "go"}))
					if got := listed(); !strings.Contains(got, "slow-clock") || !strings.Contains(got, "fresh") {
						t.Errorf("listed while both renew: %s", got)
					}
				}
				// One from the future makes nobody old.
				row("future", -7200, cpuStats, cpuRange)
				row("fresh", 0, cpuStats, cpuRange)
				if got := listed(); got != "[fresh future go slow-clock]" {
					t.Errorf("listed with one whose clock is ahead: %s", got)
				}
				// Both fall silent.
				time.Sleep(2 * time.Minute)
				row("fresh", 0, cpuStats, cpuRange)
				if got := listed(); strings.Contains(got, "slow-clock") {
					t.Errorf("listed after it fell silent: %s", got)
				}
			})
		})
	}
}

// A Java worker under the id of a former worker of ours writes its row in part, and leaves our beat there: it lives by its own.
func TestRosterOfAnIDThatJavaTookOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serve(t, emulator.Config{})
		srv.external(true) // no network in a bubble
		s := srv.ready(t, dynamo.Layout(dynamo.KCL3Single))
		must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "w", Beat: "p.1"}))
		if w := workers(t, s)["w"]; w.Beat != "p.1" {
			t.Errorf("ours is %+v", w)
		}
		beats := map[string]bool{}
		for range 3 {
			time.Sleep(30 * time.Second)
			_, err := srv.sdk().UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
				TableName: new(app), Key: item(t, `{"leaseKey":{"S":"w"}}`), UpdateExpression: new("SET lut = :t, sts = :e, opr = :e"),
				ExpressionAttributeValues: item(t, fmt.Sprintf(`{":t":{"N":"%d"},":e":{"M":{}}}`, time.Now().Unix())),
			})
			must(t, err)
			beats[workers(t, s)["w"].Beat] = true
		}
		if len(beats) != 3 || beats["p.1"] {
			t.Errorf("Java's beats are %v, want one for each time it wrote", beats)
		}
		must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "w", Beat: "q.1"}))
		if w := workers(t, s)["w"]; w.Beat != "q.1" {
			t.Errorf("ours again is %+v", w)
		}
	})
}

// A worker whose own clock is wrong sees the others all the same, at the latest when they renew.
func TestRosterWithAWrongClockOfOurs(t *testing.T) {
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := serve(t, emulator.Config{})
				srv.external(true) // no network in a bubble
				s := srv.ready(t, dynamo.Layout(dynamo.KCL3Single))
				row := func(id string, ago int64) {
					srv.put(t, strings.Replace(metricRow("leaseKey", id, ago+int64(off/time.Second), cpuStats, cpuRange), "{", `{"entityType":{"S":"WORKER_METRIC_STATS"},`, 1))
				}
				row("java", 0)
				row("crashed", 600)
				must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "go"}))
				got := workers(t, s)
				if _, seen := got["java"]; !seen {
					t.Errorf("listed: %v", got)
				}
			})
		})
	}
}

// Where workers only take, nobody is listed, so that shares are worked out as Java's do: by who owns leases.
func TestNobodyListedAmongTakers(t *testing.T) {
	srv := serve(t, emulator.Config{})
	makeTable(t, srv, app, "leaseKey")
	srv.put(t, untypedLease, versionRow("leaseKey", "CLIENT_VERSION_UPGRADE_FROM_2X"), javaWorker)
	s := srv.ready(t, dynamo.Layout(dynamo.Auto))
	must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "go"}))
	if got := workers(t, s); len(got) != 0 || srv.row(t, "go") == "" {
		t.Errorf("listed %v; row %q", got, srv.row(t, "go"))
	}
}

// The row holds the last ten averages of the load, oldest first, each of half a minute, as Java's.
func TestAverages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serve(t, emulator.Config{})
		srv.external(true) // no network in a bubble
		machine := fstest.MapFS{"proc/stat": {Data: []byte("cpu 0 0 0 0 0")}}
		s := srv.ready(t, dynamo.Layout(dynamo.KCL3Single))
		dynamo.Measure(s, machine)
		quiet := srv.ready(t, dynamo.Layout(dynamo.KCL3Single), dynamo.NoWorkerMetrics())
		announce := func() {
			must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "go"}))
			must(t, quiet.Announce(t.Context(), core.WorkerInfo{ID: "quiet", Load: map[string]float64{"cpu": 5}}))
		}
		announce()
		if row := srv.row(t, "go"); !strings.Contains(row, "sts=M{} ") || !strings.Contains(row, "opr=M{} ") {
			t.Errorf("before anything was measured: %s", row)
		}
		used := 0
		for i := range 13 {
			time.Sleep(15 * time.Second)
			announce() // in between, as a worker without leases does
			time.Sleep(15 * time.Second)
			used += i
			machine["proc/stat"] = &fstest.MapFile{Data: fmt.Appendf(nil, "cpu %d 0 0 %d 0", used, 100*(i+1)-used)}
			announce()
		}
		row := srv.row(t, "go")
		if want := "sts=M{C=L[N 3,N 4,N 5,N 6,N 7,N 8,N 9,N 10,N 11,N 12]}"; !strings.Contains(row, want) || !strings.Contains(row, "opr=M{C=L[N 100]}") {
			t.Errorf("row\n%s, want in it\n%s", row, want)
		}
		if cpu := workers(t, s)["go"].Load["cpu"]; cpu < 11 || cpu > 11.01 {
			t.Errorf("the load read back is %v, want the last averages smoothed", cpu)
		}
		if row := srv.row(t, "quiet"); !strings.Contains(row, "sts=M{} ") || !strings.Contains(row, "opr=M{} ") {
			t.Errorf("without metrics: %s", row)
		}
	})
}

// Rows of Java's workers that are long dead are removed by whoever leads, in either table, unless they come to life.
func TestLeaderSweeps(t *testing.T) {
	for _, layout := range []dynamo.LayoutKind{dynamo.KCL3Tables, dynamo.KCL3Single} {
		synctest.Test(t, func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			srv.external(true) // no network in a bubble
			s := srv.ready(t, dynamo.Layout(layout))
			old := metricRow("leaseKey", "old", 2*24*3600, "", "")
			there := func() bool { return srv.row(t, "old") != "" }
			if layout == dynamo.KCL3Tables {
				srv.putIn(t, metricsTable, strings.Replace(old, "leaseKey", "wid", 1))
				there = func() bool { return srv.rowIn(t, metricsTable, "wid", "old") != "" }
			} else {
				srv.put(t, strings.Replace(old, "{", `{"entityType":{"S":"WORKER_METRIC_STATS"},`, 1))
			}
			round := func() {
				for range 2 {
					time.Sleep(11 * time.Second)
					must(t, s.Announce(t.Context(), core.WorkerInfo{ID: "go"}))
					workers(t, s)
				}
			}
			round()
			if !there() {
				t.Fatalf("%s: removed by one that does not lead", layout)
			}
			l, err := s.Lead(t.Context(), core.Lock{}, "go")
			must(t, err)
			round()
			if there() {
				t.Errorf("%s: still there though we lead", layout)
			}
			must(t, s.Resign(t.Context(), l))
		})
	}
}

// A coordinator's table without that of the metrics is a mistake that is told; leases are seen all the same.
func TestMetricsTableMissing(t *testing.T) {
	srv := serve(t, emulator.Config{})
	makeTable(t, srv, app, "leaseKey")
	makeTable(t, srv, coordinatorTable, "key")
	srv.putIn(t, coordinatorTable, versionRow("key", version3))
	srv.put(t, untypedLease)
	s := srv.ready(t, dynamo.Layout(dynamo.Auto))
	sight, err := s.Look(t.Context(), stream)
	must(t, err)
	if said := srv.log.lines(metricsTable); len(sight.Leases) != 1 || len(said) != 1 || !strings.Contains(said[0], "SideTables") {
		t.Errorf("%d leases; log %q", len(sight.Leases), said)
	}
	expect(t, "announce", s.Announce(t.Context(), core.WorkerInfo{ID: "go"}), core.ErrNotFound, metricsTable, "kcl3-tables")
}

// A coordinator's table that is just being made is waited for, since it decides where rows go.
func TestCoordinatorsTableComing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serve(t, emulator.Config{CreateDelay: 20 * time.Second})
		srv.external(true) // no network in a bubble
		srv.ready(t)
		makeTable(t, srv, coordinatorTable, "key")
		start := time.Now()
		s := srv.ready(t, dynamo.Layout(dynamo.Auto))
		if got := s.SharedWith().Regime; got != "kcl3" || time.Since(start) < 20*time.Second {
			t.Errorf("regime %s after %v", got, time.Since(start))
		}
	})
}
