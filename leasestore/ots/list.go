package ots

import (
	"context"
	"iter"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/shardwarden/shardwarden/core"
)

// List implements [core.LeaseStore]. It reads with strong consistency, page by page: what a row is like when its page is read.
func (s *Store) List(ctx context.Context, streams ...core.StreamID) iter.Seq2[core.Lease, error] {
	return func(yield func(core.Lease, error) bool) {
		ranges := []keyRange{everything()}
		if len(streams) > 0 {
			ranges = ranges[:0]
			for _, id := range streams {
				ranges = append(ranges, leasesOf(id))
			}
		}
		for _, r := range ranges {
			for row, err := range s.rows(ctx, r, 0) {
				if err != nil {
					yield(core.Lease{}, err)
					return
				}
				if row.kind != kindLease {
					continue
				}
				l, err := decodeLease(core.LeaseKey{Stream: core.StreamID(row.stream), Shard: core.ShardID(row.value)}, row.columns)
				if !yield(l, err) {
					return
				}
			}
		}
	}
}

// keyRange is a range of primary keys, the end exclusive.
type keyRange struct{ start, end *tablestore.PrimaryKey }

// leasesOf are the keys of a stream's leases, as the Java client reads them.
func leasesOf(stream core.StreamID) keyRange { return rowsOf(string(stream), kindLease) }

func rowsOf(stream, kind string) keyRange {
	start, end := new(tablestore.PrimaryKey), new(tablestore.PrimaryKey)
	for _, k := range []*tablestore.PrimaryKey{start, end} {
		k.AddPrimaryKeyColumn(keyStream, stream)
		k.AddPrimaryKeyColumn(keyKind, kind)
	}
	start.AddPrimaryKeyColumnWithMinValue(keyValue)
	end.AddPrimaryKeyColumnWithMaxValue(keyValue)
	return keyRange{start, end}
}

func everything() keyRange {
	start, end := new(tablestore.PrimaryKey), new(tablestore.PrimaryKey)
	for _, name := range []string{keyStream, keyKind, keyValue} {
		start.AddPrimaryKeyColumnWithMinValue(name)
		end.AddPrimaryKeyColumnWithMaxValue(name)
	}
	return keyRange{start, end}
}

// rows are those of a range; an error is the last thing yielded. limit bounds a page; 0: the service does.
func (s *Store) rows(ctx context.Context, r keyRange, limit int32) iter.Seq2[tableRow, error] {
	return func(yield func(tableRow, error) bool) {
		for at := r.start; at != nil; {
			rows, next, err := s.getRange(ctx, at, r.end, limit)
			if err != nil {
				yield(tableRow{}, err)
				return
			}
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
			at = next
		}
	}
}
