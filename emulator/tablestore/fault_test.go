package tablestore_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ots "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	pb "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	"github.com/shardwarden/shardwarden/emulator/tablestore"
	"github.com/shardwarden/shardwarden/internal/plainbuffer"
)

func arm(t *testing.T, s *tablestore.Server, f tablestore.Fault) {
	t.Helper()
	s.ClearFaults()
	if err := s.SetFault(f); err != nil {
		t.Fatal(err)
	}
}

// Each fault of a write: what the client sees, and whether the write was carried out at once and later.
func TestFaultsOfWrites(t *testing.T) {
	const lost = "lost"
	for _, tt := range []struct {
		name       string
		fault      tablestore.Fault
		want       string
		now, later bool
		took       time.Duration
	}{
		{"fail", tablestore.Fault{Kind: tablestore.Fail, Code: "OTSServerBusy"}, "OTSServerBusy", false, false, 0},
		{"fail after", tablestore.Fault{Kind: tablestore.FailAfter, Code: "OTSTimeout"}, "OTSTimeout", true, true, 0},
		{"delay", tablestore.Fault{Kind: tablestore.Delay, Delay: time.Second}, "", true, true, time.Second},
		{"drop request", tablestore.Fault{Kind: tablestore.DropRequest}, lost, false, false, 0},
		{"drop answer", tablestore.Fault{Kind: tablestore.DropAnswer}, lost, true, true, 0},
		{"cut answer", tablestore.Fault{Kind: tablestore.CutAnswer}, lost, true, true, 0},
		{"apply late", tablestore.Fault{Kind: tablestore.ApplyLate, Delay: time.Second}, lost, false, true, 0},
		{"truncate", tablestore.Fault{Kind: tablestore.Truncate}, lost, true, true, 0},
		{"another key", tablestore.Fault{Kind: tablestore.DropRequest, Key: "other"}, "", true, true, 0},
		{"this key", tablestore.Fault{Kind: tablestore.DropRequest, Key: "sub-a"}, lost, false, false, 0},
		{"another table", tablestore.Fault{Kind: tablestore.DropRequest, Table: "other"}, "", true, true, 0},
		{"another operation", tablestore.Fault{Kind: tablestore.DropRequest, Operation: "UpdateRow"}, "", true, true, 0},
		{"another instance", tablestore.Fault{Kind: tablestore.DropRequest, Instance: "other"}, "", true, true, 0},
		{"skipped", tablestore.Fault{Kind: tablestore.DropRequest, Skip: 1}, "", true, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := start(t, tablestore.Config{})
				c.makeTable(tab, []keySpec{{"id", ots.PrimaryKeyType_STRING, false}, {"sub", ots.PrimaryKeyType_STRING, false}}, 24)
				tt.fault.Times = 1
				arm(t, s, tt.fault)
				began := time.Now()
				err := c.put(tab, pk("a", "sub-a"), cols{"n": int64(1)}, nil)
				got := code(err)
				if strings.HasPrefix(got, "not an error") {
					got = lost
				}
				if got != tt.want || time.Since(began) != tt.took {
					t.Errorf("got %q (%v) after %v, want %q after %v", got, err, time.Since(began), tt.want, tt.took)
				}
				s.ClearFaults()
				there := func() bool { return c.get(tab, pk("a", "sub-a")) != nil }
				if there() != tt.now {
					t.Errorf("carried out at once: %t, want %t", there(), tt.now)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if there() != tt.later {
					t.Errorf("carried out later: %t, want %t", there(), tt.later)
				}
			})
		})
	}
}

func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := start(t, tablestore.Config{Faults: []tablestore.Fault{{Kind: tablestore.Hang}}})
		done := make(chan error)
		go func() { _, err := c.ListTable(); done <- err }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("it answered: %v", err)
		default:
		}
		s.Close()
		if err := <-done; err == nil {
			t.Error("it answered after all")
		}
		s.Close()
		_, err := c.ListTable()
		wantCode(t, "after Close", err, "OTSServerUnavailable")
	})
}

func TestLateWritesEndWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 0)
		arm(t, s, tablestore.Fault{Kind: tablestore.ApplyLate, Delay: time.Minute})
		if err := c.put(tab, pk("a"), nil, nil); err == nil {
			t.Error("it answered")
		}
		s.Close()
		if rows, err := s.Rows(inst, tab); err != nil || len(rows) != 0 {
			t.Errorf("rows %v, %v", rows, err)
		}
	})
}

func TestFaultsOfStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 24)
		for _, k := range []string{"a", "b", "c"} {
			c.mustPut(tab, pk(k), nil)
		}
		shard := *c.shards(tab)[0].SelfShard
		it := c.iterator(tab, shard, nil)

		arm(t, s, tablestore.Fault{Kind: tablestore.PartialPage, Records: 2})
		two := c.mustRead(it, 0)
		wantTexts(t, "partial page", two.Records, `"PutRow" a`, `"PutRow" b`)
		arm(t, s, tablestore.Fault{Kind: tablestore.PartialPage})
		none := c.mustRead(two.NextShardIterator, 0)
		if len(none.Records) != 0 || *none.NextShardIterator != *two.NextShardIterator {
			t.Errorf("empty page: %+v", none)
		}
		arm(t, s, tablestore.Fault{Kind: tablestore.EndEarly})
		if out := c.mustRead(it, 0); out.NextShardIterator != nil || len(out.Records) != 3 {
			t.Errorf("early end: %+v", out)
		}
		arm(t, s, tablestore.Fault{Kind: tablestore.Fail, Code: "OTSTrimmedDataAccess", Shard: string(shard), Operation: "GetStreamRecord"})
		_, err := c.read(it, 0)
		wantCode(t, "trimmed", err, "OTSTrimmedDataAccess")
		if _, err := c.GetShardIterator(&ots.GetShardIteratorRequest{StreamId: c.streamID(tab), ShardId: &shard}); err != nil {
			t.Errorf("another operation on the shard: %v", err)
		}
		arm(t, s, tablestore.Fault{Kind: tablestore.Fail, Code: "OTSServerBusy", Shard: "other"})
		c.mustRead(it, 0)
		arm(t, s, tablestore.Fault{Kind: tablestore.Fail, Code: "OTSServerBusy", Table: tab})
		for what, call := range map[string]func() error{
			"read": func() error { _, err := c.read(it, 0); return err },
			"describe": func() error {
				_, err := c.DescribeStream(&ots.DescribeStreamRequest{StreamId: c.anyStream()})
				return err
			},
		} {
			wantCode(t, what, call(), "OTSServerBusy")
		}
		s.ClearFaults()

		time.Sleep(time.Second)
		if _, _, err := s.Split(inst, tab, "b"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		arm(t, s, tablestore.Fault{Kind: tablestore.StaleList, Delay: time.Second + time.Microsecond})
		if got := c.shards(tab); len(got) != 1 {
			t.Errorf("stale list: %v", got)
		}
		arm(t, s, tablestore.Fault{Kind: tablestore.StaleList, Delay: time.Second})
		if got := c.shards(tab); len(got) != 3 {
			t.Errorf("list of just after the split: %v", got)
		}
		arm(t, s, tablestore.Fault{Kind: tablestore.EmptyList})
		if got := c.shards(tab); len(got) != 0 {
			t.Errorf("empty list: %v", got)
		}
	})
}

// anyStream gives the id of the only stream although calls on its table fail.
func (c *client) anyStream() *ots.StreamId {
	c.t.Helper()
	out, err := c.ListStream(&ots.ListStreamRequest{})
	if err != nil {
		c.t.Fatal(err)
	}
	return out.Streams[0].Id
}

