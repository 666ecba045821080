package leases

import (
	"context"
	"fmt"
	"io"

	"github.com/shardwarden/shardwarden/backends/kinesis"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// toSeveralStreams gives each lease of a table of one stream the key that it has in one of several.
func (m *migrate) toSeveralStreams(ctx context.Context, stdout io.Writer) error {
	cfg, err := m.Config(ctx)
	if err != nil {
		return err
	}
	source, store := kinesis.New(cfg, m.Stream, append(m.Kinesis(), kinesis.Unchecked())...), dynamo.New(cfg, m.App, append(m.Dynamo(), dynamo.Table(m.Name()))...)
	info, err := source.Describe(ctx)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stdout, "looking for %v whether anybody uses table %s\n", m.watch, m.Name()); err != nil {
		return err
	}
	plan, err := store.PlanSeveralStreams(ctx, info.ID, m.watch)
	if err != nil {
		return err
	}
	for _, l := range plan.Leases {
		if _, err := fmt.Fprintf(stdout, "%s at %s becomes %s:%s\n", l.Key.Shard, l.Checkpoint, info.ID, l.Key.Shard); err != nil {
			return err
		}
	}
	switch {
	case len(plan.Leases) == 0:
		_, err = fmt.Fprintf(stdout, "table %s has no leases of one stream: there is nothing to do\n", m.Name())
		return err
	case !m.yes:
		_, err = fmt.Fprintf(stdout, "%d leases; nothing was changed. Say --yes to do it.\n", len(plan.Leases))
		return err
	}
	if err := plan.Run(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%d leases; done. Table %s is one of several streams now.\n", len(plan.Leases), m.Name())
	return err
}
