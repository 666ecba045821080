package linedir_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/conformance"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/examples/customsource/linedir"
)

// harness drives a directory for the conformance suite: it does what programs do that write the files.
type harness struct {
	source linedir.Source

	mu   sync.Mutex
	next int // number of the next file
}

func newHarness(dir string) (*harness, error) {
	h := &harness{source: linedir.Source{Dir: dir, Poll: time.Millisecond}}
	for range 2 {
		if _, err := h.file(); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// file begins a shard.
func (h *harness) file() (name string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next++
	name = fmt.Sprintf("file-%03d", h.next)
	return name, os.WriteFile(filepath.Join(h.source.Dir, name+".log"), nil, 0o644)
}

// Source is a value, so each handle stands for itself.
func (h *harness) Source() core.StreamSource { return h.source }

func (h *harness) Close() error { return os.RemoveAll(h.source.Dir) }

func (h *harness) Put(_ context.Context, shard core.ShardID, key string, data []byte) error {
	if strings.ContainsAny(key, "\t\n") || bytes.Contains(data, []byte("\n")) {
		return fmt.Errorf("a record is one line: %w", errors.ErrUnsupported)
	}
	f, err := os.OpenFile(filepath.Join(h.source.Dir, string(shard)+".log"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(key + "\t" + string(data) + "\n")
	return errors.Join(err, f.Close())
}

func (h *harness) Split(_ context.Context, shard core.ShardID) error {
	a, err := h.file()
	if err != nil {
		return err
	}
	b, err := h.file()
	if err != nil {
		return err
	}
	return h.end(string(shard), a, b)
}

func (h *harness) Merge(_ context.Context, a, b core.ShardID) error {
	child, err := h.file()
	if err != nil {
		return err
	}
	return errors.Join(h.end(string(a), child), h.end(string(b), child))
}

// end writes the marker under another name first: a marker is read whole.
func (h *harness) end(shard string, children ...string) error {
	draft := filepath.Join(h.source.Dir, "draft")
	if err := os.WriteFile(draft, []byte(strings.Join(children, "\n")), 0o644); err != nil {
		return err
	}
	return os.Rename(draft, filepath.Join(h.source.Dir, shard+".closed"))
}

func (h *harness) Remake(context.Context) error {
	if err := os.RemoveAll(h.source.Dir); err != nil {
		return err
	}
	return os.Mkdir(h.source.Dir, 0o755)
}

// In real time: the file system dates its markers by its own clock, and what was open when is read from them.
func TestConformance(t *testing.T) {
	conformance.TestSource(t, func(context.Context) (conformance.SourceHarness, error) {
		return newHarness(t.TempDir())
	})
}
