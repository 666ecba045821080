package dynamo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/shardwarden/shardwarden/core"
)

// Attributes of the lock row (docs/reference/kcl.md 2.3), which the KCL's lock client writes.
const (
	attrLockOwner    = "ownerName"           // S
	attrLockDuration = "leaseDuration"       // S, milliseconds
	attrLockVersion  = "recordVersionNumber" // S, a random UUID with each write
	attrLockReleased = "isReleased"          // S "1", where it was given back and the row kept
	entityLeader     = "LEADER"
)

// defaultLeaderLease is what others wait before they lead in the place of a worker that died.
const defaultLeaderLease = 30 * time.Second

func (s *Store) lockPlace() (table, keyAttr string) {
	if st := s.now(); st.lockAside() {
		return s.coordinatorName(), attrSideKey
	}
	return s.table, attrKey
}

// Leader implements [core.LeaderLock].
func (s *Store) Leader(ctx context.Context) (core.Lock, error) {
	table, keyAttr := s.lockPlace()
	row, err := s.readRow(ctx, table, keyAttr, keyLeader)
	switch {
	case errors.Is(err, core.ErrNotFound) && !missingTable(err):
		return core.Lock{}, nil
	case err != nil:
		return core.Lock{}, err
	}
	l, err := decodeLock(row)
	if err != nil {
		return core.Lock{}, fmt.Errorf("table %s row %s: %w: %w", table, keyLeader, err, core.ErrInvalid)
	}
	return l, nil
}

// decodeLock reads the lock; one that was given back is nobody's.
func decodeLock(row Attributes) (core.Lock, error) {
	if plain(row[attrLockReleased]) == "1" {
		return core.Lock{}, nil
	}
	r := rowReader{row: row}
	l := core.Lock{Owner: core.WorkerID(r.text(attrLockOwner)), Version: r.text(attrLockVersion)}
	ms, err := strconv.ParseInt(r.text(attrLockDuration), 10, 64)
	if err != nil || ms <= 0 || ms > int64(365*24*time.Hour/time.Millisecond) {
		r.expected(attrLockDuration, "milliseconds as text (S)")
	}
	if l.Duration = time.Duration(ms) * time.Millisecond; r.err != nil {
		return core.Lock{}, r.err
	}
	return l, nil
}

// Lead implements [core.LeaderLock]. The row is that of the KCL's lock client, and so are the conditions.
func (s *Store) Lead(ctx context.Context, seen core.Lock, me core.WorkerID) (core.Lock, error) {
	if me == core.Nobody {
		return core.Lock{}, fmt.Errorf("leader without an id: %w", core.ErrInvalid)
	}
	if st := s.now(); !st.leads {
		return core.Lock{}, fmt.Errorf("table %s, layout %s, rules %s: nobody of ours may lead it: %w", s.table, s.kind, st.regime, core.ErrInvalid)
	}
	table, keyAttr := s.lockPlace()
	version, err := newVersion()
	if err != nil {
		return core.Lock{}, err
	}
	mine := core.Lock{Owner: me, Version: version, Duration: s.leaderLease}
	duration := text(strconv.FormatInt(mine.Duration.Milliseconds(), 10))
	e := newExpression()
	if seen == (core.Lock{}) {
		e.require("(attribute_not_exists(%s) OR %s = %s)", e.name(keyAttr), e.name(attrLockReleased), e.value(text("1")))
	} else {
		s.sameLock(e, seen)
	}
	if seen.Owner == me {
		e.put(attrLockVersion, text(version))
		e.put(attrLockDuration, duration)
		_, err = call(ctx, s, operation{name: "UpdateItem", once: true, table: table}, s.updates.once, &dynamodb.UpdateItemInput{
			TableName: &table, Key: Attributes{keyAttr: text(keyLeader)},
			ConditionExpression: e.condition(), UpdateExpression: e.update(),
			ExpressionAttributeNames: e.attributeNames(), ExpressionAttributeValues: e.placeholders(),
		})
	} else {
		row := Attributes{keyAttr: text(keyLeader), attrLockOwner: text(string(me)), attrLockVersion: text(version), attrLockDuration: duration}
		if keyAttr == attrKey { // among leases, where rows carry their type
			row[attrEntity] = text(entityLeader)
		}
		_, err = call(ctx, s, operation{name: "PutItem", once: true, table: table}, s.client.PutItem, &dynamodb.PutItemInput{
			TableName: &table, Item: row,
			ConditionExpression: e.condition(), ExpressionAttributeNames: e.attributeNames(), ExpressionAttributeValues: e.placeholders(),
		})
	}
	s.mu.Lock()
	s.leading = err == nil
	s.mu.Unlock()
	if err != nil {
		return core.Lock{}, err
	}
	return mine, nil
}

// Resign implements [core.LeaderLock].
func (s *Store) Resign(ctx context.Context, seen core.Lock) error {
	if seen == (core.Lock{}) {
		return nil
	}
	s.mu.Lock()
	s.leading = false
	s.mu.Unlock()
	table, keyAttr := s.lockPlace()
	e := newExpression()
	s.sameLock(e, seen)
	_, err := call(ctx, s, operation{name: "DeleteItem", once: true, table: table}, s.client.DeleteItem, &dynamodb.DeleteItemInput{
		TableName: &table, Key: Attributes{keyAttr: text(keyLeader)},
		ConditionExpression: e.condition(), ExpressionAttributeNames: e.attributeNames(), ExpressionAttributeValues: e.placeholders(),
	})
	if errors.Is(err, core.ErrConflict) {
		return nil
	}
	return err
}

func (s *Store) sameLock(e *expression, seen core.Lock) {
	e.requireEqual(attrLockVersion, text(seen.Version))
	e.requireEqual(attrLockOwner, text(string(seen.Owner)))
}

// newVersion is a random UUID (RFC 9562, version 4).
func newVersion() (string, error) {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:]), nil
}
