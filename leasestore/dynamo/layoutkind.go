package dynamo

import (
	"fmt"
	"strings"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// LayoutKind says where the rows of a fleet stand, and with whom the table is shared.
type LayoutKind uint8

const (
	// Native is a table of ours alone, in the rows of KCL 3.5. A worker of another library that renews leases in it ends ours
	// ([core.ErrForeignWorker]).
	Native LayoutKind = iota
	// Auto is whatever is found: the layout and the rules are told by what is in the table, and followed while they change. Where there is
	// nothing of the KCL the table is as a native one that Java workers of KCL 3.5 and later may join.
	Auto
	// KCL2 is the table of KCL 1.x and 2.x: leases alone, without entityType. Nothing else is ever written to it, so KCL 2.x may join at any time.
	KCL2
	// KCL3Tables is that of KCL 3.0 to 3.4: the leases, and tables of their own for the coordinator's rows and for the workers' metrics.
	KCL3Tables
	// KCL3Single is that of KCL 3.5 and later: everything in the lease table.
	KCL3Single
)

var layoutNames = [...]string{"native", "auto", "kcl2", "kcl3-tables", "kcl3-single"}

// String is the name that [ParseLayout] takes.
func (k LayoutKind) String() string {
	if int(k) < len(layoutNames) {
		return layoutNames[k]
	}
	return fmt.Sprintf("layout %d", uint8(k))
}

// ParseLayout is the layout of that name: native, auto, kcl2, kcl3-tables or kcl3-single.
func ParseLayout(name string) (LayoutKind, error) {
	for k, n := range layoutNames {
		if n == name {
			return LayoutKind(k), nil
		}
	}
	return Native, fmt.Errorf("layout %q: must be one of %s: %w", name, strings.Join(layoutNames[:], ", "), core.ErrInvalid)
}

// Layout lets workers of the Java KCL share the table, by their rules. All workers of an application say the same, but for Auto, which goes with each.
func Layout(kind LayoutKind) Option { return func(s *settings) { s.kind = kind } }

// SideTables names the tables of the coordinator and of the workers' metrics, where they are not called <application>-CoordinatorState and
// <application>-WorkerMetricStats. An empty name stands for that default.
func SideTables(coordinator, metrics string) Option {
	return func(s *settings) { s.coordinatorTable, s.metricsTable = coordinator, metrics }
}

// LeaderLease is what a worker that leads writes into the lock as its duration, for others to wait for when it dies. Default 30 s; Java's is two
// minutes.
func LeaderLease(d time.Duration) Option { return func(s *settings) { s.leaderLease = d } }

// MetricsEvery is how often the workers of a fleet of KCL 3 write the rows by which they are known to live: workerMetricsReporterFreqInMillis of its
// Java workers, for which one that has not for twice as long is dead. Default 30 s, as theirs. Rows are written with looks, so not more often than
// worker.Config.LookEvery.
func MetricsEvery(d time.Duration) Option { return func(s *settings) { s.metricsEvery = d } }

// NoWorkerMetrics keeps CPU figures out of the worker's row, as disableWorkerMetrics does in the KCL. Its leader then judges the worker by the
// throughput of its leases.
func NoWorkerMetrics() Option { return func(s *settings) { s.noMetrics = true } }
