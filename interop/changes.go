package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
)

const (
	instance    = "interop"
	statusTable = "status"
	rowKeys     = 200 // primary keys 0 to 199, over four partitions
)

// writer writes rows into a table with a stream, and remembers what it did to each.
type writer struct {
	url    string
	sdk    *tablestore.TableStoreClient
	n      int64
	writes map[string][]string // by key: put, update, delete, in order
	total  int
}

// newWriter makes a table of four partitions with a stream.
func newWriter(ctx context.Context, url string) (*writer, error) {
	w := &writer{url: url, sdk: tablestore.NewClient(url, instance, "interop", "interop"), writes: map[string][]string{}}
	meta := &tablestore.TableMeta{TableName: stream}
	meta.AddPrimaryKeyColumn("k", tablestore.PrimaryKeyType_INTEGER)
	_, err := w.sdk.CreateTable(&tablestore.CreateTableRequest{
		TableMeta: meta, TableOption: &tablestore.TableOption{TimeToAlive: -1, MaxVersion: 1}, ReservedThroughput: &tablestore.ReservedThroughput{},
	})
	if err != nil {
		return nil, fmt.Errorf("create the table: %w", err)
	}
	for _, at := range []int{50, 100, 150} {
		if err := w.command(ctx, "split", map[string]any{"at": at}); err != nil {
			return nil, err
		}
	}
	_, err = w.sdk.UpdateTable(&tablestore.UpdateTableRequest{TableName: stream, StreamSpec: &tablestore.StreamSpecification{EnableStream: true, ExpirationTime: 24}})
	if err != nil {
		return nil, fmt.Errorf("switch the stream on: %w", err)
	}
	return w, nil
}

// command asks the emulator for something that no call of the service does.
func (w *writer) command(ctx context.Context, name string, what map[string]any) error {
	what["instance"], what["table"] = instance, stream
	body, err := json.Marshal(what)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/emulator/"+name, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", name, resp.Status, text)
	}
	return err
}

// write changes each row so many times: it is put, updated, updated and deleted, over and over.
func (w *writer) write(rounds int) error {
	for range rounds {
		for k := range int64(rowKeys) {
			pk := &tablestore.PrimaryKey{}
			pk.AddPrimaryKeyColumn("k", k)
			key := strconv.FormatInt(k, 10)
			w.n++
			var kind string
			var err error
			switch len(w.writes[key]) % 4 {
			case 0:
				kind = "put"
				c := &tablestore.PutRowChange{TableName: stream, PrimaryKey: pk}
				c.AddColumn("n", w.n)
				c.SetCondition(tablestore.RowExistenceExpectation_IGNORE)
				_, err = w.sdk.PutRow(&tablestore.PutRowRequest{PutRowChange: c})
			case 3:
				kind = "delete"
				c := &tablestore.DeleteRowChange{TableName: stream, PrimaryKey: pk}
				c.SetCondition(tablestore.RowExistenceExpectation_IGNORE)
				_, err = w.sdk.DeleteRow(&tablestore.DeleteRowRequest{DeleteRowChange: c})
			default:
				kind = "update"
				c := &tablestore.UpdateRowChange{TableName: stream, PrimaryKey: pk}
				c.PutColumn("n", w.n)
				c.SetCondition(tablestore.RowExistenceExpectation_IGNORE)
				_, err = w.sdk.UpdateRow(&tablestore.UpdateRowRequest{UpdateRowChange: c})
			}
			if err != nil {
				return fmt.Errorf("%s row %s: %w", kind, key, err)
			}
			w.writes[key] = append(w.writes[key], kind)
			w.total++
		}
	}
	return nil
}

// streamID is the table's stream.
func (w *writer) streamID() (*tablestore.StreamId, error) {
	out, err := w.sdk.ListStream(&tablestore.ListStreamRequest{TableName: new(stream)})
	if err != nil {
		return nil, err
	}
	if len(out.Streams) != 1 {
		return nil, fmt.Errorf("the table has %d streams", len(out.Streams))
	}
	return out.Streams[0].Id, nil
}

