// Package linedir is a stream of one's own: a directory whose files are the shards, one record a line.
//
//	orders.log       a shard named "orders"; programs append lines to it, each with one write
//	orders.closed    its end: nothing will be appended any more. It names the shards that go on, one a line, or is empty
//
// To rotate a file, start new ones and then write the marker (to another name, and rename it: a marker is read whole). A line is
// "key TAB data"; without a TAB all of it is data, and the key is empty. Lines of one key come in order within a shard.
//
// A position is the byte behind the last line taken. A line that is not complete yet is not a record yet, except at the end of a file that is
// closed.
//
// It shows what an adapter has to do, and has no other dependency than package core.
package linedir

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

const (
	dataExt   = ".log"
	closedExt = ".closed"
	idFile    = ".stream-id"
)

// Source is a directory as a [core.StreamSource]. Dir is needed; the other fields have defaults. Do not change it while it is in use.
type Source struct {
	Dir string
	// Poll is how long a reader waits before it looks again at a file with nothing new. Default 200 ms.
	Poll time.Duration
	// MaxLine bounds the bytes of a line. One that fits neither this nor PageBytes is an error. Default 1 MiB.
	MaxLine int
	// PageBytes is how much of a file is read at once. Default 256 KiB.
	PageBytes int
}

var (
	_ core.StreamSource  = Source{}
	_ core.Resolver      = Source{}
	_ core.PositionOrder = Source{}
)

// Describe implements [core.StreamSource]. A directory gets an id when it is first described, in a file of its own, so that one that is deleted
// and made again is another stream.
func (s Source) Describe(context.Context) (core.StreamInfo, error) {
	id, err := s.id()
	if err != nil {
		return core.StreamInfo{}, s.wrap("describe", "", err)
	}
	return core.StreamInfo{ID: id, Name: s.Dir, Lacks: core.SourceLacks{HashRanges: true, StartTime: true, Lag: true}}, nil
}

func (s Source) id() (core.StreamID, error) {
	path := filepath.Join(s.Dir, idFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(s.Dir); err != nil {
			return "", kind(err)
		}
		// Written under another name and linked, so that of many workers that start at once one wins, and none reads half an id.
		draft := path + "." + rand.Text()
		if err := os.WriteFile(draft, []byte(filepath.Base(s.Dir)+":"+rand.Text()+"\n"), 0o644); err != nil {
			return "", kind(err)
		}
		err = os.Link(draft, path)
		if err2 := os.Remove(draft); err == nil || errors.Is(err, fs.ErrExist) {
			err = err2
		}
		if err == nil {
			text, err = os.ReadFile(path)
		}
	}
	if err != nil {
		return "", kind(err)
	}
	id := strings.TrimSpace(string(text))
	if id == "" {
		return "", fmt.Errorf("%s is empty: %w: delete it, and the lease table of the stream with it", path, core.ErrInvalid)
	}
	return core.StreamID(id), nil
}

// Shards implements [core.StreamSource].
func (s Source) Shards(_ context.Context, open core.Position) ([]core.Shard, error) {
	all, err := s.read()
	if err != nil {
		return nil, s.wrap("list shards", "", err)
	}
	at := open.Time
	switch {
	case open.IsZero(), open.Anchor == core.Horizon, open.Anchor == core.AtTime:
	case open.Anchor == core.Latest:
		if at.IsZero() {
			at = time.Now()
		}
	default:
		return nil, s.wrap("list shards", "", fmt.Errorf("open at %s: %w: the beginning, the end, or a time", open, core.ErrInvalid))
	}
	var out []core.Shard
	for _, id := range slices.Sorted(maps.Keys(all)) {
		f := all[id]
		born := slices.MaxFunc(append(f.parentsClosed, time.Time{}), time.Time.Compare)
		switch {
		case open.IsZero(), open.Anchor == core.Horizon && len(f.Parents) == 0:
		case open.Anchor == core.Horizon, born.After(at), f.Closed && !f.closed.After(at):
			continue
		}
		out = append(out, f.Shard)
	}
	return out, nil
}

// file is a shard, with when its marker and those of its parents were written.
type file struct {
	core.Shard
	closed        time.Time
	parentsClosed []time.Time
	children      []core.ShardID
}

