package dynamodb_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ddb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/shardwarden/shardwarden/emulator/dynamodb"
)

const table = "leases"

// bump adds one to a lease's counter.
func bump(ctx context.Context, c *ddb.Client, k string) error {
	_, err := c.UpdateItem(ctx, &ddb.UpdateItemInput{TableName: new(table), Key: key(k),
		UpdateExpression: new("ADD leaseCounter :one"), ExpressionAttributeValues: attrs{":one": N(1)}})
	return err
}

// noAnswer reports an error that is not the service's: the connection was lost.
func noAnswer(err error) bool {
	_, fromService := errors.AsType[smithy.APIError](err)
	return err != nil && !fromService
}

func TestFaultsThatAnswer(t *testing.T) {
	for _, c := range []struct {
		fault   dynamodb.Fault
		code    string
		message string
	}{
		{dynamodb.Fault{Kind: dynamodb.FaultThrottle}, "ProvisionedThroughputExceededException", "provisioned throughput for the table was exceeded"},
		{dynamodb.Fault{Kind: dynamodb.FaultThrottleRequests}, "ThrottlingException", "Rate of requests exceeds"},
		{dynamodb.Fault{Kind: dynamodb.FaultServerError}, "InternalServerError", "Internal server error"},
		{dynamodb.Fault{Kind: dynamodb.FaultDenied}, "AccessDeniedException",
			"is not authorized to perform: dynamodb:UpdateItem on resource: arn:aws:dynamodb:us-east-1:000000000000:table/leases because no identity-based policy"},
	} {
		t.Run(string(c.fault.Kind), func(t *testing.T) {
			s, cl := start(t, dynamodb.Config{})
			makeTable(t, cl, table, false)
			c.fault.Op, c.fault.Times = "UpdateItem", 1
			s.SetFault(c.fault)
			err := bump(t.Context(), cl, "a")
			wantCode(t, "first", err, c.code)
			if err == nil || !strings.Contains(err.Error(), c.message) {
				t.Errorf("message %v, want %q in it", err, c.message)
			}
			if it := get(t, cl, table, "a"); it != nil {
				t.Errorf("the refused write was applied: %v", it)
			}
			if err := bump(t.Context(), cl, "a"); err != nil {
				t.Errorf("second, after Times 1: %v", err)
			}
		})
	}
}

func TestDeniedNamesTheIndex(t *testing.T) {
	s, c := start(t, dynamodb.Config{Region: "eu-west-1", Account: "123456789012"})
	makeTable(t, c, table, true)
	s.SetFault(dynamodb.Fault{Kind: dynamodb.FaultDenied, Op: "Query"})
	_, err := c.Query(t.Context(), &ddb.QueryInput{TableName: new(table), IndexName: new(ownerIndex),
		KeyConditionExpression: new("leaseOwner = :o"), ExpressionAttributeValues: attrs{":o": S("A")}})
	const want = "dynamodb:Query on resource: arn:aws:dynamodb:eu-west-1:123456789012:table/leases/index/" + ownerIndex
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q in it", err, want)
	}
}

func TestFaultSelectors(t *testing.T) {
	s, c := start(t, dynamodb.Config{})
	makeTable(t, c, table, false)
	makeTable(t, c, "other", false)
	s.SetFault(dynamodb.Fault{Kind: dynamodb.FaultServerError, Table: table, KeyPrefix: "shard"})
	wantCode(t, "matching key", bump(t.Context(), c, "shard-1"), "InternalServerError")
	wantCode(t, "other key", bump(t.Context(), c, "Leader"), "")
	_, err := c.PutItem(t.Context(), &ddb.PutItemInput{TableName: new(table), Item: key("shard-2")})
	wantCode(t, "key of a put", err, "InternalServerError")
	_, err = c.PutItem(t.Context(), &ddb.PutItemInput{TableName: new("other"), Item: key("shard-2")})
	wantCode(t, "other table", err, "")
	_, err = c.Scan(t.Context(), &ddb.ScanInput{TableName: new(table)})
	wantCode(t, "a scan names no key", err, "")
	s.ClearFaults()
	wantCode(t, "cleared", bump(t.Context(), c, "shard-1"), "")
}

