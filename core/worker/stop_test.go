package worker_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// A worker that stops hands its leases to those that are there then, not to one that it saw a look ago and that has stopped since: such a lease
// would wait to expire.
func TestStopsInQuickSuccession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 9, nil)
		a, b := f.start("a"), f.start("b")
		f.start("c")
		f.await("even", time.Minute, func() bool { o := f.owners(); return o["a"] == 3 && o["b"] == 3 && o["c"] == 3 })
		time.Sleep(20 * time.Second)
		a.stop()
		<-a.done
		time.Sleep(10 * time.Millisecond)
		b.stop()
		<-b.done
		took := f.await("c has all", time.Minute, func() bool { return f.owners()["c"] == 9 })
		if took > 3*time.Second {
			t.Errorf("c had all %v after the second stop, at most 3 s", took)
		}
	})
}
