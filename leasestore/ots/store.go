package ots

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/internal/otsclient"
)

// Store is a status table. It is safe for concurrent use, and starts no goroutine.
type Store struct {
	settings
	table     string
	client    *otsclient.Client
	announced announced
}

var (
	_ core.LeaseStore  = (*Store)(nil)
	_ core.Presence    = (*Store)(nil)
	_ core.ManyUpdater = (*Store)(nil)
	_ core.StartHolder = (*Store)(nil)
	_ core.Sharer      = (*Store)(nil)
)

// New makes the store of a status table. It calls nobody; [Store.Prepare] does, and says what is wrong with the arguments.
func New(i Instance, table string, opts ...Option) *Store {
	s := &Store{table: table, settings: settings{timeout: 2500 * time.Millisecond, log: slog.New(slog.DiscardHandler)}}
	for _, o := range opts {
		o(&s.settings)
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.client = otsclient.New(otsclient.Config{
		Endpoint: i.Endpoint, Instance: i.Name, Credentials: i.Credentials, Transport: s.transport, Timeout: s.timeout,
	})
	return s
}

// CloseIdle closes the connections that no call is using. The store can be used again.
func (s *Store) CloseIdle() { s.client.CloseIdle() }

// HoldsStart implements [core.StartHolder]: a row holds an iterator only, beside the instant it was resolved from.
func (s *Store) HoldsStart() bool { return false }

// SharedWith implements [core.Sharer]: with the Java Stream Client, where [WithJava] says so. Its workers go on owning finished leases, count them,
// and create a lease at TRIM_HORIZON for every listed shard without one (docs/reference/tablestore.md 3.7 and 3.9).
func (s *Store) SharedWith() *core.Foreigners {
	if s.java == 0 {
		return nil
	}
	return &core.Foreigners{LeaseDuration: s.java, CountFinished: true, LeaseListed: true}
}

// Get implements [core.LeaseStore].
func (s *Store) Get(ctx context.Context, key core.LeaseKey) (core.Lease, error) {
	if err := checkKey(key); err != nil {
		return core.Lease{}, err
	}
	row, err := s.getRow(ctx, key)
	if errors.Is(err, errNoRow) {
		return core.Lease{}, fmt.Errorf("table %s: lease %s: %w", s.table, key, core.ErrNotFound)
	}
	if err != nil {
		return core.Lease{}, err
	}
	return decodeLease(key, row)
}

// Create implements [core.LeaseStore].
func (s *Store) Create(ctx context.Context, l core.Lease) (core.Lease, error) {
	if err := checkKey(l.Key); err != nil {
		return core.Lease{}, err
	}
	row, err := encodeLease(&l)
	if err != nil {
		return core.Lease{}, fmt.Errorf("lease %s: %w", l.Key, err)
	}
	err = s.putRow(ctx, l.Key, row)
	if errors.Is(err, core.ErrConflict) {
		return core.Lease{}, fmt.Errorf("table %s: lease %s: %w", s.table, l.Key, core.ErrExists)
	}
	if err != nil {
		return core.Lease{}, err
	}
	made, err := decodeLease(l.Key, row)
	return detached(made), err
}

// Update implements [core.LeaseStore]. A refusal carries no row, since the service gives none. To ask for a lease that was handed to its
// owner and not accepted yet is refused too, as the Java client refuses it.
func (s *Store) Update(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
	c, err := s.prepareUpdate(&seen, same, &set)
	switch {
	case err != nil:
		return core.Lease{}, err
	case set.IsZero():
		return s.check(ctx, seen, same)
	}
	if err = s.updateRow(ctx, seen.Key, c); errors.Is(err, core.ErrConflict) {
		return core.Lease{}, &core.ConflictError{Key: seen.Key}
	} else if err != nil {
		return core.Lease{}, err
	}
	return s.after(ctx, seen, same, set)
}

func (s *Store) prepareUpdate(seen *core.Lease, same core.Same, set *core.Set) (*change, error) {
	if !same.Valid() {
		return nil, fmt.Errorf("condition %q: %w", same, core.ErrInvalid)
	}
	if err := checkKey(seen.Key); err != nil {
		return nil, err
	}
	return newChange(seen, same, set)
}

// after is the row after a write that went through: read back, or known, where the counter was the condition.
func (s *Store) after(ctx context.Context, seen core.Lease, same core.Same, set core.Set) (core.Lease, error) {
	if same&core.SameCounter != 0 {
		return detached(set.Apply(seen)), nil
	}
	return s.Get(ctx, seen.Key)
}

// check is an update that changes nothing, which the service does not take.
func (s *Store) check(ctx context.Context, seen core.Lease, same core.Same) (core.Lease, error) {
	row, err := s.Get(ctx, seen.Key)
	if err != nil {
		return core.Lease{}, err
	}
	if !same.Holds(&seen, &row) {
		return core.Lease{}, &core.ConflictError{Key: seen.Key, Row: &row}
	}
	return row, nil
}

// Delete implements [core.LeaseStore].
func (s *Store) Delete(ctx context.Context, seen core.Lease, same core.Same) error {
	if !same.Valid() {
		return fmt.Errorf("condition %q: %w", same, core.ErrInvalid)
	}
	if err := checkKey(seen.Key); err != nil {
		return err
	}
	err := s.deleteRow(ctx, seen.Key, conditions(&seen, same, false))
	if !errors.Is(err, core.ErrConflict) {
		return err
	}
	if _, err = s.getRow(ctx, seen.Key); errors.Is(err, errNoRow) {
		return nil
	}
	return &core.ConflictError{Key: seen.Key} // refused, whatever the reading says
}
