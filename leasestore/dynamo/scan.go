package dynamo

import (
	"context"
	"errors"
	"iter"
	"maps"

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
	marks
}

func newReading() *reading {
	return &reading{workers: map[core.WorkerID]workerRow{}, marks: newMarks()}
}

func (r *reading) add(s *Store, row Attributes, want wanted) error {
	r.rows++
	switch kindOf(row) {
	case isOther:
	case isCoordinator:
		r.typed = true
		r.marks.rows[plain(row[attrKey])] = row
	case isWorker:
		w := decodeWorker(row, attrKey)
		r.workers[w.info.ID] = w
		// Rows of ours prove nothing about who else reads the table.
		r.typed, r.java = r.typed || !w.ours, r.java || !w.ours
	case isLease:
		r.marks.lease(row)
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
	r.marks.merge(o.marks)
	maps.Copy(r.workers, o.workers)
}

// scan reads the whole table, strongly consistent, or fails. Where it shows that rows mean something else than was thought it reads again.
func (s *Store) scan(ctx context.Context, streams []core.StreamID) (*reading, error) {
	stamped := s.stamped()
	r, err := s.scanOnce(ctx, streams)
	if err == nil && s.stamped() != stamped {
		return s.scanOnce(ctx, streams)
	}
	return r, err
}

func (s *Store) scanOnce(ctx context.Context, streams []core.StreamID) (*reading, error) {
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
	g.Go(func() error { s.askIfDue(gctx); return nil })
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
	r := newReading()
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

// Look implements [core.Presence]: with one scan, and where Java's workers have a table for their metrics, now and then with one of that. Workers
// come by id.
func (s *Store) Look(ctx context.Context, streams ...core.StreamID) (core.Sight, error) {
	r, err := s.scan(ctx, streams)
	if err != nil {
		return core.Sight{}, err
	}
	st := s.now()
	if st.phase != oneTable && st.regime != kcl2 {
		more, err := s.workersAside(ctx)
		if err != nil {
			return core.Sight{}, err
		}
		for id, w := range more {
			if had, both := r.workers[id]; !both || had.updated < w.updated {
				r.workers[id] = w
			}
		}
	}
	s.mu.Lock()
	s.stale = staleWorkers(r.workers, s.leading)
	s.mu.Unlock()
	return core.Sight{Leases: r.leases, Bad: r.bad, Workers: s.roster(st, r.workers)}, nil
}
