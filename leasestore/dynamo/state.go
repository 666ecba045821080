package dynamo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/core"
)

// state is a row of the KCL's coordinator that holds one word, and what that was before.
type state struct {
	table, keyAttr string
	key, attr      string
	seen           Attributes // nil: there was none
}

const (
	entityVersion = "CLIENT_VERSION_MIGRATION"
	entityTables  = "TABLE_MIGRATION"

	mostHistory = 10            // states that a row remembers, as Java's
	modifiedBy  = "shardwarden" // who writes them
)

// next is the row with another word: what it was goes to the head of its history. What else is in the row stays.
func (st *state) next(to string, now time.Time) Attributes {
	row := maps.Clone(st.seen)
	if row == nil {
		row = Attributes{st.keyAttr: text(st.key)}
		if st.keyAttr == attrKey {
			row[attrEntity] = text(map[string]string{keyVersion: entityVersion, keyTables: entityTables}[st.key])
		}
	} else {
		was := Attributes{}
		for _, a := range []string{st.attr, attrModifiedBy, attrModifiedAt} {
			if v := row[a]; v != nil {
				was[a] = v
			}
		}
		history := []types.AttributeValue{&types.AttributeValueMemberM{Value: was}}
		if h, ok := row[attrHistory].(*types.AttributeValueMemberL); ok {
			history = append(history, h.Value...)
		}
		row[attrHistory] = &types.AttributeValueMemberL{Value: history[:min(len(history), mostHistory)]}
	}
	row[st.attr], row[attrModifiedBy], row[attrModifiedAt] = text(to), text(modifiedBy), number(now.UnixMilli())
	return row
}

// same requires the row to be as it was seen.
func (st *state) same(e *expression) {
	if st.seen == nil {
		e.require("attribute_not_exists(%s)", e.name(st.keyAttr))
		return
	}
	for _, a := range []string{st.attr, attrModifiedAt} {
		if v := st.seen[a]; v != nil {
			e.requireEqual(a, v)
		} else {
			e.require("attribute_exists(%s) AND attribute_not_exists(%s)", e.name(st.keyAttr), e.name(a))
		}
	}
}

// setState writes the word if nobody has written another since.
func (s *Store) setState(ctx context.Context, st state, to string) error {
	e := newExpression()
	st.same(e)
	var err error
	row := st.next(to, time.Now())
	if st.seen == nil {
		_, err = call(ctx, s, operation{name: "PutItem", once: true, table: st.table}, s.client.PutItem, &dynamodb.PutItemInput{
			TableName: &st.table, Item: row, ConditionExpression: e.condition(), ExpressionAttributeNames: e.attributeNames(), ExpressionAttributeValues: e.placeholders(),
		})
	} else {
		for _, a := range []string{st.attr, attrModifiedBy, attrModifiedAt, attrHistory} {
			e.put(a, row[a])
		}
		_, err = call(ctx, s, operation{name: "UpdateItem", once: true, table: st.table}, s.client.UpdateItem, &dynamodb.UpdateItemInput{
			TableName: &st.table, Key: Attributes{st.keyAttr: text(st.key)},
			ConditionExpression: e.condition(), UpdateExpression: e.update(), ExpressionAttributeNames: e.attributeNames(), ExpressionAttributeValues: e.placeholders(),
		})
	}
	return s.orDone(ctx, st, to, err)
}

// orDone accepts a write that was refused, or whose answer was lost, where the row says what it was to say.
func (s *Store) orDone(ctx context.Context, st state, to string, err error) error {
	if !errors.Is(err, core.ErrConflict) && !errors.Is(err, core.ErrUnavailable) {
		return err
	}
	now, readErr := s.readRow(ctx, st.table, st.keyAttr, st.key)
	if readErr != nil && !errors.Is(readErr, core.ErrNotFound) {
		return errors.Join(err, readErr)
	}
	if plain(now[st.attr]) == to {
		return nil
	}
	return fmt.Errorf("row %s of table %s is %s now, and was %s: somebody else changed it; plan again: %w", st.key, st.table, describe(now[st.attr]), describe(st.seen[st.attr]), err)
}

// deleteState removes the row if it is as it was seen.
func (s *Store) deleteState(ctx context.Context, st state) error {
	e := newExpression()
	st.same(e)
	condition := fmt.Sprintf("attribute_not_exists(%s) OR (%s)", e.name(st.keyAttr), *e.condition())
	_, err := call(ctx, s, operation{name: "DeleteItem", once: true, table: st.table}, s.client.DeleteItem, &dynamodb.DeleteItemInput{
		TableName: &st.table, Key: Attributes{st.keyAttr: text(st.key)},
		ConditionExpression: &condition, ExpressionAttributeNames: e.attributeNames(), ExpressionAttributeValues: e.placeholders(),
	})
	if errors.Is(err, core.ErrConflict) {
		return fmt.Errorf("row %s of table %s changed meanwhile: somebody uses the table; plan again: %w", st.key, st.table, err)
	}
	return err
}
