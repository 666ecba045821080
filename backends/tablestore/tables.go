package tablestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/internal/otsclient"
)

// Tables is the catalog of the streams of some tables, for one worker; leases of all of them stand in one lease table. start is where each begins
// that has no leases yet.
//
// A table whose stream is switched off and on has another stream then. The worker begins it at its oldest record, whatever start says, and lets
// the leases of the former end once the service no longer has it. That is noticed within a minute; a worker that is started later begins
// what has no leases at start.
//
// That a table or its stream is missing is an error at the beginning. Later it is told to the [Logger], and the other tables go on.
func Tables(i Instance, start core.Position, tables []string, opts ...Option) core.Catalog {
	s := newSettings(opts)
	return &catalog{settings: s, client: i.client(s), tables: slices.Clone(tables), start: start, now: map[string]core.Stream{}}
}

type catalog struct {
	*settings
	client *otsclient.Client
	tables []string
	start  core.Position

	mu     sync.Mutex
	now    map[string]core.Stream // by table
	former []core.Stream          // they stay listed, or what is unread in them would be given up
}

// Streams asks which stream each table has.
func (c *catalog) Streams(ctx context.Context) ([]core.Stream, error) {
	if len(c.tables) == 0 {
		return nil, fmt.Errorf("tablestore.Tables: %w: no table is named", core.ErrInvalid)
	}
	var out []core.Stream
	for i, table := range c.tables {
		if slices.Contains(c.tables[:i], table) {
			return nil, fmt.Errorf("tablestore.Tables: %w: table %q is named twice", core.ErrInvalid, table)
		}
		stream, err := c.stream(ctx, table)
		if err != nil {
			return nil, err
		}
		out = append(out, stream)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(out, c.former...), nil
}

func (c *catalog) stream(ctx context.Context, table string) (core.Stream, error) {
	c.mu.Lock()
	known, ok := c.now[table]
	c.mu.Unlock()
	any := newSource(c.settings, c.client, table, "")
	info, err := any.Describe(ctx)
	switch {
	case err != nil && ok && errors.Is(err, core.ErrNotFound):
		c.log.WarnContext(ctx, "the table has no stream now", "table", table, "error", err)
		return known, nil
	case err != nil:
		return core.Stream{}, err
	case ok && known.Source.(*Source).bound == info.ID:
		return known, nil
	}
	s := core.Stream{Source: newSource(c.settings, c.client, table, info.ID), Start: c.start}
	if ok {
		s.Start = core.FromHorizon
	}
	c.mu.Lock()
	if ok {
		c.former = append(c.former, known)
	}
	c.now[table] = s
	c.mu.Unlock()
	return s, nil
}
