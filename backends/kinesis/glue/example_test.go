package glue_test

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/shardwarden/shardwarden/backends/kinesis"
	"github.com/shardwarden/shardwarden/backends/kinesis/glue"
	"github.com/shardwarden/shardwarden/core"
)

// A handler of a stream whose producers register their schemas.
func Example() {
	cfg, err := config.LoadDefaultConfig(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	source := kinesis.New(cfg, "orders", kinesis.Decode(glue.New(cfg)))
	_ = source // of a worker, whose handler is this one

	handler := func(_ context.Context, b *core.Batch) error {
		for i := range b.Records {
			r := &b.Records[i]
			m, ok := r.Native.(*glue.Message)
			switch {
			case !ok:
				fmt.Printf("without a schema: %s\n", r.Data)
			case m.Err != nil:
				return m.Err // by the worker's OnError: tried again, put aside, or the shard is halted
			default:
				text, err := m.JSON()
				if err != nil {
					return err
				}
				fmt.Printf("%s, version %d: %s\n", m.Schema, m.Number, text)
			}
		}
		return nil
	}
	_ = handler
}
