package demo

import (
	"context"

	"github.com/shardwarden/shardwarden/core"
)

// boundary is where the engine's records reach user code; the ledger stands right behind it.
type boundary struct {
	ledger        *ledger
	spoiler       *spoiler
	seed          uint64
	keys, records int
}

// factory makes the processors of one worker.
func (b *boundary) factory(worker string) core.Factory {
	return func(_ context.Context, s core.Session) (core.Processor, error) {
		shard := string(s.Key().Shard)
		return &processor{b, shard, b.ledger.begin(worker, shard)}, nil
	}
}

type processor struct {
	*boundary
	shard string
	epoch int32
}

func (p *processor) Process(ctx context.Context, b *core.Batch) error {
	if len(b.Records) == 0 {
		return nil
	}
	if err := p.spoiler.wait(ctx, p.shard); err != nil {
		return err
	}
	got := items(p.seed, p.keys, p.records, b.Records)
	p.ledger.deliver(p.epoch, p.spoiler.pass(p.shard, p.epoch, got))
	p.ledger.arrive(p.shard, got)
	return nil
}

// ShardEnded comes before any record of a child.
func (p *processor) ShardEnded(context.Context) error {
	p.ledger.deliver(p.epoch, p.spoiler.last(p.shard))
	return nil
}
