package leasetable

import (
	"context"
	"errors"
	"fmt"
	"iter"

	sdk "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/backends/tablestore"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/internal/otsclient"
	"github.com/shardwarden/shardwarden/leasestore/ots"
)

func openTablestore(f *Flags) *Table {
	there := f.Instance.Instance()
	return &Table{
		Name: f.Status, Service: "tablestore", Store: ots.New(ots.Instance(there), f.Status),
		Rows: func(ctx context.Context) iter.Seq2[Row, error] {
			return otsRows(ctx, otsclient.New(otsclient.Config{Endpoint: there.Endpoint, Instance: there.Name}), f.Status)
		},
		Source: func(_ core.StreamID, name string) (core.StreamSource, error) {
			if name == "" {
				return nil, errors.New("the rows do not say of which table they are: say --stream, the table whose changes are read")
			}
			return tablestore.New(there, name, tablestore.MaxRecords(10)), nil
		},
	}
}

// keyColumns are the primary key of a status table (docs/reference/tablestore.md 3.4).
var keyColumns = []string{"StreamId", "StatusType", "StatusValue"}

// otsRows are all rows of a status table.
func otsRows(ctx context.Context, client *otsclient.Client, table string) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		at, end := new(sdk.PrimaryKey), new(sdk.PrimaryKey)
		for _, name := range keyColumns {
			at.AddPrimaryKeyColumnWithMinValue(name)
			end.AddPrimaryKeyColumnWithMaxValue(name)
		}
		for at != nil {
			out, err := otsclient.Call(ctx, client, otsclient.Op{Name: "GetRange", Table: table, Attempts: 4}, func(c *sdk.TableStoreClient) (*sdk.GetRangeResponse, error) {
				return c.GetRange(&sdk.GetRangeRequest{RangeRowQueryCriteria: &sdk.RangeRowQueryCriteria{
					TableName: table, StartPrimaryKey: at, EndPrimaryKey: end, MaxVersion: 1, Direction: sdk.FORWARD,
				}})
			})
			if err != nil {
				yield(Row{}, err)
				return
			}
			for _, r := range out.Rows {
				row := Row{Table: table, Attributes: map[string]any{}}
				for _, c := range r.PrimaryKey.PrimaryKeys {
					row.Attributes[c.ColumnName] = otsTyped(c.Value)
				}
				for _, c := range r.Columns {
					row.Attributes[c.ColumnName] = otsTyped(c.Value)
				}
				if !yield(row, nil) {
					return
				}
			}
			at = out.NextStartPrimaryKey
		}
	}
}

// otsTyped is a value with the type that the service calls it by. Binary becomes base64 in JSON, and integers text, since many readers of JSON
// round them.
func otsTyped(v any) map[string]any {
	switch v := v.(type) {
	case string:
		return map[string]any{"STRING": v}
	case int64:
		return map[string]any{"INTEGER": fmt.Sprint(v)}
	case float64:
		return map[string]any{"DOUBLE": v}
	case bool:
		return map[string]any{"BOOLEAN": v}
	case []byte:
		return map[string]any{"BINARY": v}
	}
	return map[string]any{fmt.Sprintf("%T", v): fmt.Sprint(v)}
}
