package ots

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/internal/otsclient"
	"github.com/shardwarden/shardwarden/internal/plainbuffer"
)

// write is a call that is sent once; read one that is tried again for a while.
func (s *Store) write(name string) otsclient.Op {
	return otsclient.Op{Name: name, Table: s.table, Timeout: s.timeout}
}

func (s *Store) read(name string) otsclient.Op {
	return otsclient.Op{Name: name, Table: s.table, Timeout: 2 * s.timeout, Attempts: 4}
}

func primaryKey(stream, kind, value string) *tablestore.PrimaryKey {
	k := new(tablestore.PrimaryKey)
	k.AddPrimaryKeyColumn(keyStream, stream)
	k.AddPrimaryKeyColumn(keyKind, kind)
	k.AddPrimaryKeyColumn(keyValue, value)
	return k
}

func leaseRow(k core.LeaseKey) *tablestore.PrimaryKey {
	return primaryKey(string(k.Stream), kindLease, string(k.Shard))
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// getRow reads a lease's row, errNoRow where there is none.
func (s *Store) getRow(ctx context.Context, key core.LeaseKey) (Columns, error) {
	rows, err := s.getRows(ctx, leaseRow(key))
	switch {
	case err != nil:
		return nil, err
	case len(rows) == 0:
		return nil, errNoRow
	}
	return rows[0].columns, nil
}

func (s *Store) getRows(ctx context.Context, key *tablestore.PrimaryKey) ([]tableRow, error) {
	var page page
	op := s.read("GetRow")
	op.Body = page.take
	_, err := otsclient.Call(ctx, s.client, op, func(sdk *tablestore.TableStoreClient) (*tablestore.GetRowResponse, error) {
		return sdk.GetRow(&tablestore.GetRowRequest{SingleRowQueryCriteria: &tablestore.SingleRowQueryCriteria{TableName: s.table, PrimaryKey: key, MaxVersion: 1}})
	})
	return page.rows, err
}

// getRange reads one page of the rows from start up to end, and the key at which the next begins; nil: there is none.
func (s *Store) getRange(ctx context.Context, start, end *tablestore.PrimaryKey, limit int32) ([]tableRow, *tablestore.PrimaryKey, error) {
	var page page
	op := s.read("GetRange")
	op.Body = page.take
	_, err := otsclient.Call(ctx, s.client, op, func(sdk *tablestore.TableStoreClient) (*tablestore.GetRangeResponse, error) {
		return sdk.GetRange(&tablestore.GetRangeRequest{RangeRowQueryCriteria: &tablestore.RangeRowQueryCriteria{
			TableName: s.table, StartPrimaryKey: start, EndPrimaryKey: end, MaxVersion: 1, Direction: tablestore.FORWARD, Limit: limit,
		}})
	})
	if err != nil {
		return nil, nil, err
	}
	return page.rows, page.next, nil
}

// putRow creates a row that must not be there yet.
func (s *Store) putRow(ctx context.Context, key core.LeaseKey, row Columns) error {
	put := &tablestore.PutRowChange{TableName: s.table, PrimaryKey: leaseRow(key)}
	for _, name := range sortedNames(row) {
		put.AddColumn(name, row[name])
	}
	put.SetCondition(tablestore.RowExistenceExpectation_EXPECT_NOT_EXIST)
	_, err := otsclient.Call(ctx, s.client, s.write("PutRow"), func(sdk *tablestore.TableStoreClient) (*tablestore.PutRowResponse, error) {
		return sdk.PutRow(&tablestore.PutRowRequest{PutRowChange: put})
	})
	return err
}

func (s *Store) updateRow(ctx context.Context, key core.LeaseKey, c *change) error {
	update := c.request(s.table, leaseRow(key))
	_, err := otsclient.Call(ctx, s.client, s.write("UpdateRow"), func(sdk *tablestore.TableStoreClient) (*tablestore.UpdateRowResponse, error) {
		return sdk.UpdateRow(&tablestore.UpdateRowRequest{UpdateRowChange: update})
	})
	return err
}

// deleteRow deletes a row that must be there.
func (s *Store) deleteRow(ctx context.Context, key core.LeaseKey, all []condition) error {
	del := &tablestore.DeleteRowChange{TableName: s.table, PrimaryKey: leaseRow(key)}
	del.SetCondition(tablestore.RowExistenceExpectation_EXPECT_EXIST)
	if f := and(all...); f != nil {
		del.SetColumnCondition(f)
	}
	_, err := otsclient.Call(ctx, s.client, s.write("DeleteRow"), func(sdk *tablestore.TableStoreClient) (*tablestore.DeleteRowResponse, error) {
		return sdk.DeleteRow(&tablestore.DeleteRowRequest{DeleteRowChange: del})
	})
	return err
}

// tableRow is a row of the table, of whatever kind.
type tableRow struct {
	stream, kind, value string
	columns             Columns
}

// page is what a read gave. The rows are taken out of the answer before the SDK sees it, which looks at no checksum and takes an unknown type
// of value for none (docs/reference/tablestore.md 2.6).
type page struct {
	rows []tableRow
	next *tablestore.PrimaryKey
}

// The fields of GetRowResponse and GetRangeResponse (docs/reference/tablestore.md 2.5).
const (
	fieldRows      = 2
	fieldNext      = 3 // of a range; of a row it is a token, for columns that did not fit
	fieldBlockType = 5
)

var errBody = errors.New("it is no message of the service")

// take implements otsclient.Op.Body. The SDK gets the answer without rows; the field itself it must find.
func (p *page) take(body []byte) ([]byte, error) {
	p.rows, p.next = nil, nil
	rest := protowire.AppendTag(nil, fieldRows, protowire.BytesType)
	rest = protowire.AppendBytes(rest, nil)
	for len(body) > 0 {
		num, typ, n := protowire.ConsumeTag(body)
		if n < 0 {
			return nil, errBody
		}
		m := protowire.ConsumeFieldValue(num, typ, body[n:])
		if m < 0 {
			return nil, errBody
		}
		field, value := body[:n+m], body[n:n+m]
		body = body[n+m:]
		var err error
		switch {
		case num == fieldRows && typ == protowire.BytesType:
			blob, _ := protowire.ConsumeBytes(value)
			p.rows, err = decodeRows(p.rows, blob)
		case num == fieldNext && typ == protowire.BytesType:
			blob, _ := protowire.ConsumeBytes(value)
			p.next, err = decodeNext(blob)
		case num == fieldBlockType && typ == protowire.VarintType && value[0] != 0:
			err = fmt.Errorf("its rows are in form %d, which was not asked for", value[0])
		default:
			rest = append(rest, field...)
		}
		if err != nil {
			return nil, err
		}
	}
	return rest, nil
}

func decodeRows(rows []tableRow, blob []byte) ([]tableRow, error) {
	d := plainbuffer.NewDecoder(blob)
	var r plainbuffer.Row
	for {
		ok, err := d.Next(&r)
		if err != nil || !ok {
			return rows, err
		}
		row := tableRow{columns: make(Columns, len(r.Cells))}
		if row.stream, row.kind, row.value, err = decodeKey(r.PrimaryKey); err != nil {
			return nil, err
		}
		for i := range r.Cells {
			c := &r.Cells[i]
			row.columns[string(c.Name)] = c.Value.Any()
		}
		rows = append(rows, row)
	}
}

func decodeNext(blob []byte) (*tablestore.PrimaryKey, error) {
	if len(blob) == 0 {
		return nil, nil
	}
	var r plainbuffer.Row
	if err := plainbuffer.DecodeRow(blob, &r); err != nil {
		return nil, err
	}
	stream, kind, value, err := decodeKey(r.PrimaryKey)
	if err != nil {
		return nil, err
	}
	return primaryKey(stream, kind, value), nil
}

// decodeKey reads the three columns of a key by their order.
func decodeKey(cells []plainbuffer.Cell) (stream, kind, value string, err error) {
	if len(cells) != 3 {
		return "", "", "", fmt.Errorf("a primary key of %d columns: expected %s, %s, %s", len(cells), keyStream, keyKind, keyValue)
	}
	for i, name := range []string{keyStream, keyKind, keyValue} {
		if string(cells[i].Name) != name || cells[i].Value.Kind != plainbuffer.String {
			return "", "", "", fmt.Errorf("column %d of a primary key is %s %v: expected %s, STRING", i+1, cells[i].Name, cells[i].Value.Kind, name)
		}
	}
	return cells[0].Value.Text(), cells[1].Value.Text(), cells[2].Value.Text(), nil
}
