package tablestore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	ots "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"go.uber.org/goleak"

	"github.com/shardwarden/shardwarden/emulator/tablestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipe is a listener without a network, so that a synctest bubble can hold both ends.
type pipe struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipe() *pipe { return &pipe{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipe) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipe) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (p *pipe) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return mine, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

const (
	inst = "inst"
	tab  = "orders"
)

// client is an unmodified SDK client of a served emulator, retries off.
type client struct {
	*ots.TableStoreClient
	t         testing.TB
	transport *http.Transport
}

// start serves an emulator and answers it with a client.
func start(t testing.TB, c tablestore.Config) (*tablestore.Server, *client) {
	t.Helper()
	s := tablestore.New(c)
	p := newPipe()
	srv := &http.Server{Handler: s}
	served := make(chan error)
	go func() { served <- srv.Serve(p) }()
	tr := &http.Transport{DialContext: p.dial, MaxIdleConnsPerHost: 64}
	t.Cleanup(func() {
		s.Close()
		srv.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the server ended with %v", err)
		}
		tr.CloseIdleConnections()
	})
	return s, connect(t, tr, inst, "x", "x")
}

func connect(t testing.TB, tr *http.Transport, instance, id, secret string) *client {
	config := ots.NewDefaultTableStoreConfig()
	config.RetryTimes = 0
	config.Transport = tr
	return &client{ots.NewClientWithConfig("http://emulator", instance, id, secret, "", config), t, tr}
}

type keySpec struct {
	name string
	kind ots.PrimaryKeyType
	auto bool
}

var stringKey = []keySpec{{"id", ots.PrimaryKeyType_STRING, false}}

// makeTable makes a table with a stream that keeps records for so many hours; 0: no stream.
func (c *client) makeTable(name string, keys []keySpec, hours int32, origin ...string) {
	c.t.Helper()
	in := &ots.CreateTableRequest{TableMeta: &ots.TableMeta{TableName: name}, TableOption: ots.NewTableOptionWithMaxVersion(1), ReservedThroughput: &ots.ReservedThroughput{}}
	in.TableOption.TimeToAlive = -1
	for _, k := range keys {
		if k.auto {
			in.TableMeta.AddPrimaryKeyColumnOption(k.name, k.kind, ots.AUTO_INCREMENT)
		} else {
			in.TableMeta.AddPrimaryKeyColumn(k.name, k.kind)
		}
	}
	if hours > 0 {
		in.StreamSpec = &ots.StreamSpecification{EnableStream: true, ExpirationTime: hours, OriginColumnsToGet: origin}
	}
	if _, err := c.CreateTable(in); err != nil {
		c.t.Fatalf("CreateTable %s: %v", name, err)
	}
}

func pk(values ...any) *ots.PrimaryKey {
	names := []string{"id", "sub", "third", "fourth"}
	k := new(ots.PrimaryKey)
	for i, v := range values {
		k.AddPrimaryKeyColumn(names[i], v)
	}
	return k
}

func condition(e ots.RowExistenceExpectation, f ots.ColumnFilter) *ots.RowCondition {
	c := &ots.RowCondition{RowExistenceExpectation: e}
	if f != nil {
		c.ColumnCondition = f
	}
	return c
}

const (
	ignore   = ots.RowExistenceExpectation_IGNORE
	exists   = ots.RowExistenceExpectation_EXPECT_EXIST
	notExist = ots.RowExistenceExpectation_EXPECT_NOT_EXIST
)

type cols = map[string]any

func (c *client) put(table string, k *ots.PrimaryKey, columns cols, cond *ots.RowCondition) error {
	ch := &ots.PutRowChange{TableName: table, PrimaryKey: k, Condition: cond}
	if cond == nil {
		ch.SetCondition(ignore)
	}
	for name, v := range columns {
		ch.AddColumn(name, v)
	}
	_, err := c.PutRow(&ots.PutRowRequest{PutRowChange: ch})
	return err
}

func (c *client) mustPut(table string, k *ots.PrimaryKey, columns cols) {
	c.t.Helper()
	if err := c.put(table, k, columns, nil); err != nil {
		c.t.Fatalf("PutRow: %v", err)
	}
}

// update makes an UpdateRow; fill adds its changes.
func (c *client) update(table string, k *ots.PrimaryKey, cond *ots.RowCondition, fill func(*ots.UpdateRowChange)) error {
	ch := &ots.UpdateRowChange{TableName: table, PrimaryKey: k, Condition: cond}
	if cond == nil {
		ch.SetCondition(ignore)
	}
	fill(ch)
	_, err := c.UpdateRow(&ots.UpdateRowRequest{UpdateRowChange: ch})
	return err
}

