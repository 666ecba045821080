package main

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// buffer may be written to by many handlers.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// Every order of every customer once, in order.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out buffer
		if err := run(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		next := map[string]int{}
		for line := range strings.Lines(out.b.String()) {
			f := strings.Split(strings.TrimSpace(line), "  ")
			if want := fmt.Sprint("order ", next[f[2]]); f[3] != want {
				t.Errorf("%s: %s, want %s", f[2], f[3], want)
			}
			next[f[2]]++
		}
		for c := range 8 {
			if n := next[fmt.Sprint("customer ", c)]; n != 3 {
				t.Errorf("customer %d: %d orders, want 3", c, n)
			}
		}
	})
}
