package main

import (
	"testing"
	"time"
)

func TestWindowOfAMove(t *testing.T) {
	t0 := time.Unix(1000, 0)
	taken := move{key: "s", from: "a", to: "b", at: t0}
	handed := taken
	handed.given = true
	tests := []struct {
		name    string
		moved   []move
		refused time.Duration // after the move; 0: never
		shard   string
		want    time.Duration
	}{
		{"handed over", []move{handed}, 0, "s", 0},
		{"of another shard", []move{taken}, 0, "x", 0},
		{"taken, and it was not refused anything", []move{taken}, 0, "s", renewal - 500*time.Millisecond + dispatch + time.Second},
		{"taken, and refused its next renewal", []move{taken}, 600 * time.Millisecond, "s", 100*time.Millisecond + dispatch + time.Second},
		{"taken, and refused before the other began", []move{taken}, 100 * time.Millisecond, "s", dispatch + time.Second},
		{"taken, and refused after its lease has run out", []move{taken}, failoverTime + time.Second, "s", renewal - 500*time.Millisecond + dispatch + time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &kclFleet{model: &model{}, rec: &rowRecorder{}}
			if tt.refused > 0 {
				f.rec.no = []refusal{{t0.Add(tt.refused), "s", "a"}}
			}
			if got := f.window(overlap{shard: tt.shard, from: "a", to: "b", at: t0.Add(500 * time.Millisecond)}, tt.moved); got != tt.want {
				t.Errorf("window %v, want %v", got, tt.want)
			}
		})
	}
}

// What may come again: of one that was robbed, but not of one that had stopped in order, or had handed the lease over.
func TestTakenFromTheLiving(t *testing.T) {
	t0 := time.Unix(1000, 0)
	f := &kclFleet{model: &model{}, workers: []*member{
		{consumer: &consumer{worker: "a"}},
		{consumer: &consumer{worker: "c"}, stopped: true, stoppedAt: t0.Add(-time.Second)},
	}}
	out := f.taken([]move{
		{key: "s1", from: "a", to: "b", at: t0, checkpoint: "7", sub: 2},
		{key: "s2", from: "a", to: "b", at: t0, given: true},
		{key: "s3", from: "c", to: "b", at: t0},
		{key: "s4", from: "", to: "b", at: t0},
	})
	if len(out) != 1 || out[0].worker != "a" || out[0].checkpoints["s1"] != "7" || out[0].subs["s1"] != 2 {
		t.Errorf("taken %+v, want s1 of a at 7 sub 2", out)
	}
}

// A worker that gives a shard up as lost may be followed by what was not stored then, and by nothing before that.
func TestLostByTheirOwnClock(t *testing.T) {
	f := &kclFleet{model: &model{}}
	states := []rowState{
		{time.Unix(1000, 0), "a", row("leaseOwner=a", "checkpoint=7")},
		{time.Unix(1002, 0), "b", row("leaseOwner=b", "checkpoint=9")},
	}
	lost := delivery{worker: "a", shard: "s", mark: gaveUp, before: time.Unix(1001, 0)}
	out := f.lost([]delivery{lost, {worker: "a", shard: "s", mark: asked, before: time.Unix(1001, 0)}}, map[string][]rowState{"s": states, "x": states})
	if len(out) != 1 || out[0].worker != "a" || out[0].checkpoints["s"] != "7" {
		t.Errorf("lost %+v, want s of a at 7", out)
	}
}
