package leases

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardwarden/shardwarden/cmd/shardwarden/internal/leasetable"
	"github.com/shardwarden/shardwarden/core"
)

func TestChanges(t *testing.T) {
	t.Parallel()
	held := func(owner string) leasetable.Lease {
		return leasetable.Lease{Shard: "s", State: leasetable.Held, Owner: owner, Checkpoint: "1", Run: owner + ":1"}
	}
	with := func(l leasetable.Lease, f func(*leasetable.Lease)) leasetable.Lease { f(&l); return l }
	free := leasetable.Lease{Shard: "s", State: leasetable.Free, Checkpoint: "1"}
	kcl := func(f func(*leasetable.KCL)) *leasetable.KCL {
		k := &leasetable.KCL{Layout: "kcl3-tables", Regime: "kcl2", Leader: &leasetable.Leader{Owner: "a"}, ClientVersion: "CLIENT_VERSION_2X"}
		f(k)
		return k
	}
	quiet := func(seconds float64, leases int) []leasetable.Worker {
		return []leasetable.Worker{{ID: "w", Leases: leases, Silence: &leasetable.Silence{Seconds: seconds}}}
	}
	one := func(l leasetable.Lease) leasetable.Report { return leasetable.Report{Leases: []leasetable.Lease{l}} }
	for _, tt := range []struct {
		name        string
		before, now leasetable.Report
		want        []string
	}{
		{"nothing", one(held("a")), one(with(held("a"), func(l *leasetable.Lease) { l.Counter = 9 })), nil},
		{"new", leasetable.Report{}, one(held("a")), []string{"s is new, at 1, of a"}},
		{"gone", one(free), leasetable.Report{}, []string{"s is gone; it was at 1, of nobody"}},
		{"taken", one(free), one(held("a")), []string{"s was taken by a"}},
		{"released", one(held("a")), one(free), []string{"s was released by a"}},
		{"went", one(held("a")), one(held("b")), []string{"s went from a to b"}},
		{"acquired anew", one(held("a")), one(with(held("a"), func(l *leasetable.Lease) { l.Run = "a:2" })), []string{"s was acquired anew by a"}},
		{"asked for", one(held("a")), one(with(held("a"), func(l *leasetable.Lease) { l.Next = "b" })), []string{"s of a is asked for by b"}},
		{"no longer asked for", one(with(held("a"), func(l *leasetable.Lease) { l.Next = "b" })), one(held("a")), []string{"s is no longer asked for by b"}},
		{"handed over", one(with(held("a"), func(l *leasetable.Lease) { l.Next = "b" })), one(held("b")), []string{"s was handed over from a to b"}},
		{"ended", one(held("a")), one(with(held("a"), func(l *leasetable.Lease) { l.State = leasetable.Ended })), []string{"s was read to its end"}},
		{"no longer ended", one(with(free, func(l *leasetable.Lease) { l.State = leasetable.Ended })), one(free), []string{"s, which had ended, is at 1 again"}},
		{"checkpoint", one(free), one(with(free, func(l *leasetable.Lease) { l.Checkpoint = "2" })), []string{"s is at 2"}},
		{"waits no longer", one(with(free, func(l *leasetable.Lease) { l.WaitsFor = []string{"p"} })), one(free), []string{"s no longer waits for its parents"}},
		{"worker", leasetable.Report{}, leasetable.Report{Workers: quiet(0, 0)}, []string{"worker w is new"}},
		{"worker gone", leasetable.Report{Workers: quiet(0, 0)}, leasetable.Report{}, []string{"worker w is gone"}},
		{"worker silent", leasetable.Report{Workers: quiet(14, 1)}, leasetable.Report{Workers: quiet(16, 1)}, []string{"worker w is silent for 16s"}},
		{"worker without leases not yet silent", leasetable.Report{Workers: quiet(14, 0)}, leasetable.Report{Workers: quiet(16, 0)}, nil},
		{"worker alive", leasetable.Report{Workers: quiet(16, 1)}, leasetable.Report{Workers: quiet(1, 1)}, []string{"worker w shows signs of life again"}},
		{"leader", leasetable.Report{KCL: kcl(func(*leasetable.KCL) {})}, leasetable.Report{KCL: kcl(func(k *leasetable.KCL) { k.Leader = nil })}, []string{"leader: nobody instead of a"}},
		{"regime", leasetable.Report{KCL: kcl(func(*leasetable.KCL) {})}, leasetable.Report{KCL: kcl(func(k *leasetable.KCL) { k.Regime, k.ClientVersion = "kcl3", "CLIENT_VERSION_3X_WITH_ROLLBACK" })},
			[]string{"regime: kcl3 instead of kcl2", "client version: CLIENT_VERSION_3X_WITH_ROLLBACK instead of CLIENT_VERSION_2X"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := watching{silent: 15 * time.Second, checkpoints: true}
			if got := o.changes(&tt.before, &tt.now); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A worker that is silent is said to be so once, though others take its leases and an idle worker is given more time; and it is alive only by a sign of life.
func TestSilentWorkerStaysSilent(t *testing.T) {
	t.Parallel()
	o := watching{silent: 15 * time.Second}
	var before leasetable.Report
	for _, tt := range []struct {
		seconds float64
		leases  int
		want    []string
	}{
		{1, 2, []string{"worker w is new"}},
		{14, 2, nil},
		{16, 2, []string{"worker w is silent for 16s"}},
		{18, 0, nil},
		{59, 0, nil},
		{61, 0, nil},
		{63, 0, nil},
		{1, 0, []string{"worker w shows signs of life again"}},
		{62, 0, []string{"worker w is silent for 1m2s"}},
	} {
		now := leasetable.Report{Workers: []leasetable.Worker{{ID: "w", Leases: tt.leases, Silence: &leasetable.Silence{Seconds: tt.seconds}}}}
		if got := o.changes(&before, &now); !slices.Equal(got, tt.want) {
			t.Errorf("after %v s with %d leases: %q, want %q", tt.seconds, tt.leases, got, tt.want)
		}
		before = now
	}
}

// scripted is a lease table whose readings are given.
type scripted struct {
	core.LeaseStore
	looks []any // []core.Lease, or an error
}

func (s *scripted) List(context.Context, ...core.StreamID) iter.Seq2[core.Lease, error] {
	return func(yield func(core.Lease, error) bool) {
		if len(s.looks) == 0 {
			yield(core.Lease{}, errors.New("no more looks"))
			return
		}
		look := s.looks[0]
		s.looks = s.looks[1:]
		switch look := look.(type) {
		case error:
			yield(core.Lease{}, look)
		case []core.Lease:
			for _, l := range look {
				if !yield(l, nil) {
					return
				}
			}
		}
	}
}

// Without a terminal the first look is a list, and then each change is a line. A look that fails ends nothing.
func TestWatchPrintsChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		row := func(owner string) []core.Lease {
			return []core.Lease{{Key: core.LeaseKey{Shard: "s"}, Owner: core.WorkerID(owner), Run: owner + ":1", Checkpoint: core.FromHorizon}}
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 9*time.Second, errors.New("enough"))
		defer cancel()
		table := &leasetable.Table{Name: "app", Service: "memory", Store: &scripted{looks: []any{row("a"), row("a"), errors.New("throttled"), row("b"), row("b"), row("b")}}}
		o := watching{every: 2 * time.Second, silent: time.Minute}
		var out bytes.Buffer
		if err := o.run(ctx, table, &out, false); err == nil || err.Error() != "enough" {
			t.Fatalf("it ended with %v", err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		lines = lines[slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "WORKER") })+2:]
		if len(lines) != 4 || !strings.HasSuffix(lines[0], "could not be read: throttled") || !strings.HasSuffix(lines[1], " s went from a to b") {
			t.Errorf("the lines are %q", lines)
		}
	})
}

// On a terminal each look is drawn over the last one.
func TestWatchDraws(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, errors.New("enough"))
		defer cancel()
		row := []core.Lease{{Key: core.LeaseKey{Shard: "s"}, Checkpoint: core.FromHorizon}}
		table := &leasetable.Table{Name: "app", Service: "memory", Store: &scripted{looks: []any{row, row, row}}}
		o := watching{every: 2 * time.Second, silent: time.Minute}
		var out bytes.Buffer
		if err := o.run(ctx, table, &out, true); err == nil || err.Error() != "enough" {
			t.Fatalf("it ended with %v", err)
		}
		if n := strings.Count(out.String(), "\x1b[H\x1b[2J"+"table app"); n != 2 {
			t.Errorf("it was drawn %d times, want 2: %q", n, out.String())
		}
	})
}
