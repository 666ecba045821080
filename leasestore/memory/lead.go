package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/shardwarden/shardwarden/core"
)

// Share says by whose rules the table is used from now on; nil, as at first: by nobody's but ours. With [core.Foreigners.Led] one worker leads.
func (s *Store) Share(with *core.Foreigners) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	s.table.shared = copied(with)
}

// SharedWith implements [core.Sharer].
func (s *Store) SharedWith() *core.Foreigners {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	return copied(s.table.shared)
}

// leaderLease is the duration in the leader's lock.
const leaderLease = 30 * time.Second

// Leader implements [core.LeaderLock].
func (s *Store) Leader(ctx context.Context) (core.Lock, error) {
	var l core.Lock
	err := s.call(ctx, Leader, core.LeaseKey{}, func() error {
		l = s.table.lock
		return nil
	})
	return l, err
}

// Lead implements [core.LeaderLock].
func (s *Store) Lead(ctx context.Context, seen core.Lock, me core.WorkerID) (core.Lock, error) {
	var l core.Lock
	err := s.call(ctx, Lead, core.LeaseKey{}, func() error {
		if s.table.lock != seen {
			return wrap(Lead, core.LeaseKey{}, fmt.Errorf("the lock is %q's: %w", s.table.lock.Owner, core.ErrConflict))
		}
		s.table.locks++
		s.table.lock = core.Lock{Owner: me, Version: fmt.Sprint(s.table.locks), Duration: leaderLease}
		l = s.table.lock
		return nil
	})
	return l, err
}

// Resign implements [core.LeaderLock].
func (s *Store) Resign(ctx context.Context, seen core.Lock) error {
	return s.call(ctx, Resign, core.LeaseKey{}, func() error {
		if s.table.lock == seen {
			s.table.lock = core.Lock{}
		}
		return nil
	})
}
