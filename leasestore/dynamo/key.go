package dynamo

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/core"
)

// How leases are named in the table.
//
//	table of       partition key                   the stream stands in
//	one stream     the shard id                    an attribute of ours, sw_stream
//	several        account:stream:epoch:shard id   the key, and the attributes streamName and shardId
//
// The second is that of the KCL's multi-stream mode (docs/reference/kcl.md 1.2). The two cannot be read as each other: a table is of one kind.

// severalID is a stream as the KCL names it, and severalKey a lease of it (StreamIdentifier of the KCL).
var (
	severalID  = regexp.MustCompile(`^[0-9]+:[^:]+:[0-9]+$`)
	severalKey = regexp.MustCompile(`^([0-9]+:[^:]+:[0-9]+):(.+)$`)
)

// rowKey is the partition key of a lease.
func (s *Store) rowKey(k core.LeaseKey) (string, error) {
	if err := checkKey(k); err != nil {
		return "", err
	}
	if !s.several {
		return string(k.Shard), nil
	}
	if !severalID.MatchString(string(k.Stream)) {
		return "", s.noID(k.Stream)
	}
	return string(k.Stream) + ":" + string(k.Shard), nil
}

func checkKey(k core.LeaseKey) error {
	if k.Shard == "" {
		return fmt.Errorf("lease of stream %q without a shard id: %w", k.Stream, core.ErrInvalid)
	}
	return nil
}

// keyOf is the inverse of rowKey, as far as a row of either kind says. The stream is empty on rows of one stream that only others have written.
func (r *rowReader) keyOf() core.LeaseKey {
	key := r.text(attrKey)
	if r.row[attrMultiStream] == nil {
		if strings.Contains(key, ":") {
			if part := severalKey.FindStringSubmatch(key); part != nil {
				return core.LeaseKey{Stream: core.StreamID(part[1]), Shard: core.ShardID(part[2])}
			}
		}
		return core.LeaseKey{Stream: core.StreamID(r.optional(attrStream)), Shard: core.ShardID(key)}
	}
	k := core.LeaseKey{Stream: core.StreamID(r.text(attrMultiStream)), Shard: core.ShardID(r.text(attrMultiShard))}
	if r.err == nil && string(k.Stream)+":"+string(k.Shard) != key {
		r.fail("%s is %q: expected %s:%s, as %s and %s say", attrKey, clip(key), k.Stream, k.Shard, attrMultiStream, attrMultiShard)
	}
	return k
}

// ofSeveral reports whether a lease row is of a table of several streams.
func ofSeveral(row Attributes) bool {
	if row[attrMultiStream] != nil {
		return true
	}
	key, ok := row[attrKey].(*types.AttributeValueMemberS)
	return ok && strings.Contains(key.Value, ":") && severalKey.MatchString(key.Value)
}

// nameRow gives a row to create the key and the attributes of a table of several streams.
func nameRow(row Attributes, key string, k core.LeaseKey) {
	row[attrKey], row[attrMultiStream], row[attrMultiShard] = text(key), text(string(k.Stream)), text(string(k.Shard))
}

// bind fixes the stream of a table of one at the first call that names one, and returns it; it is empty as long as nobody has named one, and in
// a table of several.
func (s *Store) bind(streams ...core.StreamID) (core.StreamID, error) {
	if s.several {
		for _, id := range streams {
			if id != "" && !severalID.MatchString(string(id)) {
				return "", s.noID(id)
			}
		}
		return "", nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range streams {
		switch {
		case id == "" || id == s.stream:
		case s.stream == "":
			s.stream = id
		default:
			return "", fmt.Errorf("table %s holds the leases of one stream: %s is asked for beside %s; give each stream an application name (or table) of its own, or open the store of an application of several with dynamo.SeveralStreams: %w", s.table, id, s.stream, core.ErrInvalid)
		}
	}
	return s.stream, nil
}

func (s *Store) noID(id core.StreamID) error {
	return fmt.Errorf("table %s is one of several streams, whose ids are account:stream:creationEpoch: %q is not: %w", s.table, id, core.ErrInvalid)
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

// rightKind refuses a lease row of the other kind of table.
func (s *Store) rightKind(row Attributes) error {
	several := ofSeveral(row)
	switch {
	case several == s.several:
		return nil
	case several:
		return fmt.Errorf("table %s is one of several streams (lease %s): a store of one stream cannot share it; choose another application name, or open it with dynamo.SeveralStreams: %w",
			s.table, describe(row[attrKey]), core.ErrInvalid)
	}
	return fmt.Errorf("table %s is one of a single stream (lease %s has no %s): its leases mean nothing to a fleet of several streams; choose another application name, turn the table into one of several with all its progress (shardwarden leases migrate --to multi-stream), or open it without dynamo.SeveralStreams: %w",
		s.table, describe(row[attrKey]), attrMultiStream, core.ErrInvalid)
}

// nameOf is a stream id without its incarnation ("account:stream:epoch"); used in texts only.
func nameOf(id core.StreamID) string {
	if i := strings.LastIndexByte(string(id), ':'); i >= 0 {
		return string(id[:i])
	}
	return string(id)
}
