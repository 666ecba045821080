package dynamodb_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	ddb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/emulator/dynamodb"
)

func TestReturnValues(t *testing.T) {
	_, c := start(t, dynamodb.Config{})
	makeTable(t, c, table, false)
	show := func(it attrs) string {
		var parts []string
		for _, a := range slices.Sorted(maps.Keys(it)) {
			switch v := it[a].(type) {
			case *types.AttributeValueMemberN:
				parts = append(parts, a+"="+v.Value)
			case *types.AttributeValueMemberS:
				parts = append(parts, a+"="+v.Value)
			case *types.AttributeValueMemberM:
				parts = append(parts, a+fmt.Sprint(slices.Sorted(maps.Keys(v.Value))))
			}
		}
		return strings.Join(parts, " ")
	}
	for _, w := range []struct {
		rv   types.ReturnValue
		want string
	}{
		{"", ""}, {types.ReturnValueNone, ""},
		{types.ReturnValueAllOld, "gone=x leaseKey=a m[x y] n=1 o=w"},
		{types.ReturnValueAllNew, "leaseKey=a m[x y] n=2 o=w"},
		{types.ReturnValueUpdatedOld, "gone=x m[x] n=1"},
		{types.ReturnValueUpdatedNew, "m[x] n=2"},
	} {
		put(t, c, table, attrs{"leaseKey": S("a"), "n": N(1), "o": S("w"), "gone": S("x"), "m": M(attrs{"x": N(1), "y": N(1)})})
		o, err := c.UpdateItem(t.Context(), &ddb.UpdateItemInput{TableName: new(table), Key: key("a"), ReturnValues: w.rv,
			UpdateExpression: new("SET m.x = :one ADD n :one REMOVE gone"), ExpressionAttributeValues: attrs{":one": N(1)}})
		if err != nil {
			t.Fatal(err)
		}
		if got := show(o.Attributes); got != w.want {
			t.Errorf("%s: %q, want %q", w.rv, got, w.want)
		}
	}
	o, err := c.UpdateItem(t.Context(), &ddb.UpdateItemInput{TableName: new(table), Key: key("fresh"), ReturnValues: types.ReturnValueAllOld, UpdateExpression: new("REMOVE x")})
	if err != nil || o.Attributes != nil {
		t.Errorf("old values of a new item: %v %v", o.Attributes, err)
	}
	p, err := c.PutItem(t.Context(), &ddb.PutItemInput{TableName: new(table), Item: key("a"), ReturnValues: types.ReturnValueAllOld})
	if err != nil || show(p.Attributes) != "leaseKey=a m[x y] n=2 o=w" {
		t.Errorf("PutItem answers %q %v", show(p.Attributes), err)
	}
	d, err := c.DeleteItem(t.Context(), &ddb.DeleteItemInput{TableName: new(table), Key: key("a"), ReturnValues: types.ReturnValueAllOld})
	if err != nil || show(d.Attributes) != "leaseKey=a" {
		t.Errorf("DeleteItem answers %q %v", show(d.Attributes), err)
	}
}

func TestOldItemOfAFailedCondition(t *testing.T) {
	_, c := start(t, dynamodb.Config{})
	makeTable(t, c, table, false)
	put(t, c, table, attrs{"leaseKey": S("a"), "leaseCounter": N(5)})
	for _, ask := range []bool{true, false} {
		how := types.ReturnValuesOnConditionCheckFailureNone
		if ask {
			how = types.ReturnValuesOnConditionCheckFailureAllOld
		}
		cond, v := new("leaseCounter = :c"), attrs{":c": N(4)}
		_, put := c.PutItem(t.Context(), &ddb.PutItemInput{TableName: new(table), Item: key("a"), ConditionExpression: cond, ExpressionAttributeValues: v, ReturnValuesOnConditionCheckFailure: how})
		_, upd := c.UpdateItem(t.Context(), &ddb.UpdateItemInput{TableName: new(table), Key: key("a"), UpdateExpression: new("REMOVE x"), ConditionExpression: cond, ExpressionAttributeValues: v, ReturnValuesOnConditionCheckFailure: how})
		_, del := c.DeleteItem(t.Context(), &ddb.DeleteItemInput{TableName: new(table), Key: key("a"), ConditionExpression: cond, ExpressionAttributeValues: v, ReturnValuesOnConditionCheckFailure: how})
		for op, err := range map[string]error{"put": put, "update": upd, "delete": del} {
			e, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
			if !ok || (num(e.Item, "leaseCounter") == "5") != ask || e.ErrorMessage() != "The conditional request failed" {
				t.Errorf("%s, item asked for %v: %v %+v", op, ask, err, e)
			}
		}
	}
	_, err := c.UpdateItem(t.Context(), &ddb.UpdateItemInput{TableName: new(table), Key: key("none"), UpdateExpression: new("REMOVE x"),
		ConditionExpression: new("attribute_exists(leaseKey)"), ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld})
	if e, ok := errors.AsType[*types.ConditionalCheckFailedException](err); !ok || e.Item != nil {
		t.Errorf("condition on an item that is not there: %v", err)
	}
}

func TestBatches(t *testing.T) {
	s, c := start(t, dynamodb.Config{})
	makeTable(t, c, table, false)
	makeTable(t, c, "other", false)
	write := func(n int, table string) map[string][]types.WriteRequest {
		var w []types.WriteRequest
		for i := range n {
			w = append(w, types.WriteRequest{PutRequest: &types.PutRequest{Item: attrs{"leaseKey": S(fmt.Sprint("k", i)), "v": N(i), "w": N(i)}}})
		}
		return map[string][]types.WriteRequest{table: w}
	}
	if _, err := c.BatchWriteItem(t.Context(), &ddb.BatchWriteItemInput{RequestItems: write(25, table)}); err != nil {
		t.Fatal(err)
	}
	_, err := c.BatchWriteItem(t.Context(), &ddb.BatchWriteItemInput{RequestItems: write(26, table)})
	wantCode(t, "26 items", err, "ValidationException")
	_, err = c.BatchWriteItem(t.Context(), &ddb.BatchWriteItemInput{RequestItems: write(1, "nope")})
	wantCode(t, "no such table", err, "ResourceNotFoundException")
	in := write(2, "other")
	in[table] = []types.WriteRequest{{DeleteRequest: &types.DeleteRequest{Key: key("k0")}}, {DeleteRequest: &types.DeleteRequest{Key: key("nothing")}}}
	if _, err := c.BatchWriteItem(t.Context(), &ddb.BatchWriteItemInput{RequestItems: in}); err != nil {
		t.Fatal(err)
	}
	if a, b := len(s.Items(table)), len(s.Items("other")); a != 24 || b != 2 {
		t.Errorf("%d and %d items, want 24 and 2", a, b)
	}
	g, err := c.BatchGetItem(t.Context(), &ddb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
		table: {Keys: []attrs{key("k1"), key("k0")}, ProjectionExpression: new("v")}, "other": {Keys: []attrs{key("k0")}, AttributesToGet: []string{"leaseKey", "w"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if r := g.Responses; len(r[table]) != 1 || len(r[table][0]) != 1 || num(r[table][0], "v") != "1" || len(r["other"]) != 1 || len(r["other"][0]) != 2 || len(g.UnprocessedKeys) != 0 {
		t.Errorf("got %v", r)
	}
}
