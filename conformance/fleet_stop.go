package conformance

import (
	"bytes"
	"context"
	"errors"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
)

// stopRules are about workers that stop: design, rule 10.
func stopRules() []rule[makeFleet] {
	return []rule[makeFleet]{
		fleetRule("R10_G14_stop-hands-on-at-once", "when a worker stops, the others read its shards a moment later, and get nothing twice", handsOn),
		fleetRule("R10_stop-while-a-take-is-under-way", "a worker that stops while it takes a lease does not leave it to expire", stopDuringTake),
		fleetRule("G26_nothing-runs-after-the-stop", "when Run has returned, nothing of the worker runs any more", nothingRuns),
		fleetRule("G28_stop-ends-at-its-deadline", "a handler that does not return keeps a stop no longer than its deadline, and the shard it leaves behind is named", stopDeadline),
	}
}

func handsOn(f *fleet) {
	shards := f.shards(2)
	a, b := f.start("a"), f.start("b")
	f.even(len(shards), "a", "b")
	f.fill(2, shards...)
	f.delivered(f.long())
	a.stop()
	f.stopped(a)
	if a.err != nil {
		f.errorf("a clean stop returned %v", a.err)
	}
	for _, l := range f.rows() {
		if l.Owner == "a" && !l.Ended() {
			f.errorf("after the stop the row is %s", show(l))
		}
	}
	f.fill(2, shards...)
	if took := f.delivered(f.long()); took > f.d*6/10 {
		f.errorf("the shards of the worker that stopped were read again %v later; its leases need not expire", took)
	}
	f.calm("leases were handed on")
	f.alive(b)
}

func stopDuringTake(f *fleet) {
	shards := f.shards(1)
	a := f.start("a")
	f.fill(1, shards...)
	f.delivered(f.long())
	a.stop()
	f.stopped(a)
	var struck atomic.Bool
	b := f.start("b", func(m *member, _ *worker.Config) {
		m.store.breaks(linkFault{kind: answerSlow, delay: f.d / 20, match: takes("b"), after: func(linkCall, core.Lease, error) { struck.Store(true) }})
	})
	f.await("a take has arrived", f.long(), struck.Load)
	b.stop()
	f.stopped(b)
	for _, l := range f.rows() {
		if l.Owner == "b" && !l.Ended() {
			f.errorf("after the stop the row is %s", show(l))
		}
	}
	f.start("c")
	f.fill(1, shards...)
	if took := f.delivered(f.long()); took > f.d*6/10 {
		f.errorf("the shard was read again %v after the stop; its lease need not expire", took)
	}
}

// nothingRuns finds what a worker leaves by the label that its goroutines inherit, so that those of other tests don't count.
func nothingRuns(f *fleet) {
	const label = "shardwarden-conformance-leak"
	shards := f.shards(2)
	value := string(f.info.ID) + time.Now().String()
	pprof.Do(f.ctx, pprof.Labels(label, value), func(context.Context) {
		a := f.start("a")
		f.fill(2, shards...)
		f.delivered(f.long())
		heal := a.src.breaks(tapFault{kind: readHangs, next: true, times: 1})
		f.wait(f.d / 4)
		a.stop()
		f.stopped(a)
		heal()
	})
	engine := func() (out []string) {
		var b bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
			f.fatalf("goroutine profile: %v", err)
		}
		for group := range strings.SplitSeq(b.String(), "\n\n") {
			if strings.Contains(group, label) && strings.Contains(group, value) && strings.Contains(group, "/core/worker.") {
				out = append(out, group)
			}
		}
		return out
	}
	for began := time.Now(); len(engine()) > 0; f.pause(20) {
		if time.Since(began) > f.d {
			f.fatalf("%v after the stop these still run:\n%s", f.d, strings.Join(engine(), "\n\n"))
		}
	}
}

func stopDeadline(f *fleet) {
	shards := f.shards(2)
	g := f.gate()
	f.onBatch(func(_ context.Context, _ *member, b *core.Batch) error {
		if b.Shard == shards[0] && len(b.Records) > 0 {
			g.wait()
		}
		return nil
	})
	a := f.start("a")
	f.await("held", f.long(), func() bool { return f.owners()["a"] == len(shards) })
	f.fill(1, shards...)
	f.await("a handler hangs", f.long(), func() bool { return g.in.Load() > 0 })
	ctx, cancel := context.WithTimeout(f.ctx, f.d)
	defer cancel()
	began := time.Now()
	var err error
	if !f.within("Shutdown", func() { err = a.Shutdown(ctx) }) {
		return
	}
	if took := time.Since(began); took > f.d*3/2 {
		f.errorf("Shutdown returned after %v; its deadline was %v", took, f.d)
	}
	left, ok := errors.AsType[*worker.AbandonedError](err)
	if !ok || !slices.Equal(left.Shards, []core.LeaseKey{{Stream: f.info.ID, Shard: shards[0]}}) {
		f.errorf("Shutdown: %v, want an *AbandonedError that names shard %s", err, shards[0])
	}
	for _, l := range f.rows() {
		if l.Key.Shard == shards[1] && l.Owner == "a" {
			f.errorf("the shard whose handler returned was not let go: %s", show(l))
		}
	}
	g.pass()
	f.start("b")
	f.delivered(f.long())
}
