package main

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

func TestReadLinesIntervals(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	type got struct {
		text          string
		after, before time.Time
	}
	lines := make(chan got, 10)
	done := make(chan error, 1)
	go func() {
		done <- readLines(r, func(text []byte, after, before time.Time) { lines <- got{string(text), after, before} })
	}()
	send := func(s string) (began, ended time.Time) {
		began = time.Now()
		if _, err := io.WriteString(w, s); err != nil {
			t.Fatal(err)
		}
		return began, time.Now()
	}
	var last time.Time
	for _, s := range []string{"one\n", "two\n"} {
		began, ended := send(s)
		g := <-lines
		if g.text+"\n" != s {
			t.Fatalf("read %q, want %q", g.text, s)
		}
		// The interval must hold the write: it may begin no later than the write's end and end no earlier than its start.
		if g.after.After(ended) || g.before.Before(began) {
			t.Errorf("%q was written in %v..%v, the interval says %v..%v", s, began, ended, g.after, g.before)
		}
		if g.after.Before(last) {
			t.Errorf("%q: the pipe was seen empty after the line before, the interval begins earlier", s)
		}
		last = g.after
	}
	send("three\nfo")
	send("ur\n")
	if g := <-lines; g.text != "three" {
		t.Errorf("read %q, want three", g.text)
	}
	if g := <-lines; g.text != "four" {
		t.Errorf("read %q, want four, joined from two writes", g.text)
	}
	send("cut")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a cut last line gave %v, want ErrUnexpectedEOF", err)
	}
	if len(lines) > 0 {
		t.Errorf("a cut line was delivered: %v", <-lines)
	}
}