// read reads the directory: all of it, or an error.
func (s Source) read() (map[core.ShardID]*file, error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return nil, kind(err)
	}
	all := map[core.ShardID]*file{}
	get := func(id core.ShardID) *file {
		if all[id] == nil {
			all[id] = &file{Shard: core.Shard{ID: id}}
		}
		return all[id]
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), dataExt); ok && name != "" && !e.IsDir() {
			get(core.ShardID(name))
		}
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), closedExt)
		if !ok || name == "" || e.IsDir() {
			continue
		}
		f := get(core.ShardID(name))
		var at time.Time
		f.children, at, err = s.marker(f.ID)
		if err != nil {
			return nil, err
		}
		f.Closed, f.closed = true, at
		for _, id := range f.children {
			c := get(id) // also where it has no file yet
			c.Parents = append(c.Parents, f.ID)
			c.parentsClosed = append(c.parentsClosed, at)
		}
	}
	for _, f := range all {
		if len(f.Parents) > 2 {
			return nil, fmt.Errorf("shard %s is named in %d markers, %v: %w: a shard has at most two parents", f.ID, len(f.Parents), f.Parents, core.ErrInvalid)
		}
		if before(all, f.ID, f.ID, map[core.ShardID]bool{}) {
			return nil, fmt.Errorf("shard %s goes on in itself, by way of the markers of others: %w: mend them, or it is never read", f.ID, core.ErrInvalid)
		}
	}
	return all, nil
}

// before reports whether a is an ancestor of b.
func before(all map[core.ShardID]*file, a, b core.ShardID, seen map[core.ShardID]bool) bool {
	for _, p := range all[b].Parents {
		if p == a || !seen[p] {
			if seen[p] = true; p == a || before(all, a, p, seen) {
				return true
			}
		}
	}
	return false
}

// marker reads NAME.closed: the shards that go on, and when it was written. fs.ErrNotExist where there is none.
func (s Source) marker(id core.ShardID) ([]core.ShardID, time.Time, error) {
	path, err := s.path(id, closedExt)
	if err != nil {
		return nil, time.Time{}, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, time.Time{}, kind(err)
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, time.Time{}, kind(err)
	}
	var children []core.ShardID
	for name := range strings.FieldsSeq(string(text)) {
		child := core.ShardID(name)
		if _, err := s.path(child, dataExt); err != nil || child == id || slices.Contains(children, child) {
			return nil, time.Time{}, fmt.Errorf("%s names %q: %w: expected names of other shards, one a line, each once", path, name, core.ErrInvalid)
		}
		children = append(children, child)
	}
	return children, st.ModTime(), nil
}

// path refuses names that lead out of the directory: they may come from a lease table.
func (s Source) path(id core.ShardID, ext string) (string, error) {
	name := string(id)
	if name == "" || name != filepath.Base(name) || strings.ContainsAny(name, " \t\n") {
		return "", fmt.Errorf("shard %q: %w: expected the name of a file in %s, without %s", name, core.ErrInvalid, s.Dir, dataExt)
	}
	return filepath.Join(s.Dir, name+ext), nil
}

// Resolve implements [core.Resolver]: the end of the last complete line stands for Latest.
func (s Source) Resolve(_ context.Context, shard core.Shard, start core.Position) (core.Position, error) {
	if start.Anchor != core.Latest {
		return core.Position{}, s.wrap("resolve start of", shard.ID, fmt.Errorf("start %s: %w: files don't say when a line was written", start, core.ErrInvalid))
	}
	f, err := s.open(shard.ID)
	if err != nil {
		return core.Position{}, s.wrap("resolve start of", shard.ID, err)
	}
	if f == nil {
		return offset(0), nil
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return core.Position{}, s.wrap("resolve start of", shard.ID, kind(err))
	}
	end := st.Size()
	buf := make([]byte, 4096)
	for end > 0 {
		part := buf[:min(int64(len(buf)), end)]
		if _, err := f.ReadAt(part, end-int64(len(part))); err != nil {
			return core.Position{}, s.wrap("resolve start of", shard.ID, kind(err))
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return offset(end - int64(len(part)) + int64(i) + 1), nil
		}
		end -= int64(len(part))
	}
	return offset(0), nil
}

// open opens the file of a shard; nil where there is none yet.
func (s Source) open(id core.ShardID) (*os.File, error) {
	path, err := s.path(id, dataExt)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, kind(err)
	}
	all, err := s.read()
	if err != nil {
		return nil, err
	}
	if all[id] == nil {
		return nil, fmt.Errorf("%s: %w", path, core.ErrNotFound)
	}
	return nil, nil
}

// Compare implements [core.PositionOrder].
func (s Source) Compare(a, b core.Position) int {
	rank := func(p core.Position) int64 {
		switch p.Anchor {
		case core.AfterToken:
			n, _ := strconv.ParseInt(p.Token, 10, 64)
			return n
		case core.ShardEnd:
			return 1<<63 - 1
		}
		return -1
	}
	return cmp.Compare(rank(a), rank(b))
}

func offset(n int64) core.Position { return core.Position{Token: strconv.FormatInt(n, 10)} }

func (s Source) wrap(op string, shard core.ShardID, err error) error {
	return &core.Error{Op: op, Stream: core.StreamID(s.Dir), Shard: shard, Err: err}
}

// kind maps an error of the file system to those of package core. The message has the path already.
func kind(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", core.ErrNotFound, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w", core.ErrDenied, err)
	}
	return fmt.Errorf("%w: %w", core.ErrUnavailable, err)
}
