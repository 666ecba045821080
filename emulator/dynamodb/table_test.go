package dynamodb_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ddb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/emulator/dynamodb"
)

func describe(t testing.TB, c *ddb.Client, name string) *types.TableDescription {
	t.Helper()
	o, err := c.DescribeTable(t.Context(), &ddb.DescribeTableInput{TableName: &name})
	if err != nil {
		t.Fatalf("DescribeTable: %v", err)
	}
	return o.Table
}

func addIndex(name string) *ddb.UpdateTableInput {
	return &ddb.UpdateTableInput{TableName: &name,
		AttributeDefinitions: []types.AttributeDefinition{attrS("leaseKey"), attrS("leaseOwner")},
		GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Create: &types.CreateGlobalSecondaryIndexAction{
			IndexName: new(ownerIndex), KeySchema: ownerKeys(), Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly}}}}}
}

func queryOwner(t testing.TB, c *ddb.Client, owner string) ([]string, error) {
	t.Helper()
	o, err := c.Query(t.Context(), &ddb.QueryInput{TableName: new(table), IndexName: new(ownerIndex),
		KeyConditionExpression: new("leaseOwner = :o"), ExpressionAttributeValues: attrs{":o": S(owner)}})
	if err != nil {
		return nil, err
	}
	keys := []string{}
	for _, it := range o.Items {
		keys = append(keys, str(it, "leaseKey"))
	}
	return keys, nil
}

func TestTableIsCreatingForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, dynamodb.Config{CreateDelay: 5 * time.Second})
		makeTable(t, c, table, true)
		if st := describe(t, c, table).TableStatus; st != types.TableStatusCreating {
			t.Errorf("status %s, want CREATING", st)
		}
		_, err := c.PutItem(t.Context(), &ddb.PutItemInput{TableName: new(table), Item: key("a")})
		wantCode(t, "put meanwhile", err, "ResourceNotFoundException")
		_, err = c.DeleteTable(t.Context(), &ddb.DeleteTableInput{TableName: new(table)})
		wantCode(t, "delete meanwhile", err, "ResourceInUseException")
		_, err = c.UpdateTable(t.Context(), addIndex(table))
		wantCode(t, "update meanwhile", err, "ResourceInUseException")
		began := time.Now()
		if err := ddb.NewTableExistsWaiter(c).Wait(t.Context(), &ddb.DescribeTableInput{TableName: new(table)}, time.Minute); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d < 5*time.Second {
			t.Errorf("ACTIVE after %v, want not before 5s", d)
		}
		put(t, c, table, key("a"))
	})
}

func TestIndexAddedToATable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, dynamodb.Config{IndexDelay: 10 * time.Second})
		makeTable(t, c, table, false)
		put(t, c, table, attrs{"leaseKey": S("a"), "leaseOwner": S("A")})
		put(t, c, table, attrs{"leaseKey": S("odd"), "leaseOwner": N(1)}) // cannot be indexed: left out
		o, err := c.UpdateTable(t.Context(), addIndex(table))
		if err != nil {
			t.Fatal(err)
		}
		if st := o.TableDescription.TableStatus; st != types.TableStatusUpdating {
			t.Errorf("UpdateTable answers %s, want UPDATING", st)
		}
		state := func() string {
			d := describe(t, c, table)
			if len(d.GlobalSecondaryIndexes) == 0 {
				return fmt.Sprint(d.TableStatus)
			}
			x := d.GlobalSecondaryIndexes[0]
			return fmt.Sprint(d.TableStatus, " ", x.IndexStatus, " ", aws.ToBool(x.Backfilling))
		}
		check := func(want string) {
			t.Helper()
			if got := state(); got != want {
				t.Errorf("state %q, want %q", got, want)
			}
		}
		refused := func() {
			t.Helper()
			_, err := queryOwner(t, c, "A")
			wantCode(t, "query meanwhile", err, "ValidationException")
		}
		check("UPDATING CREATING false")
		refused()
		_, err = c.UpdateTable(t.Context(), addIndex(table))
		wantCode(t, "another update meanwhile", err, "ResourceInUseException")
		put(t, c, table, attrs{"leaseKey": S("b"), "leaseOwner": S("A")}) // writes go on
		time.Sleep(5 * time.Second)
		check("ACTIVE CREATING true")
		refused()
		time.Sleep(5 * time.Second)
		check("ACTIVE ACTIVE false")
		keys, err := queryOwner(t, c, "A")
		if err != nil || fmt.Sprint(keys) != "[a b]" {
			t.Errorf("query: %v %v, want a and b", keys, err)
		}
		_, err = c.UpdateTable(t.Context(), addIndex(table))
		wantCode(t, "the same index again", err, "ValidationException")

		if _, err := c.UpdateTable(t.Context(), &ddb.UpdateTableInput{TableName: new(table), GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{
			{Delete: &types.DeleteGlobalSecondaryIndexAction{IndexName: new(ownerIndex)}}}}); err != nil {
			t.Fatal(err)
		}
		check("ACTIVE DELETING false")
		refused()
		_, err = c.UpdateTable(t.Context(), addIndex(table))
		wantCode(t, "another index meanwhile", err, "LimitExceededException")
		time.Sleep(10 * time.Second)
		check("ACTIVE")
	})
}

