package consume

import (
	"context"
	"maps"
	"sync/atomic"

	"github.com/shardwarden/shardwarden/core"
)

// named is a catalog that remembers what users call its streams.
type named struct {
	core.Catalog
	known atomic.Pointer[names]
}

// names are those of one moment; nobody changes them.
type names struct {
	of        map[core.StreamID]string
	described map[core.StreamSource]bool
}

// Streams implements [core.Catalog]. Sources that come up for the first time are described. The worker calls it again only after it returned.
func (n *named) Streams(ctx context.Context) ([]core.Stream, error) {
	list, err := n.Catalog.Streams(ctx)
	if err != nil {
		return nil, err
	}
	old := n.known.Load()
	if old == nil {
		old = &names{}
	}
	now := &names{of: map[core.StreamID]string{}, described: map[core.StreamSource]bool{}}
	maps.Copy(now.of, old.of) // records of a former stream may still be on their way
	for _, s := range list {
		if !old.described[s.Source] {
			info, err := s.Source.Describe(ctx)
			if err != nil {
				return nil, err
			}
			now.of[info.ID] = info.Name
		}
		now.described[s.Source] = true
	}
	n.known.Store(now)
	return list, nil
}

// name is what users call a stream.
func (n *named) name(id core.StreamID) string {
	if k := n.known.Load(); k != nil {
		if name := k.of[id]; name != "" {
			return name
		}
	}
	return string(id)
}