func TestFaultProbabilityIsSeeded(t *testing.T) {
	run := func(seed uint64) (hits string) {
		s, c := start(t, dynamodb.Config{Seed: seed})
		makeTable(t, c, table, false)
		s.SetFault(dynamodb.Fault{Kind: dynamodb.FaultServerError, Op: "UpdateItem", Probability: 0.3})
		for range 200 {
			if bump(t.Context(), c, "a") != nil {
				hits += "x"
			} else {
				hits += "."
			}
		}
		return
	}
	one, again, other := run(1), run(1), run(2)
	if n := strings.Count(one, "x"); n < 30 || n > 90 {
		t.Errorf("%d of 200 hit, want about 60", n)
	}
	if one != again {
		t.Error("the same seed gave another run")
	}
	if one == other {
		t.Error("another seed gave the same run")
	}
}

func TestDropBeforeAndAfter(t *testing.T) {
	s, c := start(t, dynamodb.Config{})
	makeTable(t, c, table, false)
	s.SetFault(dynamodb.Fault{Kind: dynamodb.FaultDropBefore, Op: "UpdateItem", Times: 1})
	if err := bump(t.Context(), c, "a"); !noAnswer(err) {
		t.Errorf("drop before: %v, want a lost connection", err)
	}
	if it := get(t, c, table, "a"); it != nil {
		t.Errorf("drop before: applied: %v", it)
	}
	s.SetFault(dynamodb.Fault{Kind: dynamodb.FaultDropAfter, Op: "UpdateItem", Times: 1})
	if err := bump(t.Context(), c, "a"); !noAnswer(err) {
		t.Errorf("drop after: %v, want a lost connection", err)
	}
	if n := num(get(t, c, table, "a"), "leaseCounter"); n != "1" {
		t.Errorf("drop after: counter %q, want 1: the write was applied", n)
	}
}

func TestApplyLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := start(t, dynamodb.Config{})
		makeTable(t, c, table, false)
		s.SetFault(dynamodb.Fault{Kind: dynamodb.FaultApplyLate, Op: "UpdateItem", Times: 1, Delay: time.Minute})
		if err := bump(t.Context(), c, "a"); !noAnswer(err) {
			t.Fatalf("got %v, want a lost connection", err)
		}
		time.Sleep(59 * time.Second)
		if it := get(t, c, table, "a"); it != nil {
			t.Errorf("applied too early: %v", it)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := num(get(t, c, table, "a"), "leaseCounter"); n != "1" {
			t.Errorf("a minute later the counter is %q, want 1", n)
		}
		// What is still under way when the server closes is discarded.
		s.SetFault(dynamodb.Fault{Kind: dynamodb.FaultApplyLate, Times: 1, Delay: time.Hour})
		if err := bump(t.Context(), c, "a"); !noAnswer(err) {
			t.Fatalf("got %v, want a lost connection", err)
		}
		began := time.Now()
		s.Close()
		if d := time.Since(began); d > 0 {
			t.Errorf("Close took %v", d)
		}
		if got := s.Items(table)[0]["leaseCounter"]; fmt.Sprint(got) != "map[N:1]" {
			t.Errorf("after Close the counter is %v, want 1", got)
		}
	})
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := start(t, dynamodb.Config{})
		makeTable(t, c, table, false)
		s.SetFault(dynamodb.Fault{Kind: dynamodb.FaultDelay, Delay: 2 * time.Second})
		s.SetFault(dynamodb.Fault{Kind: dynamodb.FaultDelay, Op: "UpdateItem", Delay: 3 * time.Second})
		began := time.Now()
		if err := bump(t.Context(), c, "a"); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("took %v, want both delays: 5s", d)
		}
		// A client that gives up does not stop the write.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := bump(ctx, c, "a"); err == nil {
			t.Error("want the deadline's error")
		}
		time.Sleep(10 * time.Second)
		s.ClearFaults()
		if n := num(get(t, c, table, "a"), "leaseCounter"); n != "2" {
			t.Errorf("counter %q, want 2: the abandoned write still happens", n)
		}
	})
}