func TestEventualReadsAreStaleAndConsistentOnesAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lag = 2 * time.Second
		_, c := start(t, dynamodb.Config{EventualLag: lag, Seed: 7})
		makeTable(t, c, table, true)
		put(t, c, table, attrs{"leaseKey": S("a"), "leaseOwner": S("A"), "leaseCounter": N(0)})
		time.Sleep(lag)
		eventual := func() string {
			o, err := c.GetItem(t.Context(), &ddb.GetItemInput{TableName: new(table), Key: key("a")})
			if err != nil {
				t.Fatal(err)
			}
			return num(o.Item, "leaseCounter")
		}
		scanned := func() string {
			o, err := c.Scan(t.Context(), &ddb.ScanInput{TableName: new(table)})
			if err != nil {
				t.Fatal(err)
			}
			if len(o.Items) == 0 {
				return ""
			}
			return num(o.Items[0], "leaseCounter")
		}
		put(t, c, table, attrs{"leaseKey": S("a"), "leaseOwner": S("B"), "leaseCounter": N(1)})
		time.Sleep(lag / 2)
		seen, ofScan, ofIndex := map[string]int{}, map[string]int{}, map[string]int{}
		for range 60 {
			seen[eventual()]++
			ofScan[scanned()]++
			if n := num(get(t, c, table, "a"), "leaseCounter"); n != "1" {
				t.Fatalf("a consistent read shows %q", n)
			}
			a, err := queryOwner(t, c, "A")
			if err != nil {
				t.Fatal(err)
			}
			ofIndex[fmt.Sprint(a)]++
		}
		for what, m := range map[string]map[string]int{"GetItem": seen, "Scan": ofScan} {
			if m["0"] < 10 || m["1"] < 10 || len(m) != 2 {
				t.Errorf("%s saw %v, want old and new about evenly", what, m)
			}
		}
		if ofIndex["[a]"] < 10 || ofIndex["[]"] < 10 {
			t.Errorf("the index showed the former owner %v, want it sometimes", ofIndex)
		}
		time.Sleep(lag)
		for range 30 {
			if n := eventual(); n != "1" {
				t.Fatalf("after the lag a read still shows %q", n)
			}
			if a, _ := queryOwner(t, c, "A"); len(a) != 0 {
				t.Fatalf("after the lag the index still shows %v", a)
			}
		}
		// A deleted item lingers, then is gone, and so is its index entry.
		if _, err := c.DeleteItem(t.Context(), &ddb.DeleteItemInput{TableName: new(table), Key: key("a")}); err != nil {
			t.Fatal(err)
		}
		if it := get(t, c, table, "a"); it != nil {
			t.Errorf("a consistent read shows the deleted %v", it)
		}
		time.Sleep(lag / 2)
		lingered := 0
		for range 60 {
			if eventual() != "" {
				lingered++
			}
		}
		if lingered < 10 || lingered > 50 {
			t.Errorf("the deleted item showed %d of 60 times, want about half", lingered)
		}
		time.Sleep(lag)
		if n := eventual(); n != "" {
			t.Errorf("the deleted item is still there: %q", n)
		}
		if d := describe(t, c, table); *d.ItemCount != 0 || *d.GlobalSecondaryIndexes[0].ItemCount != 0 || *d.TableSizeBytes != 0 {
			t.Errorf("the empty table is described as %d items, %d bytes, %d in the index", *d.ItemCount, *d.TableSizeBytes, *d.GlobalSecondaryIndexes[0].ItemCount)
		}
	})
}

