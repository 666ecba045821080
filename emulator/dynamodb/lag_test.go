package dynamodb_test

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	ddb "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/shardwarden/shardwarden/emulator/dynamodb"
)

// A row that never rests is read with any staleness up to the lag, never more.
func TestStalenessIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lag, step = 2 * time.Second, 100 * time.Millisecond
		_, c := start(t, dynamodb.Config{EventualLag: lag, Seed: 3})
		makeTable(t, c, table, true)
		oldest := 0
		for i := range 200 {
			put(t, c, table, attrs{"leaseKey": S("a"), "leaseOwner": S(fmt.Sprint("w", i%2)), "leaseCounter": N(i)})
			if i >= 50 {
				o, err := c.GetItem(t.Context(), &ddb.GetItemInput{TableName: new(table), Key: key("a")})
				if err != nil {
					t.Fatal(err)
				}
				n, err := strconv.Atoi(num(o.Item, "leaseCounter"))
				if err != nil {
					t.Fatal(err)
				}
				if i-n > int(lag/step) {
					t.Fatalf("write %d: a read shows %d, over %v old", i, n, lag)
				}
				oldest = max(oldest, i-n)
				// The row moves about in the index; it is still one row.
				x, err := c.Scan(t.Context(), &ddb.ScanInput{TableName: new(table), IndexName: new(ownerIndex)})
				if err != nil {
					t.Fatal(err)
				}
				if x.Count != 1 {
					t.Fatalf("write %d: the index shows the one row %d times", i, x.Count)
				}
			}
			time.Sleep(step)
		}
		if want := int(lag/step) * 3 / 4; oldest < want {
			t.Errorf("no read was older than %d writes, want %d at least", oldest, want)
		}
	})
}
