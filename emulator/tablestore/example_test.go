package tablestore_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	ots "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/emulator/tablestore"
)

// A table with a stream in this process, reached by the ordinary client: a write, a split of the table, and what the
// first shard of the stream tells of it.
func Example() {
	emulator := tablestore.New(tablestore.Config{})
	defer emulator.Close()
	server := httptest.NewServer(emulator)
	defer server.Close()

	config := ots.NewDefaultTableStoreConfig()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	config.Transport = transport
	client := ots.NewClientWithConfig(server.URL, "shop", "x", "x", "", config)
	meta := &ots.TableMeta{TableName: "orders"}
	meta.AddPrimaryKeyColumn("id", ots.PrimaryKeyType_INTEGER)
	if _, err := client.CreateTable(&ots.CreateTableRequest{
		TableMeta: meta, TableOption: ots.NewTableOption(-1, 1), ReservedThroughput: &ots.ReservedThroughput{},
		StreamSpec: &ots.StreamSpecification{EnableStream: true, ExpirationTime: 24},
	}); err != nil {
		log.Fatal(err)
	}
	change := &ots.PutRowChange{TableName: "orders", PrimaryKey: &ots.PrimaryKey{}}
	change.PrimaryKey.AddPrimaryKeyColumn("id", int64(1))
	change.AddColumn("state", "paid")
	change.SetCondition(ots.RowExistenceExpectation_IGNORE)
	if _, err := client.PutRow(&ots.PutRowRequest{PutRowChange: change}); err != nil {
		log.Fatal(err)
	}
	if _, _, err := emulator.Split("shop", "orders", 1000); err != nil {
		log.Fatal(err)
	}

	streams, err := client.ListStream(&ots.ListStreamRequest{TableName: new("orders")})
	if err != nil {
		log.Fatal(err)
	}
	stream, err := client.DescribeStream(&ots.DescribeStreamRequest{StreamId: streams.Streams[0].Id})
	if err != nil {
		log.Fatal(err)
	}
	first := stream.Shards[0].SelfShard
	start, err := client.GetShardIterator(&ots.GetShardIteratorRequest{StreamId: stream.StreamId, ShardId: first})
	if err != nil {
		log.Fatal(err)
	}
	page, err := client.GetStreamRecord(&ots.GetStreamRecordRequest{ShardIterator: start.ShardIterator})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range page.Records {
		fmt.Println(r.Type, r.PrimaryKey.PrimaryKeys[0].Value, *r.Columns[0].Name, r.Columns[0].Value)
	}
	fmt.Println("shards:", len(stream.Shards))
	fmt.Println("the first has ended:", page.NextShardIterator == nil)
	// Output:
	// "PutRow" 1 state paid
	// shards: 3
	// the first has ended: true
}
