package main

import (
	"strings"
	"testing"
	"time"
)

func TestExceptionsInALog(t *testing.T) {
	tests := []struct{ name, log, want string }{
		{"nothing", "10 [main] INFO a.b.Scheduler - Created new shardConsumer for : ShardInfo(shardId=s)\n", ""},
		{"an exception with its stack", "10 [x] WARN a.b.C - it failed\njava.lang.NullPointerException: o is null\n\tat a.b.C.Exception(C.java:1)\n", "log:2: java.lang.NullPointerException"},
		{"an error", "10 [x] ERROR a.b.C - it failed\n", "log:1: 10 [x] ERROR a.b.C"},
		{"the same twice", "10 [x] ERROR a.b.C - it failed\n11 [y] ERROR a.b.C - it failed\n", "log:1: 10 [x] ERROR a.b.C"},
		{"of its own shutdown", "java.lang.InterruptedException: sleep interrupted\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(exceptionsIn("log", tt.log), "; ")
			if tt.want == "" && got != "" || !strings.HasPrefix(got, tt.want) || strings.Contains(got, "; ") {
				t.Errorf("exceptions %q, want %q", got, tt.want)
			}
		})
	}
}

func TestLinesOfALog(t *testing.T) {
	const took = "9 [LeaseCoordinator-0000] INFO x - New leases assigned to worker : java2, count : 2, leases : [shardId-000000000006, shardId-000000000009]"
	for _, tt := range []struct {
		name, line string
		is         bool
	}{
		{"one of two", took, true},
		{"none", "9 [x] INFO x - New leases assigned to worker : java2, count : 0, leases : []", false},
		{"of 2.x", "9 [x] INFO x - Worker java1 successfully took 1 leases: shardId-000000000009", true},
		{"another", strings.ReplaceAll(took, "009", "008"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if naming(javaTook, "shardId-000000000009").MatchString(tt.line) != tt.is {
				t.Errorf("%q: matched %v", tt.line, !tt.is)
			}
		})
	}
}

func TestBusyAt(t *testing.T) {
	marks := []delivery{at("a", 5, 1, batchEnd), at("a", 15, 3, batchEnd), at("b", 9, 4, batchEnd), at("a", 9, 5, began)}
	for tenths, want := range map[int]bool{0: false, 3: true, 7: false, 13: true, 20: false} {
		if got := busyAt(marks, "a", "s", at("", tenths, 0, "").after, 400*time.Millisecond); got != want {
			t.Errorf("busy at %d tenths: %v, want %v", tenths, got, want)
		}
	}
}

func TestMidOfAggregate(t *testing.T) {
	type r struct {
		seq string
		sub uint64
	}
	for _, tt := range []struct {
		name    string
		records []r
		want    int
	}{
		{"no record", nil, -1},
		{"none aggregated", []r{{"1", 0}, {"2", 0}}, -1},
		{"the second", []r{{"1", 0}, {"2", 0}, {"2", 1}, {"2", 2}, {"2", 3}, {"3", 0}}, 3},
		{"cut by a page", []r{{"2", 5}, {"2", 6}}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := midOfAggregate(len(tt.records), func(i int) (string, uint64) { return tt.records[i].seq, tt.records[i].sub })
			if got != tt.want {
				t.Errorf("index %d, want %d", got, tt.want)
			}
		})
	}
}