func TestDescribeTable(t *testing.T) {
	_, c := start(t, dynamodb.Config{Region: "eu-west-1", Account: "123456789012"})
	if _, err := c.CreateTable(t.Context(), &ddb.CreateTableInput{
		TableName: new(table), BillingMode: types.BillingModeProvisioned, DeletionProtectionEnabled: new(true),
		ProvisionedThroughput: &types.ProvisionedThroughput{ReadCapacityUnits: new(int64(10)), WriteCapacityUnits: new(int64(5))},
		AttributeDefinitions:  []types.AttributeDefinition{attrS("leaseKey")},
		KeySchema:             []types.KeySchemaElement{{AttributeName: new("leaseKey"), KeyType: types.KeyTypeHash}},
		Tags:                  []types.Tag{{Key: new("team"), Value: new("x")}},
	}); err != nil {
		t.Fatal(err)
	}
	d := describe(t, c, table)
	if *d.TableArn != "arn:aws:dynamodb:eu-west-1:123456789012:table/leases" || d.TableStatus != types.TableStatusActive ||
		*d.ProvisionedThroughput.ReadCapacityUnits != 10 || *d.ProvisionedThroughput.WriteCapacityUnits != 5 ||
		d.BillingModeSummary != nil || !*d.DeletionProtectionEnabled || d.CreationDateTime == nil || *d.TableId == "" {
		t.Errorf("described as %+v", d)
	}
	// By ARN as by name.
	if o, err := c.DescribeTable(t.Context(), &ddb.DescribeTableInput{TableName: d.TableArn}); err != nil || *o.Table.TableName != table {
		t.Errorf("by ARN: %v", err)
	}
	put(t, c, table, attrs{"leaseKey": S("1234"), "v": S("56789")}) // 8+4 and 1+5 bytes
	if d := describe(t, c, table); *d.ItemCount != 1 || *d.TableSizeBytes != 18 {
		t.Errorf("%d items, %d bytes, want 1 and 18", *d.ItemCount, *d.TableSizeBytes)
	}
	_, err := c.DeleteTable(t.Context(), &ddb.DeleteTableInput{TableName: new(table)})
	wantCode(t, "protected", err, "ValidationException")

	// To on-demand and back; an index of a provisioned table has throughput of its own.
	up := func(in *ddb.UpdateTableInput) error {
		in.TableName = new(table)
		_, err := c.UpdateTable(t.Context(), in)
		return err
	}
	if err := up(&ddb.UpdateTableInput{BillingMode: types.BillingModePayPerRequest, DeletionProtectionEnabled: new(false)}); err != nil {
		t.Fatal(err)
	}
	if d := describe(t, c, table); d.BillingModeSummary.BillingMode != types.BillingModePayPerRequest || *d.ProvisionedThroughput.ReadCapacityUnits != 0 || *d.DeletionProtectionEnabled {
		t.Errorf("after the change: %+v", d)
	}
	wantCode(t, "provisioned without throughput", up(&ddb.UpdateTableInput{BillingMode: types.BillingModeProvisioned}), "ValidationException")
	rcu := &types.ProvisionedThroughput{ReadCapacityUnits: new(int64(3)), WriteCapacityUnits: new(int64(3))}
	if err := up(&ddb.UpdateTableInput{BillingMode: types.BillingModeProvisioned, ProvisionedThroughput: rcu}); err != nil {
		t.Fatal(err)
	}
	if d := describe(t, c, table); d.BillingModeSummary.BillingMode != types.BillingModeProvisioned || *d.ProvisionedThroughput.ReadCapacityUnits != 3 {
		t.Errorf("back at provisioned: %+v", d)
	}
	wantCode(t, "the same throughput", up(&ddb.UpdateTableInput{ProvisionedThroughput: rcu}), "ValidationException")
	wantCode(t, "index without throughput", up(addIndex(table)), "ValidationException")
	in := addIndex(table)
	in.GlobalSecondaryIndexUpdates[0].Create.ProvisionedThroughput = rcu
	if err := up(in); err != nil {
		t.Fatal(err)
	}
	x := describe(t, c, table).GlobalSecondaryIndexes[0]
	if *x.ProvisionedThroughput.ReadCapacityUnits != 3 || *x.IndexArn != *d.TableArn+"/index/"+ownerIndex || x.Projection.ProjectionType != types.ProjectionTypeKeysOnly {
		t.Errorf("index described as %+v", x)
	}
	if _, err := c.DeleteTable(t.Context(), &ddb.DeleteTableInput{TableName: new(table)}); err != nil {
		t.Fatal(err)
	}
	_, err = c.DescribeTable(t.Context(), &ddb.DescribeTableInput{TableName: new(table)})
	if nf, ok := errors.AsType[*types.ResourceNotFoundException](err); !ok || nf.ErrorMessage() != "Requested resource not found: Table: leases not found" {
		t.Errorf("after the deletion: %v", err)
	}
	makeTable(t, c, table, false)
	if again := describe(t, c, table); *again.TableId == *d.TableId || *again.ItemCount != 0 {
		t.Errorf("a table made again is the old one: id %s, %d items", *again.TableId, *again.ItemCount)
	}
}