func TestThrottledMembers(t *testing.T) {
	s, c := start(t, dynamodb.Config{})
	makeTable(t, c, table, false)
	s.SetFault(dynamodb.Fault{Kind: dynamodb.FaultThrottle, KeyPrefix: "hot"})
	var w []types.WriteRequest
	for _, k := range []string{"hot-1", "cold-1", "hot-2"} {
		w = append(w, types.WriteRequest{PutRequest: &types.PutRequest{Item: key(k)}})
	}
	o, err := c.BatchWriteItem(t.Context(), &ddb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{table: w}})
	if err != nil {
		t.Fatal(err)
	}
	if u := o.UnprocessedItems[table]; len(u) != 2 || str(u[0].PutRequest.Item, "leaseKey") != "hot-1" {
		t.Errorf("unprocessed: %v, want the two hot ones", u)
	}
	if n := len(s.Items(table)); n != 1 {
		t.Errorf("%d items stored, want 1", n)
	}
	_, err = c.BatchWriteItem(t.Context(), &ddb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{table: w[:1]}})
	wantCode(t, "all of a batch", err, "ProvisionedThroughputExceededException")

	g, err := c.BatchGetItem(t.Context(), &ddb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
		table: {Keys: []attrs{key("cold-1"), key("hot-1")}, ConsistentRead: new(true), ProjectionExpression: new("#k"), ExpressionAttributeNames: map[string]string{"#k": "leaseKey"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if u := g.UnprocessedKeys[table]; len(g.Responses[table]) != 1 || len(u.Keys) != 1 || u.ConsistentRead == nil || *u.ProjectionExpression != "#k" || u.ExpressionAttributeNames["#k"] != "leaseKey" {
		t.Errorf("batch get: %v, unprocessed %v", g.Responses, g.UnprocessedKeys)
	}

	_, err = c.TransactWriteItems(t.Context(), &ddb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Put: &types.Put{TableName: new(table), Item: key("cold-2")}}, {Put: &types.Put{TableName: new(table), Item: key("hot-2")}}}})
	tc, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok || len(tc.CancellationReasons) != 2 || *tc.CancellationReasons[0].Code != "None" || *tc.CancellationReasons[1].Code != "ProvisionedThroughputExceeded" {
		t.Errorf("transaction: %v", err)
	}
	if n := len(s.Items(table)); n != 1 {
		t.Errorf("%d items stored after the cancelled transaction, want 1", n)
	}
}

func TestSmallPages(t *testing.T) {
	s, c := start(t, dynamodb.Config{})
	makeTable(t, c, table, true)
	for i := range 10 {
		put(t, c, table, attrs{"leaseKey": S(fmt.Sprint("k", i)), "leaseOwner": S("A")})
	}
	s.SetFault(dynamodb.Fault{Kind: dynamodb.FaultPageSize, Op: "Scan", Items: 3})
	pages, seen := 0, map[string]int{}
	p := ddb.NewScanPaginator(c, &ddb.ScanInput{TableName: new(table)})
	for p.HasMorePages() {
		o, err := p.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		pages++
		if len(o.Items) > 3 {
			t.Errorf("a page of %d", len(o.Items))
		}
		for _, it := range o.Items {
			seen[str(it, "leaseKey")]++
		}
	}
	if pages != 4 || len(seen) != 10 {
		t.Errorf("%d pages, %d items, want 4 and 10", pages, len(seen))
	}
}

func TestFaultCheck(t *testing.T) {
	for _, f := range []dynamodb.Fault{
		{}, {Kind: "nonsense"}, {Kind: dynamodb.FaultDelay}, {Kind: dynamodb.FaultApplyLate, Delay: -1}, {Kind: dynamodb.FaultPageSize},
		{Kind: dynamodb.FaultThrottle, Probability: 1.5}, {Kind: dynamodb.FaultThrottle, Op: "NoSuchOp"}, {Kind: dynamodb.FaultThrottle, Times: -1},
	} {
		if f.Check() == nil {
			t.Errorf("%+v passes, want an error", f)
		}
	}
}
