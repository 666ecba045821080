package leasetable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/backends/kinesis"
	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// openDynamo opens a table by what is in it: of one stream or of several, by whichever rules.
func openDynamo(ctx context.Context, f *Flags) (*Table, error) {
	cfg, err := f.Config(ctx)
	if err != nil {
		return nil, err
	}
	opts := append(f.Dynamo(), dynamo.Table(f.Name()), dynamo.Layout(dynamo.Auto), dynamo.SideTables(f.Coordinator, f.Metrics))
	store := dynamo.New(cfg, f.app(), opts...)
	found, err := store.Inspect(ctx)
	switch {
	case err != nil:
		return nil, err
	case !found.Exists:
		return nil, fmt.Errorf("table %s does not exist in region %s: is it another application, account or region? %w", f.Name(), cfg.Region, core.ErrNotFound)
	case len(found.Streams) > 0:
		store = dynamo.New(cfg, f.app(), append(opts, dynamo.SeveralStreams())...)
	}
	// How rows are read goes by what the last reading showed.
	if _, err := core.Collect(store.List(ctx)); err != nil {
		return nil, err
	}
	rows := &dynamoTables{client: f.Client(cfg), names: append([]string{f.Name()}, f.SideTables()...)}
	return &Table{
		Name: f.Name(), Service: "dynamodb", Store: store, Rows: rows.rows, single: len(found.Streams) == 0,
		inspect: func(ctx context.Context) (*KCL, []Worker, error) { return inspect(ctx, store) },
		Source: func(id core.StreamID, name string) (core.StreamSource, error) {
			if name = cmp.Or(name, string(id)); name == "" {
				return nil, errors.New("the rows do not say of which stream they are: say --stream")
			}
			// Few records are enough to see how old the first is.
			return kinesis.New(cfg, name, append(f.Kinesis(), kinesis.MaxRecords(10), kinesis.Unchecked())...), nil
		},
	}, nil
}

// Client is a client of the table's service.
func (t *Flags) Client(cfg aws.Config) *dynamodb.Client {
	return dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		if url := t.DynamoDB(); url != "" {
			o.BaseEndpoint = &url
		}
	})
}

// SideTables are the names that the coordinator's table and that of the workers' metrics have, where there are any.
func (t *Flags) SideTables() []string {
	return []string{cmp.Or(t.Coordinator, t.app()+"-CoordinatorState"), cmp.Or(t.Metrics, t.app()+"-WorkerMetricStats")}
}

// Key is the primary key of a row.
func Key(name, text string) dynamo.Attributes {
	return dynamo.Attributes{name: &types.AttributeValueMemberS{Value: text}}
}

// dynamoTables reads tables as they stand: the lease table, and the side tables of KCL 3.0 to 3.4 where there are any.
type dynamoTables struct {
	client *dynamodb.Client
	names  []string
}

func (d *dynamoTables) rows(ctx context.Context) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for i, name := range d.names {
			for row, err := range d.scan(ctx, name) {
				if i > 0 && errors.Is(err, core.ErrNotFound) {
					break
				}
				if err != nil {
					yield(Row{}, err)
					return
				}
				out := Row{Table: name, Attributes: make(map[string]any, len(row))}
				for k, v := range row {
					out.Attributes[k] = typed(v)
				}
				if !yield(out, nil) {
					return
				}
			}
		}
	}
}

func (d *dynamoTables) scan(ctx context.Context, table string) iter.Seq2[dynamo.Attributes, error] {
	return func(yield func(dynamo.Attributes, error) bool) {
		pages := dynamodb.NewScanPaginator(d.client, &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if _, missing := errors.AsType[*types.ResourceNotFoundException](err); missing {
				yield(nil, fmt.Errorf("table %s does not exist: %w", table, core.ErrNotFound))
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("scan table %s: %w", table, err))
				return
			}
			for _, row := range page.Items {
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

// typed is a value in the service's own JSON. Binary becomes base64 there.
func typed(v types.AttributeValue) map[string]any {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return map[string]any{"S": v.Value}
	case *types.AttributeValueMemberN:
		return map[string]any{"N": v.Value}
	case *types.AttributeValueMemberB:
		return map[string]any{"B": v.Value}
	case *types.AttributeValueMemberBOOL:
		return map[string]any{"BOOL": v.Value}
	case *types.AttributeValueMemberNULL:
		return map[string]any{"NULL": v.Value}
	case *types.AttributeValueMemberSS:
		return map[string]any{"SS": v.Value}
	case *types.AttributeValueMemberNS:
		return map[string]any{"NS": v.Value}
	case *types.AttributeValueMemberBS:
		return map[string]any{"BS": v.Value}
	case *types.AttributeValueMemberL:
		list := make([]any, len(v.Value))
		for i, e := range v.Value {
			list[i] = typed(e)
		}
		return map[string]any{"L": list}
	case *types.AttributeValueMemberM:
		m := make(map[string]any, len(v.Value))
		for k, e := range v.Value {
			m[k] = typed(e)
		}
		return map[string]any{"M": m}
	}
	return map[string]any{strings.TrimPrefix(fmt.Sprintf("%T", v), "*types."): nil}
}
