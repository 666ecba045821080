package broken

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/shardwarden/shardwarden/conformance"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/leasestore/memory"
)

// Store is a lease table that is wrong in one way.
type Store struct {
	Name string
	Rule string // that must find it
	wrap func(h *storeHarness, s *memory.Store) core.LeaseStore
}

// Make makes the table for the suite.
func (b Store) Make(context.Context) (conformance.StoreHarness, error) {
	return &storeHarness{table: memory.New(memory.Pages(page)), wrap: b.wrap, attributes: map[core.LeaseKey]string{}}, nil
}

// Sound is the table that the broken ones are made of.
var Sound = Store{Name: "sound", wrap: by(func(*storeHarness, *hooks) {})}

const (
	page     = 50      // rows of a listing
	rowBytes = 200_000 // of a listing, for those that count bytes
)

// storeHarness offers every verb but those of real services.
type storeHarness struct {
	table *memory.Store
	wrap  func(h *storeHarness, s *memory.Store) core.LeaseStore

	mu         sync.Mutex
	handles    []*memory.Store
	attributes map[core.LeaseKey]string
	strange    bool // there is a row that is no lease
}

func (h *storeHarness) Store() core.LeaseStore {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.table.Handle(fmt.Sprint(len(h.handles)))
	h.handles = append(h.handles, s)
	return h.wrap(h, s)
}

func (h *storeHarness) Close() error { return nil }

func (h *storeHarness) PutAttribute(_ context.Context, key core.LeaseKey, value string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.attributes[key] = value
	return nil
}

func (h *storeHarness) Attribute(_ context.Context, key core.LeaseKey) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.attributes[key], nil
}

func (h *storeHarness) PageBytes() int { return rowBytes }

// PutStranger makes no row: a table in memory has none that are no leases. Broken stores go by the mark.
func (h *storeHarness) PutStranger(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.strange = true
	return nil
}

func (h *storeHarness) Spoil(_ context.Context, key core.LeaseKey) error {
	h.table.Spoil(key, errors.New("made by hand"))
	return nil
}

func (h *storeHarness) Break(_ context.Context, f conformance.Fault) (func(), error) {
	var fault memory.Fault
	switch f {
	case conformance.Unavailable:
	case conformance.Throttled:
		fault.Err = core.ErrThrottled
	case conformance.Denied:
		fault.Err = core.ErrDenied
	case conformance.Silent:
		fault.Hang = true
	case conformance.PartList:
		fault.Ops, fault.Skip = []memory.Op{memory.List, memory.Look}, 1
	case conformance.LostAnswer:
		fault.Kind = memory.Lose
	default:
		return nil, errors.ErrUnsupported
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var heals []func()
	for _, s := range h.handles {
		heals = append(heals, s.Break(fault))
	}
	return func() {
		for _, heal := range heals {
			heal()
		}
	}, nil
}
