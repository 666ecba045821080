package tablestore_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	ots "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/emulator/tablestore"
)

func TestTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{})
		in := &ots.CreateTableRequest{
			TableMeta:          &ots.TableMeta{TableName: tab, DefinedColumns: []*ots.DefinedColumnSchema{{Name: "d", ColumnType: ots.DefinedColumn_DOUBLE}}},
			TableOption:        &ots.TableOption{TimeToAlive: 86400, MaxVersion: 2, DeviationCellVersionInSec: 100},
			ReservedThroughput: &ots.ReservedThroughput{Readcap: 1, Writecap: 2},
			StreamSpec:         &ots.StreamSpecification{EnableStream: true, ExpirationTime: 12, OriginColumnsToGet: []string{"x", "y"}},
		}
		in.TableMeta.AddPrimaryKeyColumn("id", ots.PrimaryKeyType_BINARY)
		in.TableMeta.AddPrimaryKeyColumnOption("n", ots.PrimaryKeyType_INTEGER, ots.AUTO_INCREMENT)
		if _, err := c.CreateTable(in); err != nil {
			t.Fatal(err)
		}
		_, err := c.CreateTable(in)
		wantCode(t, "again", err, "OTSObjectAlreadyExist")
		c.makeTable("a_first", stringKey, 0)

		got, err := c.DescribeTable(&ots.DescribeTableRequest{TableName: tab})
		if err != nil {
			t.Fatal(err)
		}
		keys := got.TableMeta.SchemaEntry
		if len(keys) != 2 || *keys[0].Type != ots.PrimaryKeyType_BINARY || keys[0].Option != nil || *keys[1].Option != ots.AUTO_INCREMENT || *keys[1].Name != "n" {
			t.Errorf("keys: %+v", keys)
		}
		if d := got.TableMeta.DefinedColumns; len(d) != 1 || d[0].Name != "d" || d[0].ColumnType != ots.DefinedColumn_DOUBLE {
			t.Errorf("defined columns: %+v", d)
		}
		if o := got.TableOption; o.TimeToAlive != 86400 || o.MaxVersion != 2 || o.DeviationCellVersionInSec != 100 {
			t.Errorf("options: %+v", o)
		}
		if r := got.ReservedThroughput; r.Readcap != 1 || r.Writecap != 2 {
			t.Errorf("throughput: %+v", r)
		}
		st := got.StreamDetails
		if !st.EnableStream || st.ExpirationTime != 12 || st.LastEnableTime != time.Now().UnixMicro() || !slices.Equal(st.OriginColumnsToGet, []string{"x", "y"}) {
			t.Errorf("stream: %+v", st)
		}
		tables, err := c.ListTable()
		if err != nil || !slices.Equal(tables.TableNames, []string{"a_first", tab}) {
			t.Errorf("tables: %v, %v", tables, err)
		}
		first, err := c.DescribeTable(&ots.DescribeTableRequest{TableName: "a_first"})
		if err != nil || first.StreamDetails.EnableStream || first.TableOption.DeviationCellVersionInSec != 86400 || first.TableOption.TimeToAlive != -1 {
			t.Errorf("table without a stream: %+v, %v", first, err)
		}
		other := connect(t, c.transport, "other", "x", "x")
		if tables, err := other.ListTable(); err != nil || len(tables.TableNames) != 0 {
			t.Errorf("tables of another instance: %v, %v", tables, err)
		}

		if _, err := c.DeleteTable(&ots.DeleteTableRequest{TableName: tab}); err != nil {
			t.Fatal(err)
		}
		_, err = c.DeleteTable(&ots.DeleteTableRequest{TableName: tab})
		wantCode(t, "delete again", err, "OTSObjectNotExist")
		_, err = c.DescribeTable(&ots.DescribeTableRequest{TableName: tab})
		wantCode(t, "describe after delete", err, "OTSObjectNotExist")
		_, err = c.DescribeStream(&ots.DescribeStreamRequest{StreamId: st.StreamId})
		wantCode(t, "its stream", err, "OTSObjectNotExist")
	})
}

func TestUpdateTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 0)
		up := func(in ots.UpdateTableRequest) (*ots.UpdateTableResponse, error) {
			in.TableName = tab
			return c.UpdateTable(&in)
		}
		out, err := up(ots.UpdateTableRequest{ReservedThroughput: &ots.ReservedThroughput{Readcap: 3, Writecap: 4}})
		if err != nil || out.ReservedThroughput.Readcap != 3 || out.TableOption.MaxVersion != 1 || out.StreamDetails.EnableStream {
			t.Errorf("throughput alone: %+v, %v", out, err)
		}
		out, err = up(ots.UpdateTableRequest{TableOption: &ots.TableOption{TimeToAlive: 90000, MaxVersion: 5}})
		if err != nil || out.TableOption.TimeToAlive != 90000 || out.TableOption.MaxVersion != 5 || out.ReservedThroughput.Readcap != 3 {
			t.Errorf("options alone: %+v, %v", out, err)
		}
		on := &ots.StreamSpecification{EnableStream: true, ExpirationTime: 24}
		out, err = up(ots.UpdateTableRequest{StreamSpec: on})
		if err != nil || !out.StreamDetails.EnableStream {
			t.Fatalf("stream on: %+v, %v", out, err)
		}
		id := *out.StreamDetails.StreamId
		out, err = up(ots.UpdateTableRequest{StreamSpec: &ots.StreamSpecification{EnableStream: true, ExpirationTime: 48}})
		if err != nil || *out.StreamDetails.StreamId != id || out.StreamDetails.ExpirationTime != 48 {
			t.Errorf("stream kept longer: %+v, %v", out, err)
		}
		_, err = up(ots.UpdateTableRequest{})
		wantCode(t, "nothing", err, "OTSParameterInvalid")
		_, err = up(ots.UpdateTableRequest{TableOption: &ots.TableOption{TimeToAlive: 5, MaxVersion: 1}})
		wantCode(t, "time to live under a day", err, "OTSParameterInvalid")
		_, err = up(ots.UpdateTableRequest{StreamSpec: &ots.StreamSpecification{EnableStream: true, ExpirationTime: 169}})
		wantCode(t, "more than a week of records", err, "OTSParameterInvalid")
	})
}

// What was switched off is gone; what is switched on again is another stream.
func TestStreamOffAndOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 24)
		c.mustPut(tab, pk("a"), nil)
		id, shard := c.streamID(tab), *c.shards(tab)[0].SelfShard
		it := c.iterator(tab, shard, nil)
		if _, err := c.UpdateTable(&ots.UpdateTableRequest{TableName: tab, StreamSpec: &ots.StreamSpecification{}}); err != nil {
			t.Fatal(err)
		}
		if got, err := c.ListStream(&ots.ListStreamRequest{TableName: new(tab)}); err != nil || len(got.Streams) != 0 {
			t.Errorf("streams: %+v, %v", got, err)
		}
		c.mustPut(tab, pk("unseen"), nil)
		if _, err := c.UpdateTable(&ots.UpdateTableRequest{TableName: tab, StreamSpec: &ots.StreamSpecification{EnableStream: true, ExpirationTime: 24}}); err != nil {
			t.Fatal(err)
		}
		if again := c.streamID(tab); *again == *id {
			t.Error("the stream has its old id")
		}
		_, err := c.DescribeStream(&ots.DescribeStreamRequest{StreamId: id})
		wantCode(t, "old stream", err, "OTSObjectNotExist")
		_, err = c.GetShardIterator(&ots.GetShardIteratorRequest{StreamId: id, ShardId: &shard})
		wantCode(t, "old shard", err, "OTSObjectNotExist")
		_, err = c.read(it, 0)
		wantCode(t, "old iterator", err, "OTSTrimmedDataAccess")
		c.mustPut(tab, pk("b"), nil)
		shards := c.shards(tab)
		if len(shards) != 1 || *shards[0].SelfShard == shard || shards[0].FatherShard != nil {
			t.Fatalf("shards: %v", shards)
		}
		records, _ := c.drain(tab, *shards[0].SelfShard)
		wantTexts(t, "new stream", records, `"PutRow" b`)
	})
}

func TestCreateDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{CreateDelay: 3 * time.Second, StreamDelay: 5 * time.Second})
		c.makeTable(tab, stringKey, 24)
		status := func() ots.StreamStatus {
			t.Helper()
			out, err := c.DescribeStream(&ots.DescribeStreamRequest{StreamId: c.streamID(tab)})
			if err != nil {
				t.Fatal(err)
			}
			return out.Status
		}
		wantCode(t, "put at once", c.put(tab, pk("a"), nil, nil), "OTSTableNotReady")
		time.Sleep(3 * time.Second)
		wantCode(t, "put after the delay", c.put(tab, pk("a"), nil, nil), "")
		if status() != ots.SS_Enabling {
			t.Error("the stream is active too early")
		}
		time.Sleep(2 * time.Second)
		if status() != ots.SS_Active {
			t.Error("the stream is not active")
		}
	})
}

func TestRefusedTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, tablestore.Config{})
		for _, tt := range []struct {
			name string
			set  func(*ots.CreateTableRequest)
		}{
			{"name", func(in *ots.CreateTableRequest) { in.TableMeta.TableName = "no-dash" }},
			{"five key columns", func(in *ots.CreateTableRequest) {
				for _, n := range []string{"b", "c", "d", "e"} {
					in.TableMeta.AddPrimaryKeyColumn(n, ots.PrimaryKeyType_STRING)
				}
			}},
			{"key twice", func(in *ots.CreateTableRequest) { in.TableMeta.AddPrimaryKeyColumn("id", ots.PrimaryKeyType_STRING) }},
			{"auto-increment string", func(in *ots.CreateTableRequest) {
				in.TableMeta.AddPrimaryKeyColumnOption("n", ots.PrimaryKeyType_STRING, ots.AUTO_INCREMENT)
			}},
			{"versions", func(in *ots.CreateTableRequest) { in.TableOption.MaxVersion = 0 }},
			{"time to live", func(in *ots.CreateTableRequest) { in.TableOption.TimeToAlive = 86399 }},
			{"throughput", func(in *ots.CreateTableRequest) { in.ReservedThroughput.Readcap = -1 }},
			{"hours", func(in *ots.CreateTableRequest) { in.StreamSpec = &ots.StreamSpecification{EnableStream: true} }},
			{"key as column before", func(in *ots.CreateTableRequest) {
				in.StreamSpec = &ots.StreamSpecification{EnableStream: true, ExpirationTime: 1, OriginColumnsToGet: []string{"id"}}
			}},
			{"index", func(in *ots.CreateTableRequest) { in.IndexMetas = []*ots.IndexMeta{{IndexName: "i"}} }},
			{"transactions", func(in *ots.CreateTableRequest) { in.EnableLocalTxn = new(true) }},
			{"no updates", func(in *ots.CreateTableRequest) { in.TableOption.AllowUpdate = new(false) }},
		} {
			in := &ots.CreateTableRequest{TableMeta: &ots.TableMeta{TableName: tab}, TableOption: ots.NewTableOption(-1, 1), ReservedThroughput: &ots.ReservedThroughput{}}
			in.TableMeta.AddPrimaryKeyColumn("id", ots.PrimaryKeyType_STRING)
			tt.set(in)
			_, err := c.CreateTable(in)
			wantCode(t, tt.name, err, "OTSParameterInvalid")
		}
		if tables, err := c.ListTable(); err != nil || len(tables.TableNames) != 0 {
			t.Errorf("a refused table is there: %v, %v", tables, err)
		}
	})
}