func TestTableSettings(t *testing.T) {
	_, c := start(t, dynamodb.Config{})
	makeTable(t, c, table, false)
	arn := describe(t, c, table).TableArn
	ctx := t.Context()
	tags := func() string {
		o, err := c.ListTagsOfResource(ctx, &ddb.ListTagsOfResourceInput{ResourceArn: arn})
		if err != nil {
			t.Fatal(err)
		}
		var s strings.Builder
		for _, g := range o.Tags {
			s.WriteString(*g.Key + "=" + *g.Value + ";")
		}
		return s.String()
	}
	tag := func(k, v string) {
		t.Helper()
		if _, err := c.TagResource(ctx, &ddb.TagResourceInput{ResourceArn: arn, Tags: []types.Tag{{Key: &k, Value: &v}}}); err != nil {
			t.Fatal(err)
		}
	}
	tag("a", "1")
	tag("b", "2")
	tag("a", "3")
	if got := tags(); got != "a=3;b=2;" {
		t.Errorf("tags %s", got)
	}
	if _, err := c.UntagResource(ctx, &ddb.UntagResourceInput{ResourceArn: arn, TagKeys: []string{"a", "zz"}}); err != nil {
		t.Fatal(err)
	}
	if got := tags(); got != "b=2;" {
		t.Errorf("tags after removal %s", got)
	}
	_, err := c.ListTagsOfResource(ctx, &ddb.ListTagsOfResourceInput{ResourceArn: new(*arn + "x")})
	wantCode(t, "tags of nothing", err, "ResourceNotFoundException")

	pitr := func() types.PointInTimeRecoveryStatus {
		o, err := c.DescribeContinuousBackups(ctx, &ddb.DescribeContinuousBackupsInput{TableName: new(table)})
		if err != nil {
			t.Fatal(err)
		}
		return o.ContinuousBackupsDescription.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus
	}
	if got := pitr(); got != types.PointInTimeRecoveryStatusDisabled {
		t.Errorf("recovery is %s at first", got)
	}
	if _, err := c.UpdateContinuousBackups(ctx, &ddb.UpdateContinuousBackupsInput{TableName: new(table),
		PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: new(true)}}); err != nil {
		t.Fatal(err)
	}
	if got := pitr(); got != types.PointInTimeRecoveryStatusEnabled {
		t.Errorf("recovery is %s after it was switched on", got)
	}
	_, err = c.DescribeContinuousBackups(ctx, &ddb.DescribeContinuousBackupsInput{TableName: new("nope")})
	wantCode(t, "backups of nothing", err, "TableNotFoundException")

	ttl := func(attr string, on bool) error {
		_, err := c.UpdateTimeToLive(ctx, &ddb.UpdateTimeToLiveInput{TableName: new(table), TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &attr, Enabled: &on}})
		return err
	}
	wantCode(t, "TTL off when off", ttl("x", false), "ValidationException")
	wantCode(t, "TTL on", ttl("x", true), "")
	wantCode(t, "TTL on when on", ttl("x", true), "ValidationException")
	wantCode(t, "TTL off on another attribute", ttl("y", false), "ValidationException")
	o, err := c.DescribeTimeToLive(ctx, &ddb.DescribeTimeToLiveInput{TableName: new(table)})
	if err != nil || o.TimeToLiveDescription.TimeToLiveStatus != types.TimeToLiveStatusEnabled || *o.TimeToLiveDescription.AttributeName != "x" {
		t.Errorf("TTL: %+v %v", o, err)
	}
}

func TestListTables(t *testing.T) {
	_, c := start(t, dynamodb.Config{})
	for i := range 5 {
		makeTable(t, c, fmt.Sprint("table-", i), false)
	}
	var names []string
	p := ddb.NewListTablesPaginator(c, &ddb.ListTablesInput{Limit: new(int32(2))})
	for p.HasMorePages() {
		o, err := p.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, o.TableNames...)
	}
	if fmt.Sprint(names) != "[table-0 table-1 table-2 table-3 table-4]" {
		t.Errorf("listed %v", names)
	}
}
