package dynamo_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/shardwarden/shardwarden/core"
	emulator "github.com/shardwarden/shardwarden/emulator/dynamodb"
	"github.com/shardwarden/shardwarden/leasestore/dynamo"
)

// fillSingle makes a table of one stream: a finished parent, a child with progress that a dead worker owns, and a column of somebody else's.
func fillSingle(t *testing.T, srv *service) {
	t.Helper()
	s := srv.ready(t)
	p, c := lease("shardId-000000000000"), lease("shardId-000000000001")
	p.Checkpoint, p.Children = core.AtShardEnd, []core.ShardID{"shardId-000000000001"}
	c.Checkpoint, c.Parents, c.Ready, c.Owner, c.Run, c.Counter = core.Position{Token: "4711", Sub: 3}, []core.ShardID{"shardId-000000000000"}, true, "w", "w:1", 9
	for _, l := range []core.Lease{p, c} {
		_, err := s.Create(t.Context(), l)
		must(t, err)
	}
	srv.put(t, `{"leaseKey":{"S":"shardId-000000000002"},"leaseCounter":{"N":"1"},"checkpoint":{"S":"LATEST"},"checkpointSubSequenceNumber":{"N":"0"},"theirs":{"S":"kept"}}`,
		`{"leaseKey":{"S":"Leader"},"ownerName":{"S":"java"}}`)
}

const watch = 20 * time.Millisecond

// A plan writes nothing; what it does keeps progress, parents and unknown columns, and drops owners; afterwards the table is of the other kind.
func TestMigrateToSeveralStreams(t *testing.T) {
	srv := serve(t, emulator.Config{})
	fillSingle(t, srv)
	before := srv.row(t, "shardId-000000000001")
	m, err := srv.store().PlanSeveralStreams(t.Context(), stream, watch)
	must(t, err)
	if len(m.Leases) != 3 || srv.row(t, "shardId-000000000001") != before || srv.size() != 4 {
		t.Fatalf("%d leases planned, want 3; the table has %d rows, want 4 as before", len(m.Leases), srv.size())
	}
	must(t, m.Run(t.Context()))
	s := srv.ready(t, dynamo.SeveralStreams())
	sight, err := s.Look(t.Context(), stream)
	must(t, err)
	if len(sight.Leases) != 3 || len(sight.Bad) > 0 || srv.size() != 4 {
		t.Fatalf("%d leases, bad rows %v, %d rows; want 3, none, 4", len(sight.Leases), sight.Bad, srv.size())
	}
	c, err := s.Get(t.Context(), core.LeaseKey{Stream: stream, Shard: "shardId-000000000001"})
	must(t, err)
	if c.Checkpoint.Token != "4711" || c.Checkpoint.Sub != 3 || !c.Ready || len(c.Parents) != 1 || c.Owner != core.Nobody || c.Run != "" || c.Counter != 9 {
		t.Errorf("the child is %+v", c)
	}
	if row := srv.row(t, string(stream)+":shardId-000000000002"); !strings.Contains(row, "theirs=S kept") || !strings.Contains(row, "shardId=S shardId-000000000002") {
		t.Errorf("row %s", row)
	}
	again, err := srv.store().PlanSeveralStreams(t.Context(), stream, watch)
	must(t, err)
	if len(again.Leases) != 0 {
		t.Errorf("%d leases are left to do, want none", len(again.Leases))
	}
}

// Wherever it is cut off, no more than one kind of store opens the table, and a further run finishes the work.
func TestMigrationCutOff(t *testing.T) {
	for n := range 6 {
		t.Run(fmt.Sprint("after ", n, " writes"), func(t *testing.T) {
			var left atomic.Int64
			left.Store(1000)
			srv := serve(t, emulator.Config{}, func(next aws.HTTPClient) aws.HTTPClient {
				return client(func(r *http.Request) (*http.Response, error) {
					target := r.Header.Get("X-Amz-Target")
					if (strings.HasSuffix(target, ".PutItem") || strings.HasSuffix(target, ".DeleteItem")) && left.Add(-1) < 0 {
						return nil, errors.New("connection reset by peer")
					}
					return next.Do(r)
				})
			})
			fillSingle(t, srv)
			m, err := srv.store().PlanSeveralStreams(t.Context(), stream, watch)
			must(t, err)
			left.Store(int64(n))
			expect(t, "run", m.Run(t.Context()), core.ErrUnavailable)
			left.Store(1000)
			one, several := srv.store().Prepare(t.Context()), srv.store(dynamo.SeveralStreams()).Prepare(t.Context())
			if one == nil && several == nil {
				t.Error("both kinds of store open the table")
			}
			m, err = srv.store().PlanSeveralStreams(t.Context(), stream, watch)
			must(t, err)
			must(t, m.Run(t.Context()))
			sight, err := srv.store(dynamo.SeveralStreams()).Look(t.Context(), stream)
			must(t, err)
			if len(sight.Leases) != 3 || srv.size() != 4 {
				t.Errorf("%d leases in %d rows, want 3 in 4", len(sight.Leases), srv.size())
			}
		})
	}
}