func (w *writer) shards() ([]shard, error) {
	id, err := w.streamID()
	if err != nil {
		return nil, err
	}
	var out []shard
	in := &tablestore.DescribeStreamRequest{StreamId: id}
	for {
		page, err := w.sdk.DescribeStream(in)
		if err != nil {
			return nil, err
		}
		for _, s := range page.Shards {
			v := shard{id: string(*s.SelfShard)}
			for _, p := range []*tablestore.ShardId{s.FatherShard, s.MotherShard} {
				if p != nil && *p != "" {
					v.parents = append(v.parents, string(*p))
				}
			}
			out = append(out, v)
		}
		if in.InclusiveStartShardId = page.NextShardId; page.NextShardId == nil {
			break
		}
	}
	for i := range out { // who has a child has ended
		out[i].closed = slices.ContainsFunc(out, func(c shard) bool { return slices.Contains(c.parents, out[i].id) })
	}
	return out, nil
}

// reshard splits the first open shard, or merges the first two that have the same parent.
func (w *writer) reshard(ctx context.Context, merge bool) (string, error) {
	shards, err := w.shards()
	if err != nil {
		return "", err
	}
	open := slices.DeleteFunc(shards, func(s shard) bool { return s.closed })
	if !merge {
		return open[0].id, w.command(ctx, "split", map[string]any{"shard": open[0].id})
	}
	for i, a := range open {
		for _, b := range open[i+1:] {
			if len(a.parents) == 1 && slices.Equal(a.parents, b.parents) {
				return a.id + " and " + b.id, w.command(ctx, "merge", map[string]any{"shards": []string{a.id, b.id}})
			}
		}
	}
	return "", fmt.Errorf("no two open shards of one parent among %d", len(open))
}

// sequence is the place of a change as one number.
func sequence(epoch, timestamp, row int64) string {
	n := big.NewInt(epoch)
	n.Lsh(n, 64).Add(n, big.NewInt(timestamp))
	return n.Lsh(n, 32).Add(n, big.NewInt(row)).String()
}

// place tells changes apart: there is one at each place of a shard.
func place(shard, seq string) string { return shard + " " + seq }

// audit reads the whole stream through the SDK: the ledger, which must hold what was written, key by key in order.
func (w *writer) audit() (ledger map[string]put, order map[string][]string, err error) {
	shards, err := w.shards()
	if err != nil {
		return nil, nil, err
	}
	id, err := w.streamID()
	if err != nil {
		return nil, nil, err
	}
	type change struct {
		seq  *big.Int
		id   string
		kind string
	}
	ledger, order = map[string]put{}, map[string][]string{}
	byKey := map[string][]change{}
	for _, s := range shards {
		it, err := w.sdk.GetShardIterator(&tablestore.GetShardIteratorRequest{StreamId: id, ShardId: new(tablestore.ShardId(s.id))})
		if err != nil {
			return nil, nil, err
		}
		for at := it.ShardIterator; at != nil; {
			page, err := w.sdk.GetStreamRecord(&tablestore.GetStreamRecordRequest{ShardIterator: at, TableName: new(stream)})
			if err != nil {
				return nil, nil, err
			}
			for _, r := range page.Records {
				p := put{key: fmt.Sprint(r.PrimaryKey.PrimaryKeys[0].Value), shard: s.id, seq: sequence(int64(r.Info.Epoch), r.Info.Timestamp, int64(r.Info.RowIndex))}
				ledger[place(p.shard, p.seq)] = p
				kind := map[tablestore.ActionType]string{tablestore.AT_Put: "put", tablestore.AT_Update: "update", tablestore.AT_Delete: "delete"}[r.Type]
				byKey[p.key] = append(byKey[p.key], change{integer(p.seq), place(p.shard, p.seq), kind})
			}
			if at = page.NextShardIterator; len(page.Records) == 0 {
				break
			}
		}
	}
	for key, cs := range byKey {
		slices.SortFunc(cs, func(a, b change) int { return a.seq.Cmp(b.seq) })
		var kinds []string
		for _, c := range cs {
			order[key] = append(order[key], c.id)
			kinds = append(kinds, c.kind)
		}
		if !slices.Equal(kinds, w.writes[key]) {
			return nil, nil, fmt.Errorf("the stream holds %v of row %s, and written was %v: an emulator to mend", kinds, key, w.writes[key])
		}
	}
	if len(ledger) != w.total {
		return nil, nil, fmt.Errorf("the stream holds %d changes, and %d were written: an emulator to mend", len(ledger), w.total)
	}
	return ledger, order, nil
}

