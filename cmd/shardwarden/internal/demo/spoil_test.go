package demo

import (
	"context"
	"errors"
	"testing"
)

// run lets records of several keys flow through a spoiler in batches, as an engine that is correct gives them, and judges the outcome.
func spoilt(t *testing.T, kind string) (*spoiler, verdict) {
	t.Helper()
	const keys, each, batch = 7, 90, 5
	s, err := newSpoiler(kind, 3)
	if err != nil {
		t.Fatal(err)
	}
	l := newLedger(keys)
	var all []item
	for n := range int32(each) {
		for k := range int32(keys) {
			id := recordID{k, n}
			l.put(k, "p", sequence("p", id))
			all = append(all, item{id: id, sequence: sequence("p", id)})
		}
	}
	e := l.begin("W", "p")
	for i := 0; i < len(all); i += batch {
		in := all[i:min(i+batch, len(all))]
		l.deliver(e, s.pass("p", e, in))
		l.arrive("p", in)
	}
	for epoch, held := range s.rest() {
		l.deliver(epoch, held)
	}
	if n := l.now(); n.arrived != len(all) {
		t.Errorf("%s: %d records arrived, want %d", kind, n.arrived, len(all))
	}
	return s, weigh(l.close())
}

func TestSabotageIsFound(t *testing.T) {
	t.Parallel()
	clean := func(v verdict) verdict {
		v.examples = nil
		return v
	}
	s, v := spoilt(t, "")
	if v.faults() || v.duplicates > 0 || s.count() > 0 {
		t.Errorf("without sabotage: %+v", v)
	}
	s, v = spoilt(t, skip)
	if n := s.count(); n < 5 || v.missing != n || v.duplicates+v.order+v.parents+v.repeats+v.strangers > 0 {
		t.Errorf("skip of %d: %+v", n, clean(v))
	}
	s, v = spoilt(t, repeat)
	if n := s.count(); n < 5 || v.duplicates != n || v.repeats != n || v.missing+v.order+v.parents+v.strangers > 0 {
		t.Errorf("repeat of %d: %+v", n, clean(v))
	}
	s, v = spoilt(t, reorder)
	if n := s.count(); n < 5 || v.order < n || v.missing+v.duplicates+v.parents+v.repeats+v.strangers > 0 {
		t.Errorf("reorder of %d: %+v", n, clean(v))
	}
}

func TestSpoilerIsSeeded(t *testing.T) {
	t.Parallel()
	pick := func(seed uint64) (out []recordID) {
		s, _ := newSpoiler(skip, seed)
		for k := range int32(20) {
			for n := range int32(20) {
				if id := (recordID{k, n}); s.chosen(id) {
					out = append(out, id)
				}
			}
		}
		return out
	}
	same := func(a, b []recordID) bool {
		if len(a) != len(b) {
			return false
		}
		for i := range a {
			if a[i] != b[i] {
				return false
			}
		}
		return true
	}
	if a := pick(1); !same(a, pick(1)) || same(a, pick(2)) {
		t.Error("the seed alone must decide which records are spoiled")
	}
}

func TestUnknownSabotage(t *testing.T) {
	t.Parallel()
	if _, err := newSpoiler("explode", 1); err == nil {
		t.Error("no error")
	}
}

func TestGate(t *testing.T) {
	t.Parallel()
	s, _ := newSpoiler(earlyChild, 1)
	if err := s.wait(t.Context(), "p"); err != nil {
		t.Fatalf("no gate: %v", err)
	}
	g := s.shut("p")
	if err := s.wait(t.Context(), "q"); err != nil {
		t.Fatalf("another shard's gate: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	held := make(chan error, 1)
	go func() { held <- s.wait(ctx, "p") }()
	<-g.reached
	lost := errors.New("lost")
	cancel(lost)
	if err := <-held; !errors.Is(err, lost) {
		t.Errorf("a handler whose context ends before the gate: %v", err)
	}
	go func() { held <- s.wait(t.Context(), "p") }()
	close(g.open)
	if err := <-held; err != nil {
		t.Errorf("behind an open gate: %v", err)
	}
}
