package dynamo

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/shardwarden/shardwarden/core"
)

// Whether rows that are no leases may be written into the table. A KCL before 3.5 breaks on any of them (docs/reference/kcl.md V4), and a
// table says only by what is in it who else may be reading it:
//
//	rows of the KCL's coordinator or of its workers        only 3.5 and later put them here           yes
//	else a lease row without entityType                    an older KCL made it                        no
//	else a table <app>-CoordinatorState, or it can't be
//	told whether there is one                              KCL 3.0 to 3.4, or a migration under way    no
//	else                                                   ours, 3.5's, or empty                       yes
//
// In a table of several streams KCL 3.5.0, too, breaks on rows that are no leases; it writes such itself, so ours change nothing.
//
// It is judged anew with each complete reading, and rows of ours are taken away again where it turns to no.
type layout struct {
	coordinator    presence // of the table <app>-CoordinatorState
	untyped, typed bool     // as in reading
	told           bool
}

type presence uint8

const (
	unknown presence = iota
	absent
	present
)

// foreignRows answers the question, with the reason where it is no.
func (l layout) foreignRows(app string) (ok bool, why string) {
	switch {
	case l.typed:
		return true, ""
	case l.untyped:
		return false, "it has lease rows of a KCL older than 3.5, which fails on rows of other kinds"
	case l.coordinator == present:
		return false, fmt.Sprintf("there is a table %s-CoordinatorState, so a KCL older than 3.5 may use it, which fails on rows of other kinds", app)
	case l.coordinator == unknown:
		return false, fmt.Sprintf("it is not known whether there is a table %s-CoordinatorState of a KCL older than 3.5", app)
	}
	return true, ""
}

// typedRows reports whether lease rows get an entityType: where those of KCL 3.5 and later have one.
func (s *Store) typedRows() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.layout.typed || !s.layout.untyped && s.layout.coordinator != present
}

// mayAnnounce reports whether worker rows may be written. It logs a no once.
func (s *Store) mayAnnounce() bool {
	s.mu.Lock()
	ok, why := s.layout.foreignRows(s.app)
	tell := !ok && !s.layout.told
	s.layout.told = !ok
	s.mu.Unlock()
	if tell {
		s.log.Info("workers are not announced in the lease table", "table", s.table, "why", why)
	}
	return ok
}

// saw keeps what a reading tells about the table. One that is not complete can add to it only.
func (s *Store) saw(r *reading, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if complete {
		s.rows, s.layout.untyped, s.layout.typed = r.rows, r.untyped, r.typed
		s.stale = staleWorkers(r.workers)
		return
	}
	s.layout.untyped, s.layout.typed = s.layout.untyped || r.untyped, s.layout.typed || r.typed
}

// findCoordinator looks for the table of KCL 3.0 to 3.4. Not being allowed to is no reason not to start: the answer is then the safe one.
func (s *Store) findCoordinator(ctx context.Context) error {
	name := s.app + "-CoordinatorState"
	_, err := call(ctx, s, operation{name: "DescribeTable", table: name}, s.client.DescribeTable, &dynamodb.DescribeTableInput{TableName: &name})
	found := present
	switch {
	case err == nil:
	case errors.Is(err, core.ErrNotFound):
		found = absent
	case errors.Is(err, core.ErrDenied), errors.Is(err, core.ErrInvalid):
		found = unknown
	default:
		return err
	}
	s.mu.Lock()
	s.layout.coordinator = found
	s.mu.Unlock()
	if found == unknown {
		s.log.Info("cannot tell whether a KCL older than 3.5 uses the application name", "table", name, "err", err)
	}
	return nil
}

// sample reads the beginning of a table that was found: whether it can be read at all, whose rows it has, and which kinds.
func (s *Store) sample(ctx context.Context) error {
	in := &dynamodb.ScanInput{TableName: &s.table, ConsistentRead: new(true), Limit: new(int32(100))}
	out, err := call(ctx, s, retried("Scan"), s.client.Scan, in)
	if err != nil {
		return err
	}
	r := &reading{workers: map[core.WorkerID]workerRow{}}
	strangers := 0
	for _, row := range out.Items {
		if kindOf(row) == isOther && row[attrEntity] == nil {
			strangers++
			continue
		}
		// Bad rows and those of other streams are for List and Get to report; here they only tell the layout.
		if err := r.add(s, row, wanted{}); err != nil {
			return err
		}
	}
	if strangers > 0 && r.rows == 0 {
		return fmt.Errorf("table %s has rows, and none is a lease (the first is %s, without %s and %s): it belongs to another application; choose another name: %w",
			s.table, describe(out.Items[0][attrKey]), attrCounter, attrCheckpoint, core.ErrInvalid)
	}
	s.saw(r, false)
	return nil
}

// onDemand is the billing mode of tables that need no capacity.
const onDemand = string(types.BillingModePayPerRequest)
