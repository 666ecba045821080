package dynamo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/shardwarden/shardwarden/core"
)

// StreamsMigration is what it takes to turn a table of one stream into one of several. [Store.PlanSeveralStreams] makes it.
type StreamsMigration struct {
	Stream core.StreamID
	Leases []core.Lease // to be given the keys of a table of several streams; their progress stays

	store *Store
	rows  []Attributes
}

// PlanSeveralStreams looks at a table of one stream, twice, watch apart, and writes nothing. It is an error if anybody uses the table: a lease or a
// worker's row that changes meanwhile; so watch must be longer than the lease duration of the fleet. Where an earlier [StreamsMigration.Run] ended
// half-way, what is left is planned: until that is done, the table is refused by stores of both kinds.
func (s *Store) PlanSeveralStreams(ctx context.Context, stream core.StreamID, watch time.Duration) (*StreamsMigration, error) {
	if !severalID.MatchString(string(stream)) {
		return nil, s.noID(stream)
	}
	before, err := s.signs(ctx)
	if err != nil {
		return nil, err
	}
	t := time.NewTimer(watch)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	rows, err := s.scanTable(ctx, s.table)
	if err != nil {
		return nil, err
	}
	m := &StreamsMigration{Stream: stream, store: s}
	for _, row := range rows {
		key := (&rowReader{row: row}).text(attrKey)
		if was, there := before[key]; (kindOf(row) == isLease || kindOf(row) == isWorker) && (!there || was != sign(row)) {
			return nil, fmt.Errorf("table %s is in use: row %s changed within %v (owner %s); stop every worker of the application first: %w", s.table, key, watch, describe(row[attrOwner]), core.ErrConflict)
		}
		if kindOf(row) != isLease || ofSeveral(row) {
			continue
		}
		l, err := decodeLease(row, s.stamped())
		if err != nil {
			return nil, fmt.Errorf("table %s: %w; mend or delete the row first", s.table, err)
		}
		if err := s.own(&l, stream); err != nil {
			return nil, err
		}
		m.Leases, m.rows = append(m.Leases, l), append(m.rows, row)
	}
	return m, nil
}

// Run gives each lease its new key: first the new row is made, then the old one goes, each unless somebody was quicker. Owners are dropped. An error
// leaves the table between the two kinds, which nobody opens: plan and run again.
func (m *StreamsMigration) Run(ctx context.Context) error {
	for i, l := range m.Leases {
		if err := m.move(ctx, &l, m.rows[i]); err != nil {
			return err
		}
	}
	return nil
}

func (m *StreamsMigration) move(ctx context.Context, l *core.Lease, old Attributes) error {
	s := m.store
	row := maps.Clone(old)
	for _, a := range []string{attrOwner, attrCurrentOwner, attrAsked, attrRun, attrStream} {
		delete(row, a)
	}
	key := string(m.Stream) + ":" + string(l.Key.Shard)
	nameRow(row, key, core.LeaseKey{Stream: m.Stream, Shard: l.Key.Shard})
	e := newExpression()
	e.require("attribute_not_exists(%s)", e.name(attrKey))
	_, err := call(ctx, s, once("PutItem"), s.client.PutItem, &dynamodb.PutItemInput{
		TableName: &s.table, Item: row, ConditionExpression: e.condition(), ExpressionAttributeNames: e.attributeNames(),
	})
	if errors.Is(err, core.ErrConflict) {
		err = m.sameThere(ctx, key, l)
	}
	if err != nil {
		return err
	}
	e = newExpression()
	e.requireEqual(attrCounter, number(l.Counter))
	_, err = call(ctx, s, once("DeleteItem"), s.client.DeleteItem, &dynamodb.DeleteItemInput{
		TableName: &s.table, Key: Attributes{attrKey: old[attrKey]},
		ConditionExpression: e.condition(), ExpressionAttributeNames: e.attributeNames(), ExpressionAttributeValues: e.placeholders(),
	})
	if errors.Is(err, core.ErrConflict) {
		return fmt.Errorf("table %s: lease %s changed meanwhile: a worker uses the table; stop it, delete row %s, and begin again: %w", s.table, l.Key.Shard, key, err)
	}
	return err
}

// sameThere accepts the row that an earlier run made.
func (m *StreamsMigration) sameThere(ctx context.Context, key string, l *core.Lease) error {
	s := m.store
	out, err := call(ctx, s, retried("GetItem"), s.client.GetItem, &dynamodb.GetItemInput{TableName: &s.table, Key: Attributes{attrKey: text(key)}, ConsistentRead: new(true)})
	if err != nil {
		return err
	}
	there, err := decodeLease(out.Item, s.stamped())
	if err == nil && there.Checkpoint.Equal(l.Checkpoint) {
		return nil
	}
	return fmt.Errorf("table %s: row %s stands at %s, and lease %s at %s: delete the one that is wrong, and begin again: %w", s.table, key, there.Checkpoint, l.Key.Shard, l.Checkpoint, core.ErrConflict)
}

// signs is what of each row shows that somebody lives, by key.
func (s *Store) signs(ctx context.Context) (map[string]string, error) {
	rows, err := s.scanTable(ctx, s.table)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(rows))
	for _, row := range rows {
		out[(&rowReader{row: row}).text(attrKey)] = sign(row)
	}
	return out, nil
}

func sign(row Attributes) string {
	return describe(row[attrCounter]) + describe(row[attrUpdated]) + describe(row[attrBeat]) + describe(row[attrLockVersion])
}