func (c *client) delete(table string, k *ots.PrimaryKey, cond *ots.RowCondition) error {
	ch := &ots.DeleteRowChange{TableName: table, PrimaryKey: k, Condition: cond}
	if cond == nil {
		ch.SetCondition(ignore)
	}
	_, err := c.DeleteRow(&ots.DeleteRowRequest{DeleteRowChange: ch})
	return err
}

// get gives the latest values of a row's columns; nil: there is no such row.
func (c *client) get(table string, k *ots.PrimaryKey) cols {
	c.t.Helper()
	out, err := c.GetRow(&ots.GetRowRequest{SingleRowQueryCriteria: &ots.SingleRowQueryCriteria{TableName: table, PrimaryKey: k, MaxVersion: 1}})
	if err != nil {
		c.t.Fatalf("GetRow: %v", err)
	}
	if len(out.PrimaryKey.PrimaryKeys) == 0 {
		return nil
	}
	m := cols{}
	for _, col := range out.Columns {
		m[col.ColumnName] = col.Value
	}
	return m
}

func (c *client) streamID(table string) *ots.StreamId {
	c.t.Helper()
	out, err := c.DescribeTable(&ots.DescribeTableRequest{TableName: table})
	if err != nil {
		c.t.Fatalf("DescribeTable: %v", err)
	}
	if out.StreamDetails == nil || !out.StreamDetails.EnableStream {
		c.t.Fatalf("table %s has no stream", table)
	}
	return out.StreamDetails.StreamId
}

// shards lists all shards of a table's stream.
func (c *client) shards(table string) []*ots.StreamShard {
	c.t.Helper()
	in := &ots.DescribeStreamRequest{StreamId: c.streamID(table)}
	var all []*ots.StreamShard
	for {
		out, err := c.DescribeStream(in)
		if err != nil {
			c.t.Fatalf("DescribeStream: %v", err)
		}
		all = append(all, out.Shards...)
		if out.NextShardId == nil {
			return all
		}
		in.InclusiveStartShardId = out.NextShardId
	}
}

func (c *client) iterator(table string, shard ots.ShardId, us *int64) *ots.ShardIterator {
	c.t.Helper()
	in := &ots.GetShardIteratorRequest{StreamId: c.streamID(table), ShardId: &shard, Timestamp: us}
	for {
		out, err := c.GetShardIterator(in)
		if err != nil {
			c.t.Fatalf("GetShardIterator: %v", err)
		}
		if out.Token == nil {
			return out.ShardIterator
		}
		in.Token = out.Token
	}
}

func (c *client) read(it *ots.ShardIterator, limit int32) (*ots.GetStreamRecordResponse, error) {
	in := &ots.GetStreamRecordRequest{ShardIterator: it}
	if limit > 0 {
		in.Limit = &limit
	}
	return c.GetStreamRecord(in)
}

// drain reads a shard from its oldest record to where there is nothing now, and says whether the shard ended there.
func (c *client) drain(table string, shard ots.ShardId) (records []*ots.StreamRecord, ended bool) {
	c.t.Helper()
	it := c.iterator(table, shard, nil)
	for {
		out, err := c.read(it, 0)
		if err != nil {
			c.t.Fatalf("GetStreamRecord: %v", err)
		}
		records = append(records, out.Records...)
		if out.NextShardIterator == nil {
			return records, true
		}
		if len(out.Records) == 0 {
			return records, false
		}
		it = out.NextShardIterator
	}
}

// code is the service's name for an error, "" for none.
func code(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*ots.OtsError](err); ok {
		return e.Code
	}
	return "not an error of the service: " + err.Error()
}

func wantCode(t testing.TB, what string, err error, want string) {
	t.Helper()
	if got := code(err); got != want {
		t.Errorf("%s: got error %q (%v), want %q", what, got, err, want)
	}
}

// show gives a record in short: what it did to which key, then its columns and those before.
func show(r *ots.StreamRecord) string {
	var text strings.Builder
	text.WriteString(r.Type.String())
	for _, k := range r.PrimaryKey.PrimaryKeys {
		fmt.Fprintf(&text, " %v", k.Value)
	}
	for _, c := range r.Columns {
		switch c.Type {
		case ots.RCT_Put:
			fmt.Fprintf(&text, " %s=%v", *c.Name, c.Value)
		case ots.RCT_DeleteOneVersion:
			fmt.Fprintf(&text, " -%s@%d", *c.Name, *c.Timestamp)
		default:
			text.WriteString(" -" + *c.Name)
		}
	}
	for _, c := range r.OriginColumns {
		fmt.Fprintf(&text, " was %s=%v", *c.Name, c.Value)
	}
	return text.String()
}
