package leasetable

import (
	"context"

	"github.com/shardwarden/shardwarden/core"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// inspect asks a store what there is of the KCL, and its workers' rows.
func inspect(ctx context.Context, s *dynamo.Store) (*KCL, []Worker, error) {
	in, err := s.Inspect(ctx)
	if err != nil {
		return nil, nil, err
	}
	k := &KCL{
		Layout: in.Layout.String(), Regime: in.Regime, Why: in.Why, ClientVersion: in.ClientVersion, TableMigration: in.TableMigration,
		Index: in.Index, SideTables: in.SideTables, Untyped: in.Untyped, Others: in.Others, Streams: in.Streams, Billing: in.Billing,
	}
	if l := in.Leader; l != (core.Lock{}) {
		k.Leader = &Leader{Owner: string(l.Owner), Table: in.LeaderTable, Duration: l.Duration.Seconds(), Version: l.Version}
	}
	for _, c := range in.Changes {
		k.Changes = append(k.Changes, Change(c))
	}
	var workers []Worker
	for _, w := range in.Workers {
		out := Worker{ID: string(w.ID), Kind: Java, Row: true, Table: w.Table, Updated: w.Updated, Metrics: w.Metrics, Limits: w.Limits, SupportAt: w.SupportAt, Unfit: w.Unfit}
		if w.Ours {
			out.Kind = Ours
		}
		if w.Support != 0 || !w.SupportAt.IsZero() {
			out.Support = new(w.Support)
		}
		workers = append(workers, out)
	}
	return k, workers, nil
}
