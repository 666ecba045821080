package consume

import (
	"context"
	"errors"
	"testing"

	"github.com/shardwarden/shardwarden/core"
)

// table is a source that is asked what it is.
type table struct {
	core.StreamSource
	info  core.StreamInfo
	err   error
	asked int
}

func (s *table) Describe(context.Context) (core.StreamInfo, error) {
	s.asked++
	return s.info, s.err
}

type changing struct{ now []*table }

func (c *changing) Streams(context.Context) ([]core.Stream, error) {
	var out []core.Stream
	for _, s := range c.now {
		out = append(out, core.Stream{Source: s})
	}
	return out, nil
}

// Streams that come up later are named too, those that have gone keep their name, and each is asked once.
func TestNamed(t *testing.T) {
	t.Parallel()
	orders := &table{info: core.StreamInfo{ID: "orders_1", Name: "orders"}}
	c := &changing{now: []*table{orders}}
	n := &named{Catalog: c}
	want := func(names map[core.StreamID]string) {
		t.Helper()
		for id, name := range names {
			if got := n.name(id); got != name {
				t.Errorf("stream %s is called %q, want %q", id, got, name)
			}
		}
	}
	ask := func() error {
		list, err := n.Streams(t.Context())
		if err == nil && len(list) != len(c.now) {
			t.Errorf("%d streams, want %d", len(list), len(c.now))
		}
		return err
	}
	want(map[core.StreamID]string{"orders_1": "orders_1"})
	for range 3 {
		if err := ask(); err != nil {
			t.Fatal(err)
		}
	}
	want(map[core.StreamID]string{"orders_1": "orders", "orders_2": "orders_2"})

	again := &table{info: core.StreamInfo{ID: "orders_2", Name: "orders"}, err: core.ErrUnavailable}
	c.now = []*table{again}
	if err := ask(); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("a stream that cannot be described: %v", err)
	}
	want(map[core.StreamID]string{"orders_1": "orders", "orders_2": "orders_2"})
	again.err = nil
	for range 2 {
		if err := ask(); err != nil {
			t.Fatal(err)
		}
	}
	want(map[core.StreamID]string{"orders_1": "orders", "orders_2": "orders"})
	if orders.asked != 1 || again.asked != 2 {
		t.Errorf("asked %d and %d times, want once, and twice where the first failed", orders.asked, again.asked)
	}
}
