package dynamodb_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ddb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/emulator/dynamodb"
)

// The KCL's table migration moves rows so: hold the lock, put if absent,
// delete the old.
func TestTransactionMovesARow(t *testing.T) {
	s, c := start(t, dynamodb.Config{})
	makeTable(t, c, "old", false)
	makeTable(t, c, "new", false)
	put(t, c, "old", attrs{"leaseKey": S("Leader"), "ownerName": S("A")})
	put(t, c, "old", attrs{"leaseKey": S("row"), "v": N(1)})
	move := func(owner string) error {
		_, err := c.TransactWriteItems(t.Context(), &ddb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
			{ConditionCheck: &types.ConditionCheck{TableName: new("old"), Key: key("Leader"), ConditionExpression: new("ownerName = :me"),
				ExpressionAttributeValues: attrs{":me": S(owner)}, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld}},
			{Put: &types.Put{TableName: new("new"), Item: attrs{"leaseKey": S("row"), "v": N(1)}, ConditionExpression: new("attribute_not_exists(leaseKey)")}},
			{Delete: &types.Delete{TableName: new("old"), Key: key("row")}},
		}})
		return err
	}
	err := move("B")
	tc, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok {
		t.Fatalf("moved by another: %v, want TransactionCanceledException", err)
	}
	var codes []string
	for _, r := range tc.CancellationReasons {
		codes = append(codes, *r.Code)
	}
	if fmt.Sprint(codes) != "[ConditionalCheckFailed None None]" || str(tc.CancellationReasons[0].Item, "ownerName") != "A" || tc.CancellationReasons[1].Item != nil {
		t.Errorf("reasons %v, item %v", codes, tc.CancellationReasons[0].Item)
	}
	if want := "Transaction cancelled, please refer cancellation reasons for specific reasons [ConditionalCheckFailed, None, None]"; tc.ErrorMessage() != want {
		t.Errorf("message %q", tc.ErrorMessage())
	}
	if len(s.Items("old")) != 2 || len(s.Items("new")) != 0 {
		t.Errorf("the cancelled transaction left %v and %v", s.Items("old"), s.Items("new"))
	}
	if err := move("A"); err != nil {
		t.Fatal(err)
	}
	if len(s.Items("old")) != 1 || len(s.Items("new")) != 1 {
		t.Errorf("after the move: %v and %v", s.Items("old"), s.Items("new"))
	}
	err = move("A")
	if tc, ok := errors.AsType[*types.TransactionCanceledException](err); !ok || *tc.CancellationReasons[1].Code != "ConditionalCheckFailed" || tc.CancellationReasons[1].Item != nil {
		t.Errorf("moved again: %v, want the put refused, its item not asked for", err)
	}
}

func TestTransactionErrors(t *testing.T) {
	s, c := start(t, dynamodb.Config{})
	makeTable(t, c, table, false)
	put(t, c, table, attrs{"leaseKey": S("a"), "s": S("text")})
	run := func(items ...types.TransactWriteItem) error {
		_, err := c.TransactWriteItems(t.Context(), &ddb.TransactWriteItemsInput{TransactItems: items})
		return err
	}
	other := types.TransactWriteItem{Put: &types.Put{TableName: new(table), Item: key("b")}}
	err := run(other, types.TransactWriteItem{Update: &types.Update{TableName: new(table), Key: key("a"), UpdateExpression: new("ADD s :n"), ExpressionAttributeValues: attrs{":n": N(1)}}})
	if tc, ok := errors.AsType[*types.TransactionCanceledException](err); !ok || *tc.CancellationReasons[1].Code != "ValidationError" || *tc.CancellationReasons[1].Message != "An operand in the update expression has an incorrect data type" {
		t.Errorf("update of the wrong type: %v", err)
	}
	err = run(other, types.TransactWriteItem{Delete: &types.Delete{TableName: new("nope"), Key: key("a")}})
	wantCode(t, "no such table", err, "ResourceNotFoundException")
	many := make([]types.TransactWriteItem, 101)
	for i := range many {
		many[i] = types.TransactWriteItem{Delete: &types.Delete{TableName: new(table), Key: key(fmt.Sprint(i))}}
	}
	wantCode(t, "101 items", run(many...), "ValidationException")
	big := strings.Repeat("x", 390<<10)
	var heavy []types.TransactWriteItem
	for i := range 11 {
		heavy = append(heavy, types.TransactWriteItem{Put: &types.Put{TableName: new(table), Item: attrs{"leaseKey": S(fmt.Sprint("h", i)), "v": S(big)}}})
	}
	wantCode(t, "over 4 MB", run(heavy...), "ValidationException")
	if n := len(s.Items(table)); n != 1 {
		t.Errorf("the refused transactions left %d items, want 1", n)
	}
	o, err := c.TransactWriteItems(t.Context(), &ddb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{other}, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal})
	if err != nil || len(o.ConsumedCapacity) != 1 || *o.ConsumedCapacity[0].CapacityUnits != 2 {
		t.Errorf("capacity of a transaction: %+v %v, want 2 units", o, err)
	}
}

func TestRepeatedTransactionIsAppliedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, dynamodb.Config{})
		makeTable(t, c, table, false)
		add := func(token, by string) error {
			_, err := c.TransactWriteItems(t.Context(), &ddb.TransactWriteItemsInput{ClientRequestToken: &token, TransactItems: []types.TransactWriteItem{
				{Update: &types.Update{TableName: new(table), Key: key("a"), UpdateExpression: new("ADD n :by SET x = :x, y = :y"), ExpressionAttributeValues: attrs{":by": N(by), ":x": S("x"), ":y": S("y")}}}}})
			return err
		}
		for range 20 { // the client writes its maps in another order now and then
			if err := add("token", "1"); err != nil {
				t.Fatal(err)
			}
		}
		if n := num(get(t, c, table, "a"), "n"); n != "1" {
			t.Errorf("after 20 repeats n is %s, want 1", n)
		}
		wantCode(t, "another request under the token", add("token", "2"), "IdempotentParameterMismatchException")
		time.Sleep(11 * time.Minute)
		if err := add("token", "2"); err != nil {
			t.Fatal(err)
		}
		if n := num(get(t, c, table, "a"), "n"); n != "3" {
			t.Errorf("after the token's life n is %s, want 3", n)
		}
	})
}

func TestTransactGet(t *testing.T) {
	_, c := start(t, dynamodb.Config{EventualLag: time.Hour})
	makeTable(t, c, table, false)
	put(t, c, table, attrs{"leaseKey": S("a"), "v": N(1), "w": N(2)})
	o, err := c.TransactGetItems(t.Context(), &ddb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{
		{Get: &types.Get{TableName: new(table), Key: key("a"), ProjectionExpression: new("v")}}, {Get: &types.Get{TableName: new(table), Key: key("none")}}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(o.Responses) != 2 || len(o.Responses[0].Item) != 1 || num(o.Responses[0].Item, "v") != "1" || o.Responses[1].Item != nil {
		t.Errorf("got %+v", o.Responses)
	}
}
