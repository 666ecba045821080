package tablestore

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/internal/otsclient"
)

// Source is the change stream of one table. It implements [core.StreamSource], [core.Resolver] and [core.Clock], and is safe for concurrent
// use.
type Source struct {
	*settings
	table  string
	client *otsclient.Client
	err    error         // what is wrong with how the source was made; every method returns it
	bound  core.StreamID // the only stream this source is about; empty: the one the table has

	known   atomic.Pointer[core.StreamInfo] // as last described
	retired atomic.Bool                     // the table has another stream than bound

	mu   sync.Mutex
	ends map[core.ShardID]bool // shards that have ended though no children of theirs are listed; rare
}

var (
	_ core.StreamSource = (*Source)(nil)
	_ core.Resolver     = (*Source)(nil)
	_ core.Clock        = (*Source)(nil)
)

// New makes the source of a table's stream. It sends nothing: what is wrong with the instance, the table or an option is returned by the first
// call to the source, as [core.ErrInvalid], or [core.ErrDenied] where there are no credentials.
//
// [Tables] is the better choice for a worker, for a single table too: it survives that the stream is switched off and on.
func New(i Instance, table string, opts ...Option) *Source {
	s := newSettings(opts)
	return newSource(s, i.client(s), table, "")
}

func newSource(set *settings, c *otsclient.Client, table string, bound core.StreamID) *Source {
	s := &Source{settings: set, table: table, client: c, bound: bound, ends: map[core.ShardID]bool{}}
	err := set.check()
	if err == nil && table == "" {
		err = fmt.Errorf("the name of the table is empty")
	}
	if err != nil {
		s.err = &core.Error{Op: "open", Stream: core.StreamID(table), Err: fmt.Errorf("%w: %w", core.ErrInvalid, err)}
	}
	return s
}

// stream is the id for errors: the stream's own once it is known.
func (s *Source) stream() core.StreamID {
	if i := s.known.Load(); i != nil {
		return i.ID
	}
	return cmp.Or(s.bound, core.StreamID(s.table))
}
