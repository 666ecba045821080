// Package cpuload tells how busy the processors are that this process may use: those of its control group where it runs in a container or under
// a limit, else those of the host. It reads what Linux keeps under /proc and /sys; elsewhere there is no figure.
package cpuload

import (
	"io/fs"
	"os"
	"sync"
	"time"
)

// Meter measures averages. It is safe for concurrent use and starts nothing.
type Meter struct {
	files fs.FS

	mu   sync.Mutex
	last sample
}

// New measures this machine.
func New() *Meter { return NewOf(os.DirFS("/")) }

// NewOf measures by other files, whose names are those under the root of a machine. For tests.
func NewOf(files fs.FS) *Meter { return &Meter{files: files} }

// sample is a state of counters that only grow.
type sample struct {
	of   string // which counters: those of different sources don't compare
	used float64
	// Of what: where it grows with the processors' time it was read with used; else it is processors, and time is the clock's.
	total      float64
	processors float64
	at         time.Time
}

// shortest is what two readings must lie apart: the host counts in hundredths of a second.
const shortest = time.Second

// Average is the load since the last average, in percent of what may be used, between 0 and 100. Not ok: it can't be told here, or there is nothing
// yet to compare with, less than a second of it, or the counters began anew.
func (m *Meter) Average() (percent float64, ok bool) {
	now, err := read(m.files, time.Now())
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.last
	if err != nil {
		m.last = sample{}
		return 0, false
	}
	if before.of == now.of && now.at.Sub(before.at) < shortest {
		return 0, false
	}
	m.last = now
	return now.since(before)
}

func (s sample) since(before sample) (percent float64, ok bool) {
	whole := s.total - before.total
	if s.processors > 0 {
		whole = s.processors * s.at.Sub(before.at).Seconds()
	}
	used := s.used - before.used
	if s.of != before.of || whole <= 0 || used < 0 {
		return 0, false
	}
	return min(100*used/whole, 100), true
}
