package dynamodb_test

import (
	"testing"

	ddb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/emulator/dynamodb"
)

func TestLifeOfALease(t *testing.T) {
	s, c := start(t, dynamodb.Config{})
	const table = "leases"
	makeTable(t, c, table, true)

	create := &ddb.PutItemInput{TableName: new(table), Item: attrs{"leaseKey": S("shardId-0"), "leaseCounter": N(0), "checkpoint": S("TRIM_HORIZON")},
		ConditionExpression: new("attribute_not_exists(leaseKey)")}
	if _, err := c.PutItem(t.Context(), create); err != nil {
		t.Fatal(err)
	}
	_, err := c.PutItem(t.Context(), create)
	wantCode(t, "second create", err, "ConditionalCheckFailedException")

	take := func(seen, owner string) (*ddb.UpdateItemOutput, error) {
		return c.UpdateItem(t.Context(), &ddb.UpdateItemInput{TableName: new(table), Key: key("shardId-0"),
			ConditionExpression:                 new("leaseCounter = :seen AND attribute_not_exists(checkpointOwner)"),
			UpdateExpression:                    new("SET leaseOwner = :me ADD leaseCounter :one REMOVE checkpointOwner"),
			ExpressionAttributeValues:           attrs{":seen": N(seen), ":me": S(owner), ":one": N(1)},
			ReturnValues:                        types.ReturnValueAllNew,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld})
	}
	o, err := take("0", "A")
	if err != nil {
		t.Fatal(err)
	}
	if num(o.Attributes, "leaseCounter") != "1" || str(o.Attributes, "leaseOwner") != "A" {
		t.Errorf("after the take: %v", o.Attributes)
	}
	_, err = take("0", "B")
	wantCode(t, "stale take", err, "ConditionalCheckFailedException")

	q, err := c.Query(t.Context(), &ddb.QueryInput{TableName: new(table), IndexName: new(ownerIndex),
		KeyConditionExpression: new("leaseOwner = :o"), ExpressionAttributeValues: attrs{":o": S("A")}})
	if err != nil {
		t.Fatal(err)
	}
	if len(q.Items) != 1 || len(q.Items[0]) != 2 || str(q.Items[0], "leaseKey") != "shardId-0" {
		t.Errorf("index shows %v", q.Items)
	}
	sc, err := c.Scan(t.Context(), &ddb.ScanInput{TableName: new(table)})
	if err != nil {
		t.Fatal(err)
	}
	if sc.Count != 1 || sc.LastEvaluatedKey != nil {
		t.Errorf("scan: %d items, more %v", sc.Count, sc.LastEvaluatedKey)
	}
	if _, err := c.DeleteItem(t.Context(), &ddb.DeleteItemInput{TableName: new(table), Key: key("shardId-0")}); err != nil {
		t.Fatal(err)
	}
	if it := get(t, c, table, "shardId-0"); it != nil {
		t.Errorf("after delete: %v", it)
	}
	if n := s.Calls()["UpdateItem"]; n != 2 {
		t.Errorf("Calls counts %d UpdateItem, want 2", n)
	}
	if n := s.CallsOn(table)["PutItem"]; n != 2 {
		t.Errorf("CallsOn counts %d PutItem, want 2", n)
	}
}
