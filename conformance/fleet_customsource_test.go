package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/examples/customsource/linedir"
)

// directory drives a stream of files, of examples/customsource.
type directory struct {
	dir string

	mu   sync.Mutex
	made int
}

func makeDirectory(t *testing.T) MakeSource {
	return func(context.Context) (SourceHarness, error) {
		h := &directory{dir: t.TempDir()}
		return h, os.WriteFile(h.path("shard-0", ".log"), nil, 0o644)
	}
}

func (h *directory) path(shard core.ShardID, ext string) string {
	return filepath.Join(h.dir, string(shard)+ext)
}

func (h *directory) Source() core.StreamSource {
	return linedir.Source{Dir: h.dir, Poll: 20 * time.Millisecond}
}
func (h *directory) Close() error { return os.RemoveAll(h.dir) }

func (h *directory) Put(_ context.Context, shard core.ShardID, key string, data []byte) error {
	f, err := os.OpenFile(h.path(shard, ".log"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s\t%s\n", key, data)
	if err2 := f.Close(); err == nil {
		err = err2
	}
	return err
}

// goOn ends shards and goes on with others: files first, then the markers, each at once.
func (h *directory) goOn(shards []core.ShardID, children int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	// A directory has no way to do two things at once. Everything is written first, then both markers appear one right after the other, and
	// the children's files last: a file that is there before its marker looks like the beginning of a family of its own.
	var text strings.Builder
	var born []core.ShardID
	for range children {
		h.made++
		id := core.ShardID(fmt.Sprint("shard-", h.made))
		born = append(born, id)
		text.WriteString(string(id) + "\n")
	}
	for _, id := range shards {
		if err := os.WriteFile(h.path(id, ".draft"), []byte(text.String()), 0o644); err != nil {
			return err
		}
	}
	for _, id := range shards {
		if err := os.Rename(h.path(id, ".draft"), h.path(id, ".closed")); err != nil {
			return err
		}
	}
	for _, id := range born {
		if err := os.WriteFile(h.path(id, ".log"), nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (h *directory) Split(_ context.Context, shard core.ShardID) error {
	return h.goOn([]core.ShardID{shard}, 2)
}

func (h *directory) Merge(_ context.Context, a, b core.ShardID) error {
	return h.goOn([]core.ShardID{a, b}, 1)
}

// A source of one's own, in real time: its readers look at files.
func TestFleetOfACustomSource(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute or two of real time")
	}
	TestFleet(t, makeDirectory(t), makeMemoryTable())
}