// What is not migrated, and why.
func TestMigrationRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		stream core.StreamID
		during func(*testing.T, *service) // the watch
		after  func(*testing.T, *service) // the plan
		plans  bool
		kind   error
		says   []string
	}{
		{"no id", "orders", nil, nil, false, core.ErrInvalid, []string{"orders", "account:stream:creationEpoch"}},
		{"another stream", "123456789012:payments:1796039487", nil, nil, false, core.ErrOtherStream, []string{"payments", string(stream)}},
		{"a former stream", "123456789012:orders:1799999999", nil, nil, false, core.ErrOtherStream, []string{"deleted and made again"}},
		{"a lease is renewed", stream, renew, nil, false, core.ErrConflict, []string{"in use", "shardId-000000000001", "stop every worker"}},
		{"a worker announces itself", stream, func(t *testing.T, srv *service) {
			must(t, srv.ready(t).Announce(t.Context(), core.WorkerInfo{ID: "w9", Beat: "1"}))
		}, nil, false, core.ErrConflict, []string{"in use", "w9"}},
		{"a row that cannot be read", stream, func(t *testing.T, srv *service) {
			srv.put(t, `{"leaseKey":{"S":"shardId-000000000002"},"leaseCounter":{"N":"1"},"checkpoint":{"S":"LATEST"},"checkpointSubSequenceNumber":{"S":"x"}}`)
		}, nil, false, nil, []string{"shardId-000000000002", "checkpointSubSequenceNumber", "mend or delete"}},
		{"renewed after the plan", stream, nil, renew, true, core.ErrConflict, []string{"shardId-000000000001", "changed meanwhile"}},
		{"the new row is there already", stream, nil, func(t *testing.T, srv *service) {
			srv.put(t, `{"leaseKey":{"S":"`+string(stream)+`:shardId-000000000001"},"streamName":{"S":"`+string(stream)+`"},"shardId":{"S":"shardId-000000000001"},"leaseCounter":{"N":"1"},"checkpoint":{"S":"9999"}}`)
		}, true, core.ErrConflict, []string{"9999", "4711"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := serve(t, emulator.Config{})
			fillSingle(t, srv)
			wait := watch
			done := make(chan struct{})
			if c.during != nil {
				wait = 300 * time.Millisecond
				time.AfterFunc(wait/3, func() { defer close(done); c.during(t, srv) })
			} else {
				close(done)
			}
			m, err := srv.store().PlanSeveralStreams(t.Context(), c.stream, wait)
			<-done
			if c.plans {
				must(t, err)
				c.after(t, srv)
				err = m.Run(t.Context())
			}
			if c.kind != nil {
				expect(t, "error", err, c.kind, c.says...)
			} else if err == nil || !strings.Contains(err.Error(), c.says[0]) || !strings.Contains(err.Error(), c.says[2]) {
				t.Errorf("%v does not say %v", err, c.says)
			}
			if row := srv.row(t, "shardId-000000000001"); !strings.Contains(row, "checkpoint=S 4711") {
				t.Errorf("the lease with progress is gone: %q", row)
			}
		})
	}
}

func renew(t *testing.T, srv *service) {
	s := srv.store()
	l, err := s.Get(t.Context(), core.LeaseKey{Stream: stream, Shard: "shardId-000000000001"})
	must(t, err)
	w := core.Renew(nil)
	_, err = s.Update(t.Context(), l, w.Same, w.Set)
	must(t, err)
}
