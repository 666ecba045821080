package linedir

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// reader follows a file. It holds no descriptor between reads, so there may be as many shards as there are files.
type reader struct {
	source Source
	shard  core.ShardID
	path   string
	file   os.FileInfo // as it was last seen; nil: there was none yet
	at     int64       // the byte behind the last line given

	closing sync.Once
	closed  chan struct{}
}

// Open implements [core.StreamSource].
func (s Source) Open(_ context.Context, shard core.Shard, at core.Position) (core.ShardReader, error) {
	s.Poll = cmp.Or(s.Poll, 200*time.Millisecond)
	s.MaxLine = cmp.Or(s.MaxLine, 1<<20)
	s.PageBytes = cmp.Or(s.PageBytes, 256<<10)
	fail := func(err error) (core.ShardReader, error) { return nil, s.wrap("open", shard.ID, err) }
	r := &reader{source: s, shard: shard.ID, closed: make(chan struct{})}
	var err error
	switch at.Anchor {
	case core.Horizon:
	case core.AfterToken:
		if r.at, err = strconv.ParseInt(at.Token, 10, 64); err != nil || r.at < 0 || at.Sub != 0 {
			return fail(fmt.Errorf("token %q, %d: %w: expected a byte of the file", at.Token, at.Sub, core.ErrInvalid))
		}
	default:
		return fail(fmt.Errorf("start at %s: %w: files don't say when a line was written", at, core.ErrInvalid))
	}
	if r.path, err = s.path(shard.ID, dataExt); err != nil {
		return fail(err)
	}
	if err := r.verify(); err != nil {
		return fail(err)
	}
	return r, nil
}

// verify checks that a line begins where reading begins: else the file is not the one that the position was taken in.
func (r *reader) verify() error {
	f, err := r.source.open(r.shard)
	if f != nil {
		defer f.Close()
	}
	if err != nil || r.at == 0 {
		return err
	}
	before := make([]byte, 1)
	err = io.EOF
	if f != nil {
		_, err = f.ReadAt(before, r.at-1)
	}
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("byte %d lies behind the end of the file: %w: it was cut or replaced", r.at, core.ErrTrimmed)
	case err != nil:
		return kind(err)
	case before[0] == '\n':
		return nil
	}
	// The last line of a file that is closed may lack its newline.
	if _, _, err := r.source.marker(r.shard); err == nil {
		if st, err := f.Stat(); err == nil && st.Size() == r.at {
			return nil
		}
	}
	return fmt.Errorf("byte %d is in the middle of a line: %w: the file was replaced, or the position is of another", r.at, core.ErrInvalid)
}

// Next implements [core.ShardReader]: what there is, or what there is after one pause.
func (r *reader) Next(ctx context.Context) (*core.Page, error) {
	page, err := r.read(ctx)
	if err != nil || len(page.Records) > 0 || page.End {
		return page, err
	}
	pause := time.NewTimer(r.source.Poll)
	defer pause.Stop()
	select {
	case <-pause.C:
		return r.read(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.closed:
		return nil, r.source.wrap("read", r.shard, fs.ErrClosed)
	}
}

// read is what there is now.
func (r *reader) read(ctx context.Context) (*core.Page, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	page, err := r.page()
	if err != nil {
		return nil, r.source.wrap("read", r.shard, err)
	}
	return page, nil
}

func (r *reader) page() (*core.Page, error) {
	// First whether it is closed, then the lines: the other way round, those written in between would be lost.
	_, _, err := r.source.marker(r.shard)
	end := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	page := &core.Page{Lag: -1}
	st, err := os.Stat(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && r.file == nil && r.at == 0: // there is none yet
	case err != nil:
		return nil, kind(err)
	default:
		if err := r.same(st); err != nil {
			return nil, err
		}
		if st.Size() > r.at {
			more, err := r.lines(page, end)
			if err != nil {
				return nil, err
			}
			end = end && !more
		}
	}
	if end {
		all, err := r.source.read() // for the other parent of a child
		if err != nil {
			return nil, err
		}
		me := all[r.shard]
		if me == nil || !me.Closed {
			return nil, fmt.Errorf("the marker %s%s was taken back: %w", r.shard, closedExt, core.ErrUnavailable)
		}
		page.End = true
		for _, id := range me.children {
			page.Children = append(page.Children, all[id].Shard)
		}
	}
	return page, nil
}

// same makes sure that the file is still the one that was read, and has not lost what was read.
func (r *reader) same(now os.FileInfo) error {
	switch {
	case r.file != nil && !os.SameFile(r.file, now):
		return fmt.Errorf("%s was replaced while it was read: %w: to rotate, write %s%s and go on under a new name", r.path, core.ErrInvalid, r.shard, closedExt)
	case now.Size() < r.at:
		return fmt.Errorf("%s has %d bytes, and %d were read: %w: it was cut", r.path, now.Size(), r.at, core.ErrTrimmed)
	}
	r.file = now
	return nil
}

// lines adds the lines that are complete; closed makes the rest of the file one, too. more: the file has more than was read.
func (r *reader) lines(page *core.Page, closed bool) (more bool, err error) {
	f, err := os.Open(r.path)
	if err != nil {
		return false, kind(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return false, kind(err)
	}
	if err := r.same(st); err != nil {
		return false, err
	}
	buf := make([]byte, min(int64(r.source.PageBytes), st.Size()-r.at+1)) // one more, to see the end
	n := 0
	for {
		m, err := f.ReadAt(buf[n:], r.at+int64(n))
		n += m
		atEnd := errors.Is(err, io.EOF)
		if err != nil && !atEnd {
			return false, kind(err)
		}
		whole := bytes.LastIndexByte(buf[:n], '\n') + 1
		if closed && atEnd {
			whole = n
		}
		switch {
		case whole > 0 || atEnd && n <= r.source.MaxLine:
			page.Bytes = len(buf)
			r.take(page, buf[:whole])
			return !atEnd, nil
		case n > r.source.MaxLine:
			return false, fmt.Errorf("the line at byte %d of %s is longer than %d bytes: %w: raise MaxLine, or mend the file", r.at, r.path, r.source.MaxLine, core.ErrInvalid)
		}
		buf = append(buf, make([]byte, min(len(buf), r.source.MaxLine+1-len(buf)))...)
	}
}

// take makes records of whole lines. They are slices of the page's memory.
func (r *reader) take(page *core.Page, text []byte) {
	for len(text) > 0 {
		line, rest, newline := bytes.Cut(text, []byte("\n"))
		r.at += int64(len(line))
		if newline {
			r.at++
		}
		text = rest
		key, data, ok := bytes.Cut(line, []byte("\t"))
		if !ok {
			key, data = nil, line
		}
		page.Records = append(page.Records, core.Record{Key: string(key), Data: data, Sequence: strconv.FormatInt(r.at, 10)})
	}
}

// Close implements [core.ShardReader].
func (r *reader) Close() error {
	r.closing.Do(func() { close(r.closed) })
	return nil
}
