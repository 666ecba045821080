package core_test

import (
	"context"
	"fmt"
	"io"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/core/worker"
)

// Story 1: pick a backend and consume. The constructors of a real program are kinesis.New and dynamo.New.
func Example_consume() {
	start := func(source core.StreamSource, store core.LeaseStore) worker.Config {
		return worker.Config{
			Streams: worker.One(source, core.FromHorizon),
			Store:   store,
			Process: func(ctx context.Context, b *core.Batch) error {
				for _, r := range b.Records {
					fmt.Printf("%s %s %s\n", b.Shard, r.Key, r.Data)
				}
				return nil
			},
		}
	}
	_ = start
}

// Story 2: write an adapter. numbers is a stream of one shard that holds the numbers below n.
type numbers int

func (n numbers) Describe(context.Context) (core.StreamInfo, error) {
	return core.StreamInfo{ID: "numbers", Name: "numbers", Lacks: core.SourceLacks{HashRanges: true, StartTime: true, Lag: true}}, nil
}

func (n numbers) Shards(context.Context, core.Position) ([]core.Shard, error) {
	return []core.Shard{{ID: "0", Closed: true}}, nil
}

func (n numbers) Open(_ context.Context, s core.Shard, at core.Position) (core.ShardReader, error) {
	next := 0
	if at.Anchor == core.AfterToken {
		if _, err := fmt.Sscan(at.Token, &next); err != nil {
			return nil, &core.Error{Op: "open", Shard: s.ID, Err: fmt.Errorf("token %q: %w", at.Token, core.ErrInvalid)}
		}
		next++
	}
	return &counting{next: next, n: int(n)}, nil
}

type counting struct{ next, n int }

func (c *counting) Next(context.Context) (*core.Page, error) {
	if c.next >= c.n {
		return &core.Page{End: true, Lag: -1}, nil
	}
	r := core.Record{Data: fmt.Append(nil, c.next), Sequence: fmt.Sprint(c.next)}
	c.next++
	return &core.Page{Records: []core.Record{r}, Lag: -1}, nil
}

func (c *counting) Close() error { return nil }

func Example_adapter() {
	ctx := context.Background()
	var source core.StreamSource = numbers(5)
	r, _ := source.Open(ctx, core.Shard{ID: "0"}, core.Position{Token: "2"})
	defer r.Close()
	for {
		p, err := r.Next(ctx)
		if err != nil || p.End {
			break
		}
		fmt.Printf("%s ", p.Records[0].Data)
	}
	// Output: 3 4
}

// Story 3: Tablestore with the same API. change is what its adapter puts in Record.Native; the rest is story 1.
type change struct{ Kind, Row string }

func Example_tablestore() {
	print := func(out io.Writer) core.ProcessorFunc {
		return func(_ context.Context, b *core.Batch) error {
			for _, r := range b.Records {
				if c, ok := r.Native.(*change); ok {
					fmt.Fprintln(out, c.Kind, c.Row)
				}
			}
			return nil
		}
	}
	_ = print
}
