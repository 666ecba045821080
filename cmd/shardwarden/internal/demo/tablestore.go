package demo

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"

	"github.com/aliyun/aliyun-tablestore-go-sdk/common"
	sdk "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	source "github.com/shardwarden/shardwarden/backends/tablestore"
	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/tablestore"
	"github.com/shardwarden/shardwarden/leasestore/ots"
)

const (
	instanceName = "demo"
	tableName    = "demo"
	statusTable  = "demo_status"
	streamHours  = 24
	batchRows    = 200 // the most one BatchWriteRow may hold
)

// instance is the stage of a table of rows on loopback, called through the SDK of Tablestore. Records are changes of rows; shards follow the
// table's partitions.
type instance struct {
	service *service
	server  *emulator.Server
	client  *sdk.TableStoreClient
	idle    func()
	seed    uint64
	stream  sdk.StreamId
	witness chan *witness // holds it while nobody uses it
}

func newInstance(shards int, seed uint64) (_ stage, err error) {
	server := emulator.New(emulator.Config{Seed: seed})
	s, err := serve(server, server.Close)
	if err != nil {
		return nil, err
	}
	t := &instance{service: s, server: server, seed: seed, witness: make(chan *witness, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	transport := &http.Transport{MaxIdleConnsPerHost: producers + 1}
	t.idle = transport.CloseIdleConnections
	config := sdk.NewDefaultTableStoreConfig()
	config.RetryTimes = 0 // a write that is sent again may be carried out twice, which no ledger could tell from a fault of the engine
	config.Transport = transport
	t.client = sdk.NewClientWithCredentialsProvider(s.url, instanceName, credentialsOf("demo"), config)
	if err = t.make(shards); err != nil {
		return nil, err
	}
	t.witness <- &witness{client: t.client, stream: t.stream, at: map[sdk.ShardId]*sdk.ShardIterator{}, seen: map[recordID]placed{}}
	return t, nil
}

// credentialsOf are keys that the emulator takes.
func credentialsOf(name string) common.CredentialsProvider {
	return &common.DefaultCredentialsProvider{AccessKeyID: name, AccessKeySecret: name}
}

// make makes the table, cuts it into partitions, and switches its stream on.
func (t *instance) make(shards int) error {
	meta := &sdk.TableMeta{TableName: tableName}
	meta.AddPrimaryKeyColumn(keyBucket, sdk.PrimaryKeyType_INTEGER)
	meta.AddPrimaryKeyColumn(keyID, sdk.PrimaryKeyType_STRING)
	_, err := t.client.CreateTable(&sdk.CreateTableRequest{TableMeta: meta, TableOption: &sdk.TableOption{TimeToAlive: -1, MaxVersion: 1}, ReservedThroughput: &sdk.ReservedThroughput{}})
	if err != nil {
		return fmt.Errorf("create the table: %w", err)
	}
	for i := 1; i < shards; i++ {
		if _, _, err := t.server.Split(instanceName, tableName, int64(i)*buckets/int64(shards)); err != nil {
			return err
		}
	}
	out, err := t.client.UpdateTable(&sdk.UpdateTableRequest{TableName: tableName,
		StreamSpec: &sdk.StreamSpecification{EnableStream: true, ExpirationTime: streamHours, OriginColumnsToGet: []string{columnNumber}}})
	if err != nil {
		return fmt.Errorf("switch the stream on: %w", err)
	}
	t.stream = *out.StreamDetails.StreamId
	return nil
}

func (t *instance) join(worker string) (seat, error) {
	base := &http.Transport{MaxIdleConnsPerHost: 64}
	n := newNetwork(base)
	there := source.Instance{Endpoint: t.service.url, Name: instanceName, Credentials: credentialsOf(worker)}
	return seat{
		source: source.New(there, tableName, source.Transport(n)),
		store:  ots.New(ots.Instance(there), statusTable, ots.Transport(n)),
		sever:  n.sever,
		leave:  func() { n.close(); base.CloseIdleConnections() },
	}, nil
}

// put carries out the edit of each record.
func (t *instance) put(ctx context.Context, records []outgoing) ([]placed, error) {
	var ids []recordID
	for chunk := range slices.Chunk(records, batchRows) {
		in := &sdk.BatchWriteRowRequest{}
		for _, r := range chunk {
			in.AddRowChange(editOf(t.seed, r.id).request(r.key))
			ids = append(ids, r.id)
		}
		out, err := t.client.BatchWriteRow(in)
		if err != nil {
			return nil, err
		}
		for _, r := range out.TableToRowsResult[tableName] {
			if !r.IsSucceed { // nothing here throttles
				return nil, fmt.Errorf("row %d of a batch: %s: %s", r.Index, r.Error.Code, r.Error.Message)
			}
		}
	}
	select {
	case w := <-t.witness:
		defer func() { t.witness <- w }()
		return w.find(ctx, ids)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// request is the edit as a call takes it.
func (e edit) request(key string) sdk.RowChange {
	k := &sdk.PrimaryKey{}
	k.AddPrimaryKeyColumn(keyBucket, bucket(key))
	k.AddPrimaryKeyColumn(keyID, key)
	switch e.kind {
	case source.Delete:
		r := &sdk.DeleteRowChange{TableName: tableName, PrimaryKey: k}
		r.SetCondition(sdk.RowExistenceExpectation_EXPECT_EXIST)
		return r
	case source.Put:
		r := &sdk.PutRowChange{TableName: tableName, PrimaryKey: k}
		for name, value := range e.columns {
			r.AddColumn(name, value)
		}
		r.SetCondition(sdk.RowExistenceExpectation_IGNORE)
		return r
	}
	r := &sdk.UpdateRowChange{TableName: tableName, PrimaryKey: k}
	for name, value := range e.columns {
		if value == nil {
			r.DeleteColumn(name)
		} else {
			r.PutColumn(name, value)
		}
	}
	r.SetCondition(sdk.RowExistenceExpectation_EXPECT_EXIST)
	return r
}

// items reads changes back, from their JSON, as users of other languages would.
func (t *instance) items(seed uint64, keys, records int, in []core.Record) []item {
	out := make([]item, len(in))
	for i, r := range in {
		out[i] = item{sequence: strings.Clone(r.Sequence), foreign: true}
		c, err := source.ParseChange(r.Data)
		if err != nil {
			continue
		}
		id, ok := idOf(c)
		if !ok || int(id.key) >= keys || id.n < 0 || int(id.n) >= records {
			continue
		}
		out[i].id, out[i].change = id, c
		out[i].foreign = r.Key != c.KeyText() || r.Sequence != c.Sequence.String() || !editOf(seed, id).is(c)
	}
	return out
}

func (t *instance) shards(context.Context) ([]shard, error) {
	listed, err := listShards(t.client, t.stream)
	if err != nil {
		return nil, err
	}
	parts, err := t.server.Partitions(instanceName, tableName)
	if err != nil {
		return nil, err
	}
	open := map[string]hashRange{}
	for _, p := range parts {
		from, to := int64(0), int64(buckets)
		if p.From != nil {
			from = p.From.(int64)
		}
		if p.To != nil {
			to = p.To.(int64)
		}
		open[p.Shard] = hashRange{big.NewInt(from), big.NewInt(to - 1)}
	}
	out := make([]shard, len(listed))
	for i, s := range listed {
		out[i].id = string(*s.SelfShard)
		out[i].hashes, out[i].open = open[out[i].id]
		for _, p := range []*sdk.ShardId{s.FatherShard, s.MotherShard} {
			if p != nil {
				out[i].parents = append(out[i].parents, string(*p))
			}
		}
	}
	return out, nil
}

func (t *instance) split(_ context.Context, s shard) error {
	_, _, err := t.server.Split(instanceName, tableName, s.hashes.middle().Int64())
	return err
}

func (t *instance) merge(_ context.Context, a, b shard) error {
	_, err := t.server.Merge(instanceName, tableName, a.id, b.id)
	return err
}

// rows reads the table.
func (t *instance) rows(context.Context) (map[string]row, error) {
	from, to := &sdk.PrimaryKey{}, &sdk.PrimaryKey{}
	for _, name := range []string{keyBucket, keyID} {
		from.AddPrimaryKeyColumnWithMinValue(name)
		to.AddPrimaryKeyColumnWithMaxValue(name)
	}
	out := map[string]row{}
	for from != nil {
		page, err := t.client.GetRange(&sdk.GetRangeRequest{RangeRowQueryCriteria: &sdk.RangeRowQueryCriteria{
			TableName: tableName, StartPrimaryKey: from, EndPrimaryKey: to, MaxVersion: 1, Direction: sdk.FORWARD}})
		if err != nil {
			return nil, fmt.Errorf("read the table: %w", err)
		}
		for _, r := range page.Rows {
			var key source.Change
			for _, k := range r.PrimaryKey.PrimaryKeys {
				key.Key = append(key.Key, source.KeyColumn{Name: k.ColumnName, Value: k.Value})
			}
			columns := row{}
			for _, c := range r.Columns {
				columns[c.ColumnName] = cell{c.Value, c.Timestamp}
			}
			out[key.KeyText()] = columns
		}
		from = page.NextStartPrimaryKey
	}
	return out, nil
}

func (t *instance) close() error {
	if t.idle != nil {
		t.idle()
	}
	return t.service.close()
}