// statusRow is a row of a status table; columns holds all of it.
type statusRow struct {
	kind, shard, owner, stealer, checkpoint string
	columns                                 map[string]any
}

// status reads the status table.
func (w *writer) status() ([]statusRow, error) {
	from, to := &tablestore.PrimaryKey{}, &tablestore.PrimaryKey{}
	for _, k := range []string{"StreamId", "StatusType", "StatusValue"} {
		from.AddPrimaryKeyColumnWithMinValue(k)
		to.AddPrimaryKeyColumnWithMaxValue(k)
	}
	var out []statusRow
	for from != nil {
		page, err := w.sdk.GetRange(&tablestore.GetRangeRequest{RangeRowQueryCriteria: &tablestore.RangeRowQueryCriteria{
			TableName: statusTable, StartPrimaryKey: from, EndPrimaryKey: to, MaxVersion: 1, Direction: tablestore.FORWARD,
		}})
		if err != nil {
			return nil, err
		}
		for _, r := range page.Rows {
			v := statusRow{columns: map[string]any{}}
			v.kind, v.shard = fmt.Sprint(r.PrimaryKey.PrimaryKeys[1].Value), fmt.Sprint(r.PrimaryKey.PrimaryKeys[2].Value)
			for _, c := range r.Columns {
				v.columns[c.ColumnName] = c.Value
			}
			text := func(name string) string { s, _ := v.columns[name].(string); return s }
			v.owner, v.stealer, v.checkpoint = text("LeaseOwner"), text("LeaseStealer"), text("Checkpoint")
			out = append(out, v)
		}
		from = page.NextStartPrimaryKey
	}
	return out, nil
}

// owned are the leases that are not at their end, by owner; a lease that is being handed over counts for nobody. Every row must be one that
// the Java client can read.
func (w *writer) owned() (map[string][]string, error) {
	rows, err := w.status()
	if err != nil {
		return nil, err
	}
	if err := readable(rows); err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, r := range rows {
		if r.kind == javaLease && r.checkpoint != "SHARD_END" && r.stealer == "" {
			out[r.owner] = append(out[r.owner], r.shard)
		}
	}
	return out, nil
}

const javaLease = "LeaseKey" // StatusType of the Java client's leases

// readable wants every lease row to hold what the Java client cannot do without (docs/reference/tablestore.md 3.4).
func readable(rows []statusRow) error {
	for _, r := range rows {
		if r.kind != javaLease {
			continue
		}
		for _, c := range []string{"LeaseOwner", "LeaseStealer", "Checkpoint", "ParentShardIds"} {
			if _, ok := r.columns[c].(string); !ok {
				return fmt.Errorf("row of %s: column %s is %v", r.shard, c, r.columns[c])
			}
		}
		if _, ok := r.columns["LeaseCounter"].(int64); !ok {
			return fmt.Errorf("row of %s: column LeaseCounter is %v", r.shard, r.columns["LeaseCounter"])
		}
		if p := r.columns["ParentShardIds"].(string); p != "" && !strings.HasSuffix(p, "\n") {
			return fmt.Errorf("row of %s: ParentShardIds is %q", r.shard, p)
		}
	}
	return nil
}
