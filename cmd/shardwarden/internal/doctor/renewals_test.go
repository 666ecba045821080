package doctor

import (
	"strconv"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// The pace of renewals is told from samples of the counters, to within what the time between samples allows.
func TestRenewals(t *testing.T) {
	t.Parallel()
	const pitch = 500 * time.Millisecond
	type owner struct {
		run           string
		every, stores time.Duration              // its renewals and, beside them, its checkpoints
		rides         bool                       // its renewals store checkpoints
		more          func(i int, l *core.Lease) // what else happens to the lease at sample i
	}
	for _, tt := range []struct {
		name  string
		owner owner
		long  time.Duration
		want  time.Duration // lease duration; 0: cannot be told
	}{
		{"Java at its default", owner{every: 3308 * time.Millisecond}, 20 * time.Second, 10 * time.Second},
		{"Java with 30 s", owner{every: 9975 * time.Millisecond}, 40 * time.Second, 30 * time.Second},
		{"Java with 3 s", owner{every: 975 * time.Millisecond}, 20 * time.Second, 3 * time.Second},
		{"Java that stores checkpoints", owner{every: 3308 * time.Millisecond, stores: 1700 * time.Millisecond}, 20 * time.Second, 10 * time.Second},
		{"Java that stores checkpoints, 30 s", owner{every: 9975 * time.Millisecond, stores: 1450 * time.Millisecond}, 60 * time.Second, 30 * time.Second},
		{"Java that stores checkpoints, 3 s", owner{every: 975 * time.Millisecond, stores: 5100 * time.Millisecond}, 20 * time.Second, 3 * time.Second},
		{"Java that stores checkpoints more often than is looked", owner{every: 3308 * time.Millisecond, stores: 200 * time.Millisecond}, 20 * time.Second, 0},
		{"ours at its default", owner{run: "w:1", every: 4 * time.Second}, 20 * time.Second, 10 * time.Second},
		{"ours, each renewal with a checkpoint", owner{run: "w:1", every: 4 * time.Second, rides: true}, 20 * time.Second, 10 * time.Second},
		{"watched too short", owner{every: 3308 * time.Millisecond}, 5 * time.Second, 0},
		{"silent", owner{every: time.Hour}, 20 * time.Second, 0},
		{"taken meanwhile", owner{every: time.Second, more: func(i int, l *core.Lease) {
			if i > 20 {
				l.Owner = "other"
			}
		}}, 20 * time.Second, 0},
		{"nobody's", owner{every: time.Second, more: func(_ int, l *core.Lease) { l.Owner = core.Nobody }}, 20 * time.Second, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var samples []Sample
			for at := time.Duration(0); at <= tt.long; at += pitch {
				renewed := int64((at + pitch/3) / tt.owner.every)
				l := core.Lease{Key: core.LeaseKey{Shard: "s"}, Owner: "w", Run: tt.owner.run, Checkpoint: core.Position{Token: "1"}, Counter: 7 + renewed}
				if tt.owner.rides {
					l.Checkpoint.Token = strconv.FormatInt(renewed, 10)
				}
				if tt.owner.stores > 0 {
					stored := int64(at / tt.owner.stores)
					l.Counter += stored
					l.Checkpoint.Token = strconv.FormatInt(stored, 10)
				}
				if tt.owner.more != nil {
					tt.owner.more(len(samples), &l)
				}
				samples = append(samples, Sample{now.Add(at), []core.Lease{l}})
			}
			r, told := renewals(samples)["w"]
			if told != (tt.want > 0) {
				t.Fatalf("%+v, told %v", r, told)
			}
			if off := r.Lease - tt.want; told && (max(off, -off) > r.Give || r.Give > tt.want/5) {
				t.Errorf("lease duration %v, give or take %v; want %v", r.Lease, r.Give, tt.want)
			}
			if r.AtLeast != tt.owner.rides {
				t.Errorf("%+v: it is so at least: %v, want %v", r, r.AtLeast, tt.owner.rides)
			}
		})
	}
}

// Of an owner's leases the one at rest tells most, and then the one by which least is in doubt.
func TestClearestLeaseTells(t *testing.T) {
	t.Parallel()
	best := Renewal{Lease: 10 * time.Second, Give: time.Second}
	for name, r := range map[string]Renewal{
		"more in doubt":   {Lease: 10 * time.Second, Give: 2 * time.Second},
		"a busy one":      {Lease: 20 * time.Second, AtLeast: true},
		"a busy one of 0": {AtLeast: true},
	} {
		if r.clearer(best) || !best.clearer(r) {
			t.Errorf("%s is clearer", name)
		}
	}
	if long, short := (Renewal{Lease: 20 * time.Second, AtLeast: true}), (Renewal{Lease: 10 * time.Second, AtLeast: true}); !long.clearer(short) || short.clearer(long) {
		t.Error("of two that are so at least the longer tells more")
	}
}
