package main

import (
	"fmt"
	"net/http/httptest"
	"testing"

	ots "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/emulator/tablestore"
)

// shop is a Tablestore instance for one test.
type shop struct {
	t      *testing.T
	server *tablestore.Server
	url    string
	client *ots.TableStoreClient
	put    int // changes so far
}

func newShop(t *testing.T, c tablestore.Config) *shop {
	t.Helper()
	s := &shop{t: t, server: tablestore.New(c)}
	h := httptest.NewServer(s.server)
	t.Cleanup(func() {
		s.server.Close()
		h.Close()
	})
	s.url, s.client = h.URL, otsClient(h.URL)
	return s
}

// table makes a table by name of its key columns, each STRING. hours is how long its stream keeps changes; 0: no stream.
func (s *shop) table(name string, hours int32, keys ...string) {
	s.t.Helper()
	meta := &ots.TableMeta{TableName: name}
	for _, k := range keys {
		meta.AddPrimaryKeyColumn(k, ots.PrimaryKeyType_STRING)
	}
	in := &ots.CreateTableRequest{TableMeta: meta, TableOption: &ots.TableOption{TimeToAlive: -1, MaxVersion: 1}, ReservedThroughput: &ots.ReservedThroughput{}}
	if hours > 0 {
		in.StreamSpec = &ots.StreamSpecification{EnableStream: true, ExpirationTime: hours, OriginColumnsToGet: []string{"n"}}
	}
	if _, err := s.client.CreateTable(in); err != nil {
		s.t.Fatal(err)
	}
}

// orders makes a table with a stream whose rows are spread over so many shards.
func (s *shop) orders(name string, shards int) {
	s.t.Helper()
	s.table(name, 24, "id")
	for i := 1; i < shards; i++ {
		s.split(name, fmt.Sprintf("key %02d", i*50/shards))
	}
}

func (s *shop) split(table, at string) {
	s.t.Helper()
	if _, _, err := s.server.Split("any", table, at); err != nil {
		s.t.Fatal(err)
	}
}

// fill makes n changes, a number each, of 50 rows.
func (s *shop) fill(table string, n int) {
	s.t.Helper()
	for n > 0 {
		in := &ots.BatchWriteRowRequest{}
		for range min(n, 50) {
			row := &ots.PutRowChange{TableName: table, PrimaryKey: &ots.PrimaryKey{}}
			row.PrimaryKey.AddPrimaryKeyColumn("id", fmt.Sprintf("key %02d", s.put%50))
			row.AddColumn("n", int64(s.put))
			row.SetCondition(ots.RowExistenceExpectation_IGNORE)
			in.AddRowChange(row)
			s.put++
			n--
		}
		out, err := s.client.BatchWriteRow(in)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, r := range out.TableToRowsResult[table] {
			if !r.IsSucceed {
				s.t.Fatalf("put: %+v", r.Error)
			}
		}
	}
}

// keys are the credentials that the emulator takes.
var keys = []string{"TABLESTORE_ACCESS_KEY_ID=x", "TABLESTORE_ACCESS_KEY_SECRET=x"}

// consume runs a worker on the status table "leases". Its events can be read as they happen.
func (s *shop) consume(args ...string) (*process, *events) {
	s.t.Helper()
	return startConsume(s.t, keys, append([]string{"tablestore", "--instance", "any", "--endpoint", s.url, "--status-table", "leases"}, args...)...)
}

// leases are the rows of the status table, by shard.
func (s *shop) leases() map[string]map[string]any {
	s.t.Helper()
	rows, err := s.server.Rows("any", "leases")
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[string]map[string]any{}
	for _, r := range rows {
		row := map[string]any{}
		for _, c := range r.Columns {
			row[c.Name] = c.Value
		}
		out[fmt.Sprint(r.PrimaryKey[2].Value)] = row
	}
	return out
}

// wantFree checks that no lease with something left to read is owned, so that the next worker need not wait for one.
func (s *shop) wantFree() {
	s.t.Helper()
	for shard, row := range s.leases() {
		if row["LeaseOwner"] != "" && row["Checkpoint"] != "SHARD_END" {
			s.t.Errorf("after an orderly end %v still owns %v", row["LeaseOwner"], shard)
		}
	}
}