// A corrupt row is one that a reader of checksums refuses; what is stored stays whole.
func TestCorruptAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 24)
		c.mustPut(tab, pk("a"), cols{"n": int64(1)})
		it := c.iterator(tab, *c.shards(tab)[0].SelfShard, nil)
		key := plainbuffer.Encode(plainbuffer.Row{PrimaryKey: []plainbuffer.Cell{plainbuffer.Key("id", plainbuffer.StringValue("a"))}})
		low := plainbuffer.Encode(plainbuffer.Row{PrimaryKey: []plainbuffer.Cell{plainbuffer.Key("id", plainbuffer.Value{Kind: plainbuffer.InfMin})}})
		high := plainbuffer.Encode(plainbuffer.Row{PrimaryKey: []plainbuffer.Cell{plainbuffer.Key("id", plainbuffer.Value{Kind: plainbuffer.InfMax})}})
		one := new(int32(1))
		read := map[string]func() []byte{
			"GetStreamRecord": func() []byte {
				var out pb.GetStreamRecordResponse
				c.rawCall(t, "/GetStreamRecord", &pb.GetStreamRecordRequest{ShardIterator: (*string)(it)}, &out)
				return out.StreamRecords[0].Record
			},
			"GetRow": func() []byte {
				var out pb.GetRowResponse
				c.rawCall(t, "/GetRow", &pb.GetRowRequest{TableName: new(tab), PrimaryKey: key, MaxVersions: one}, &out)
				return out.Row
			},
			"GetRange": func() []byte {
				var out pb.GetRangeResponse
				c.rawCall(t, "/GetRange", &pb.GetRangeRequest{
					TableName: new(tab), Direction: pb.Direction_FORWARD.Enum(), InclusiveStartPrimaryKey: low, ExclusiveEndPrimaryKey: high, MaxVersions: one,
				}, &out)
				return out.Rows
			},
			"BatchGetRow": func() []byte {
				var out pb.BatchGetRowResponse
				c.rawCall(t, "/BatchGetRow", &pb.BatchGetRowRequest{Tables: []*pb.TableInBatchGetRowRequest{{TableName: new(tab), PrimaryKey: [][]byte{key}, MaxVersions: one}}}, &out)
				return out.Tables[0].Rows[0].Row
			},
		}
		for name, call := range read {
			var r plainbuffer.Row
			arm(t, s, tablestore.Fault{Kind: tablestore.Corrupt, Operation: name, Times: 1})
			if err := plainbuffer.DecodeRow(call(), &r); !errors.Is(err, plainbuffer.ErrCorrupt) {
				t.Errorf("%s: %v, want a corrupt row", name, err)
			}
			if err := plainbuffer.DecodeRow(call(), &r); err != nil {
				t.Errorf("%s, once more: %v", name, err)
			}
		}
	})
}

func (c *client) rawCall(t *testing.T, path string, in, out protoadapt.MessageV1) {
	t.Helper()
	resp, body := c.raw(path, wire(t, in), nil)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %q", path, resp.Status, body)
	}
	if err := proto.Unmarshal(body, protoadapt.MessageV2Of(out)); err != nil {
		t.Fatal(err)
	}
}

func TestFaultsInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := start(t, tablestore.Config{})
		c.makeTable(tab, stringKey, 24)
		arm(t, s, tablestore.Fault{Kind: tablestore.FailRows, Key: "b", Code: "OTSNotEnoughCapacityUnit", Times: 1})
		got, err := c.batch(tab, put(tab, pk("a"), ignore), put(tab, pk("b"), ignore), put(tab, pk("c"), ignore))
		if err != nil || got != "ok OTSNotEnoughCapacityUnit ok" {
			t.Errorf("%q, %v", got, err)
		}
		if c.get(tab, pk("a")) == nil || c.get(tab, pk("b")) != nil {
			t.Error("what failed was written, or what was written failed")
		}
		arm(t, s, tablestore.Fault{Kind: tablestore.Fail, Key: "c", Code: "OTSServerBusy"})
		_, err = c.batch(tab, put(tab, pk("a"), ignore), put(tab, pk("c"), ignore))
		wantCode(t, "a batch with the key", err, "OTSServerBusy")
		c.makeTable("second", stringKey, 0)
		for _, name := range []string{tab, "second"} {
			arm(t, s, tablestore.Fault{Kind: tablestore.Fail, Table: name, Code: "OTSServerBusy"})
			_, err = c.batch(tab, put(tab, pk("a"), ignore), put("second", pk("a"), ignore))
			wantCode(t, "a batch on two tables", err, "OTSServerBusy")
		}
	})
}

