package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/shardwarden/shardwarden/core"
)

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// Every line once, each file in order, and Wednesday after the end of Monday.
func TestDemo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out buffer
		if err := demo(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		got := strings.Split(strings.TrimSpace(out.b.String()), "\n")
		var tuesday, rest []string
		for _, l := range got {
			if strings.HasPrefix(l, "tuesday") {
				tuesday = append(tuesday, l)
			} else {
				rest = append(rest, l)
			}
		}
		if want := []string{"tuesday: alice orders jam", "tuesday: bob orders honey"}; !slices.Equal(tuesday, want) {
			t.Errorf("%q, want %q", tuesday, want)
		}
		want := []string{"monday: alice orders tea", "monday: bob orders milk", "monday: alice orders bread and butter", "wednesday: alice orders cheese"}
		if !slices.Equal(rest, want) {
			t.Errorf("%q, want %q", rest, want)
		}
	})
}

// A directory that is not there ends the program with an error that names it.
func TestNoDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "nowhere")
		err := consume(t.Context(), dir, nil)
		if !errors.Is(err, core.ErrNotFound) || !strings.Contains(err.Error(), dir) {
			t.Errorf("error %v, want ErrNotFound that names %s", err, dir)
		}
	})
}

// A line that the handler refuses comes again; nothing is skipped.
func TestHandlerThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "x.log"), []byte("a\t1\na\t2\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		ctx, done := context.WithCancel(t.Context())
		defer done()
		var tried []string
		err := consume(ctx, dir, func(_ core.ShardID, r *core.Record) error {
			tried = append(tried, string(r.Data))
			if len(tried) == 2 {
				return errors.New("refused once")
			}
			if len(tried) == 4 {
				done()
			}
			return nil
		})
		if want := []string{"1", "2", "1", "2"}; err != nil || !slices.Equal(tried, want) {
			t.Errorf("handled %v, error %v; want %v", tried, err, want)
		}
	})
}
