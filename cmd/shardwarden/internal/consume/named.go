package consume

import (
	"context"
	"errors"
	"sync"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
)

// named is a catalog that remembers what users call its streams; records of a former one may still be on their way. It is a hook of the worker
// too, which finds out when another stream stands behind a name.
type named struct {
	core.Catalog

	mu        sync.Mutex
	of        map[core.StreamID]string
	described map[core.StreamSource]bool
}

// Streams implements [core.Catalog]. Sources that come up for the first time are described; it is an error where none of the streams can be. The
// worker calls it again only after it returned.
func (n *named) Streams(ctx context.Context) ([]core.Stream, error) {
	list, err := n.Catalog.Streams(ctx)
	if err != nil {
		return nil, err
	}
	now := map[core.StreamSource]bool{}
	var errs []error
	for _, s := range list {
		if !n.knows(s.Source) {
			info, err := s.Source.Describe(ctx)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			n.note(info.ID, info.Name)
		}
		now[s.Source] = true
	}
	n.mu.Lock()
	n.described = now
	n.mu.Unlock()
	if len(now) == 0 {
		return nil, errors.Join(errs...)
	}
	return list, nil // the worker tells what is wrong with the others
}

func (n *named) knows(s core.StreamSource) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.described[s]
}

func (n *named) note(id core.StreamID, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of == nil {
		n.of = map[core.StreamID]string{}
	}
	n.of[id] = name
}

// OnEvent implements [worker.EventHook].
func (n *named) OnEvent(e worker.Event) {
	if e.Kind == worker.StreamAdded {
		n.note(e.Key.Stream, e.Text)
	}
}

// name is what users call a stream.
func (n *named) name(id core.StreamID) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name := n.of[id]; name != "" {
		return name
	}
	return string(id)
}
