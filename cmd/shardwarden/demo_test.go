package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// outcome is the last line of a demo.
type outcome struct {
	Backend                                       string
	Shards, Workers                               int
	Produced                                      int `json:"records_produced"`
	Delivered                                     int `json:"records_delivered"`
	Distinct, Missing, Duplicates, Splits, Merges int
	Order                                         int `json:"order_violations"`
	Parents                                       int `json:"parent_violations"`
	Killed                                        int `json:"workers_killed"`
	Handovers                                     int
	Failover                                      int `json:"failover_ms"`
	Elapsed                                       int `json:"elapsed_ms"`
}

var lastLine = regexp.MustCompile(`^\{"backend":"\w+","shards":\d+,"workers":\d+,"records_produced":\d+,"records_delivered":\d+,"distinct":\d+,"missing":\d+,` +
	`"duplicates":\d+,"order_violations":\d+,"parent_violations":\d+,"splits":\d+,"merges":\d+,"workers_killed":\d+,"handovers":\d+,"failover_ms":\d+,"elapsed_ms":\d+\}$`)

func show(t *testing.T, status int, args ...string) (outcome, string) {
	t.Helper()
	p := start(t, nil, append([]string{"demo"}, args...)...)
	lines := p.rest()
	p.wantExit(status)
	text := strings.Join(lines, "\n")
	if len(lines) == 0 || !lastLine.MatchString(lines[len(lines)-1]) {
		t.Fatalf("last line of:\n%s", text)
	}
	var o outcome
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &o); err != nil {
		t.Fatal(err)
	}
	if o.Delivered != o.Distinct+o.Duplicates || o.Distinct+o.Missing != o.Produced {
		t.Errorf("the figures contradict each other: %+v", o)
	}
	if t.Failed() {
		t.Log(text)
	}
	return o, text
}

func TestDemo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args []string
		want outcome
	}{
		{"as it is, with fewer records", []string{"--records", "5000"}, outcome{Backend: "kinesis", Shards: 4, Workers: 3, Produced: 5000, Splits: 2, Merges: 1, Killed: 1}},
		{"tablestore", []string{"--backend", "tablestore", "--records", "5000"}, outcome{Backend: "tablestore", Shards: 4, Workers: 3, Produced: 5000, Splits: 2, Merges: 1, Killed: 1}},
		{"memory", []string{"--backend", "memory", "--records", "5000", "--shards", "8", "--workers", "5", "--reshards", "6", "--kills", "2", "--seed", "9"},
			outcome{Backend: "memory", Shards: 8, Workers: 5, Produced: 5000, Splits: 4, Merges: 2, Killed: 2}},
		{"one of each, nothing happens", []string{"--backend", "memory", "--records", "10", "--shards", "1", "--workers", "1", "--reshards", "0", "--kills", "0"},
			outcome{Backend: "memory", Shards: 1, Workers: 1, Produced: 10}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, text := show(t, 0, tt.args...)
			want := tt.want
			want.Distinct = want.Produced
			want.Delivered, want.Duplicates, want.Handovers, want.Failover, want.Elapsed = got.Delivered, got.Duplicates, got.Handovers, got.Failover, got.Elapsed
			if got != want {
				t.Errorf("\n got %+v\nwant %+v\n%s", got, want, text)
			}
			if replica := "A replica of the table, built from the changes alone, equals the table"; strings.Contains(text, replica) != (want.Backend == "tablestore") {
				t.Errorf("of the replica:\n%s", text)
			}
			if got.Elapsed <= 0 || (want.Killed > 0) != (got.Failover > 0) || want.Killed > 0 && got.Handovers == 0 {
				t.Errorf("%+v\n%s", got, text)
			}
		})
	}
}

func TestDemoSabotage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind string
		args []string
		ok   func(outcome) bool
		says string
	}{
		{"skip", nil, func(o outcome) bool { return o.Missing > 0 && o.Order+o.Parents == 0 }, "never came to a handler"},
		{"repeat", nil, func(o outcome) bool { return o.Duplicates > 0 && o.Missing+o.Order+o.Parents == 0 }, "given twice to one processor"},
		{"reorder", nil, func(o outcome) bool { return o.Order > 0 && o.Missing+o.Parents == 0 }, "out of the order of their key"},
		{"early-child", nil, func(o outcome) bool { return o.Parents > 0 && o.Missing == 0 }, "before those of its parents"},
		{"early-child", []string{"--backend", "kinesis"}, func(o outcome) bool { return o.Parents > 0 && o.Missing == 0 }, "before those of its parents"},
		{"early-child", []string{"--backend", "tablestore"}, func(o outcome) bool { return o.Parents > 0 && o.Missing == 0 }, "before those of its parents"},
		{"skip", []string{"--backend", "tablestore"}, func(o outcome) bool { return o.Missing > 0 && o.Order+o.Parents == 0 }, "a replica of the table, built from the changes, differs from it"},
	} {
		t.Run(tt.kind+strings.Join(tt.args, " "), func(t *testing.T) {
			t.Parallel()
			o, text := show(t, 1, append([]string{"--backend", "memory", "--records", "3000", "--reshards", "1", "--kills", "0", "--sabotage", tt.kind}, tt.args...)...)
			if !tt.ok(o) || !strings.Contains(text, tt.says) || !strings.Contains(text, "NOT well") {
				t.Errorf("sabotage %s was not reported as such:\n%s", tt.kind, text)
			}
		})
	}
}

func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "demo", "--records", "2000")
	p.line()
	p.line()
	p.signal(syscall.SIGINT)
	if text := strings.Join(p.rest(), "\n"); strings.Contains(text, "{") {
		t.Errorf("figures of a demo that was stopped:\n%s", text)
	}
	p.wantExit(130)
}
