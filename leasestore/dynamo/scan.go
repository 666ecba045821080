package dynamo

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"golang.org/x/sync/errgroup"

	"github.com/shardwarden/shardwarden/core"
)

// A page of the service is at most 1 MB, some 2,000 leases. Bigger tables are scanned in as many parts side by side, so that a look at
// 10,000 leases takes a page's time or two.
const (
	rowsPerSegment = 2000
	maxSegments    = 8
)

// wanted are the streams whose leases a reading is after: one, in a table of one; else those of, and all where none is named.
type wanted struct {
	one core.StreamID
	of  map[core.StreamID]bool
}

// has reports whether a stream is wanted. Of a row that does not tell, it may be.
func (w wanted) has(id core.StreamID) bool {
	return len(w.of) == 0 || id == "" || w.of[id]
}

// reading is what a scan found.
type reading struct {
	leases  []core.Lease
	bad     []*core.RowError
	workers map[core.WorkerID]workerRow
	rows    int64
	untyped bool // there are lease rows without entityType: made by a KCL before 3.5
	typed   bool // there are rows that only KCL 3.5 and later bear
}

func (r *reading) add(s *Store, row Attributes, want wanted) error {
	r.rows++
	switch kindOf(row) {
	case isOther:
	case isCoordinator:
		r.typed = true
	case isWorker:
		w := decodeWorker(row)
		r.workers[w.info.ID] = w
		// Rows of ours prove nothing about who else reads the table.
		r.typed = r.typed || !w.ours
	case isLease:
		r.untyped = r.untyped || row[attrEntity] == nil
		l, err := s.lease(row, want.one)
		if bad, ok := errors.AsType[*core.RowError](err); ok {
			if want.has(bad.Key.Stream) {
				r.bad = append(r.bad, bad)
			}
		} else if err == nil && !want.has(l.Key.Stream) {
			return nil
		} else if err != nil {
			return err
		} else {
			r.leases = append(r.leases, l)
		}
	}
	return nil
}

func (r *reading) merge(o *reading) {
	r.leases, r.bad, r.rows = append(r.leases, o.leases...), append(r.bad, o.bad...), r.rows+o.rows
	r.untyped, r.typed = r.untyped || o.untyped, r.typed || o.typed
	maps.Copy(r.workers, o.workers)
}

// scan reads the whole table, strongly consistent, or fails.
func (s *Store) scan(ctx context.Context, streams []core.StreamID) (*reading, error) {
	one, err := s.bind(streams...)
	if err != nil {
		return nil, err
	}
	want := wanted{one: one}
	if s.several {
		want.of = make(map[core.StreamID]bool, len(streams))
		for _, id := range streams {
			want.of[id] = true
		}
	}
	parts := make([]*reading, s.segments())
	g, gctx := errgroup.WithContext(ctx)
	for i := range parts {
		g.Go(func() (err error) {
			parts[i], err = s.scanSegment(gctx, int32(i), int32(len(parts)), want)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	all := parts[0]
	for _, p := range parts[1:] {
		all.merge(p)
	}
	s.saw(all, true)
	return all, nil
}

func (s *Store) scanSegment(ctx context.Context, segment, of int32, want wanted) (*reading, error) {
	in := &dynamodb.ScanInput{TableName: &s.table, ConsistentRead: new(true)}
	if of > 1 {
		in.Segment, in.TotalSegments = &segment, &of
	}
	r := &reading{workers: map[core.WorkerID]workerRow{}}
	for {
		out, err := call(ctx, s, retried("Scan"), s.client.Scan, in)
		if err != nil {
			return nil, err
		}
		for _, row := range out.Items {
			if err := r.add(s, row, want); err != nil {
				return nil, err
			}
		}
		if len(out.LastEvaluatedKey) == 0 {
			return r, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// segments is how many parts the next scan has, by the size of the table as last seen.
func (s *Store) segments() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(min(1+s.rows/rowsPerSegment, maxSegments))
}

// List implements [core.LeaseStore]. It reads with strong consistency, so that its rows are never stale.
func (s *Store) List(ctx context.Context, streams ...core.StreamID) iter.Seq2[core.Lease, error] {
	return func(yield func(core.Lease, error) bool) {
		r, err := s.scan(ctx, streams)
		if err != nil {
			yield(core.Lease{}, err)
			return
		}
		for _, l := range r.leases {
			if !yield(l, nil) {
				return
			}
		}
		for _, bad := range r.bad {
			if !yield(core.Lease{Key: bad.Key}, bad) {
				return
			}
		}
	}
}

// Look implements [core.Presence] with one scan. Workers come by id.
func (s *Store) Look(ctx context.Context, streams ...core.StreamID) (core.Sight, error) {
	r, err := s.scan(ctx, streams)
	if err != nil {
		return core.Sight{}, err
	}
	sight := core.Sight{Leases: r.leases, Bad: r.bad}
	for _, id := range slices.Sorted(maps.Keys(r.workers)) {
		sight.Workers = append(sight.Workers, r.workers[id].info)
	}
	return sight, nil
}
