package tablestore

import (
	"net/http"
	"sync/atomic"
	"time"
)

// clock is the service's time, as its answers show it. The zero value is the local time.
type clock struct{ ahead atomic.Int64 } // of the local time, in nanoseconds

// now is never late by more than the local clocks drift apart between two answers: an answer takes time to come, and that is taken for a
// service that is behind.
func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// dated reads the service's time off each answer (docs/reference/tablestore.md 2.4).
type dated struct {
	next  http.RoundTripper
	clock *clock
}

// RoundTrip implements [http.RoundTripper].
func (d *dated) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := d.next.RoundTrip(r)
	if err == nil {
		// A header that makes no sense says nothing.
		if t, e := time.Parse(time.RFC3339Nano, res.Header.Get("X-Ots-Date")); e == nil {
			d.clock.ahead.Store(int64(time.Until(t)))
		}
	}
	return res, err
}

// CloseIdleConnections lets a client that is done with close what it does not use.
func (d *dated) CloseIdleConnections() {
	if c, ok := d.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
