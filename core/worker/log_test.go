package worker_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
)

// logged starts a worker that logs from level info on, as users do, and returns the lines so far.
func (f *fleet) logged(id string) (m *member, lines func() []string) {
	f.t.Helper()
	var b bytes.Buffer
	m = f.start(id, worker.WithLogger(slog.New(slog.NewTextHandler(&b, nil))))
	return m, func() []string {
		synctest.Wait() // nobody writes now
		return strings.FieldsFunc(b.String(), func(r rune) bool { return r == '\n' })
	}
}

func grep(lines []string, words ...string) (out []string) {
	for _, l := range lines {
		all := true
		for _, w := range words {
			all = all && strings.Contains(l, w)
		}
		if all {
			out = append(out, l)
		}
	}
	return out
}

// What is normal is no warning, and where nothing happens nothing is logged (field case F113).
func TestQuietFleetLogsLittle(t *testing.T) {
	bubble(t, 8, nil, func(t *testing.T, f *fleet) {
		a, linesA := f.logged("a")
		f.put(80, 20)
		f.await("a holds all", time.Minute, func() bool { return f.owners()["a"] == 8 && f.allDelivered() })
		_, linesB := f.logged("b")
		f.await("even", time.Minute, func() bool { return f.owners()["a"] == 4 && f.owners()["b"] == 4 })
		f.split(f.open()[0])
		f.merge(f.open()[1], f.open()[2])
		f.put(80, 20)
		f.await("delivered", time.Minute, f.allDelivered)
		f.await("even", time.Minute, func() bool { return f.owners()["a"] == 4 && f.owners()["b"] == 4 })
		time.Sleep(10 * time.Minute) // finished leases are deleted
		before := len(linesA()) + len(linesB())
		for range 60 {
			f.put(80, 20)
			time.Sleep(time.Minute)
		}
		if n := len(linesA()) + len(linesB()) - before; n > 0 {
			t.Errorf("%d lines in an hour in which nothing but records came:\n%s", n, strings.Join(append(linesA(), linesB()...)[before:], "\n"))
		}
		a.stop()
		<-a.done
		f.await("b holds all", time.Minute, func() bool { return f.owners()["b"] == 8 })
		all := append(linesA(), linesB()...)
		if bad := append(grep(all, "level=WARN"), grep(all, "level=ERROR")...); len(bad) > 0 {
			t.Errorf("warnings though nothing was wrong:\n%s", strings.Join(bad, "\n"))
		}
		for _, l := range all {
			if !strings.Contains(l, " worker=a") && !strings.Contains(l, " worker=b") {
				t.Errorf("a line without its worker: %s", l)
			}
			if aboutLease := strings.Contains(l, "lease ") || strings.Contains(l, "shard "); aboutLease && !(strings.Contains(l, " stream=orders:") && strings.Contains(l, " shard=shardId-")) {
				t.Errorf("a line about a lease without stream and shard: %s", l)
			}
		}
		if len(grep(all, `msg="shard started"`)) == 0 || len(all) > 150 {
			t.Errorf("%d lines for two starts, 10 shards, a join, a split, a merge and a stop", len(all))
		}
	})
}

// A state that lasts is told of when it begins, and seldom after that.
func TestLastingTroubleIsNotRepeatedForEver(t *testing.T) {
	bubble(t, 3, func(c *worker.Config) { c.MaxLeases = 2 }, func(t *testing.T, f *fleet) {
		_, lines := f.logged("a")
		time.Sleep(time.Hour)
		if n := len(grep(lines(), "level=WARN")); n < 1 || n > 61 {
			t.Errorf("%d warnings of one lease that nobody may hold, in an hour: at most one a minute", n)
		}
	})
}

// A shard that moves without a checkpoint in manual mode comes again from its beginning: that is said, once for each shard. In automatic mode it
// goes on where it stood (field case F47).
func TestMoveWithoutACheckpoint(t *testing.T) {
	for mode, manual := range map[worker.CheckpointMode]bool{worker.Automatic: false, worker.Manual: true} {
		bubble(t, 2, func(c *worker.Config) { c.Checkpoints = mode }, func(t *testing.T, f *fleet) {
			_, lines := f.logged("a")
			f.put(50, 10)
			f.await("delivered", time.Minute, f.allDelivered)
			f.start("b")
			f.await("even", time.Minute, func() bool { return f.owners()["a"] == 1 && f.owners()["b"] == 1 })
			time.Sleep(time.Minute)
			warned := grep(lines(), "level=WARN", "without any checkpoint")
			var moved core.ShardID
			for _, l := range f.table.Rows() {
				if l.Owner == "b" {
					moved = l.Key.Shard
				}
			}
			if manual != (len(warned) == 1 && strings.Contains(warned[0], string(moved))) || manual != (f.duplicates() > 0) || !manual && len(warned) > 0 {
				t.Errorf("manual %v: %d records came again, and it was said of %s: %q", manual, f.duplicates(), moved, warned)
			}
		})
	}
}

// Leases win over a configured start, and one line says so (field case F58).
func TestLeasesWinOverTheStart(t *testing.T) {
	bubble(t, 2, nil, func(t *testing.T, f *fleet) {
		a := f.start("a")
		f.put(20, 5)
		f.await("delivered", time.Minute, f.allDelivered)
		a.stop()
		<-a.done
		f.put(20, 5) // behind the checkpoint, and older than the start that b is given
		time.Sleep(time.Minute)
		f.config = func(c *worker.Config) {
			all, _ := c.Streams.Streams(context.Background())
			c.Streams = worker.One(all[0].Source, core.FromLatest)
		}
		_, lines := f.logged("b")
		f.await("delivered", time.Minute, f.allDelivered)
		f.check()
		if f.duplicates() != 0 || len(grep(lines(), "leases exist", "worker=b")) != 1 {
			t.Errorf("%d duplicates; %q", f.duplicates(), lines())
		}
	})
}
