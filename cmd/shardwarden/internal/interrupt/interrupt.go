// Package interrupt turns signals into an orderly stop, and a second signal into the end.
package interrupt

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// echo is how long after the first signal another counts as the same one: timeout(1) and process managers signal the process and then its
// group, which reaches it twice.
const echo = 500 * time.Millisecond

// Signal is the cause of a context that a signal ended.
type Signal struct{ syscall.Signal }

func (s Signal) Error() string { return s.Signal.String() }

// Status is how shells report a program that a signal ended.
func (s Signal) Status() int { return 128 + int(s.Signal) }

// Context ends, with a [Signal] as its cause, at the first SIGINT or SIGTERM. At the second, half a second later or more, the process exits at once. stop gives signals
// back and waits for nothing.
func Context(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		var first time.Time
		for {
			select {
			case s := <-signals:
				got := Signal{s.(syscall.Signal)}
				if first.IsZero() {
					first = time.Now()
					cancel(got)
				}
				if time.Since(first) < echo {
					continue
				}
				fmt.Fprintf(os.Stderr, "shardwarden: %v again, ending at once\n", got)
				os.Exit(got.Status())
			case <-done:
				return
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); close(done); cancel(nil) }
}
