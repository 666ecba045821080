package demo

import (
	"context"

	"github.com/shardwarden/shardwarden/core"
)

// boundary is where the engine's records reach user code; the ledger stands right behind it.
type boundary struct {
	stage         stage
	ledger        *ledger
	replica       *replica // nil: the stage has no rows
	spoiler       *spoiler
	seed          uint64
	keys, records int
}

// deliver notes what a handler was given.
func (b *boundary) deliver(epoch int32, records []item) {
	b.ledger.deliver(epoch, records)
	if b.replica != nil {
		b.replica.apply(records)
	}
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
	got := p.stage.items(p.seed, p.keys, p.records, b.Records)
	p.deliver(p.epoch, p.spoiler.pass(p.shard, p.epoch, got))
	p.ledger.arrive(p.shard, got)
	return nil
}

// ShardEnded comes before any record of a child.
func (p *processor) ShardEnded(context.Context) error {
	p.deliver(p.epoch, p.spoiler.last(p.shard))
	return nil
}
