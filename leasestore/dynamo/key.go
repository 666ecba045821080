package dynamo

import (
	"fmt"
	"strings"

	"github.com/shardwarden/shardwarden/core"
)

// How leases are named in the table: this file is all that a table of several streams (keys "account:stream:epoch:shard") changes.

// rowKey is the partition key of a lease. In a table of one stream it is the shard id, and the stream stands in an attribute of ours.
func rowKey(k core.LeaseKey) (string, error) {
	if k.Shard == "" {
		return "", fmt.Errorf("lease of stream %q without a shard id: %w", k.Stream, core.ErrInvalid)
	}
	return string(k.Shard), nil
}

// leaseKey is its inverse, as far as a row says: stamp is empty on rows that only others have written.
func leaseKey(row, stamp string) core.LeaseKey {
	return core.LeaseKey{Stream: core.StreamID(stamp), Shard: core.ShardID(row)}
}

// bind fixes the stream of this table at the first call that names one, and returns it; it is empty as long as nobody has named one.
func (s *Store) bind(streams ...core.StreamID) (core.StreamID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range streams {
		switch {
		case id == "" || id == s.stream:
		case s.stream == "":
			s.stream = id
		default:
			return "", fmt.Errorf("table %s holds the leases of one stream: %s is asked for beside %s; give each stream an application name (or table) of its own: %w", s.table, id, s.stream, core.ErrInvalid)
		}
	}
	return s.stream, nil
}

// own fills in the stream of a lease that was read under want, or refuses the row of another stream.
func (s *Store) own(l *core.Lease, want core.StreamID) error {
	switch l.Key.Stream {
	case want:
	case "":
		l.Key.Stream = want
	default:
		if want != "" {
			return s.otherStream(l.Key, want)
		}
	}
	return nil
}

func (s *Store) otherStream(found core.LeaseKey, want core.StreamID) error {
	why := "it belongs to another stream"
	if nameOf(found.Stream) == nameOf(want) {
		why = "the stream was deleted and made again since, and must not inherit the progress of the former"
	}
	return fmt.Errorf("table %s: lease %s is of stream %s, not of %s: %s; delete the table, or choose another application name: %w", s.table, found.Shard, found.Stream, want, why, core.ErrOtherStream)
}

// nameOf is a stream id without its incarnation ("account:stream:epoch"); used in texts only.
func nameOf(id core.StreamID) string {
	if i := strings.LastIndexByte(string(id), ':'); i >= 0 {
		return string(id[:i])
	}
	return string(id)
}