func TestFaultsAreChecked(t *testing.T) {
	s := tablestore.New(tablestore.Config{})
	for _, tt := range []struct {
		f    tablestore.Fault
		want string
	}{
		{tablestore.Fault{}, "Kind"},
		{tablestore.Fault{Kind: "explode"}, "Kind"},
		{tablestore.Fault{Kind: tablestore.Fail}, "Code"},
		{tablestore.Fault{Kind: tablestore.Fail, Code: "ServerBusy"}, "Code"},
		{tablestore.Fault{Kind: tablestore.Delay}, "Delay"},
		{tablestore.Fault{Kind: tablestore.DropAnswer, Operation: "GetRows"}, "Operation"},
		{tablestore.Fault{Kind: tablestore.EndEarly, Operation: "GetRow"}, "Operation"},
		{tablestore.Fault{Kind: tablestore.DropAnswer, Probability: 1.5}, "Probability"},
		{tablestore.Fault{Kind: tablestore.DropAnswer, Times: -1}, "Times"},
		{tablestore.Fault{Kind: tablestore.DropAnswer, Skip: -1}, "Skip"},
		{tablestore.Fault{Kind: tablestore.PartialPage, Records: -1}, "Records"},
	} {
		if err := s.SetFault(tt.f); err == nil || !strings.Contains(err.Error(), "Fault."+tt.want) {
			t.Errorf("%+v: %v, want an error that names %s", tt.f, err, tt.want)
		}
	}
}

func TestProbability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hits := func(seed uint64) (n int) {
			_, c := start(t, tablestore.Config{Seed: seed, Faults: []tablestore.Fault{{Kind: tablestore.Fail, Code: "OTSServerBusy", Probability: 0.5}}})
			for range 200 {
				if _, err := c.ListTable(); err != nil {
					n++
				}
			}
			return n
		}
		if n := hits(1); n < 60 || n > 140 || n != hits(1) {
			t.Errorf("%d of 200 were hit, and %d with the same seed", n, hits(1))
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	bad := tablestore.Config{
		Credentials: map[string]string{"id": ""}, Instances: []string{""}, CreateDelay: -1, StreamDelay: -1, RecordDelay: -1,
		PageRows: -1, PageBytes: -1, PageRecords: -1, PageRecordBytes: -1, PageShards: -1, TimestampPages: -1,
		UnknownStream: "x", UnknownIterator: "y", Faults: []tablestore.Fault{{}},
	}
	err := bad.Validate()
	for _, field := range []string{"Credentials", "Instances", "CreateDelay", "StreamDelay", "RecordDelay", "PageRows", "PageBytes", "PageRecords",
		"PageRecordBytes", "PageShards", "TimestampPages", "UnknownStream", "UnknownIterator", "Faults[0]"} {
		if err == nil || !strings.Contains(err.Error(), "Config."+field+" ") {
			t.Errorf("%s is not named in %v", field, err)
		}
	}
	if err := (tablestore.Config{}).Validate(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		_, c := start(t, bad)
		_, err := c.ListTable()
		if code(err) != "OTSInternalServerError" || !strings.Contains(err.Error(), "Config.PageRows") {
			t.Errorf("a call: %v", err)
		}
	})
}
