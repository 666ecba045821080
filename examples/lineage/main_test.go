package main

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/shardwarden/shardwarden/core"
)

// Each step's table says what its title does; who reads which shard is for the workers to settle.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		if err := run(t.Context(), &out); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		rest := out.String()
		for _, line := range []string{
			`^Workers 1 and 2`,
			`P1 .* worker [12] .* is read$`, `P2 .* worker [12] .* is read$`, `P3 .* worker [12] .* is read$`,
			`^P2 was split`,
			`P2 .* worker [12] .* has ended, and is read to its end$`, `P4 +P2 +- +- +waits for its parent: no lease yet$`, `P5 +P2 +- +- +waits`,
			`^P2 has been read`,
			`P2 +- +- +SHARD_END +read to its end; goes on in \[P4 P5\]$`, `P4 +P2 +worker [12] .* is read$`, `P5 +P2 +worker [12] .* is read$`,
			`^Worker 3 has joined`,
			`worker 3 .* is read$`,
			`^Worker 1 has left`,
			`P1 .* worker [23] .* is read$`, `P3 .* worker [23] .* is read$`, `P4 .* worker [23] .* is read$`, `P5 .* worker [23] .* is read$`,
			`^What happened`,
		} {
			at := regexp.MustCompile("(?m)" + strings.Replace(line, "^", "^ *", 1)).FindStringIndex(rest)
			if at == nil {
				t.Fatalf("no line %q in its place\n%s", line, out.String())
			}
			rest = rest[at[1]:]
		}
	})
}

// The judge finds what would be wrong.
func TestVerdict(t *testing.T) {
	record := func(data string) core.Record { return core.Record{Data: []byte(data)} }
	for name, do := range map[string]func(*scene){
		"a child before its parent": func(s *scene) {
			s.produce("P2", 1)
			s.judge("P4", record("1"))
			s.judge("P2", record("1"))
			s.put["P4"]++
		},
		"a record that is missing":  func(s *scene) { s.produce("P1", 2); s.judge("P1", record("1")) },
		"a record that comes twice": func(s *scene) { s.produce("P1", 1); s.judge("P1", record("1")); s.judge("P1", record("1")) },
		"two handlers of a shard":   func(s *scene) { s.enter("P1"); s.enter("P1") },
	} {
		s := newScene(io.Discard)
		if do(s); s.verdict() == nil {
			t.Errorf("%s: the verdict is that all is well", name)
		}
	}
	s := newScene(io.Discard)
	s.produce("P2", 1)
	s.judge("P2", record("1"))
	if err := s.verdict(); err != nil {
		t.Errorf("all is well, and the verdict is %v", err)
	}
}
