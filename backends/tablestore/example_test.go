package tablestore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/aliyun/aliyun-tablestore-go-sdk/common"
	sdk "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/backends/tablestore"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
	emulator "github.com/shardwarden/shardwarden/emulator/tablestore"
)

// A worker gets the streams of its tables as a catalog. See examples/tablestore for a whole program.
func ExampleTables() {
	instance := tablestore.Instance{Endpoint: "https://shop.eu-central-1.ots.aliyuncs.com", Name: "shop"}
	config := worker.Config{
		Streams: tablestore.Tables(instance, core.FromLatest, []string{"orders", "payments"}, tablestore.Logger(slog.Default())),
	}
	_ = config
}

// What is wrong is said by the first call.
func ExampleNew_noCredentials() {
	instance := tablestore.Instance{Endpoint: "https://shop.eu-central-1.ots.aliyuncs.com", Name: "shop", Credentials: &common.DefaultCredentialsProvider{}}
	_, err := tablestore.New(instance, "orders").Describe(context.Background())
	fmt.Println(errors.Is(err, core.ErrDenied))
	// Output: true
}

// A source can be used without a worker, for tools and tests: here against the emulator.
func ExampleSource_Open() {
	server := httptest.NewServer(emulator.New(emulator.Config{}))
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	write(server.URL, transport)

	ctx := context.Background()
	instance := tablestore.Instance{Endpoint: server.URL, Name: "shop", Credentials: &common.DefaultCredentialsProvider{AccessKeyID: "x", AccessKeySecret: "x"}}
	source := tablestore.New(instance, "orders", tablestore.Transport(transport))
	shards, err := source.Shards(ctx, core.FromHorizon)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, shard := range shards {
		r, err := source.Open(ctx, shard, core.FromHorizon)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer r.Close()
		page, err := r.Next(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, rec := range page.Records {
			change := rec.Native.(*tablestore.Change)
			fmt.Println(change.Type, rec.Key)
			for _, col := range change.Columns {
				fmt.Println("  ", col.Op, col.Name, col.Value)
			}
		}
	}
	// Output:
	// put "order-1"
	//    put total 12.5
	// update "order-1"
	//    put state shipped
	//    delete total <nil>
	// delete "order-1"
}

// A change is kept as JSON without loss.
func ExampleParseChange() {
	change := &tablestore.Change{
		Type: tablestore.Update, Sequence: tablestore.Sequence{Timestamp: 1500000000000000},
		Key:     []tablestore.KeyColumn{{Name: "id", Value: int64(9007199254740993)}},
		Columns: []tablestore.Column{{Name: "image", Value: []byte{0, 1, 2}, Timestamp: 1500000000000}, {Name: "draft", Op: tablestore.DeleteColumn}},
	}
	text := change.AppendJSON(nil)
	fmt.Println(string(text))
	back, err := tablestore.ParseChange(text)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(back.KeyText())
	// Output:
	// {"type":"update","sequence":{"epoch":0,"timestamp":1500000000000000,"row":0},"key":[{"name":"id","integer":"9007199254740993"}],"columns":[{"name":"image","binary":"AAEC","timestamp":1500000000000},{"name":"draft","op":"delete"}]}
	// 9007199254740993
}

// write makes the table orders with a stream, and puts, updates and deletes a row.
func write(url string, transport http.RoundTripper) {
	config := sdk.NewDefaultTableStoreConfig()
	config.Transport = transport
	client := sdk.NewClientWithConfig(url, "shop", "x", "x", "", config)
	must := func(err error) {
		if err != nil {
			fmt.Println(err)
		}
	}
	meta := &sdk.TableMeta{TableName: "orders"}
	meta.AddPrimaryKeyColumn("id", sdk.PrimaryKeyType_STRING)
	_, err := client.CreateTable(&sdk.CreateTableRequest{
		TableMeta: meta, TableOption: &sdk.TableOption{TimeToAlive: -1, MaxVersion: 1}, ReservedThroughput: &sdk.ReservedThroughput{},
		StreamSpec: &sdk.StreamSpecification{EnableStream: true, ExpirationTime: 24},
	})
	must(err)
	key := &sdk.PrimaryKey{}
	key.AddPrimaryKeyColumn("id", "order-1")
	put := &sdk.PutRowChange{TableName: "orders", PrimaryKey: key}
	put.AddColumn("total", 12.5)
	put.SetCondition(sdk.RowExistenceExpectation_IGNORE)
	_, err = client.PutRow(&sdk.PutRowRequest{PutRowChange: put})
	must(err)
	update := &sdk.UpdateRowChange{TableName: "orders", PrimaryKey: key}
	update.PutColumn("state", "shipped")
	update.DeleteColumn("total")
	update.SetCondition(sdk.RowExistenceExpectation_IGNORE)
	_, err = client.UpdateRow(&sdk.UpdateRowRequest{UpdateRowChange: update})
	must(err)
	del := &sdk.DeleteRowChange{TableName: "orders", PrimaryKey: key}
	del.SetCondition(sdk.RowExistenceExpectation_IGNORE)
	_, err = client.DeleteRow(&sdk.DeleteRowRequest{DeleteRowChange: del})
	must(err)
}
