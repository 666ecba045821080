package dynamo

import (
	"slices"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// A worker's row holds the last ten averages of its load, of some 30 seconds each, as Java's do (noOfPersistedMetricsPerWorkerMetrics).
const (
	mostAverages = 10
	averageOver  = 25 * time.Second // with some room for the announcement that comes early
)

type averaged struct {
	cpu []float64 // oldest first
	at  time.Time // of the last
}

// averages are those to write with an announcement. What the worker says of its load goes before what is measured here.
func (s *Store) averages(w core.WorkerInfo) []float64 {
	if s.noMetrics {
		return nil
	}
	said, ok := w.Load[loadCPU]
	if !ok && s.kind == Native {
		return nil
	}
	now := time.Now()
	s.mu.Lock()
	a := s.loads[w.ID]
	s.mu.Unlock()
	due := len(a.cpu) == 0 || now.Sub(a.at) >= averageOver
	if !ok {
		if !due {
			return a.cpu
		}
		if said, ok = s.meter.Average(); !ok {
			return a.cpu
		}
	}
	cpu := slices.Clone(a.cpu)
	if due {
		a.at = now
		cpu = append(cpu, said)
	} else { // announced again before its time
		cpu[len(cpu)-1] = said
	}
	a.cpu = cpu[max(0, len(cpu)-mostAverages):]
	s.mu.Lock()
	s.loads[w.ID] = a
	s.mu.Unlock()
	return a.cpu
}
