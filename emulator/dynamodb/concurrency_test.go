package dynamodb_test

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	ddb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/emulator/dynamodb"
)

// Sixteen clients raise one counter by compare-and-set: each value is won by
// exactly one, and no consistent read goes back.
func TestCompareAndSetLosesNothing(t *testing.T) {
	const clients, rounds = 16, 12
	_, c := start(t, dynamodb.Config{})
	makeTable(t, c, table, true)
	put(t, c, table, attrs{"leaseKey": S("c"), "leaseCounter": N(0)})
	var wins [clients*rounds + 1]atomic.Int32
	var wg sync.WaitGroup
	for w := range clients {
		wg.Go(func() {
			won, last := 0, 0
			for won < rounds {
				n, err := strconv.Atoi(num(get(t, c, table, "c"), "leaseCounter"))
				if err != nil || n < last {
					t.Errorf("read %d after %d (%v)", n, last, err)
					return
				}
				last = n
				_, err = c.UpdateItem(t.Context(), &ddb.UpdateItemInput{TableName: new(table), Key: key("c"),
					ConditionExpression: new("leaseCounter = :seen"), UpdateExpression: new("SET leaseCounter = :next, leaseOwner = :me"),
					ExpressionAttributeValues: attrs{":seen": N(n), ":next": N(n + 1), ":me": S(fmt.Sprint("w", w))}})
				switch code(err) {
				case "":
					won++
					wins[n+1].Add(1)
				case "ConditionalCheckFailedException":
				default:
					t.Errorf("update: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := num(get(t, c, table, "c"), "leaseCounter"); n != fmt.Sprint(clients*rounds) {
		t.Errorf("the counter ends at %s, want %d", n, clients*rounds)
	}
	for i := 1; i < len(wins); i++ {
		if n := wins[i].Load(); n != 1 {
			t.Errorf("value %d was written by %d clients", i, n)
		}
	}
	if d := describe(t, c, table); *d.GlobalSecondaryIndexes[0].ItemCount != 1 {
		t.Errorf("the index holds %d entries for one item", *d.GlobalSecondaryIndexes[0].ItemCount)
	}
}

// Transfers between two items keep their sum, whoever looks and when.
func TestTransactionsAreAtomic(t *testing.T) {
	_, c := start(t, dynamodb.Config{})
	makeTable(t, c, table, false)
	put(t, c, table, attrs{"leaseKey": S("a"), "n": N(100)})
	put(t, c, table, attrs{"leaseKey": S("b"), "n": N(100)})
	var movers, watcher sync.WaitGroup
	done := make(chan struct{})
	watcher.Go(func() {
		for looks := 0; ; looks++ {
			o, err := c.TransactGetItems(t.Context(), &ddb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{
				{Get: &types.Get{TableName: new(table), Key: key("a")}}, {Get: &types.Get{TableName: new(table), Key: key("b")}}}})
			if err != nil {
				t.Error(err)
				return
			}
			a, _ := strconv.Atoi(num(o.Responses[0].Item, "n"))
			b, _ := strconv.Atoi(num(o.Responses[1].Item, "n"))
			if a+b != 200 {
				t.Errorf("seen %d and %d", a, b)
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for range 8 {
		movers.Go(func() {
			for range 20 {
				_, err := c.TransactWriteItems(t.Context(), &ddb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
					{Update: &types.Update{TableName: new(table), Key: key("a"), UpdateExpression: new("ADD n :d"), ExpressionAttributeValues: attrs{":d": N(-1), ":z": N(0)}, ConditionExpression: new("n > :z")}},
					{Update: &types.Update{TableName: new(table), Key: key("b"), UpdateExpression: new("ADD n :d"), ExpressionAttributeValues: attrs{":d": N(1)}}}}})
				if err != nil && code(err) != "TransactionCanceledException" {
					t.Errorf("move: %v", err)
				}
			}
		})
	}
	movers.Wait()
	close(done)
	watcher.Wait()
}
