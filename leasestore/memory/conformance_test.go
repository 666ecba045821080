package memory_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/shardwarden/shardwarden/conformance"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/leasestore/memory"
)

// bench drives a table for the conformance suite.
type bench struct {
	table *memory.Store

	mu      sync.Mutex
	handles []*memory.Store
}

func (b *bench) Store() core.LeaseStore {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.table.Handle(fmt.Sprint("handle ", len(b.handles)))
	b.handles = append(b.handles, s)
	return s
}

func (b *bench) Close() error { return nil }

func (b *bench) Spoil(_ context.Context, key core.LeaseKey) error {
	b.table.Spoil(key, errors.New("made by hand"))
	return nil
}

func (b *bench) Break(_ context.Context, f conformance.Fault) (func(), error) {
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
	b.mu.Lock()
	defer b.mu.Unlock()
	var heals []func()
	for _, h := range b.handles {
		heals = append(heals, h.Break(fault))
	}
	return func() {
		for _, heal := range heals {
			heal()
		}
	}, nil
}

func TestConformance(t *testing.T) {
	for name, opts := range map[string][]memory.Option{
		"whole":                     {memory.Pages(50)},
		"shuffled":                  {memory.Pages(7), memory.Shuffled(3)},
		"no rows with conflicts":    {memory.Pages(50), memory.WithoutConflictRows()},
		"no rows returned":          {memory.Pages(50), memory.WithoutReturnedRows()},
		"no starts":                 {memory.Pages(50), memory.WithoutStarts()},
		"no rows of any kind, bare": {memory.Pages(50), memory.WithoutConflictRows(), memory.WithoutReturnedRows(), memory.WithoutStarts()},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			conformance.TestStore(t, func(context.Context) (conformance.StoreHarness, error) {
				return &bench{table: memory.New(opts...)}, nil
			}, conformance.FakeTime())
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the whole suite took %v, and a healthy table in memory should take less than 10s", took)
			}
		})
	}
}
