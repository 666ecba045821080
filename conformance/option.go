package conformance

import "time"

// Option changes how a suite runs.
type Option func(*settings)

type settings struct {
	fake     bool
	patience time.Duration
	only     func(rule string) bool
}

// FakeTime runs each rule in a testing/synctest bubble. Harness and adapter must be made of what a bubble can see through: channels and
// timers, in-memory connections; no network, no files that block. [CheckStore] and [CheckSource] have no bubbles and refuse it.
func FakeTime() Option { return func(s *settings) { s.fake = true } }

// Patience is how long a rule waits for one thing to happen before it fails. Default 10 s; a minute under [FakeTime], where it costs nothing.
func Patience(d time.Duration) Option { return func(s *settings) { s.patience = d } }

// Only runs the rules for which f holds. The others are left out of the report.
func Only(f func(rule string) bool) Option { return func(s *settings) { s.only = f } }

func newSettings(opts []Option) settings {
	s := settings{only: func(string) bool { return true }}
	for _, o := range opts {
		o(&s)
	}
	if s.patience <= 0 {
		s.patience = 10 * time.Second
		if s.fake {
			s.patience = time.Minute
		}
	}
	return s
}
