package kclsim

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What the recorder holds against a fleet, each shown to it once.
func TestRecorderFindsFault(t *testing.T) {
	put := func(r *Recorder, shard string, n int) {
		for i := range n {
			if err := r.Put(func() (string, string, error) { return shard, shard + strconv.Itoa(i), nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	given := func(worker, session, shard string, from, to int) Delivery {
		d := Delivery{Worker: worker, Session: session, Shard: shard}
		for i := from; i < to; i++ {
			d.Sequences = append(d.Sequences, shard+strconv.Itoa(i))
		}
		return d
	}
	for _, c := range []struct {
		name    string
		windows Windows
		do      func(r *Recorder)
		want    string // a part of what it says; "": nothing
	}{
		{"all is well", onlyHandsOver, func(r *Recorder) {
			put(r, "a", 4)
			r.Begin(given("x", "1", "a", 0, 2))(true)
			time.Sleep(time.Second)
			r.Begin(given("y", "1", "a", 2, 4))(true)
		}, ""},
		{"a record that nobody is given", onlyHandsOver, func(r *Recorder) {
			put(r, "a", 2)
			r.Begin(given("x", "1", "a", 0, 1))(true)
		}, "record 1 of 2 of a was never processed"},
		{"a record that nobody finishes", onlyHandsOver, func(r *Recorder) {
			put(r, "a", 1)
			r.Begin(given("x", "1", "a", 0, 1))(false)
		}, "never processed"},
		{"a gap in an ownership", onlyHandsOver, func(r *Recorder) {
			put(r, "a", 3)
			r.Begin(given("x", "1", "a", 0, 1))(true)
			r.Begin(given("x", "1", "a", 2, 3))(true)
		}, "where 1 was due"},
		{"a gap between two", onlyHandsOver, func(r *Recorder) {
			put(r, "a", 3)
			r.Begin(given("x", "1", "a", 0, 1))(true)
			r.Begin(given("y", "1", "a", 2, 3))(true)
		}, "record 1 was never processed: a gap"},
		{"the order within an ownership", killed, func(r *Recorder) {
			put(r, "a", 2)
			r.Begin(given("x", "1", "a", 0, 2))(true)
			r.Begin(given("x", "1", "a", 0, 1))(true)
		}, "order, or a gap"},
		{"a child before its parent's end", onlyHandsOver, func(r *Recorder) {
			r.Shard("b", []string{"a"})
			put(r, "a", 1)
			put(r, "b", 1)
			r.Begin(given("x", "1", "b", 0, 1))(true)
			r.Begin(given("x", "2", "a", 0, 1))(true)
		}, "its parent a was never processed"},
		{"two at once", killed, func(r *Recorder) {
			put(r, "a", 2)
			end := r.Begin(given("x", "1", "a", 0, 1))
			time.Sleep(time.Second)
			r.Begin(given("y", "1", "a", 0, 2))(true)
			time.Sleep(time.Second)
			end(true)
		}, "still delivering 1s after y"},
		{"two at once for longer than the window", Windows{Overlap: 2 * time.Second, Repeat: time.Minute}, func(r *Recorder) {
			put(r, "a", 2)
			r.Begin(given("x", "1", "a", 0, 1))(true)
			r.Begin(given("y", "1", "a", 1, 2))(true)
			time.Sleep(3 * time.Second)
			r.Begin(given("x", "1", "a", 1, 2))(true)
		}, "still delivering 3s after y"},
		{"something done twice in a hand-over", onlyHandsOver, func(r *Recorder) {
			put(r, "a", 1)
			r.Begin(given("x", "1", "a", 0, 1))(true)
			time.Sleep(time.Second)
			r.Begin(given("y", "1", "a", 0, 1))(true)
		}, "and again by y"},
		{"something done long before its owner's end comes again", killed, func(r *Recorder) {
			put(r, "a", 2)
			r.Begin(given("x", "1", "a", 0, 1))(true)
			time.Sleep(time.Minute)
			r.Begin(given("x", "1", "a", 1, 2))(true)
			time.Sleep(time.Second)
			r.Begin(given("y", "1", "a", 0, 2))(true)
		}, "1m0s before the end of its ownership"},
		{"the last before a death comes again", killed, func(r *Recorder) {
			put(r, "a", 1)
			r.Begin(given("x", "1", "a", 0, 1))(true)
			time.Sleep(time.Minute)
			r.Begin(given("y", "1", "a", 0, 1))(true)
		}, ""},
		{"a record of another shard", onlyHandsOver, func(r *Recorder) {
			put(r, "a", 1)
			r.Begin(given("x", "1", "a", 0, 1))(true)
			r.Begin(Delivery{Worker: "x", Session: "2", Shard: "b", Sequences: []string{"a0"}})(true)
		}, "which nobody put there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := NewRecorder()
				c.do(r)
				got := strings.Join(r.Judge(c.windows), "\n")
				if c.want == "" && got != "" || !strings.Contains(got, c.want) {
					t.Errorf("it says %q, want %q", got, c.want)
				}
			})
		})
	}
}
